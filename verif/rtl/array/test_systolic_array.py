"""The systolic tensor array against `matmul`: shapes, blocks, arithmetics, stalls, resets."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxsafe.formats import FORMAT_SETS, MX_FORMATS, FloatFormat
from mxsafe.model.gemm import ProductArithmetic
from mxsafe.rtl.array.systolic_array import SystolicArray
from mxsafe.verilog.generate import generate
from verif.rtl.array.array_checks import (
    Block,
    bf16_products,
    check_continued_tiles,
    check_continued_tiles_with_stalls,
    check_distances,
    check_dropped_blocks,
    check_formats_at_run_time,
    check_full_queue,
    check_out_of_step,
    check_overlong_block,
    check_overlong_tile,
    check_products,
    check_resets,
    check_result,
    check_scales_above_anchors,
    check_short_tiles,
    check_special_codes,
    large_products,
    near_zero_products,
    operands,
    products_of_classes,
    random_products,
    small_array,
)
from verif.rtl.array.array_job import run_jobs
from verif.support.farm import Farm, farm_of, prefixed
from verif.support.manifest import Module
from verif.support.simulators import SIMULATORS, lint, run_lockstep
from verif.support.tests import INTEGERS, Volume, raises, refused, some, typical
from verif.support.units import array_unit, published

ARITHMETICS: tuple[ProductArithmetic, ...] = ("fp12", "exact", "window")
every_arithmetic = pytest.mark.parametrize("arithmetic", ARITHMETICS)


def each_arithmetic(first: ProductArithmetic) -> pytest.MarkDecorator:
    """Cases of a test of what arithmetics have in common: all but the first are variants."""
    others = [arithmetic for arithmetic in ARITHMETICS if arithmetic != first]
    return pytest.mark.parametrize("arithmetic", typical([first, *others], every=3))


@every_arithmetic
@pytest.mark.parametrize("block", some([64, (8, 8)]))
@pytest.mark.parametrize("stall", typical([0.3, 0.0]))
def test_small_array(
    simulator: str, arithmetic: ProductArithmetic, block: Block, stall: float, volume: Volume
) -> None:
    module = small_array(arithmetic)
    count = {"icarus": volume(3, 5), "verilator": 60}[simulator]
    products = random_products(7, count, 4, 90, block)
    classes = products_of_classes(7, "mxsf", module.parameters["lanes"])
    check_products(simulator, module, classes + products, stall=stall)


CONFIGURATIONS: dict[str, dict[str, int]] = {
    "a single unit": {"pu_rows": 1, "pu_columns": 1, "rows": 4, "columns": 4, "lanes": 4},
    "a single MAC": {"pu_rows": 1, "pu_columns": 1, "rows": 1, "columns": 1, "lanes": 1},
    "oblong": {"pu_rows": 3, "pu_columns": 1, "rows": 1, "columns": 2, "lanes": 4},
    "oblong the other way": {"pu_rows": 1, "pu_columns": 3, "rows": 2, "columns": 1, "lanes": 4},
    "one register stage": {"pipeline": 1},
    "two register stages": {"pipeline": 2},
}


@pytest.mark.parametrize("arithmetic", some(ARITHMETICS))
@pytest.mark.parametrize("configuration", some(CONFIGURATIONS, 3, with_variants=True))
def test_other_configurations(configuration: str, arithmetic: ProductArithmetic) -> None:
    module = small_array(arithmetic, **CONFIGURATIONS[configuration])
    products = random_products(3, 4, 4, 40, 8)
    check_products("icarus", module, products, stall=0.2)


EXACT_CONFIGURATIONS: dict[str, dict[str, int]] = {
    "most registers": {"lanes": 4, "pipeline": 3, "scale_stages": 4, "add_stages": 3},
    "fewest registers": {"scale_stages": 0, "add_stages": 1},
    "registers between": {"scale_stages": 3, "add_stages": 2},
    "four registers in the adder": {"rows": 3, "scale_stages": 1, "add_stages": 4},
    "DSP blocks": {"lanes": 4, "dsp": True},
    "more lines than columns": {"pu_rows": 3, "rows": 3},
    "three accumulators": {"lanes": 4, "pu_rows": 3, "rows": 3, "accumulators": 3},
    "two lanes, a sum of two": {"lanes": 2, "pipeline": 2},
    "eight lanes, two sums of four": {"lanes": 8, "pipeline": 2},
    "two lanes without chains of carries": {"carry_save": True},
    "eight lanes without chains of carries": {"lanes": 8, "pipeline": 2, "carry_save": True},
    "two columns a MAC": {"columns": 4, "accumulators": 4, "interleave": 2},
    "two columns, one MAC": {
        "pu_rows": 1,
        "pu_columns": 1,
        "rows": 1,
        "lanes": 1,
        "accumulators": 1,
        "interleave": 2,
    },
    "two columns a MAC, more lines than columns": {
        "pu_rows": 3,
        "rows": 3,
        "accumulators": 3,
        "interleave": 2,
        "pipeline": 2,
        "scale_stages": 0,
        "carry_save": True,
    },
}


@pytest.mark.parametrize("configuration", some(EXACT_CONFIGURATIONS, 4, with_variants=True))
def test_configurations_of_exact_arrays(configuration: str) -> None:
    module = small_array("exact", **EXACT_CONFIGURATIONS[configuration])
    products = random_products(4, 4, 6, 40, 8)
    check_products("icarus", module, products, stall=0.2)


@pytest.mark.one_simulator("icarus")
@pytest.mark.parametrize("size", typical(["8", "16", "4, carry save", "8, carry save"], every=3))
def test_more_lanes(simulator: str, size: str) -> None:
    """Several numbers for each dot product, and blocks of few beats at the full rate."""
    lanes, carry_save = int(size.partition(",")[0]), "carry save" in size
    module = small_array("exact", lanes=lanes, accumulators=lanes // 4, carry_save=carry_save)
    products = random_products(6, 3, 4, 3 * lanes, 2 * lanes)
    check_products(simulator, module, products, stall=0.2)


@pytest.mark.variant
def test_a_column_of_published_units() -> None:
    """Of the machine, whose MACs serve two columns: whole units, blocks of two beats."""
    sizes = {"lanes": 4, "rows": 4, "columns": 8, "pu_rows": 4, "pu_columns": 1}
    options = {"accumulators": 16, "carry_save": True, "interleave": 2}
    module = small_array("exact", **sizes, **options)
    (whole,) = (
        one
        for one in published(SystolicArray).values()
        if options.items() <= one.parameters.items() and one.parameters["pu_rows"] == 4
    )
    sources = [source for source in whole.sources if source.stem != whole.name]
    assert sorted(source.stem for source in sources) == sorted(
        source.stem for source in module.sources if source.stem != module.name
    )
    module = replace(module, sources=(*sources, module.sources[0]))
    products = random_products(13, 3, 6, 32, 8)
    check_products("icarus", module, products, stall=0.2)


WINDOW_CONFIGURATIONS: dict[str, tuple[str, dict[str, int]]] = {
    "eight lanes": ("mxsf", {"lanes": 8}),
    "a wide window": ("mxsf", {"window": 53, "inner": 1 << 32, "scale_stages": 4}),
    "a narrow window": ("mxsf", {"window": 18, "pipeline": 1, "scale_stages": 0}),
    "short tiles": ("mxsf", {"inner": 40, "block": 8, "lanes": 4, "pipeline": 3}),
    "more lines than columns": ("mxsf", {"pu_rows": 3, "rows": 3}),
    "integers": ("mxint8", {"lanes": 4}),
    "wide sums": ("mxfp8_e5m2", {"block": 16, "window": 40}),
    "two columns a MAC": ("mxsf", {"lanes": 4, "columns": 4, "interleave": 2}),
    "two columns a MAC, two numbers a group of lanes": (
        "mxsf",
        {"lanes": 8, "interleave": 2, "pipeline": 2, "window": 40},
    ),
    "two columns, one MAC": (
        "mxsf",
        {"pu_rows": 1, "pu_columns": 1, "rows": 1, "lanes": 1, "interleave": 2},
    ),
    "two columns a MAC, more lines than columns": (
        "mxsf",
        {"pu_rows": 3, "rows": 3, "interleave": 2, "pipeline": 1, "scale_stages": 0},
    ),
    "two columns a MAC, integers": ("mxint8", {"lanes": 4, "pu_columns": 3, "interleave": 2}),
}


@pytest.mark.parametrize("configuration", some(WINDOW_CONFIGURATIONS, 3, with_variants=True))
def test_configurations_of_arrays_with_windows(configuration: str) -> None:
    fmt, parameters = WINDOW_CONFIGURATIONS[configuration]
    module = small_array("window", fmt, **parameters)
    products = random_products(4, 4, 6, 40, 8, fmt)
    check_products("icarus", module, products, stall=0.2)


@pytest.mark.parametrize("block", some([8, (8, 8), 2]))
def test_windows_take_any_block_at_the_full_rate(block: Block) -> None:
    module = small_array("window", lanes=8)
    assert module.parameters["block_cycles"] == 1
    result = check_products("icarus", module, [operands(np.random.default_rng(5), 8, 64, 8, block)])
    beats = 64 // min(8, block if isinstance(block, int) else block[0])
    assert result.tiles == 4
    assert result.cycles == 4 * beats + module.latency + 4 - 1


_IN_TURN = {"lanes": 4, "columns": 4, "pu_columns": 1, "interleave": 2}
IN_TURN: dict[ProductArithmetic, dict[str, Any]] = {
    "window": _IN_TURN,
    "exact": {**_IN_TURN, "accumulators": 4, "carry_save": True},
}
"""By arithmetic a small array whose MACs serve two columns each."""
in_turn = pytest.mark.parametrize("arithmetic", IN_TURN)


@in_turn
@pytest.mark.parametrize("block", some([8, (8, 8), 12, 4, 64]))
def test_rate_of_columns_in_turn(arithmetic: ProductArithmetic, block: Block) -> None:
    """Blocks of two beats, or of any even number, take the full rate; others a cycle more."""
    module = small_array(arithmetic, **IN_TURN[arithmetic])
    assert module.parameters["block_cycles"] == 2
    result = check_products("icarus", module, [operands(np.random.default_rng(5), 8, 64, 8, block)])
    length = block if isinstance(block, int) else block[0]
    blocks = [min(length, 64 - start) for start in range(0, 64, length)]
    clocks = sum(2 * -(-one // (2 * module.parameters["lanes"])) for one in blocks)
    assert result.tiles == 4
    assert result.cycles == 4 * clocks + module.latency + 4 - 1


@in_turn
@pytest.mark.parametrize("stall", some([0.3, 0.0]))
def test_columns_in_turn(
    simulator: str, arithmetic: ProductArithmetic, stall: float, volume: Volume
) -> None:
    """MACs that serve two columns each, in blocks of an even number of beats and of an odd one."""
    module = small_array(arithmetic, **IN_TURN[arithmetic])
    for block in (8, (8, 8), 4, 12, 64):
        products = random_products(7, volume(2, 8), 4, 90, block)
        check_products(simulator, module, products, stall=stall)
    products = near_zero_products(10, 4, 4, 40, 8) + large_products(11, 2, 4, 200, 16)
    check_products(simulator, module, products, stall=stall)


@in_turn
def test_control_of_columns_in_turn(simulator: str, arithmetic: ProductArithmetic) -> None:
    """Tiles of one beat, resets, tiles that go on or start in the middle of a block, errors."""
    module = small_array(arithmetic, **IN_TURN[arithmetic])
    check_short_tiles(simulator, module, stall=0.2)
    check_resets(simulator, module, every={"icarus": 5, "verilator": 1}[simulator], stall=0.2)
    check_continued_tiles(simulator, module)
    check_continued_tiles_with_stalls(simulator, module)
    check_dropped_blocks(simulator, module)
    check_out_of_step(simulator, module)
    if arithmetic == "window":
        check_distances(simulator, module)
        check_scales_above_anchors(simulator, module)


@pytest.mark.variant
@in_turn
def test_limits_of_columns_in_turn(arithmetic: ProductArithmetic) -> None:
    limits = {"block": 13, **({"inner": 48} if arithmetic == "window" else {})}
    module = small_array(arithmetic, **(IN_TURN[arithmetic] | limits))
    check_overlong_block("icarus", module)
    if arithmetic == "window":
        check_overlong_tile("icarus", module)
    check_special_codes("icarus", small_array(arithmetic, "mxfp8_e5m2", **IN_TURN[arithmetic]))


@pytest.mark.variant
def test_integers_of_columns_in_turn() -> None:
    module = small_array("exact", "mxint8", **(IN_TURN["exact"] | {"carry_save": False}))
    check_products("icarus", module, random_products(4, 4, 6, 40, 8, "mxint8"), stall=0.2)


WHOLE_UNIT = {"pu_rows": 1, "pu_columns": 1, "rows": 4, "columns": 4, "lanes": 4}
FPGA_CONFIGURATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "a whole unit": ("mxsf", WHOLE_UNIT),
    "few MACs an adder": ("mxsf", {}),
    "each MAC its own blocks": ("mxsf", {"paired": False, "pipeline": 3}),
    "an odd row": ("mxfp8_e4m3", {"rows": 3, "add_stages": 4, "scale_stages": 3}),
    "integers": ("mxint8", {"pipeline": 4}),
    "formats at run time": ("multi", WHOLE_UNIT),
}


@pytest.mark.parametrize("configuration", some(FPGA_CONFIGURATIONS, every=6))
def test_configurations_for_fpgas(configuration: str) -> None:
    fmt, parameters = FPGA_CONFIGURATIONS[configuration]
    module = small_array("exact", fmt, **parameters, target="fpga")
    if fmt == "multi":
        check_formats_at_run_time("icarus", module, deepest=24, stall=0.1)
    else:
        products = random_products(4, 4, 6, 40, 8, fmt)
        check_products("icarus", module, products, stall=0.2)


SMALL = {"pu_rows": 2, "pu_columns": 2, "rows": 2, "columns": 2, "lanes": 2}


def test_full_rate_for_fpgas() -> None:
    """Tiles follow each other as closely as their rows leave: the queue has room for them."""
    module = small_array("exact", target="fpga")
    config = array_unit("exact", **SMALL, target="fpga").config
    beats = max(config.tile_cycles, config.block_cycles)
    block = beats * module.parameters["lanes"]
    products = [operands(np.random.default_rng(5), 16, block, 16, block)]
    result = check_products("icarus", module, products)
    assert result.cycles == beats * result.tiles + config.last_row


@pytest.mark.variant
def test_rows_wait_for_a_sink() -> None:
    """The sink pauses more than the sources: the queue is full again and again."""
    module = small_array("exact", target="fpga")
    check_short_tiles("icarus", module, stall=(0.0, 0.4), seed=4)
    check_resets("icarus", module, every=5, stall=0.2)
    check_out_of_step("icarus", module)
    check_overlong_block("icarus", module)


def test_beats_enter_until_the_queue_is_full() -> None:
    check_full_queue("icarus", small_array("exact", target="fpga"))


@pytest.mark.full
@pytest.mark.parametrize("configuration", FPGA_CONFIGURATIONS)
def test_configurations_for_fpgas_at_length(configuration: str) -> None:
    fmt, parameters = FPGA_CONFIGURATIONS[configuration]
    module = small_array("exact", fmt, **parameters, target="fpga")
    assert lint(module) == ""
    if fmt == "multi":
        check_formats_at_run_time("verilator", module, turns=4, deepest=120, stall=0.1)
    else:
        products = random_products(9, 40, 6, 120, 16, fmt)
        check_products("verilator", module, products, stall=0.1)
    if fmt == "mxsf":
        check_short_tiles("verilator", module)
        check_resets("verilator", module)


@pytest.mark.parametrize(
    ("arithmetic", "parameters", "message"),
    [
        (
            "exact",
            {"accumulators": 2},
            "accumulators must be at most 1 of 4 MACs with target fpga, where sums into one must "
            "come at least 3 cycles apart, not 2",
        ),
        (
            "exact",
            {"add_stages": 3},
            "add_stages must be an integer from 1 to 2 with 4 MACs an accumulator, not 3",
        ),
        ("exact", {"dsp": False}, "dsp must be True with target fpga, not False"),
        (
            "exact",
            {"pipeline": 2},
            "pipeline must be an integer from 3 to 6 (operands, multiplied, significands, "
            "products, shifted, total), not 2",
        ),
    ],
)
def test_refused_for_fpgas(
    arithmetic: ProductArithmetic, parameters: dict[str, Any], message: str
) -> None:
    with raises(ValueError, message):
        small_array(arithmetic, **parameters, target="fpga")


@each_arithmetic("fp12")
@pytest.mark.parametrize("parameters", some([{"pipeline": 2}, {}, {"lanes": 4}], every=3))
def test_latency(arithmetic: ProductArithmetic, parameters: dict[str, int]) -> None:
    """A tile without stalls takes its beats, the latency the manifest tells, and its rows."""
    module = small_array(arithmetic, **parameters)
    product = operands(np.random.default_rng(1), 4, 48, 4, 16)
    result = check_products("icarus", module, [product])
    beats = 48 // module.parameters["lanes"]
    assert result.tiles == 1
    assert result.cycles == beats + module.latency + 4 - 1


@pytest.mark.parametrize("accumulators", typical([2, 1, 4], every=3))
@pytest.mark.parametrize("block", some([13, 2, 8], every=3))
def test_accumulators(accumulators: int, block: int) -> None:
    """A block that ends before the accumulators are free waits, and only then."""
    module = small_array("exact", accumulators=accumulators)
    assert module.parameters["block_cycles"] == 4 // accumulators
    rng = np.random.default_rng(accumulators)
    products = [operands(rng, 8, 52, 8, block)]
    result = check_products("icarus", module, products)
    beats = -(-block // module.parameters["lanes"])
    blocks = [min(block, 52 - start) for start in range(0, 52, block)]
    waits = max(beats, module.parameters["block_cycles"]) * (len(blocks) - 1)
    last = max(-(-blocks[-1] // module.parameters["lanes"]), module.parameters["block_cycles"])
    steady = result.tiles * (waits + last)
    tail = module.latency + 4 + 4  # into the array, and a tile's rows out
    assert steady <= result.cycles <= steady + tail


TWO_MACS = {"pu_rows": 1, "pu_columns": 2, "rows": 1, "columns": 1, "lanes": 2}
OTHERWISE: dict[str, dict[str, int]] = {
    "mxfp8_e4m3": {"pu_rows": 2, "columns": 2},  # special codes have to be told apart
    "mxfp8_e5m2": {"rows": 2},
    "mxfp6_e3m2": {"lanes": 4},  # a beat is whole bytes
    "mxfp6_e2m3": {"lanes": 4},
}


@pytest.fixture(scope="module", params=typical(["exact", "fp12", "window"], every=3))
def arrays(request: pytest.FixtureRequest) -> Farm:
    arithmetic = str(request.param)
    units = {
        f"{name}_": array_unit(arithmetic, fmt, **(TWO_MACS | OTHERWISE.get(name, {})))
        for name, fmt in MX_FORMATS.items()
        if arithmetic != "fp12" or isinstance(fmt.element, FloatFormat)
    }
    if arithmetic == "exact":  # bfloat16 goes along
        units["bf16_"] = array_unit("bf16", **(TWO_MACS | {"rows": 2}))
    return farm_of(f"arrays_{arithmetic}", units, around=prefixed)


@pytest.mark.full
def test_formats_lint_clean(arrays: Farm) -> None:
    assert lint(arrays.wrapper) == ""


@pytest.mark.parametrize("simulator", some(SIMULATORS))
@pytest.mark.parametrize("block", some([(8, 8), 32]))
def test_formats(simulator: str, arrays: Farm, block: Block, volume: Volume) -> None:
    """Every format side by side, with special codes in the middle of blocks."""
    count, deepest = {"icarus": (volume(1, 2, 2), 70), "verilator": (12, 120)}[simulator]
    jobs = {}
    for seed, (prefix, module) in enumerate(arrays.modules.items()):
        fmt = module.format
        if fmt == "bf16":
            jobs[prefix] = (module, bf16_products(seed, 2 * count, 2, deepest))
            continue
        products = random_products(seed, count, 2, deepest, block, fmt, specials=0.004)
        classes = products_of_classes(seed, fmt, module.parameters["lanes"])
        jobs[prefix] = (module, classes + products)
    results = run_jobs(simulator, arrays.wrapper, jobs, stall=0.15)
    for (module, products), result in zip(jobs.values(), results, strict=True):
        check_result(module, products, result)


@each_arithmetic("exact")
@pytest.mark.parametrize("stall", some([0.0, 0.3]))
def test_tiles_of_one_beat(simulator: str, arithmetic: ProductArithmetic, stall: float) -> None:
    module = small_array(arithmetic)
    check_short_tiles(simulator, module, stall=stall)


@each_arithmetic("exact")
@pytest.mark.parametrize("stall", some([0.2, 0.0]))
def test_reset_at_any_time(simulator: str, arithmetic: ProductArithmetic, stall: float) -> None:
    module = small_array(arithmetic)
    every = {"icarus": 5, "verilator": 1}[simulator]
    check_resets(simulator, module, every=every, stall=stall)


@pytest.mark.full
@every_arithmetic
@pytest.mark.parametrize("stall", [0.0, 0.2])
def test_reset_at_every_moment_on_icarus(arithmetic: ProductArithmetic, stall: float) -> None:
    module = small_array(arithmetic)
    check_resets("icarus", module, stall=stall)


@pytest.mark.full
@every_arithmetic
@pytest.mark.parametrize("block", [64, (8, 8)])
def test_more_products_on_icarus(arithmetic: ProductArithmetic, block: Block) -> None:
    module = small_array(arithmetic)
    products = random_products(8, 30, 4, 90, block)
    check_products("icarus", module, products, stall=0.2)


@pytest.mark.one_simulator("icarus")
@each_arithmetic("window")
def test_streams_out_of_step(simulator: str, arithmetic: ProductArithmetic) -> None:
    check_out_of_step(simulator, small_array(arithmetic))


@pytest.mark.parametrize("block", some([8, 1, 64, 13]))
def test_blocks_longer_than_the_sums_hold(block: int) -> None:
    check_overlong_block("icarus", small_array("exact", block=block))


def test_blocks_and_tiles_longer_than_windows_hold() -> None:
    module = small_array("window", block=13, inner=48)
    check_overlong_block("icarus", module)
    check_overlong_tile("icarus", module)


def test_distances_of_blocks_from_anchors() -> None:
    module = small_array("window")
    check_dropped_blocks("icarus", module)
    check_distances("icarus", module)
    check_scales_above_anchors("icarus", module)


@each_arithmetic("exact")
def test_tiles_that_go_on_or_start_again(arithmetic: ProductArithmetic) -> None:
    module = small_array(arithmetic)
    check_continued_tiles("icarus", module)
    check_continued_tiles_with_stalls("icarus", module)


@each_arithmetic("exact")
@pytest.mark.parametrize("fmt", some(["mxfp8_e4m3", "mxfp8_e5m2"]))
def test_special_codes(fmt: str, arithmetic: ProductArithmetic) -> None:
    check_special_codes("icarus", small_array(arithmetic, fmt))


@each_arithmetic("exact")
def test_no_beat_is_taken_during_reset(arithmetic: ProductArithmetic) -> None:
    """Both streams offer a beat all the time: it is taken in every cycle but those of reset."""
    module = small_array(arithmetic)
    rst = np.array([0, 0, 1, 0, 1, 1, 0, 0])
    given = {"rst": rst, "m_axis_c_tready": 1, "s_axis_a_tvalid": 1, "s_axis_w_tvalid": 1}
    stimulus = dict.fromkeys((pin for pin in module.inputs if pin != "clk"), 0) | given
    # What is on the result stream while it is not valid is unknown to a four-state simulator.
    watched = ("s_axis_a_tready", "s_axis_w_tready")
    log = run_lockstep("verilator", module, stimulus, watched=watched)
    for stream in ("s_axis_a", "s_axis_w"):
        assert log[f"{stream}_tready"].ravel().tolist() == (1 - rst).tolist()


FULL_ARRAYS = {
    "fp12": "mxsf_sta",
    "exact": "mxsf_sta_exact",
    "window": "mxsf_sta_window",
}


@pytest.mark.parametrize(
    "arithmetic",
    [
        "exact",
        pytest.param("fp12", marks=pytest.mark.variant),
        pytest.param("window", marks=pytest.mark.full),
    ],
)
@pytest.mark.parametrize("block", some([(8, 8), 64]))
def test_full_array(
    arithmetic: ProductArithmetic, block: Block, modules: dict[str, Module], volume: Volume
) -> None:
    module = modules[FULL_ARRAYS[arithmetic]]
    products = random_products(9, volume(8, 20, 20), 16, 150, block)
    a, w = operands(np.random.default_rng(6), 40, 56, 24, (8, 8))
    products += [(a, w), (w.T, a.T)]  # transposed tiles go in as they are
    check_products("verilator", module, products, stall=0.15)


@pytest.mark.full
@every_arithmetic
@pytest.mark.parametrize("block", [64, 32, 12, (8, 8)])
def test_full_array_at_length(
    arithmetic: ProductArithmetic, block: Block, modules: dict[str, Module]
) -> None:
    module = modules[FULL_ARRAYS[arithmetic]]
    for seed in range(4):
        products = random_products(100 + seed, 100, 16, 300, block)
        check_products("verilator", module, products, stall=0.1, seed=seed)


@pytest.mark.full
@pytest.mark.parametrize("name", published(SystolicArray))
def test_control_of_published_arrays(name: str) -> None:
    """Short tiles, resets, tiles that go on or are too long, streams out of step."""
    module = published(SystolicArray)[name]
    arithmetic = module.parameters["arithmetic"]
    check_short_tiles("verilator", module, stall=0.2)
    check_resets("verilator", module, stall=0.2)
    check_out_of_step("verilator", module)
    check_continued_tiles("verilator", module)
    check_continued_tiles_with_stalls("verilator", module)
    if arithmetic not in ("fp12", "bf16"):
        check_overlong_block("verilator", module)
    if arithmetic == "window":
        check_dropped_blocks("verilator", module)
        check_overlong_tile("verilator", module)
        check_distances("verilator", module)
        check_scales_above_anchors("verilator", module)
    if module.parameters.get("target") == "fpga":
        check_full_queue("verilator", module)


test_configurations_that_cannot_work = refused(
    array_unit,
    [
        ({"pu_rows": 0}, "pu_rows must be a positive integer, not 0"),
        ({"columns": 2.5}, "columns must be a positive integer, not 2.5"),
        (
            {"arithmetic": "exact", "accumulators": 3},
            "accumulators must divide the 4 * 4 = 16 MACs, not 3",
        ),
        (
            {"arithmetic": "exact", "scale_stages": 9},
            "scale_stages must be an integer from 0 to 4 with 16 MACs an accumulator, not 9",
        ),
        (
            {"arithmetic": "exact", "accumulators": 4, "add_stages": 4},
            "add_stages must be an integer from 1 to 3 with 4 MACs an accumulator, not 4",
        ),
        (
            {"arithmetic": "exact", "add_stages": 1.5},
            "add_stages must be an integer or None, not 1.5",
        ),
        ({"accumulators": 2}, "accumulators is not a parameter of sta, but 2 was given"),
        ({"add_stages": 2}, "add_stages is not a parameter of sta, but 2 was given"),
        (
            {"arithmetic": "bf16", "block": 32},
            "block is not a parameter of sta_bf16, but 32 was given",
        ),
        (
            {"arithmetic": "bf16", "dsp": True},
            "dsp is not a parameter of sta_bf16, but True was given",
        ),
        ({"lanes": 3}, "lanes must be a power of two, not 3"),
        ({"format": MX_FORMATS["mxint8"]}, INTEGERS),
        (
            {"arithmetic": "exact", "format": MX_FORMATS["mxfp8_e5m2"], "block": 1 << 17},
            "block must be at most 65536, which sums of 80 bits hold, not 131072",
        ),
        (
            {"arithmetic": "exact", "block": 10**17},
            "block must be at most 72057594037927936, which sums of 80 bits hold, "
            "not 100000000000000000",
        ),
        (
            {"arithmetic": "exact", "format": MX_FORMATS["mxfp6_e2m3"]}
            | {"pu_rows": 1, "rows": 1, "lanes": 1},
            "shape must make s_axis_a_tdata whole bytes, not 14 bits",
        ),
        (
            {"arithmetic": "exact", "format": MX_FORMATS["mxfp4_e2m1"]}
            | {"pu_columns": 1, "columns": 1, "lanes": 1},
            "shape must make s_axis_w_tdata whole bytes, not 12 bits",
        ),
        (
            {"arithmetic": "window", "window": 17},
            "window must be at least 18 for 4096 products of mxsf, not 17",
        ),
        (
            {"arithmetic": "exact", "paired": True},
            "paired must be False with target asic, not True",
        ),
        (
            {"arithmetic": "window", "inner": 2},
            "inner must be at least the 4 lanes, not 2",
        ),
        (
            {"arithmetic": "window", "inner": 1 << 33},
            "inner must be at most 4294967296, not 8589934592",
        ),
        (
            {"arithmetic": "window", "interleave": 3},
            "interleave must be an integer from 1 to 2, not 3",
        ),
        (
            {"arithmetic": "window", "interleave": 2, "columns": 3},
            "interleave must divide the 3 columns, not 2",
        ),
        (
            {"arithmetic": "fp12", "interleave": 2},
            "interleave is not a parameter of sta, but 2 was given",
        ),
        (
            {"arithmetic": "exact", "interleave": 2, "columns": 3},
            "interleave must divide the 3 columns, not 2",
        ),
        (
            {"arithmetic": "exact", "interleave": 2, "accumulators": 4},
            "accumulators must be 8 with interleave 2, one for each MAC, not 4",
        ),
        (
            {"arithmetic": "window", "pipeline": 4},
            "pipeline must be an integer from 1 to 3 (sums, products, halves), not 4",
        ),
        (
            {"arithmetic": "window", "format": FORMAT_SETS["multi"]},
            "format must be a single one in sta_window, not the set multi",
        ),
    ],
    arithmetic="fp12",
)


def test_sizes_as_numpy_integers(tmp_path: Path) -> None:
    """They are the same configuration as Python's own."""
    own = {"pu_rows": 2, "pu_columns": 1, "rows": 2, "columns": 2, "lanes": 2, "block": 32}
    numpy = {name: np.int64(value) for name, value in own.items()}
    one, other = array_unit("exact", **own), array_unit("exact", **numpy)
    assert one.config == other.config
    assert one.module_name == other.module_name
    assert generate([one], tmp_path / "one") == generate([other], tmp_path / "other")
    for path in sorted((tmp_path / "one").rglob("*.v")):
        other_path = tmp_path / "other" / path.relative_to(tmp_path / "one")
        assert path.read_bytes() == other_path.read_bytes()
