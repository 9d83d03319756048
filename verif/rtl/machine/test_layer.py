"""The layer against the model: shapes, blocks, formats, activations, stalls, resets, flags."""

from typing import Any

import numpy as np
import pytest

import mxsafe as mx
from mxsafe.formats import MX_FORMATS
from mxsafe.rtl.array.bf16 import Bf16
from mxsafe.rtl.machine.layer import Layer
from verif.rtl.array.array_checks import Block, operands
from verif.rtl.machine.layer_checks import (
    broken_ties,
    check_layers,
    check_overlong_blocks,
    check_streams_out_of_step,
    random_added,
    random_layers,
    small_layer,
)
from verif.support.simulators import lint
from verif.support.tests import INTEGERS, Volume, raises, refused, some, typical
from verif.support.units import layer_unit, published

Parameters = dict[str, Any]
EIGHT_COLUMNS = {"columns": 4, "rows": 1}
CONFIGURATIONS: dict[str, Parameters] = {
    "mxsf, 64x1": {"arithmetic": "exact"},
    "mxsf, 8x8, FP12": {"block": (8, 8), **EIGHT_COLUMNS},
    "mxsf, 8x1, FP12, no activation": {"block": 8, "activation": "none"},
    "mxfp8_e4m3, 32x1": {"fmt": "mxfp8_e4m3", "arithmetic": "exact"},
    "mxint8, 8x8": {
        "fmt": "mxint8",
        "arithmetic": "exact",
        "block": (8, 8),
        "lanes": 4,
        **EIGHT_COLUMNS,
    },
}


@pytest.mark.one_simulator("icarus")
@pytest.mark.parametrize("configuration", some(CONFIGURATIONS, every=len(CONFIGURATIONS)))
def test_random_layers(simulator: str, configuration: str) -> None:
    """Random shapes with NaN and extreme scales; every stream stalls."""
    module = small_layer(**CONFIGURATIONS[configuration])
    count = {"icarus": 3, "verilator": 16}[simulator]
    for block in (8, (8, 8)) if simulator == "verilator" else (8,):
        pairs = random_layers(
            module,
            3,
            count,
            features=80,
            samples=10,
            deepest={"icarus": 20, "verilator": 70}[simulator],
            block=block,
            specials=0.002,
        )
        check_layers(simulator, module, pairs, stall_in=0.15, stall_out=0.25)


OTHERS = [name for name in MX_FORMATS if name not in ("mxsf", "mxfp8_e4m3", "mxint8")]


@pytest.mark.parametrize("fmt", typical(OTHERS, every=6))
def test_other_formats(fmt: str) -> None:
    """Elements of 6 and 4 bits too, with blocks of a length that lanes do not divide."""
    module = small_layer(fmt, arithmetic="exact", block=6, lanes=4)
    pairs = random_layers(module, 4, 3, features=19, samples=6, deepest=30, specials=0.01)
    check_layers("icarus", module, pairs, stall_in=0.2, stall_out=0.2)


@pytest.mark.parametrize(
    ("weights", "samples", "arithmetic"),
    [
        ("mxfp4_e2m1", "mxsf", "exact"),
        pytest.param("mxfp6_e2m3", "mxfp8_e5m2", "fp12", marks=pytest.mark.variant),
        pytest.param("mxint8", "mxfp8_e4m3", "exact", marks=pytest.mark.full),
    ],
)
def test_weights_of_another_format(weights: str, samples: str, arithmetic: str) -> None:
    """Results are in the format of the samples."""
    module = small_layer(weights, samples, arithmetic=arithmetic, block=8, lanes=4)
    pairs = random_layers(module, 4, 3, features=19, samples=6, deepest=30, specials=0.01)
    assert {(a.format.name, w.format.name) for a, w in pairs} == {(weights, samples)}
    check_layers("icarus", module, pairs, stall_in=0.2, stall_out=0.2)


SIZES: dict[str, Parameters] = {
    "a single MAC": {"pu_rows": 1, "pu_columns": 1, "rows": 1, "columns": 1, "lanes": 1},
    "a single row": {"pu_rows": 1, "rows": 1, "lanes": 4},
    "three rows": {"pu_rows": 3, "pu_columns": 1, "rows": 1, "lanes": 4, "block": (4, 2)},
    "six rows": {"pu_rows": 1, "rows": 6, "lanes": 1, "block": (5, 4), "arithmetic": "exact"},
    "most registers": {
        "arithmetic": "exact",
        "lanes": 4,
        "pipeline": 3,
        "scale_stages": 4,
        "add_stages": 3,
        "block": 80,
    },
    "for an FPGA": {"arithmetic": "exact", "target": "fpga", "lanes": 2, "block": (4, 2)},
}


@pytest.mark.parametrize("size", some(SIZES, every=3, with_variants=True))
def test_other_sizes(size: str) -> None:
    module = small_layer(**{"block": 4} | SIZES[size])
    assert lint(module) == ""
    pairs = random_layers(module, 5, 4, features=15, samples=7, deepest=20)
    check_layers("icarus", module, pairs, stall_in=0.1, stall_out=0.2)


