"""The cell library is read as it is meant, and nothing else is."""

import pytest

from mxsafe.synthesis.liberty import LibertyError, Table, read_cells
from verif.support.tests import raises
from verif.synthesis.cells import LIBRARY


def test_cells_are_read() -> None:
    cells = read_cells(LIBRARY, ["NAND2_X1", "DFF_X1", "CLKGATE_X1"])
    nand, flip_flop, gate = cells.values()
    assert (nand.leakage, nand.inputs, nand.outputs) == (10.0, ["A1", "A2"], ["ZN"])
    assert nand.pins["ZN"].function == "!(A1 & A2)"
    assert [energy.related for energy in nand.pins["ZN"].energies] == ["A1", "A2"]
    assert [nand.pins[name].capacitance for name in nand.inputs] == [1.5, 2.5]
    assert [cell.is_sequential for cell in cells.values()] == [False, True, True]
    assert (flip_flop.clock, gate.clock) == ("CK", "CK")
    assert flip_flop.state is not None
    assert flip_flop.state.arguments == ("IQ", "IQN")
    assert [e.when for e in flip_flop.pins["CK"].energies] == ["!D & !Q", "D & Q"]
    assert gate.clock_gate == "latch_posedge"
    assert gate.outputs == ["GCK"]


def test_energies_lie_between_the_entries() -> None:
    (nand, flip_flop) = read_cells(LIBRARY, ["NAND2_X1", "DFF_X1"]).values()
    first, second = nand.pins["ZN"].energies
    corners = {(0.0, 0.0): 1.0, (0.0, 10.0): 3.0, (1.0, 0.0): 5.0, (1.0, 10.0): 7.0}
    for (slew, load), energy in corners.items():
        assert first.rise.at(slew, load) == energy
    assert first.rise.at(0.5, 5.0) == 4.0
    assert first.rise.at(-1.0, 99.0) == 3.0
    assert first.fall.at(0.3, 3.0) == 0.5
    assert second.rise.at(9.0, 9.0) == 3.0
    assert second.fall == Table(slews=(), loads=(), values=((0.0,),))
    one_axis = flip_flop.pins["CK"].energies[0].fall
    assert [one_axis.at(slew, 5.0) for slew in (0.0, 0.25, 1.0, 2.0)] == [2.0, 2.5, 4.0, 4.0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("(1,ff)", "(1,pf)"), "capacitive_load_unit of the library is not as expected"),
        (("NAND2_X1", "NOR2_X1"), "the library has no cell NAND2_X1"),
        (("capacitance : 1.5;", "capacitance = 1.5;"), "capacitance must be an attribute"),
        (('"5,7"', '"5"'), "values of rise_power must be 2 x 2"),
    ],
)
def test_what_is_not_understood_is_refused(change: tuple[str, str], message: str) -> None:
    with pytest.raises(LibertyError) as error:
        read_cells(LIBRARY.replace(*change), ["NAND2_X1"])
    assert str(error.value).startswith(message)


def test_a_register_has_one_clock() -> None:
    text = LIBRARY.replace('clocked_on : "CK"', 'clocked_on : "CK & D"')
    with raises(LibertyError, "DFF_X1 must have one clock pin, not ['D', 'CK']"):
        _ = read_cells(text, ["DFF_X1"])["DFF_X1"].clock
