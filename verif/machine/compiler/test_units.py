"""The order of units, and panels that are loaded in parts."""

from functools import partial

import pytest

from mxsafe.machine.compiler.emitter import Emitter
from mxsafe.machine.compiler.places import CompileError
from mxsafe.machine.compiler.units import Panel, Unit, behind, groups, merged, run
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.layout import OperandLayout


def _order(units: list[Unit], seen: list[str]) -> str:
    run(units)
    return "".join(seen)


def test_merged_units_are_spread_evenly_and_in_order() -> None:
    seen: list[str] = []
    first, second = ([partial(seen.append, name) for name in names] for names in ("ab", "12345"))
    assert _order(merged(first, second), seen) == "1a234b5"
    assert merged() == []


def test_units_behind_others() -> None:
    seen: list[str] = []
    first, second = ([partial(seen.append, name) for name in names] for names in ("abc", "1234"))
    assert _order(behind(first, second, 2), seen) == "abc1234"
    seen.clear()
    assert _order(behind(first, second, 1), seen) == "ab1c234"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((8, 3), [range(2), range(2, 5), range(5, 8)]),
        ((3, 0), [range(1), range(1, 2), range(2, 3)]),
        ((2, 5, 4), [range(4, 6)]),
        ((0, 4), []),
    ],
)
def test_groups(arguments: tuple[int, ...], expected: list[range]) -> None:
    assert groups(*arguments) == expected


def test_a_panel_is_loaded_once_and_in_parts_where_room_is_scattered() -> None:
    configuration = MachineConfiguration(a_beats=64, w_beats=64)
    e = Emitter(configuration)
    layout = OperandLayout(configuration=configuration, rows=64, columns=64)
    operand = e.operand("weights", layout)
    # Of four strips one is taken in the middle.
    held = [e.place("a", operand, 1) for _ in range(4)]
    for index in (0, 2, 3):
        e.free(held[index])
    panel = Panel(e, operand, range(3), "a", 2)
    found = []
    for _ in range(2):
        with panel.used() as parts:
            found.append([(part.codes, part.strips) for part in parts])
    assert found[0] == found[1] == [(0, 1), (32, 2)]
    assert [step.kind for step in e.steps] == ["load"] * 4
    assert e.allocators["a"].largest_gap == 32
    with (
        pytest.raises(CompileError, match="1 strips of weights must fit into 0 free places"),
        Panel(e, operand, range(4), "a", 1).used(),
    ):
        pass
