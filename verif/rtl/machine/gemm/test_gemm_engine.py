"""The engine of products against `matmul`: strips, strides, edges, blocks, continuing, errors."""

import pytest

from mxsafe.machine.configuration import FPGA_MACHINE, SMALL_MACHINE, MachineConfiguration
from mxsafe.model.gemm import ProductArithmetic
from mxsafe.rtl.machine.gemm.gemm_engine import GemmEngine, GemmEngineConfiguration, array_of
from mxsafe.rtl.machine.gemm.result_rows import ResultRows
from verif.rtl.machine.gemm.gemm_checks import (
    Case,
    check_case,
    check_outside,
    gemm_engine,
    random_case,
)
from verif.support.manifest import Module
from verif.support.tests import Volume, raises, some
from verif.support.units import array_unit, generated

OUTSIDE = ["a_codes", "w_codes", "a_scales", "w_scales", "result", "a_stride", "result_stride_w"]
"""Fields of a descriptor that may take it outside a buffer."""


@pytest.mark.one_simulator("icarus")
@pytest.mark.parametrize("arithmetic", some(["exact", "fp12", "window"]))
def test_random_descriptors(arithmetic: ProductArithmetic, simulator: str) -> None:
    module = gemm_engine(arithmetic)
    count = 60 if simulator == "verilator" else 8
    case = random_case(3, count, module, arithmetic)
    check_case(simulator, module, case, stall=0.3, pause=0.1)


def test_short_codes_of_one_side(volume: Volume) -> None:
    """Codes of four bits stand in bytes, whose upper bits do not count."""
    module = gemm_engine("exact", "mxfp4_e2m1")
    case = random_case(4, volume(6, 12, 12), module, "exact", "mxfp4_e2m1")
    check_case("icarus", module, case)


@pytest.mark.parametrize("lanes", some([2, 1]))
def test_beats_in_parts_for_fpgas(lanes: int, volume: Volume) -> None:
    """An array of fewer lanes takes each beat in as many cycles, and gives the same results."""
    module = gemm_engine("exact", array_lanes=lanes, target="fpga")
    case = random_case(8, volume(6, 12, 12), module, "exact")
    check_case("icarus", module, case, stall=0.3, pause=0.1)


@pytest.mark.full
@pytest.mark.parametrize(
    ("machine", "count"),
    [(SMALL_MACHINE, 120), (FPGA_MACHINE, 120), (MachineConfiguration(), 60)],
    ids=["small", "fpga", "paper"],
)
def test_published_ones(machine: MachineConfiguration, count: int) -> None:
    """Counts, strides and places of all sizes, and each of them outside."""
    module = generated(GemmEngine(machine=machine))
    case = random_case(9, count, module, "exact")
    check_case("verilator", module, case, stall=0.2, pause=0.1)
    for name in OUTSIDE:
        check_outside("verilator", module, _case_outside(module, name), 3)


def full_rate(case: Case, tile: int, block: int) -> None:
    """Let every other descriptor be a single tile of the shortest length at the full rate."""
    for number, one in enumerate(case.descriptors):
        one |= {"beats": tile, "block": block, "clear": 1}
        for name in ("a_codes", "w_codes", "a_scales", "w_scales", "result"):
            one[name] = number % 3
        one |= {"strips_a": 1 + number % 2, "strips_w": 1, "a_stride": 1, "a_scale_stride": 1}
        one |= {"result_stride_a": case.rows}


@pytest.mark.one_simulator("icarus")
@pytest.mark.parametrize("block", some([2, 16]))
def test_the_array_never_waits(block: int, simulator: str) -> None:
    """A beat of both operands every cycle, from the first to the last, across descriptors."""
    module = gemm_engine("exact")
    case = random_case(5, 9, module, "exact")
    array = array_unit("exact", **dict.fromkeys(("pu_rows", "pu_columns", "rows", "columns"), 2))
    full_rate(case, array.config.tile_cycles, block)
    check_case(simulator, module, case, gaps=[])


def test_only_first_tiles_wait_for_anchors() -> None:
    """A cycle for each of their blocks, also where half of all beats end one."""
    module = gemm_engine("window")
    case = random_case(10, 3, module, "window")
    full_rate(case, 6, 2)
    for one in case.descriptors:
        one |= {"strips_a": 3, "strips_w": 3, "w_stride": 1, "w_scale_stride": 1, "write": 1}
        one |= {"result_stride_a": 4, "result_stride_w": 12}
    check_case("icarus", module, case, gaps=[3, 3])


