"""Checks of a layer: operands, and the model's answers to them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe import model
from mxsafe.model.layer import LayerSchedule, OperandBeats, bias_beats, residual_beats
from verif.rtl.array.array_checks import Block, operands
from verif.rtl.array.array_job import Product
from verif.support.checkers import assert_equal
from verif.support.manifest import Module, Port, Words
from verif.support.stream_job import Job, Streamed, run_stream
from verif.support.units import generated, layer_unit

Added = Mapping[str, NDArray[np.float32]]
"""Operands of a layer's stages: ``bias`` of shape (features,), ``residual`` (features, samples)."""


@dataclass(frozen=True)
class LayerRun:
    """Results of a layer for a list of operands.

    Attributes
    ----------
    beats : list of OperandBeats
        For each pair of operands its strips.
    words : list of ndarray of uint8
        The same as the bytes that were on ``m_axis_tdata``.
    out_of_step, overlong : ndarray of bool
        The flags of every beat.
    taken, left : ndarray of int
        Cycles in which beats went in and came out.
    """

    beats: list[OperandBeats]
    words: list[Words]
    out_of_step: NDArray[np.bool_]
    overlong: NDArray[np.bool_]
    taken: NDArray[np.int64]
    left: NDArray[np.int64]


def layer_schedule(
    module: Module, weights: mx.QuantizedTensor, samples: mx.QuantizedTensor
) -> LayerSchedule:
    """The schedule of operands on the layer that a module is."""
    p = module.parameters
    return LayerSchedule(
        weights,
        samples,
        arithmetic=p["arithmetic"],
        rows=p["pu_rows"] * p["rows"],
        columns=p["pu_columns"] * p["columns"],
        lanes=p["lanes"],
        longest_block=p.get("block"),
    )


def replayed(words: Words, last: NDArray[np.bool_], times: int) -> Words:
    """Beats of strips as a memory shows them: every strip so many times, one after the other."""
    strips = np.split(words, np.flatnonzero(last)[:-1] + 1)
    return np.concatenate([strip for strip in strips for _ in range(times)])


