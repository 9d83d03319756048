"""Arrays whose operands have different formats, fixed or chosen at run time, against `matmul`."""

import itertools

import numpy as np
import pytest

import mxsafe as mx
from mxsafe.formats import FORMAT_SETS, MX_FORMATS, FormatSet
from mxsafe.model.accumulate import canonical
from mxsafe.model.schedule import stream_beats
from mxsafe.rtl.stream.code_unpacker import CodeUnpacker
from verif.data import minilm
from verif.rtl.array.array_checks import (
    Block,
    check_formats_at_run_time,
    check_products,
    check_result,
    operands,
    random_products,
    small_array,
)
from verif.rtl.array.array_job import Job, array_schedule, run_jobs, run_products
from verif.support.checkers import assert_equal
from verif.support.farm import Farm, farm_of, prefixed
from verif.support.simulators import SIMULATORS, lint
from verif.support.tests import Volume, raises, some
from verif.support.units import array_unit, generated

TWO_LINES = {"pu_rows": 1, "pu_columns": 2, "rows": 2, "columns": 1, "lanes": 4}
PAIRS: dict[str, tuple[str, str]] = {
    "narrow_w_": ("mxsf", "mxfp4_e2m1"),
    "narrow_a_": ("mxfp4_e2m1", "mxsf"),
    "specials_a_": ("mxfp8_e4m3", "mxfp6_e2m3"),
    "specials_w_": ("mxfp6_e3m2", "mxfp8_e5m2"),
    "integers_w_": ("mxsf", "mxint8"),
    "integers_a_": ("mxint8", "mxfp8_e4m3"),
}


@pytest.fixture(scope="module")
def pairs(volume: Volume) -> Farm:
    """Small arrays for operands of two formats, in both arithmetics; in the default run a half."""
    units = {}
    for name, (first, second) in list(PAIRS.items())[:: volume(2, 1, 1)]:
        a, w = MX_FORMATS[first], MX_FORMATS[second]
        for arithmetic in ("exact",) if "integers" in name else ("exact", "fp12"):
            units[f"{name}{arithmetic}_"] = array_unit(arithmetic, a, format_w=w, **TWO_LINES)
    return farm_of("pairs", units, around=prefixed)


@pytest.mark.full
def test_pairs_lint_clean(pairs: Farm) -> None:
    assert lint(pairs.wrapper) == ""


@pytest.mark.parametrize("simulator", some(SIMULATORS))
@pytest.mark.parametrize("block", some([32, (8, 8)]))
def test_operands_of_two_formats(simulator: str, pairs: Farm, block: Block, volume: Volume) -> None:
    count, deepest = {"icarus": (volume(1, 2, 2), 70), "verilator": (8, 120)}[simulator]
    jobs = {}
    for seed, (prefix, module) in enumerate(pairs.modules.items()):
        names = [module.parameters["formats"][side]["name"] for side in ("a", "w")]
        products = random_products(seed, count, 2, deepest, block, *names, specials=0.004)
        jobs[prefix] = (module, products)
    results = run_jobs(simulator, pairs.wrapper, jobs, stall=0.15)
    for (module, products), result in zip(jobs.values(), results, strict=True):
        check_result(module, products, result)


MEMBERS = [fmt.name for fmt in FORMAT_SETS["multi"].members]
SET_CONFIGURATIONS: dict[str, tuple[str, str, dict[str, int]]] = {
    "both operands": ("multi", "multi", {}),
    "weights alone": ("mxsf", "multi", {"lanes": 4}),
    "activations alone": ("multi", "mxfp4_e2m1", {"lanes": 4}),
    "most registers": ("multi", "multi", {"lanes": 4, "pipeline": 3, "scale_stages": 4}),
    "three accumulators": ("multi", "multi", {"pu_rows": 3, "rows": 3, "accumulators": 3}),
    "blocks of a beat": ("multi", "multi", {"block": 2}),
    "DSP blocks": ("multi", "multi", {"dsp": True}),
}


@pytest.mark.parametrize("configuration", some(SET_CONFIGURATIONS, 3, with_variants=True))
def test_formats_chosen_at_run_time(configuration: str) -> None:
    """Products of all formats of a set, in any order, on one array: as `matmul` has each."""
    first, second, parameters = SET_CONFIGURATIONS[configuration]
    module = small_array("exact", first, second, **parameters)
    assert lint(module) == ""
    check_formats_at_run_time("icarus", module, size=2, deepest=24, stall=0.15)