STAGES: dict[str, Parameters] = {
    "bias, relu, residual": {"stages": "bias+activation+residual", "block": 8},
    "residual, bias": {"stages": ("residual", "bias"), "block": (4, 2)},
    "bias, gelu": {"stages": "bias+activation", "activation": "gelu", "block": 8},
}
SMALLER = {"arithmetic": "exact", "pu_rows": 1, "pu_columns": 1, "columns": 4, "lanes": 1}


@pytest.mark.parametrize(
    ("simulator", "stages"),
    [
        ("icarus", "bias, relu, residual"),
        pytest.param("icarus", "residual, bias", marks=pytest.mark.full),
        pytest.param("icarus", "bias, gelu", marks=pytest.mark.variant),
        pytest.param("verilator", "bias, relu, residual", marks=pytest.mark.full),
        pytest.param("verilator", "residual, bias", marks=pytest.mark.full),
        pytest.param("verilator", "bias, gelu", marks=pytest.mark.full),
    ],
)
def test_stages(simulator: str, stages: str) -> None:
    """Streams of bias and residual stall by themselves; nothing of them is left after a reset."""
    module = small_layer(**SMALLER, **STAGES[stages])
    assert lint(module) == ""
    count = {"icarus": 3, "verilator": 40}[simulator]
    pairs = random_layers(
        module, 20, count, features=15, samples=9, deepest=10, block=4, specials=0.002
    )
    check_layers(
        simulator,
        module,
        pairs,
        added=random_added(module, 21, pairs),
        stall_in=0.15,
        stall_out=0.2,
        resets_after=range(10, 60, 20),
    )


def test_latency_of_stages() -> None:
    """The latency is the sum of those of the stages, and operands still go in every cycle."""
    parameters = SMALLER | STAGES["bias, relu, residual"]
    module = small_layer(**parameters)
    unit = layer_unit(**parameters | {"rows": 2})
    latencies = [stage.latency for stage in unit.config.stage_units.values()]
    plain = layer_unit(**parameters | {"rows": 2, "stages": ()})
    assert module.latency == plain.latency + sum(latencies)
    pairs = [operands(np.random.default_rng(9), 16, 16, 4, 16)]
    run, _ = check_layers("icarus", module, pairs, added=random_added(module, 22, pairs))
    assert (np.diff(run.taken) == 1).all()
    assert run.left[-1] - run.taken[-1] == module.latency


def test_names_of_stages() -> None:
    """A stage is called by what it does, and layers without stages or with ReLU as before."""
    names = {
        (): "mxsf_layer_none",
        ("activation",): "mxsf_layer",
        ("bias", "activation"): "mxsf_layer_bias_relu",
        ("residual",): "mxsf_layer_residual",
    }
    for stages, name in names.items():
        unit = layer_unit("fp12", stages=stages)
        assert unit.module_name == name
        assert unit.config == layer_unit("fp12", stages="+".join(stages)).config
    assert layer_unit("fp12", activation="none").config == layer_unit("fp12", stages=()).config
    both = layer_unit("fp12", activation="none", stages="bias+activation").config
    assert both == layer_unit("fp12", stages="bias").config


SHORT_BLOCKS: Parameters = {"arithmetic": "exact", "block": 8, "lanes": 4}
"""A layer whose blocks are two beats, of several tests so that it is built once."""


def test_every_ragged_end(volume: Volume) -> None:
    """Any number of features: short lanes, tiles and blocks, and rows that are dropped.

    At the end there are results that only their lowest bits keep from being half way.
    """
    module = small_layer(**SHORT_BLOCKS)
    rng = np.random.default_rng(6)
    pairs = [operands(rng, features, 8, 1 + features % 5, 8) for features in range(1, 26)]
    pairs.append(broken_ties(8))
    for stall in (0.3, 0.0)[: volume(1, 2, 2)]:
        run, _ = check_layers("verilator", module, pairs, stall_out=stall)
        assert len(run.words) == len(pairs)


@pytest.mark.parametrize("block", [8, (8, 4)])
def test_nan(block: Block) -> None:
    """A NaN sample is NaN in every block, a NaN feature in those that it belongs to."""
    module = small_layer(arithmetic="exact", block=block)
    weights, samples = (
        mx.quantize(np.random.default_rng(7).standard_normal(shape), block=8, axis=axis)
        for shape, axis in (((20, 16), -1), ((16, 8), 0))
    )
    weights.scales[10, 1] = samples.scales[0, 5] = 255
    run, _ = check_layers("icarus", module, [(weights, samples)])
    scales = run.beats[0].scales.reshape(2, -1, 4)
    expected = np.zeros(scales.shape, np.bool_)
    expected[:, 4:8] = True  # features 8 to 15, two of them a beat
    expected[1, :, slice(None) if isinstance(block, tuple) else 1] = True
    assert np.array_equal(scales == 255, expected)
    assert not run.beats[0].codes.reshape(2, -1, 4, 2)[expected].any()


