"""Parts of the machine: together they are the whole, and none is counted twice."""

from mxsafe.formats import MX_FORMATS
from mxsafe.rtl.array.systolic_array import SystolicArray
from mxsafe.synthesis.cases import MACHINE, MORE_LANES, STANDARD
from mxsafe.synthesis.machine import PARTS
from mxsafe.verilog import presets


def test_what_a_part_leaves_out_is_another_part() -> None:
    machine = presets.build("accelerator", MX_FORMATS["mxsf"])
    built = {name: type(part.build(machine)) for name, part in PARTS.items()}
    left_out = [unit for part in PARTS.values() for unit in part.without]
    assert len(left_out) == len(set(left_out))
    # All but the whole machine are left out somewhere; the array is a unit of its own.
    assert {*left_out} == {*built.values(), SystolicArray} - {type(machine)}
    assert built["rest"] is type(machine)


def test_the_array_of_the_machine_is_synthesised() -> None:
    machine = presets.build("accelerator", MX_FORMATS["mxsf"])
    arrays = {case.name: case for case in STANDARD if case.unit == "sta_exact"}
    array = arrays["sta_exact 4x2x4x8, 2 columns a MAC"].build()
    assert array.config == machine.config.gemm.array
    assert [case.part for case in MACHINE if case.unit == "accelerator"] == list(PARTS)
    window = presets.build("accelerator_window", MX_FORMATS["mxsf"])
    arrays = {case.name: case for case in MORE_LANES}
    array = arrays["sta_window 4x2x4x8, 2 groups of lanes"].build()
    assert array.config == window.config.gemm.array
    # Of its vector engine, which is a part or several, all is as in the other.
    assert window.config.vector == machine.config.vector
