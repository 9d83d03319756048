"""Stimuli of vector units from real numbers: an addition to `studies.activity`.

The numbers are those that enter the functions of the first layer of MiniLM
(`verif.data.minilm.load_vectors`). A unit between streams is simulated for the cycles in
which it takes beats; there is always one on offer, and every result is taken.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxsafe.model.softmax import softmax_factor
from mxsafe.rtl.arithmetic.float32_multiplier import Float32Multiplier
from mxsafe.rtl.stream.block_converter import BlockConverter
from mxsafe.rtl.stream.row_replay import RowReplay
from mxsafe.rtl.unit import Unit
from mxsafe.rtl.vector.activation import Activation
from mxsafe.rtl.vector.normalise import Normalise
from mxsafe.rtl.vector.rows import Rows as RowsOfAll
from mxsafe.rtl.vector.softmax import Softmax
from mxsafe.rtl.vector.vector_arithmetic import VectorArithmetic
from mxsafe.rtl.vector.vector_function import VectorFunction
from mxsafe.synthesis.power import RESET, Stimulus
from verif.data import minilm
from verif.support.manifest import Module, Words
from verif.support.stream_job import Job, Streamed, run_stream
from verif.support.units import generated

Floats = NDArray[np.float32]

ROW_BEATS: Mapping[str, int] = {"lanes": 21, "beats": 56}
"""Beats of a row of attention scores: all heads of a token along lanes, two of them along beats."""
_ROWS = 8
"""Rows that go in: one fills the unit, and there are always others on offer."""
_CLOCKED = ("clk", "rst")
_COUNTED = 4
"""Rows that count at least, if there are as many."""
_LEAST = 64
"""Cycles that count at least, of whole rows."""


def _clocks(width: int) -> int:
    """Cycles that count, of so many lanes without rows."""
    return max(96, 256 // width)


def _words(numbers: Floats, lanes: int) -> Words:
    """Numbers as beats."""
    rows = np.ascontiguousarray(numbers, np.float32).reshape(-1, lanes)
    return rows.view(np.uint8).reshape(len(rows), -1)


@dataclass(frozen=True)
class Rows:
    """Rows for a unit between streams.

    Attributes
    ----------
    job : dict
        Words of its streams.
    apart : tuple of str
        Streams that it takes when it wants to.
    steady : Mapping
        Values of pins that belong to no stream.
    passes : int
        Packets that come out for one that goes in.
    numbers : int
        Numbers that a beat of results stands for.
    """

    job: Job
    numbers: int
    apart: tuple[str, ...] = ()
    steady: Mapping[str, int] = field(default_factory=dict)
    passes: int = 1


def _last(module: Module, rows: int, beats: int) -> dict[str, Words]:
    ends = np.arange(rows * beats) % beats == beats - 1
    return {"s_axis_tlast": module.ports["s_axis_tlast"].words(ends)}


def _attention(unit: Softmax | RowsOfAll, module: Module) -> Rows:
    """Scores of tokens, those of several heads one after the other in a row."""
    config, data = unit.config, minilm.load_vectors()
    along = config.along if isinstance(unit, Softmax) else "beats"
    beats = min(ROW_BEATS[along], config.depth // 2)
    tokens = data.scores.transpose(1, 0, 2).reshape(len(data.scores[0]), -1)
    if along == "lanes":
        length = beats * config.lanes
        scores = tokens[:_ROWS, :length].reshape(-1, config.lanes)
    else:
        length = beats
        # Row after row in the lanes, and the tokens from the first on when there are no more.
        side = np.resize(np.arange(len(tokens)), (_ROWS, config.lanes))
        scores = tokens[side][:, :, :length].transpose(0, 2, 1).reshape(-1, config.lanes)
    controls = [int(softmax_factor(float(data.scale)).view(np.uint32)), length]
    controls += [0] * (along == "beats")
    return Rows(
        job={
            "s_axis_tdata": _words(scores, config.lanes),
            **_last(module, _ROWS, beats),
            "s_axis_tuser": module.ports["s_axis_tuser"].join(
                np.tile(np.array(controls, np.int64), (len(scores), 1))
            ),
        },
        numbers=config.lanes,
        steady={"is_softmax": 1} if "is_softmax" in module.ports else {},
    )


def _states(unit: Normalise, module: Module) -> Rows:
    """Hidden states of tokens, with the gains and biases of the layer."""
    config, data = unit.config, minilm.load_vectors()
    along = config.along == "lanes"
    width = data.hidden.shape[1]
    beats = min(width // config.lanes if along else 2 * width // config.lanes, config.depth)
    length = beats * config.lanes if along else beats
    if along:
        hidden = data.hidden[:_ROWS, :length].reshape(-1, config.lanes)
    else:
        side = np.resize(np.arange(len(data.hidden)), (_ROWS, config.lanes))
        hidden = data.hidden[side][:, :, :length].transpose(0, 2, 1).reshape(-1, config.lanes)
    job: Job = {"s_axis_tdata": _words(hidden, config.lanes), **_last(module, _ROWS, beats)}
    span = config.lanes if along else 1
    apart = []
    for name, there in (("gain", config.gain), ("bias", config.bias)):
        if there:
            factors = np.tile(getattr(data, name)[:length], _ROWS)
            job[f"s_axis_{name}_tdata"] = _words(factors, span)
            apart.append(f"s_axis_{name}")
    epsilon = int(np.float32(data.epsilon).view(np.uint32))
    steady = {"epsilon": epsilon, **({"centred": 1} if config.optional else {})}
    return Rows(job=job, apart=tuple(apart), steady=steady, numbers=config.lanes)


def _tokens(lanes: int) -> tuple[Floats, Floats, int]:
    """States of tokens as beats, those of the next token beside them, and beats of a token."""
    hidden = minilm.load_vectors().hidden
    beats = hidden.shape[1] // lanes
    rows = max(_COUNTED + 2, -(-3 * _LEAST // beats))
    tokens = np.resize(np.arange(len(hidden)), rows + 1)
    states = hidden[tokens].reshape(rows + 1, beats, lanes)
    return (
        states[:-1].reshape(-1, lanes),
        states[1:].reshape(-1, lanes),
        beats,
    )


def _replayed(unit: RowReplay, module: Module) -> Rows:
    """States of tokens, each of them a row."""
    lanes = unit.config.beat_bits // 32
    states, _, beats = _tokens(lanes)
    beats = min(beats, unit.config.depth // 2)
    states = states[: 2 * _ROWS * beats]
    return Rows(
        job={
            "s_axis_tdata": _words(states, lanes),
            **_last(module, len(states) // beats, beats),
            "s_axis_tuser": module.ports["s_axis_tuser"].words(np.zeros(len(states), np.int64)),
        },
        passes=unit.config.passes,
        numbers=lanes,
    )


def _user(module: Module, beats: int, fields: Mapping[str, int]) -> Job:
    """The same fields beside every beat, others 0; nothing where a unit has no choice."""
    port = module.ports.get("s_axis_tuser")
    if port is None:
        return {}
    values = [fields.get(name, 0) for name, _, _ in port.fields]
    return {"s_axis_tuser": port.join(np.tile(np.array(values, np.int64), (beats, 1)))}


def _multiples(unit: VectorArithmetic, module: Module) -> Rows:
    """The states of a token times the attention's scale, plus those of the next, or another."""
    config = unit.config
    states, others, beats = _tokens(config.lanes)
    factor = int(np.float32(minilm.load_vectors().scale).view(np.uint32))
    operation = "axpy" if "axpy" in config.operations else config.operations[0]
    values = {"operation": config.operations.index(operation), "factor": factor}
    return Rows(
        job={
            "s_axis_tdata": _words(states, config.lanes),
            **_last(module, len(states) // beats, beats),
            **_user(module, len(states), values),
            "s_axis_operand_tdata": _words(others, config.lanes),
        },
        # A unit takes an addend a few cycles after the beat that it is added to.
        apart=("s_axis_operand",),
        numbers=config.lanes,
    )


def _gelu(unit: VectorFunction, module: Module) -> Rows:
    """Return the inputs of the layer's GELU."""
    config = unit.config.lanes
    values = minilm.load_vectors().preactivations.reshape(-1, config.width)
    values = values[: _ROWS * _LEAST // 2]
    function = config.names.index("gelu" if "gelu" in config.names else config.names[0])
    job = {
        "s_axis_tdata": _words(values, config.width),
        **_last(module, 2 * len(values) // _LEAST, _LEAST // 2),
        **_user(module, len(values), {"function": function}),
    }
    return Rows(job=job, numbers=config.width)


def _blocks(unit: BlockConverter, module: Module) -> Rows:
    """States of tokens side by side, in blocks down the lanes if it has those."""
    config, hidden = unit.config, minilm.load_vectors().hidden
    side = np.resize(np.arange(len(hidden)), (_ROWS, config.width))
    states = hidden[side][:, :, : config.block].transpose(0, 2, 1).reshape(-1, config.width)
    steady = {"tiles": int(config.shapes[0] == "tiles")} if len(config.shapes) > 1 else {}
    return Rows(
        job={"s_axis_tdata": _words(states, config.width), **_last(module, _ROWS, config.block)},
        steady=steady,
        numbers=config.width,
    )


_STREAMS: Mapping[type[Unit[Any]], Callable[[Any, Module], Rows]] = {
    Softmax: _attention,
    RowsOfAll: _attention,
    Normalise: _states,
    RowReplay: _replayed,
    VectorArithmetic: _multiples,
    VectorFunction: _gelu,
    BlockConverter: _blocks,
}
VECTOR_UNITS: tuple[type[Unit[Any]], ...] = (Activation, Float32Multiplier, *_STREAMS)
"""Units that there are real numbers for."""


def stimulus(unit: Unit[Any]) -> Stimulus | None:
    """Return the stimulus of one of `VECTOR_UNITS`; None without registers."""
    if not unit.config.clocked:
        return None
    if isinstance(unit, Activation):
        return _of_activation(unit)
    if isinstance(unit, Float32Multiplier):
        return _of_multiplier(unit)
    module = generated(unit)
    rows = _STREAMS[type(unit)](unit, module)
    rows = replace(rows, steady={**_idle(module), **rows.steady})
    streamed = run_stream(
        "icarus",
        module,
        rows.job,
        apart=rows.apart,
        clocks=4 * len(rows.job["s_axis_tlast"]) + 2 * _ROWS * module.latency,
        probe=(int(np.flatnonzero(rows.job["s_axis_tlast"])[0]) + 1, rows.passes),
        steady=rows.steady,
    )
    return _of_streams(module, rows, streamed)


def _idle(module: Module) -> dict[str, int]:
    """Input pins beside streams, clock and reset, all 0: rows are whole ones."""
    return {
        port.name: 0
        for port in module.ports.values()
        if port.direction == "input" and "_axis" not in port.name and port.name not in _CLOCKED
    }


def _of_streams(module: Module, rows: Rows, streamed: Streamed) -> Stimulus:
    """Beats on the pins until they are taken, from the end of the first row's results on."""
    start = int(streamed.taken[0])
    ends = streamed.left[streamed.words["m_axis_tlast"][:, 0] == 1][rows.passes - 1 :: rows.passes]
    taken = {
        name: streamed.taken_apart.get(name.rsplit("_", 1)[0], streamed.taken) for name in rows.job
    }
    first = int(ends[0])
    # Only cycles in which there is a beat on offer everywhere, and whole rows of results.
    offered = min(int(clocks[-1]) for clocks in taken.values())
    later = ends[(ends > first) & (ends <= offered)]
    counted = min(max(_COUNTED, 1 + int(np.searchsorted(later, first + _LEAST))), len(later))
    end = int(later[counted - 1])
    count = RESET + end + 1 - start
    pins: dict[str, Words] = {}
    for name, words in rows.job.items():
        # Beat k is on offer until it is taken.
        index = np.searchsorted(taken[name] - start, np.arange(count - RESET))
        pins[name] = np.concatenate([np.repeat(words[:1], RESET, axis=0), words[index]])
        pins[f"{name.rsplit('_', 1)[0]}_tvalid"] = np.ones((count, 1), np.uint8)
    for name, value in {"m_axis_tready": 1, **rows.steady}.items():
        port = module.ports[name]
        pins[name] = port.words(np.full(count, value, np.int64))
    beats = int(((streamed.left > first) & (streamed.left <= end)).sum())
    return Stimulus(
        rows=pins,
        skipped=RESET + first + 1 - start,
        results=beats * rows.numbers // rows.passes,
        windows=counted,
    )


def _of_activation(unit: Activation) -> Stimulus:
    """Return the inputs of the layer's GELU, a beat every cycle."""
    config = unit.config
    width = config.width
    skipped = RESET + unit.latency + 1
    values = minilm.load_vectors().preactivations.reshape(-1)
    count = min(_clocks(width), len(values) // width - skipped)
    rows = {"values": _words(values[: (count + skipped) * width], width)}
    if config.code_bits:
        name = "gelu" if "gelu" in config.names else config.names[0]
        code = np.full((count + skipped, 1), config.names.index(name), np.uint8)
        rows["code"] = code
    rows["en"] = np.ones((count + skipped, 1), np.uint8)
    return Stimulus(rows=rows, skipped=skipped, results=count * width)


def _of_multiplier(unit: Float32Multiplier) -> Stimulus:
    """States of a token times the gains of the layer."""
    data = minilm.load_vectors()
    skipped = RESET + unit.latency + 1
    count = min(_clocks(1), len(data.gain) - skipped)
    total = count + skipped
    rows = {"a": _words(data.hidden[0, :total], 1), "b": _words(data.gain[:total], 1)}
    en = np.ones((total, 1), np.uint8)
    return Stimulus(rows={**rows, "en": en}, skipped=skipped, results=count)
