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
    assert [case.part for case in MACHINE if case.unit == "accelerator"] == list(PARTS)
    cases = {case.name: case for case in (*STANDARD, *MORE_LANES, *BF16)}
    machine, window, bf16 = (
        presets.build(name, MX_FORMATS["mxsf"])
        for name in ("accelerator", "accelerator_window", "accelerator_bf16")
    )
    for whole, name in (
        (machine, "sta_exact 4x2x4x8, 2 columns a MAC"),
        (window, "sta_window 4x2x4x8, 2 groups of lanes"),
        (bf16, "sta_bf16 4x4x4x4 of the machine"),
    ):
        assert cases[name].build().config == whole.config.gemm.array
    unit = cases["pu_bf16 of the machine"].build()
    assert unit.config.arithmetic == bf16.config.gemm.array.arithmetic
    # Of its vector engine, which is a part or several, all is as in the other.
    assert window.config.vector == machine.config.vector
