"""Parts of the machine: together they are the whole, and none is counted twice."""

from mxsafe.formats import MX_FORMATS
from mxsafe.rtl.array.systolic_array import SystolicArray
from mxsafe.synthesis.cases import BF16, MACHINE, MORE_LANES, STANDARD
from mxsafe.synthesis.machine import PARTS
from mxsafe.verilog import presets


def test_what_a_part_leaves_out_is_another_part() -> None:
    names = "accelerator", "accelerator_bf16"
    machine, other = (presets.build(name, MX_FORMATS["mxsf"]) for name in names)
    built = {name: type(part.build(machine)) for name, part in PARTS.items()}
    of_other = {type(part.build(other)) for part in PARTS.values()}
    left_out = [unit for part in PARTS.values() for unit in part.without]
    assert len(left_out) == len(set(left_out))
    # All but the whole machine are left out somewhere; the array is a unit of its own.
    assert {*left_out} == {*built.values(), *of_other, SystolicArray} - {type(machine)}
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
    bf16 = presets.build("accelerator_bf16", MX_FORMATS["mxsf"])
    arrays = {case.name: case for case in BF16}
    array = arrays["sta_bf16 4x4x4x4 of the machine"].build()
    assert array.config == bf16.config.gemm.array
    assert arrays["pu_bf16 of the machine"].build().config.arithmetic == array.config.arithmetic
    # Of its vector engine, which is a part or several, all is as in the other.
    assert window.config.vector == machine.config.vector
