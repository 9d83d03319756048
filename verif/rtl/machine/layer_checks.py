"""Checks of a layer: operands, and the model's answers to them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe import model
from mxsafe.model.layer import OperandBeats
from verif.rtl.array.array_checks import Block, operands
from verif.rtl.array.array_job import Product
from verif.rtl.machine.layer_job import Added, LayerRun, run_layers
from verif.support.checkers import assert_equal
from verif.support.manifest import Module
from verif.support.stream_job import Job
from verif.support.units import generated, layer_unit


def small_layer(
    folder: Path, fmt: str = "mxsf", format_w: str | None = None, **parameters: Any
) -> Module:
    """A layer of 2x2 units of 2x2 MACs with two lanes, apart from `parameters`, in `folder`."""
    sizes = {"pu_rows": 2, "pu_columns": 2, "rows": 2, "columns": 2, "lanes": 2} | parameters
    other = mx.MX_FORMATS[format_w] if format_w else None
    arithmetic = sizes.pop("arithmetic", "fp12")
    unit = layer_unit(arithmetic, mx.MX_FORMATS[fmt], format_w=other, **sizes)
    return generated(unit, folder)


def random_layers(
    module: Module,
    seed: int,
    count: int,
    *,
    features: int,
    samples: int,
    deepest: int,
    block: Block = 8,
    specials: float = 0.0,
) -> list[Product]:
    """Operands of random shapes up to those given, NaN and extreme scales included."""
    rng = np.random.default_rng(seed)
    return [
        operands(
            rng,
            int(rng.integers(1, features + 1)),
            int(rng.integers(1, deepest + 1)),
            int(rng.integers(1, samples + 1)),
            block,
            module.format,
            result_format(module),
            specials=specials,
        )
        for _ in range(count)
    ]


def broken_ties(block: int, turn: int = 0) -> Product:
    """Results half way between two numbers of MXSF, each but one with a single low bit more.

    Every bit of binary32 that rounding only asks whether it is 0 decides one of them: that of
    another feature with each `turn`.
    """
    lowest = range(7, 24)
    features = len(lowest) + 1
    weights, samples = np.zeros((features, 2 * block)), np.zeros((2 * block, 16))
    weights[:, :2] = samples.T[:, :2] = 1.0, 2.0**-3
    weights[:-1, block] = np.exp2(-np.array(lowest, np.float64))
    samples[block] = 1.0
    weights = np.roll(weights, turn, axis=0)
    pair = (mx.quantize(weights, block=block), mx.quantize(samples, block=block, axis=0))
    sums = mx.matmul(*pair, arithmetic="exact")
    assert (sums == (1 + 2.0**-6 + weights[:, block : block + 1])).all()
    return pair


def random_added(module: Module, seed: int, pairs: Sequence[Product]) -> list[Added]:
    """Return operands for a layer's stages: of the size of results, and now and then special.

    Empty if there is no such stage.
    """
    rng = np.random.default_rng(seed)
    stages = [name for name in module.parameters["stages"] if name != "activation"]
    p = module.parameters
    added: list[Added] = []
    for weights, samples in pairs if stages else ():
        product = mx.matmul(weights, samples, arithmetic=p["arithmetic"], lanes=p["lanes"])
        finite = np.abs(product[np.isfinite(product)], dtype=np.float64)
        size = min(np.median(finite), 1e30) if finite.size else 1.0
        numbers: dict[str, NDArray[np.float32]] = {}
        for name in stages:
            shape = product.shape if name == "residual" else product.shape[:1]
            values = (rng.standard_normal(shape) * size).astype(np.float32)
            kinds = np.array([0.0, -0.0, np.nan, np.inf, 1e-40], np.float32)
            rare = rng.random(shape) < 0.02
            numbers[name] = np.where(rare, rng.choice(kinds, shape), values)
        added.append(numbers)
    return added


def result_block(module: Module) -> tuple[int, int]:
    """Blocks of a layer's results."""
    features, samples = module.parameters["result_block"]
    return features, samples


def result_format(module: Module) -> str:
    """Format of a layer's samples and results."""
    return str(module.parameters["formats"]["w"]["name"])


def expected_beats(module: Module, pair: Product, added: Added) -> OperandBeats:
    """The model's answer to a pair of operands."""
    p = module.parameters
    return model.layer_beats(
        *pair,
        activation=p["activation"],
        **added,
        stages=p["stages"],
        block=result_block(module),
        arithmetic=p["arithmetic"],
        columns=p["pu_columns"] * p["columns"],
        lanes=p["lanes"],
    )