@pytest.mark.parametrize(
    "members",
    some(
        [("mxfp8_e2m5", "mxfp4_e2m1"), ("mxsf", "mxfp8_e2m5"), ("mxfp6_e3m2", "mxfp6_e2m3")],
        every=3,
    ),
    ids="-".join,
)
def test_sets_of_ones_own(members: tuple[str, ...]) -> None:
    """Without packed codes, without exponents to add, with a first member that lacks some."""
    own = FormatSet(name="own", members=tuple(MX_FORMATS[name] for name in members))
    module = generated(array_unit("exact", own, **TWO_LINES))
    assert lint(module) == ""
    check_formats_at_run_time("icarus", module, deepest=24, stall=0.1)


def test_nothing_to_unpack() -> None:
    own = FormatSet(name="own", members=(MX_FORMATS["mxsf"], MX_FORMATS["mxfp6_e2m3"]))
    with raises(ValueError, "format must have a member with codes of at most 4 bits, not own"):
        CodeUnpacker(format=own)


@pytest.mark.full
def test_every_pair_of_formats_at_run_time() -> None:
    """All pairs twice, ragged and deep, while every stream stalls."""
    module = small_array("exact", "multi")
    check_formats_at_run_time("verilator", module, turns=2, deepest=90, stall=0.15)


@pytest.mark.full
@pytest.mark.parametrize("configuration", SET_CONFIGURATIONS)
def test_formats_at_run_time_at_length(configuration: str) -> None:
    first, second, parameters = SET_CONFIGURATIONS[configuration]
    module = small_array("exact", first, second, **parameters)
    check_formats_at_run_time("verilator", module, turns=10, deepest=200, stall=0.1)


@pytest.mark.parametrize("array", some(["mxfp4_e2m1", "multi"]))
def test_real_layer(array: str) -> None:
    """Activations in MXSF and weights in MXFP4, on arrays of either kind."""
    activations, weights = minilm.load()
    a = mx.quantize(activations[:12, :160], "mxsf", block=32)
    w = mx.quantize(weights[:160, :10], "mxfp4_e2m1", block=32, axis=0)
    module = small_array("exact", "mxsf", array, lanes=4)
    result = check_products("icarus", module, [(a, w)])
    assert np.isfinite(result.products[0]).all()


def test_format_may_change_from_block_to_block() -> None:
    """A tile goes on in other formats: the sum of both products, in that order."""
    module = small_array("exact", "multi")
    rng = np.random.default_rng(31)
    parts = [operands(rng, 4, 16, 4, 16, *names) for names in itertools.pairwise(MEMBERS)]

    def without_first(job: Job) -> None:
        beats = np.flatnonzero(job["a_first"])
        job["a_first"][beats[1:]] = False

    result = run_products("icarus", module, parts, alter=without_first)
    total = np.zeros((4, 4), np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        for part, got in zip(parts, result.products, strict=True):
            total = canonical(total + mx.matmul(*part, arithmetic="exact"))
            assert_equal("sums", got.view(np.uint32), total.view(np.uint32))


def test_mode_that_is_none_stands_for_the_first() -> None:
    module = small_array("exact", "multi")
    products = random_products(5, 4, 4, 40, 16)

    def no_mode(job: Job) -> None:
        job["a_mode"][:] = len(MEMBERS)
        job["w_mode"][:] = 7

    result = run_products("icarus", module, products, alter=no_mode)
    check_result(module, products, result)


def test_packed_codes_take_half_the_beats() -> None:
    """Of E2M1 two beats of the array lie in one of the stream, and no cycle is lost."""
    module = small_array("exact", "multi")
    schedules = [
        array_schedule(module, *operands(np.random.default_rng(1), 4, 64, 4, 64, name))
        for name in ("mxsf", "mxfp4_e2m1")
    ]
    beats = [
        [len(stream_beats(tile, "a", s.operands["a"].format, FORMAT_SETS["multi"]).last)]
        for s in schedules
        for tile in s
    ]
    assert beats == [[32], [16]]
    products = [operands(np.random.default_rng(1), 4, 64, 4, 64, name) for name in MEMBERS]
    cycles = {check_products("icarus", module, [pair]).cycles for pair in products}
    assert len(cycles) == 1
