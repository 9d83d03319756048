"""The systolic tensor array against `matmul`: shapes, blocks, arithmetics, stalls, resets."""

from pathlib import Path

import numpy as np
import pytest

from mxsafe.formats import MX_FORMATS
from mxsafe.model.gemm import Arithmetic
from mxsafe.rtl.sta import STA
from verif.array_checks import (
    Block,
    check_continued_tiles,
    check_out_of_step,
    check_overlong_block,
    check_products,
    check_resets,
    check_short_tiles,
    operands,
    random_products,
    small_array,
)
from verif.conftest import Tally, available
from verif.manifest import Module
from verif.simulators import run_lockstep

ARITHMETICS: tuple[Arithmetic, ...] = ("fp12", "exact")
both_arithmetics = pytest.mark.parametrize("arithmetic", ARITHMETICS)


@both_arithmetics
@pytest.mark.parametrize("block", [64, (8, 8)])
@pytest.mark.parametrize("stall", [0.0, 0.3])
def test_small_array(
    simulator: str,
    arithmetic: Arithmetic,
    block: Block,
    stall: float,
    tmp_path: Path,
    tally: Tally,
) -> None:
    module = small_array(tmp_path, arithmetic)
    count = {"icarus": 12, "verilator": 60}[simulator]
    products = random_products(7, count, 4, 90, block)
    result = check_products(simulator, module, products, stall=stall)
    tally(simulator, f"{module.name} tiles", result.tiles)


CONFIGURATIONS: dict[str, dict[str, int]] = {
    "a single unit": {"pu_rows": 1, "pu_columns": 1, "rows": 4, "columns": 4, "lanes": 4},
    "a single MAC": {"pu_rows": 1, "pu_columns": 1, "rows": 1, "columns": 1, "lanes": 1},
    "oblong": {"pu_rows": 3, "pu_columns": 1, "rows": 1, "columns": 2, "lanes": 4},
    "oblong the other way": {"pu_rows": 1, "pu_columns": 3, "rows": 2, "columns": 1, "lanes": 4},
    "one register stage": {"pipeline": 1},
    "two register stages": {"pipeline": 2},
}


@both_arithmetics
@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_other_configurations(
    configuration: str, arithmetic: Arithmetic, tmp_path: Path, tally: Tally
) -> None:
    module = small_array(tmp_path, arithmetic, **CONFIGURATIONS[configuration])
    products = random_products(3, 8, 4, 40, 8)
    result = check_products(available("icarus"), module, products, stall=0.2)
    tally("icarus", "array configurations, tiles", result.tiles)