@pytest.mark.parametrize("arithmetic", ["window", "exact"])
def test_last_beats_of_odd_blocks_wait_a_cycle(arithmetic: ProductArithmetic) -> None:
    """A block takes a multiple of `Times.turns`."""
    module = gemm_engine(arithmetic)
    case = random_case(10, 1, module, arithmetic)
    full_rate(case, 9, 4)
    (one,) = case.descriptors
    one |= {"strips_a": 3, "strips_w": 3, "w_stride": 1, "w_scale_stride": 1, "write": 1}
    one |= {"result_stride_a": 4, "result_stride_w": 12}
    check_case("icarus", module, case, gaps=[1] * 9)


def _case_outside(module: Module, name: str) -> Case:
    """Of five descriptors the fourth reaches outside, for this field alone: the third does not."""
    case = random_case(6, 5, module, "exact")
    for one in case.descriptors:
        one["write"] = 1
    inside = case.descriptors[2] | {"clear": 1, "strips_a": 2, "strips_w": 2, "beats": 6}
    inside |= dict.fromkeys(("a_codes", "w_codes", "a_scales", "w_scales", "result"), 0)
    inside |= dict.fromkeys(("a_stride", "w_stride", "a_scale_stride", "w_scale_stride"), 6)
    inside |= {"result_stride_a": case.rows, "result_stride_w": 2 * case.rows}
    width = {"result": 14, "result_stride_w": 14}.get(name, 16)
    elsewhere = {"result": 4 * case.rows}  # where all that it writes is compared
    case.descriptors[2:4] = [inside | elsewhere, inside | {name: (1 << width) - 3}]
    return case


@pytest.mark.one_simulator("icarus")
@pytest.mark.parametrize("name", some(OUTSIDE, 3, with_variants=True))
def test_addresses_outside(name: str, simulator: str) -> None:
    """The descriptor that reaches outside fails after all before it are done."""
    module = gemm_engine("exact")
    case = _case_outside(module, name)
    check_outside(simulator, module, case, 3)


def test_scales_outside_with_anchors() -> None:
    """The error comes with the tile, though its scales are looked at before."""
    module = gemm_engine("window")
    for name in ("a_scales", "w_scales"):
        case = _case_outside(module, name)
        case.arithmetic = "window"
        check_outside("icarus", module, case, 3)


def test_a_descriptor_that_just_fits_and_one_that_does_not() -> None:
    """The last entry of each memory may be used, the one behind it may not."""
    module = gemm_engine("exact")
    sizes = module.parameters
    case = random_case(7, 1, module, "exact")
    usual = case.descriptors[0] | {"strips_a": 1, "strips_w": 1, "clear": 1, "write": 1}
    usual |= {"beats": 4, "block": 2, "last_rows": case.rows}
    usual |= dict.fromkeys(("a_codes", "w_codes", "a_scales", "w_scales", "result"), 0)
    fits = {
        "a_codes": sizes["a_beats"] - 4,
        "w_codes": sizes["w_beats"] - 4,
        "a_scales": sizes["a_beats"] // 2 - 2,
        "w_scales": sizes["w_beats"] // 2 - 2,
        "result": sizes["vector_beats"] - case.rows,
    }
    case.descriptors = [usual | fits]
    assert check_case("icarus", module, case) == case.rows
    for name, value in fits.items():
        case.descriptors = [usual | fits, usual | {name: value + 1}]
        check_outside("icarus", module, case, 1)


def test_buffers_that_do_not_fit() -> None:
    with raises(ValueError, "beats must be an integer from 2 to 16384, not 32768"):
        ResultRows(beats=1 << 15)
    with raises(ValueError, "under_way must be a positive integer, not 0"):
        ResultRows(under_way=0)


def test_the_array_of_a_machine() -> None:
    """It takes a beat a cycle of blocks and of tiles, and its name is what is special."""
    machine = MachineConfiguration()
    array = array_of(machine)
    assert array.block_cycles <= machine.tile_beats
    assert array.shape.array_rows == machine.rows
    assert GemmEngineConfiguration(machine=machine) == GemmEngineConfiguration()
    other = GemmEngineConfiguration(machine=MachineConfiguration(arithmetic="fp12", rows=8))
    assert other.array.arithmetic.name == "fp12"
    assert other.module_name != GemmEngineConfiguration().module_name


def test_random_descriptors_are_of_every_kind() -> None:
    """Of strips, edges, blocks that end early, tiles that go on and rows that are dropped."""
    module = gemm_engine("exact")
    descriptors = random_case(3, 80, module, "exact").descriptors
    assert any(one["beats"] % one["block"] and one["beats"] > one["block"] for one in descriptors)
    for name, value in (("clear", 0), ("write", 0), ("strips_a", 3), ("last_rows", 1)):
        assert any(one[name] == value for one in descriptors), f"no {name} is {value}"