def _fields(codes: NDArray[np.uint8], scales: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.concatenate([codes.reshape(len(codes), -1), scales], axis=1)


def _job(module: Module, schedules: Sequence[LayerSchedule]) -> Job:
    """Beats of schedules, one after the other, with noise in all that the layer does not read."""
    ports = module.ports
    parts: dict[str, list[Words]] = {}
    rng = np.random.default_rng(0)
    for schedule in schedules:
        for tile, strip_last in zip(schedule, schedule.strip_last, strict=True):
            a_codes, a_scales = tile.a_codes.copy(), tile.a_scales.copy()
            if strip_last:
                no_features = np.s_[:, schedule.last_row + 1 :]
                _fill_with_noise(rng, a_codes[no_features], _code_bits(ports["s_axis_a_tdata"]))
                _fill_with_noise(rng, a_scales[no_features], 8)
            # `strip_last` counts in the last beat of a tile, `last_row` in that of a strip.
            last = tile.last
            may_end = np.where(last, strip_last, rng.integers(0, 2, len(last)))
            rows = rng.integers(0, a_codes.shape[1], len(last))
            last_row = np.where(last & strip_last, schedule.last_row, rows)
            flags = np.stack([tile.first, tile.block_last, may_end, last_row], axis=1)
            w_fields = _fields(tile.w_codes, tile.w_scales)
            for name, words in {
                "s_axis_a_tdata": ports["s_axis_a_tdata"].join(_fields(a_codes, a_scales)),
                "s_axis_a_tlast": ports["s_axis_a_tlast"].words(last),
                "s_axis_a_tuser": ports["s_axis_a_tuser"].join(flags),
                "s_axis_w_tdata": ports["s_axis_w_tdata"].join(w_fields),
                "s_axis_w_tlast": ports["s_axis_w_tlast"].words(last),
            }.items():
                parts.setdefault(name, []).append(words)
    return {name: np.concatenate(words) for name, words in parts.items()}


def _code_bits(port: Port) -> int:
    """Bits of an element's code."""
    _, _, width = port.fields[0]
    return width


def _fill_with_noise(rng: np.random.Generator, numbers: NDArray[np.uint8], bits: int) -> None:
    numbers[...] = rng.integers(0, 1 << bits, numbers.shape, np.uint8)


def _added_job(module: Module, schedules: Sequence[LayerSchedule], added: Sequence[Added]) -> Job:
    """Beats of what stages add."""
    p = module.parameters
    columns = p["pu_columns"] * p["columns"]
    parts: dict[str, list[Words]] = {}
    for schedule, numbers in zip(schedules, added, strict=True):
        for name, values in numbers.items():
            if name == "bias":
                beats, last = bias_beats(values, schedule.shape[1], columns=columns)
                port = module.ports["s_axis_bias_tuser"]
                parts.setdefault(port.name, []).append(port.words(last))
            else:
                beats = residual_beats(values, columns=columns)
            words = beats.view(np.uint8).reshape(len(beats), -1)
            parts.setdefault(f"s_axis_{name}_tdata", []).append(words)
    return {name: np.concatenate(words) for name, words in parts.items()}


def run_layers(
    simulator: str,
    module: Module,
    operands: Sequence[tuple[mx.QuantizedTensor, mx.QuantizedTensor]],
    *,
    added: Sequence[Added] = (),
    alter: Callable[[Job], None] = lambda job: None,
    **options: Any,
) -> LayerRun:
    """Send operands through a layer, one pair after the other, until nothing comes out any more.

    Parameters
    ----------
    added : sequence of Added
        For each of them what the layer's stages add, if it has such.
    alter : callable
        Called with the job before it runs, to change it in place; the number of beats stays.
    """
    schedules = [layer_schedule(module, *pair) for pair in operands]
    job = _job(module, schedules)
    alter(job)
    job |= (apart := _added_job(module, schedules, added) if added else {})
    p = module.parameters
    clocks = len(job["s_axis_a_tdata"]) * p["block_cycles"] + sum(
        s.tiles for s in schedules
    ) * 2 * (p["pu_rows"] * p["rows"] * p["row_interval"])
    streamed = run_stream(
        simulator,
        module,
        job,
        apart=sorted({name.rsplit("_", 1)[0] for name in apart}),
        clocks=clocks,
        probe=(sum(len(tile) for tile in schedules[0]), schedules[0].grid[1]),
        **options,
    )
    return _received(module, schedules, streamed)


def _received(module: Module, schedules: Sequence[LayerSchedule], streamed: Streamed) -> LayerRun:
    """Return the results on the pins, each strip with the operands it belongs to."""
    words = streamed.words["m_axis_tdata"]
    p, port = module.parameters, module.ports["m_axis_tdata"]
    columns, lanes = p["pu_columns"] * p["columns"], p["lanes"]
    fields = port.split(words).astype(np.uint8)
    codes = fields[:, : columns * lanes].reshape(-1, columns, lanes)
    scales = fields[:, columns * lanes :]
    last = streamed.words["m_axis_tlast"][:, 0].astype(bool)
    flags = module.ports["m_axis_tuser"].split(streamed.words["m_axis_tuser"]).astype(bool)
    ends = np.flatnonzero(last) + 1
    strips = [schedule.grid[1] for schedule in schedules]
    assert len(ends) == sum(strips), f"{len(ends)} strips came out for {sum(strips)}"
    assert ends[-1] == len(words), "beats followed the last strip"
    stops = ends[np.cumsum(strips) - 1]
    parts = [slice(start, stop) for start, stop in zip([0, *stops[:-1]], stops, strict=True)]
    return LayerRun(
        [OperandBeats(codes[s], scales[s], flags[s, 0], last[s]) for s in parts],
        [words[s] for s in parts],
        flags[:, 1],
        flags[:, 2],
        streamed.taken,
        streamed.left,
    )


def small_layer(fmt: str = "mxsf", format_w: str | None = None, **parameters: Any) -> Module:
    """A layer of 2x2 units of 2x2 MACs with two lanes, apart from `parameters`, in `folder`."""
    sizes = {"pu_rows": 2, "pu_columns": 2, "rows": 2, "columns": 2, "lanes": 2} | parameters
    other = mx.MX_FORMATS[format_w] if format_w else None
    arithmetic = sizes.pop("arithmetic", "fp12")
    unit = layer_unit(arithmetic, mx.MX_FORMATS[fmt], format_w=other, **sizes)
    return generated(unit)


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