@pytest.mark.parametrize("units", [1, 2, 4])
@pytest.mark.parametrize("block", [2, 8, 13])
def test_accumulate_units(units: int, block: int, tmp_path: Path, tally: Tally) -> None:
    """A block that ends before the units are free waits, and only then."""
    module = small_array(tmp_path, "exact", units=units)
    assert module.parameters["block_cycles"] == 4 // units
    rng = np.random.default_rng(units)
    products = [operands(rng, 8, 52, 8, block)]
    result = check_products(available("icarus"), module, products)
    beats = -(-block // module.parameters["lanes"])
    blocks = [min(block, 52 - start) for start in range(0, 52, block)]
    waits = max(beats, module.parameters["block_cycles"]) * (len(blocks) - 1)
    last = max(-(-blocks[-1] // module.parameters["lanes"]), module.parameters["block_cycles"])
    steady = result.tiles * (waits + last)
    tail = module.latency + 4 + 4  # into the array, and a tile's rows out
    assert steady <= result.cycles <= steady + tail
    tally("icarus", "array configurations, tiles", result.tiles)


@pytest.mark.parametrize(
    ("fmt", "arithmetic"),
    [
        ("mxfp8_e2m5", "fp12"),
        ("mxfp8_e2m5", "exact"),
        ("mxfp6_e3m2", "exact"),
        ("mxfp6_e2m3", "exact"),
        ("mxfp4_e2m1", "exact"),
    ],
)
def test_other_formats(fmt: str, arithmetic: Arithmetic, tmp_path: Path, tally: Tally) -> None:
    module = small_array(tmp_path, arithmetic, fmt)
    products = random_products(12, 6, 4, 60, 8, fmt)
    result = check_products(available("icarus"), module, products, stall=0.2)
    tally("icarus", "arrays of other formats, tiles", result.tiles)


@both_arithmetics
@pytest.mark.parametrize("stall", [0.0, 0.3])
def test_tiles_of_one_beat(
    simulator: str, arithmetic: Arithmetic, stall: float, tmp_path: Path, tally: Tally
) -> None:
    module = small_array(tmp_path, arithmetic)
    result = check_short_tiles(simulator, module, stall=stall)
    tally(simulator, f"{module.name} tiles", result.tiles)


@both_arithmetics
@pytest.mark.parametrize("stall", [0.0, 0.2])
def test_reset_at_any_time(
    simulator: str, arithmetic: Arithmetic, stall: float, tmp_path: Path, tally: Tally
) -> None:
    module = small_array(tmp_path, arithmetic)
    result = check_resets(simulator, module, stall=stall)
    tally(simulator, f"{module.name} tiles", result.tiles)


@both_arithmetics
def test_streams_out_of_step(simulator: str, arithmetic: Arithmetic, tmp_path: Path) -> None:
    check_out_of_step(simulator, small_array(tmp_path, arithmetic))


@pytest.mark.parametrize("block", [1, 8, 13, 64])
def test_blocks_longer_than_the_sums_hold(block: int, tmp_path: Path) -> None:
    check_overlong_block(available("icarus"), small_array(tmp_path, "exact", block=block))


@both_arithmetics
def test_tiles_that_go_on_or_start_again(arithmetic: Arithmetic, tmp_path: Path) -> None:
    check_continued_tiles(available("icarus"), small_array(tmp_path, arithmetic))


@both_arithmetics
def test_no_beat_is_taken_during_reset(arithmetic: Arithmetic, tmp_path: Path) -> None:
    """Both streams offer a beat all the time: it is taken in every clock but those of reset."""
    module = small_array(tmp_path, arithmetic)
    rst = np.array([0, 0, 1, 0, 1, 1, 0, 0])
    ready = {"m_axis_c_tready": 1, "s_axis_a_tvalid": 1, "s_axis_w_tvalid": 1}
    stimulus = {
        name: module.ports[name].words(rst if name == "rst" else np.full(len(rst), value))
        for name, value in (dict.fromkeys(module.inputs, 0) | ready).items()
        if name != "clk"
    }
    # What is on the result stream while it is not valid is unknown to a four-state simulator.
    log = run_lockstep(available("verilator"), module, stimulus)
    for stream in ("s_axis_a", "s_axis_w"):
        assert log[f"{stream}_tready"].ravel().tolist() == (1 - rst).tolist()


@both_arithmetics
@pytest.mark.parametrize("block", [64, (8, 8)])
def test_full_array(
    arithmetic: Arithmetic, block: Block, modules: dict[str, Module], tally: Tally
) -> None:
    module = modules["mxsf_sta" if arithmetic == "fp12" else "mxsf_sta_exact"]
    products = random_products(9, 40, 16, 150, block)
    a, w = operands(np.random.default_rng(6), 40, 56, 24, (8, 8))
    products += [(a, w), (w.T, a.T)]  # transposed tiles go in as they are
    result = check_products(available("verilator"), module, products, stall=0.15)
    tally("verilator", f"{module.name} tiles", result.tiles)


@pytest.mark.full
@both_arithmetics
@pytest.mark.parametrize("block", [64, 32, 12, (8, 8)])
def test_full_array_at_length(
    arithmetic: Arithmetic, block: Block, modules: dict[str, Module], tally: Tally
) -> None:
    module = modules["mxsf_sta" if arithmetic == "fp12" else "mxsf_sta_exact"]
    for seed in range(4):
        products = random_products(100 + seed, 100, 16, 300, block)
        result = check_products(available("verilator"), module, products, stall=0.1, seed=seed)
        tally("verilator", f"{module.name} tiles", result.tiles)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"pu_rows": 0}, "pu_rows must be a positive integer, not 0"),
        ({"columns": 2.5}, "columns must be a positive integer, not 2.5"),
        ({"arithmetic": "bf16"}, "arithmetic must be one of fp12, exact, not 'bf16'"),
        (
            {"arithmetic": "exact", "units": 3},
            "units must divide the 4 * 4 = 16 MACs, not 3",
        ),
        ({"units": 2}, "units goes with arithmetic exact, but 2 was given"),
        ({"lanes": 3}, "lanes must be a power of two, not 3"),
        (
            {"arithmetic": "exact", "block": 10**14},
            "block must be at most 1099511627776, which sums of 64 bits hold, not 100000000000000",
        ),
        (
            {"arithmetic": "exact", "format": MX_FORMATS["mxfp6_e2m3"]}
            | {"pu_rows": 1, "rows": 1, "lanes": 1},
            "s_axis_a_tdata must be whole bytes, not 14 bits",
        ),
        (
            {"arithmetic": "exact", "format": MX_FORMATS["mxfp4_e2m1"]}
            | {"pu_columns": 1, "columns": 1, "lanes": 1},
            "s_axis_w_tdata must be whole bytes, not 12 bits",
        ),
    ],
)
def test_configurations_that_cannot_work(parameters: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError) as error:
        STA(**{"format": MX_FORMATS["mxsf"]} | parameters)
    assert str(error.value) == message