def _activated(function: str, x: Any, _: object) -> Any:
    """ReLU in floats; other functions as the model has them."""
    return np.where(x < 0, 0, x) + 0.0 if function == "relu" else model.activate(x, function)


_STAGES: dict[str, Callable[[str, Any, Any], Any]] = {
    "bias": lambda function, x, numbers: x + numbers[:, None],
    "activation": _activated,
    "residual": lambda function, x, numbers: x + numbers,
}


def compare_beats(
    module: Module, got: OperandBeats, pair: Product, added: Added | None = None
) -> int:
    """Every bit of the beats is the model's, and they are its tensor; returns how many codes."""
    expected = expected_beats(module, pair, added or {})
    index = np.arange(len(expected))
    for name in ("codes", "scales", "block_last", "last"):
        known, came = (
            getattr(beats, name).reshape(len(beats), -1).astype(np.int64)
            for beats in (expected, got)
        )
        assert_equal(f"{module.name} {name}", came, known, beat=index)
    p = module.parameters
    options = {"arithmetic": p["arithmetic"], "lanes": p["lanes"]}
    result = mx.matmul(*pair, **options)
    for name in p["stages"]:
        with np.errstate(all="ignore"):
            result = _STAGES[name](p["activation"], result, (added or {}).get(name))
    reference = mx.quantize(result, result_format(module), block=result_block(module))
    tensor = model.operand_tensor(
        got, reference.shape, result_format(module), block=result_block(module)
    )
    assert_equal("scales of the tensor", tensor.scales, reference.scales)
    return assert_equal("codes of the tensor", tensor.codes, reference.codes)


def check_layers(
    simulator: str,
    module: Module,
    pairs: Sequence[Product],
    *,
    added: Sequence[Added] = (),
    **options: Any,
) -> tuple[LayerRun, int]:
    """Layers come out as the model has them, nothing is flagged; returns the run and the codes."""
    run = run_layers(simulator, module, pairs, added=added, **options)
    codes = sum(
        compare_beats(module, got, pair, numbers)
        for got, pair, numbers in zip(run.beats, pairs, added or [{}] * len(pairs), strict=True)
    )
    assert not run.out_of_step.any()
    assert not run.overlong.any()
    return run, codes


def check_streams_out_of_step(simulator: str, module: Module) -> None:
    """A tile whose ends differ is flagged, from its first beat with results on, while they stall.

    What is on its way out before it may be flagged too.
    """
    rows, columns, lanes = _sizes(module)
    pairs = [
        operands(np.random.default_rng(seed), 2 * rows, 2 * lanes, columns, 2 * lanes)
        for seed in (1, 2, 3)
    ]

    def slip(job: Job) -> None:
        """Let the first tile of the second pair have no end in the other stream."""
        ends = np.flatnonzero(job["s_axis_w_tlast"])
        job["s_axis_w_tlast"][ends[2]] = 0

    run = run_layers(simulator, module, pairs, alter=slip, stall_out=0.3)
    beats = len(run.words[0])
    assert len(run.out_of_step) == 3 * beats
    assert run.out_of_step[beats:].all()
    assert not run.overlong.any()


def check_overlong_blocks(simulator: str, module: Module) -> LayerRun:
    """The second of two tiles has a block longer than sums hold: it is flagged.

    What is on its way out before it may be flagged too.
    """
    rows, columns, _ = _sizes(module)
    port, block = module.ports["s_axis_a_tuser"], module.parameters["block"]
    pairs = [
        operands(np.random.default_rng(seed), rows, 2 * block, columns, block) for seed in (1, 2)
    ]
    block_last = [name for name, _, _ in port.fields].index("block_last")

    def join(job: Job) -> None:
        """Let the first block of the second pair go on into the one after it."""
        flags = port.split(job["s_axis_a_tuser"])
        ends = np.flatnonzero(flags[:, block_last])
        flags[ends[2], block_last] = 0
        job["s_axis_a_tuser"] = port.join(flags)

    run = run_layers(simulator, module, pairs, alter=join)
    beats = len(run.words[0])
    assert len(run.overlong) == 2 * beats > 0
    assert run.overlong[beats:].all()
    assert not run.out_of_step.any()
    return run


def _sizes(module: Module) -> tuple[int, int, int]:
    """Rows and columns of the array, and lanes of its MACs."""
    p = module.parameters
    return p["pu_rows"] * p["rows"], p["pu_columns"] * p["columns"], p["lanes"]
