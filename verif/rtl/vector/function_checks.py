"""Checks of units of functions: arguments of all classes, and the models' answers."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from mxsafe.model.functions import FUNCTIONS
from mxsafe.rtl.vector.activation import Activation, ActivationConfiguration
from mxsafe.rtl.vector.function_lane import FunctionLane, FunctionLaneConfiguration
from mxsafe.rtl.vector.vector_function import VectorFunction
from mxsafe.tables import Grade
from verif.support.checkers import assert_equal
from verif.support.farm import farm_of, in_parallel, run_farm
from verif.support.manifest import Module
from verif.support.simulators import lint, run_lockstep
from verif.support.stream_job import check_stream
from verif.support.units import generated

COPIES = 64
"""Of a combinational lane in a simulation."""

Words = NDArray[np.uint32]

_LOW = (0, 1, 15, 16, 31, 32, 511, 512, 1 << 18, (1 << 18) + 1)
"""Low bits of mantissas, next to where tables cut them, and few bits."""


def bfloat16_arguments(every: int = 1) -> Words:
    """Numbers of bfloat16, all or one of so many, as binary32."""
    return np.arange(every // 2, 1 << 16, every, dtype=np.uint32) << np.uint32(16)


def arguments(rng: np.random.Generator, count: int) -> Words:
    """Every exponent of either sign with mantissas next to borders, and so many random words.

    Half of these are of the sizes that tables have segments for.
    """
    steps = np.arange(1 << 5, dtype=np.uint32) << np.uint32(18)
    mantissas = np.concatenate([np.array(_LOW, np.uint32), steps - np.uint32(1), steps])
    mantissas = np.unique(mantissas & np.uint32(0x7FFFFF))
    fields = np.arange(512, dtype=np.uint32) << np.uint32(23)
    borders = (fields[:, None] | mantissas).ravel()
    return np.concatenate([borders, random_arguments(rng, count)])


def random_arguments(rng: np.random.Generator, count: int) -> Words:
    """Random words, half of them of the sizes that tables have segments for."""
    words = rng.integers(0, 1 << 32, count, np.uint32)
    fields = rng.integers(105, 136, count, np.uint32) << np.uint32(23)
    sized = words & np.uint32(0x807FFFFF) | fields
    return np.where(rng.random(count) < 0.5, words, sized)


def expected_words(name: str, words: Words, grade: Grade) -> NDArray[np.int64]:
    """Bits of the model's results."""
    return FUNCTIONS[name](words.view(np.float32), grade).view(np.uint32).astype(np.int64)


def expected_of(
    lanes: FunctionLaneConfiguration | ActivationConfiguration,
    codes: NDArray[np.int64],
    words: Words,
) -> NDArray[np.int64]:
    """Bits of the model's results, of a function for each argument."""
    expected = np.empty(words.shape, np.int64)
    for code, name in enumerate(lanes.names):
        expected[codes == code] = expected_words(name, words[codes == code], lanes.grade)
    return expected


def check_lane(simulator: str, lane: FunctionLane, count: int, every: int) -> int:
    """A combinational lane, all its functions on numbers of bfloat16, next to borders, and random.

    Many copies share a row of the stimulus.
    """
    farm = in_parallel(generated(lane), COPIES)
    names = lane.config.names
    rng = np.random.default_rng(21)
    one = np.concatenate([bfloat16_arguments(every), arguments(rng, count)])
    total = -(-one.size * len(names) // COPIES) * COPIES
    words = np.resize(np.tile(one, len(names)), total)
    codes = np.resize(np.repeat(np.arange(len(names)), one.size), total)
    chosen = farm.ports["chosen"].join((1 << codes).reshape(-1, COPIES))
    stimulus = {"chosen": chosen, "value": words.view(np.uint8).reshape(-1, 4 * COPIES)}
    log = run_lockstep(simulator, farm, stimulus)
    got = log["result"].reshape(-1).view(np.uint32).astype(np.int64)
    expected = expected_of(lane.config, codes, words)
    return assert_equal("+".join(names), got, expected, word=words, function=codes)


def check_stages(simulator: str, lanes: Mapping[str, Activation], count: int) -> None:
    """Units of one lane with registers side by side, stalled now and then, a function a row."""
    farm = farm_of(f"lanes_{simulator}", lanes)
    rng = np.random.default_rng(22)
    en = (rng.random(count) < 0.8).astype(np.int64)
    inputs, operands = {}, {}
    for key, lane in lanes.items():
        words, codes = random_arguments(rng, count), rng.integers(0, len(lane.config.names), count)
        operands[key] = words, codes
        ports = farm.modules[key].ports
        inputs[f"{key}.values"] = ports["values"].words(words)
        if "code" in ports:
            inputs[f"{key}.code"] = ports["code"].words(codes)
    # Data registers are not reset: at first they hold nothing.
    most = max(lane.latency for lane in lanes.values())
    unsettled = int(np.flatnonzero(np.cumsum(en) >= most)[0]) + 1 if most else 0
    rst = np.zeros(count, np.int64)
    log = run_farm(simulator, farm, inputs, en, rst, unsettled=unsettled)
    for key, lane in lanes.items():
        words, codes = operands[key]
        expected = expected_of(lane.config, codes, words)
        source = source_rows(en, lane.latency)
        settled = source >= 0
        got = farm.modules[key].ports["results"].numbers(log[key]["results"])[settled]
        at = source[settled]
        assert_equal(key, got, expected[at], word=words[at], function=codes[at])


def source_rows(en: NDArray[np.int64], latency: int) -> NDArray[np.int64]:
    """For each row, the row whose operands come out in it after so many enabled cycles; or -1."""
    if latency == 0:
        return np.arange(len(en))
    accepted = np.flatnonzero(en)
    place = np.concatenate([[0], np.cumsum(en)[:-1]]) - latency
    return np.where(place >= 0, accepted[np.maximum(place, 0)], -1)


def lanes_are_clean(lanes: Sequence[FunctionLane]) -> None:
    """Verilator finds nothing in their Verilog."""
    for lane in lanes:
        assert lint(generated(lane)) == ""


def check_beats(
    simulator: str,
    unit: VectorFunction,
    module: Module,
    beats: Words,
    codes: NDArray[np.int64],
    *,
    stall: float,
    resets_after: Sequence[int] = range(1, 16),
    still: bool = False,
) -> int:
    """Rows of numbers, a function for each, with resets before; packets have many lengths."""
    rng, count = np.random.default_rng(41), len(beats)
    last = rng.random(count) < 0.1
    last[-1] = True
    along = rng.integers(0, 1 << unit.config.user_bits, count)
    job = {"s_axis_tdata": beats, "s_axis_tlast": last}
    if "s_axis_tuser" in module.ports:
        fields = {"function": codes, "along": along}
        values = [fields[name] for name, _, _ in module.ports["s_axis_tuser"].fields]
        job["s_axis_tuser"] = np.stack(values, axis=1)
    spread = np.repeat(codes, beats.shape[1])
    results = expected_of(unit.config.lanes, spread, beats.reshape(-1))
    streamed = check_stream(
        simulator,
        module,
        job,
        {"m_axis_tdata": results.reshape(beats.shape), "m_axis_tlast": last}
        | ({"m_axis_tuser": along} if unit.config.user_bits else {}),
        stall_in=stall,
        stall_out=stall,
        still=still,
        resets_after=resets_after if stall else (),
    )
    if not stall:
        assert (np.diff(streamed.taken) == 1).all()
        assert (streamed.left - streamed.taken == module.latency).all()
    return results.size