@pytest.mark.one_simulator("verilator")
def test_reset_at_any_time(simulator: str, volume: Volume) -> None:
    """Of one cycle or of four; nothing is left of what was in flight."""
    module = small_layer(**SHORT_BLOCKS)
    rng = np.random.default_rng(8)
    pairs = [operands(rng, features, 8, 5, 4) for features in (3, 9, 14)]
    step = {"icarus": volume(8, 3), "verilator": 1}[simulator]
    moments = [*range(3, 40, step), 60, 61]
    check_layers(simulator, module, pairs, stall_in=0.1, stall_out=0.2, resets_after=moments)


@pytest.mark.parametrize(
    "parameters",
    typical(
        [{"block": 16, "arithmetic": "exact"}, {"block": 8}, {"block": (4, 2), "rows": 1}], every=3
    ),
)
def test_latency_and_rate(parameters: Parameters) -> None:
    """Operands go in every cycle, and the last beat leaves as the manifest says."""
    module = small_layer(lanes=4, **parameters)
    pair = operands(np.random.default_rng(9), 32, 64, 8, 64)
    run, _ = check_layers("icarus", module, [pair])
    assert (np.diff(run.taken) == 1).all()
    assert run.left[-1] - run.taken[-1] == module.latency


@pytest.mark.parametrize("size", typical(["default", "most registers", "six rows"], every=3))
def test_tiles_of_one_beat(size: str) -> None:
    """Tiles follow each other as fast as their rows leave, the most that are ever in flight."""
    module = small_layer(**SIZES.get(size, {"lanes": 4, "block": 8}))
    p = module.parameters
    pair = operands(np.random.default_rng(10), 36, p["lanes"], 8, p["lanes"])
    run, _ = check_layers("icarus", module, [pair])
    assert (np.diff(run.taken) == max(p["rows"] * p["row_interval"], p["block_cycles"])).all()


@pytest.mark.one_simulator("verilator")
def test_streams_out_of_step(simulator: str) -> None:
    check_streams_out_of_step(simulator, small_layer(**SHORT_BLOCKS))


def test_blocks_longer_than_the_sums_hold() -> None:
    module = small_layer(arithmetic="exact", block=8)
    run = check_overlong_blocks("icarus", module)
    assert run.overlong.tolist() == [False, False, True, True]


@pytest.mark.full
@pytest.mark.parametrize("name", published(Layer))
def test_full_layer(name: str) -> None:
    """Layers of all sizes, ties in every lane, short tiles, resets, flags."""
    module = published(Layer)[name]
    lanes = module.parameters["pu_rows"] * module.parameters["rows"]
    pairs = random_layers(module, 11, 8, features=90, samples=40, deepest=150, block=64)
    pairs += random_layers(module, 12, 8, features=90, samples=40, deepest=150, block=(8, 8))
    pairs += [broken_ties(64, turn) for turn in range(lanes)]
    resets = {"resets_after": range(5, 200, 13)}
    check_layers("verilator", module, pairs, stall_in=0.1, stall_out=0.15, **resets)
    short = random_layers(module, 13, 8, features=64, samples=40, deepest=8, block=8)
    check_layers("verilator", module, short, stall_out=0.2)
    check_streams_out_of_step("verilator", module)
    if module.parameters["arithmetic"] != "fp12":
        check_overlong_blocks("verilator", module)


test_configurations_that_cannot_work = refused(
    layer_unit,
    [
        (
            {"activation": "exp"},
            "activation must be one of none, relu, gelu, silu, tanh, sigmoid, not 'exp'",
        ),
        (
            {"stages": "bias+gelu"},
            "stages must be some of bias, activation, residual, each once, not 'bias+gelu'",
        ),
        (
            {"stages": ("bias", "bias")},
            "stages must be some of bias, activation, residual, each once, not ('bias', 'bias')",
        ),
        ({"pu_rows": 0}, "pu_rows must be a positive integer, not 0"),
        ({"format": MX_FORMATS["mxint8"]}, INTEGERS),
        ({"accumulators": 2}, "accumulators is not a parameter of layer, but 2 was given"),
        ({"block": 0}, "block must be a positive integer, not 0"),
        ({"block": (8, 3)}, "block must have columns that divide width 16, not 3"),
        (
            {"block": (8, 8, 8)},
            "block must be an integer or a tuple (an integer, an integer) or None, not (8, 8, 8)",
        ),
        (
            {"block": 6},
            "block must have a multiple of lanes 4 along the features with fp12, not 6",
        ),
        (
            {"format": MX_FORMATS["mxfp6_e2m3"], "pu_columns": 1, "columns": 2},
            "pu_columns * columns must make whole bytes of elements of 6 bits, not 2",
        ),
        (
            {"arithmetic": "exact", "format": MX_FORMATS["mxfp8_e5m2"], "block": 1 << 17},
            "block must be at most 65536, not 131072",
        ),
    ],
    arithmetic="fp12",
)


def test_no_layer_without_scales() -> None:
    with raises(ValueError, "arithmetic must be one of fp12, exact, not 'bf16'"):
        Layer(arithmetic=Bf16())
