"""VECTOR descriptors against the models of single rows, and against float64."""

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mxsafe as mx
from mxsafe import model
from mxsafe.machine.assembler import Assembler, Instruction
from mxsafe.machine.configuration import FUNCTIONS, MachineConfiguration
from mxsafe.machine.description import FOLLOWING
from mxsafe.machine.layout import OperandLayout, unpacked_words
from mxsafe.model.machine import Machine
from mxsafe.model.softmax import softmax_factor
from mxsafe.tables import GRADES, Grade
from verif.machine.machine_sizes import ROWS, machine_of

Floats = np.ndarray[Any, np.dtype[np.float32]]
NOTHING = np.zeros(0, np.uint8)
SIZES = [machine_of(rows, bank_beats=256) for rows in ROWS]
sizes = pytest.mark.parametrize("configuration", SIZES, ids=map(str, ROWS))


def filled(configuration: MachineConfiguration, seed: int = 1) -> tuple[Machine, Floats]:
    """A machine with normal numbers in its vector buffer, and a copy of them."""
    machine = Machine(configuration)
    shape = machine.buffers.vector.shape
    values = np.random.default_rng(seed).normal(size=shape).astype("<f4")
    machine.buffers.vector[...] = values.view(np.uint32)
    return machine, values


def ran(machine: Machine, **fields: Any) -> Instruction:
    made = Assembler(machine.configuration).vector(**fields)
    outcome = machine.run(made.encoded(), NOTHING)
    assert outcome.error == "none", outcome.reason
    return made


def vector(machine: Machine) -> Floats:
    return machine.buffers.vector.view("<f4")


@sizes
@pytest.mark.parametrize("y_mode", ["beats", "numbers", "constant"])
@pytest.mark.parametrize("arithmetic", ["add", "multiply", "axpy", "scale"])
def test_arithmetic(configuration: MachineConfiguration, y_mode: str, arithmetic: str) -> None:
    machine, values = filled(configuration)
    lanes = configuration.vector_lanes
    ran(machine, arithmetic=arithmetic, y_mode=y_mode, parameter=1.25, to_vector=1, x=3,
        x_stride=40, y=200, y_stride=30, d=500, d_stride=33, beats=25, rows=3)  # fmt: skip
    expected = values.copy()
    for row in range(3):
        for beat in range(25):
            x = values[3 + 40 * row + beat]
            first = 200 + 30 * row
            y: Any = {
                "beats": values[first + beat],
                "numbers": values[first + beat // lanes, beat % lanes],
                "constant": values[first],
            }[y_mode]
            a = np.float32(1.25)
            expected[500 + 33 * row + beat] = {
                "add": x + y,
                "multiply": x * y,
                "axpy": a * x + y,
                "scale": a * x,
            }[arithmetic]
    assert np.array_equal(vector(machine), expected)


@sizes
@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions(configuration: MachineConfiguration, function: str) -> None:
    machine, values = filled(configuration)
    ran(
        machine, function=function, to_vector=1, x=8, d=100, beats=7, rows=2, x_stride=7, d_stride=9
    )
    reference = getattr(model, function)
    found = vector(machine)
    for row in range(2):
        expected = reference(values[8 + 7 * row : 15 + 7 * row])
        place = slice(100 + 9 * row, 107 + 9 * row)
        assert np.array_equal(found[place].view("u4"), expected.view("u4"))


@sizes
def test_softmax_is_along_beats(configuration: MachineConfiguration) -> None:
    machine, values = filled(configuration)
    factor = float(softmax_factor(0.25))
    ran(machine, reduction="softmax", parameter=factor, to_vector=1, x=50, x_stride=60, d=300,
        d_stride=60, beats=37, rows=2)  # fmt: skip
    found = vector(machine)
    for row in range(2):
        x = values[50 + 60 * row :][:37]
        result = found[300 + 60 * row :][:37]
        for lane in range(configuration.vector_lanes):
            assert np.array_equal(result[:, lane], model.softmax(x[:, lane], scale=0.25))
        exact = np.exp(0.25 * x.astype(np.float64))
        exact /= exact.sum(axis=0)
        assert np.abs(result / exact - 1).max() < 2**-9


@sizes
@pytest.mark.parametrize("keys", [0, 5, 16383])
def test_causal_softmax(configuration: MachineConfiguration, keys: int) -> None:
    machine, values = filled(configuration)
    lanes = configuration.vector_lanes
    ran(machine, reduction="softmax", causal=1, y=keys, parameter=float(softmax_factor()),
        to_vector=1, x=50, x_stride=60, d=300, d_stride=60, beats=2 * lanes + 3,
        rows=2)  # fmt: skip
    found = vector(machine)
    alone = 0
    for row in range(2):
        x = values[50 + 60 * row :][: 2 * lanes + 3]
        for lane in range(lanes):
            count = min(keys + 1 + lanes * row + lane, len(x))
            result = found[300 + 60 * row :][: len(x), lane]
            assert np.array_equal(result[:count], model.softmax(x[:count, lane]))
            assert not result[count:].view("u4").any()
            if count == 1:
                assert result[0] == 1
                alone += 1
    assert alone == (keys == 0)


@sizes
@pytest.mark.parametrize("reduction", ["layer_norm", "rms_norm"])
def test_norms(configuration: MachineConfiguration, reduction: str) -> None:
    machine, values = filled(replace(configuration, affine=False))
    ran(machine, reduction=reduction, parameter=1e-5, to_vector=1, x=50, x_stride=60, d=300,
        d_stride=60, beats=48, rows=2)  # fmt: skip
    found, reference = vector(machine), getattr(model, reduction)
    for row in range(2):
        x = values[50 + 60 * row :][:48]
        result = found[300 + 60 * row :][:48]
        for lane in range(configuration.vector_lanes):
            assert np.array_equal(result[:, lane], reference(x[:, lane], epsilon=1e-5))
        exact = x.astype(np.float64)
        exact -= exact.mean(axis=0) if reduction == "layer_norm" else 0
        exact /= np.sqrt((exact**2).mean(axis=0) + 1e-5)
        assert np.abs(result - exact).max() < 2.0**-9 * np.abs(exact).max()


@sizes
def test_sums(configuration: MachineConfiguration) -> None:
    """A beat for each row, of what arithmetic gives: here of scaled values; missing lanes are 0."""
    machine, values = filled(configuration)
    ran(machine, arithmetic="scale", parameter=0.3, reduction="sum", to_vector=1, x=50, x_stride=60,
        d=300, d_stride=2, beats=48, rows=3, lanes=3)  # fmt: skip
    expected = values.copy()
    for row in range(3):
        scaled = np.float32(0.3) * values[50 + 60 * row :][:48]
        expected[300 + 2 * row] = 0
        expected[300 + 2 * row, :3] = model.window_sum(scaled[:, :3], axis=0)
        exact = scaled.astype(np.float64).sum(axis=0)[:3]
        assert np.abs(expected[300 + 2 * row, :3] - exact).max() < 48 * 2.0**-23 * 4
    assert np.array_equal(vector(machine), expected)


@sizes
@pytest.mark.parametrize("reduction", ["layer_norm", "rms_norm"])
def test_norms_with_gain_and_bias(configuration: MachineConfiguration, reduction: str) -> None:
    machine, values = filled(configuration)
    ran(machine, reduction=reduction, parameter=1e-5, affine=1, y=220, to_vector=1, x=50,
        x_stride=60, d=300, d_stride=60, beats=45, rows=2)  # fmt: skip
    found = vector(machine)
    span = -(-45 // configuration.vector_lanes)
    gain, bias = (values[220 + at : 220 + at + span].reshape(-1)[:45] for at in (0, span))
    for row in range(2):
        x = values[50 + 60 * row :][:45]
        result = found[300 + 60 * row :][:45]
        for lane in range(configuration.vector_lanes):
            one = model.normalise(
                x[:, lane], gain, bias, epsilon=1e-5, centre=reduction == "layer_norm"
            )
            assert np.array_equal(result[:, lane], one.result)


def swept(
    reduction: str, cuts: list[int], d: int, parameter: float, **fields: Any
) -> list[dict[str, Any]]:
    """Fields of the descriptors of a row in pieces."""
    made = []
    for sweep in FOLLOWING[reduction]:
        for start, stop in pairwise(cuts):
            piece = {"reduction": reduction, "sweep": sweep, "x": start, "beats": stop - start}
            piece |= {"clear": int(sweep == "largest" and start == cuts[0])}
            ends = stop == cuts[-1] and sweep != "results"
            piece |= {"ends": int(ends), "parameter": parameter, **fields}
            if sweep == "results" or (reduction == "sum" and sweep == "sums" and ends):
                piece |= {"to_vector": 1, "d": d + start if sweep == "results" else d}
            made.append(piece)
    return made


@pytest.mark.parametrize("reduction", FOLLOWING)
@pytest.mark.parametrize("grade", GRADES)
def test_rows_in_pieces(reduction: str, grade: Grade) -> None:
    """Pieces of any length give the results of the whole row, longer than a descriptor takes."""
    machine, values = filled(MachineConfiguration(reduction_beats=64, grade=grade))
    x = values[:1500]
    factor = float(softmax_factor(0.7)) if reduction == "softmax" else 1e-5
    expected = {
        "softmax": lambda: model.softmax(x, 0, scale=0.7, grade=grade),
        "layer_norm": lambda: model.layer_norm(x, epsilon=1e-5, axis=0, grade=grade),
        "rms_norm": lambda: model.rms_norm(x, epsilon=1e-5, axis=0, grade=grade),
        "sum": lambda: model.window_sum(x, 0, grade=grade)[None],
    }[reduction]()
    for cuts in ([0, 1500], [0, 1, 700, 701, 1400, 1500]):
        vector(machine)[2000:3500] = 0
        for piece in swept(reduction, cuts, 2000, factor):
            ran(machine, **piece)
        assert np.array_equal(vector(machine)[2000 : 2000 + len(expected)], expected)


def test_the_longest_rows() -> None:
    """Of equal values, whose sums are the largest there can be."""
    x = np.full(65536, 3.0, np.float32)
    for grade in GRADES:
        assert (np.abs(model.softmax(x, grade=grade) * 2.0**16 - 1) < 2.0**-9).all()
        assert (np.abs(model.rms_norm(x, epsilon=0.0, grade=grade) - 1) < 2.0**-9).all()
        assert not model.layer_norm(x, grade=grade).any()
    x[0] = -100
    assert model.softmax(x)[0] == 0, "it is too small to be told from 0"


def test_pieces_that_do_not_follow() -> None:
    machine, _ = filled(MachineConfiguration())
    asm = Assembler(machine.configuration)
    pieces = [asm.vector(**each) for each in swept("layer_norm", [0, 4, 9], 100, 0.0)]
    largest, sums = pieces[:2], pieces[2:4]

    def error(*some: Instruction) -> str:
        return machine.run(b"".join(one.encoded() for one in some), NOTHING).error

    assert error(*pieces) == "none"
    assert error(*pieces[-2:]) == "none", "what is known of the row stays"
    whole = asm.vector(to_vector=1, d=50)
    assert error(*pieces[:3], whole, pieces[3]) == "sweep"
    assert error(sums[0]) == "sweep"
    assert error(largest[0], sums[0]) == "sweep"
    assert error(*largest, largest[1]) == "sweep"
    assert error(*largest, pieces[4]) == "sweep"
    assert error(*pieces[:4], pieces[-1]) == "sweep"
    other = asm.vector(**swept("sum", [0, 4], 100, 0.0)[1])
    assert error(*largest, other) == "sweep"
    long = asm.vector(reduction="sum", sweep="largest", beats=4096)
    first = asm.vector(reduction="sum", sweep="largest", beats=4096, clear=1)
    assert error(first, *[long] * 15) == "none"
    assert error(first, *[long] * 16) == "sweep"


@pytest.mark.parametrize(
    ("configuration", "convert"),
    [(size, name) for size in SIZES for name in size.conversions],
    ids=lambda value: value if isinstance(value, str) else str(value.rows),
)
@pytest.mark.parametrize("target", ["out", "a", "w"])
@pytest.mark.parametrize("beats", [64, 150, 13, 1])
def test_converted_rows_are_strips(
    configuration: MachineConfiguration, target: str, convert: str, beats: int
) -> None:
    machine, values = filled(configuration)
    buffer = machine.buffers.operand(target)
    buffer.codes[...], buffer.scales[...] = 0xAA, 0xAA
    codes, scales = buffer.codes.copy(), buffer.scales.copy()
    rows = configuration.rows
    made = ran(machine, convert=convert, target=target, x=2, x_stride=170, beats=beats, rows=3,
               out=5, out_stride=40, out_scales=7, out_scale_stride=20)  # fmt: skip
    for row in range(3):
        strip = values[2 + 170 * row :][:beats].T  # a row of the strip is a lane
        block: Any = (8, 8) if convert == "tiles" else 64
        layout = OperandLayout(configuration=configuration, rows=rows, columns=beats, block=block)
        packed = layout.packed(mx.quantize(np.ascontiguousarray(strip), block=block))
        first, entry = 5 + 40 * row, 7 + 20 * row
        codes[first : first + layout.beats] = packed[0].reshape(layout.beats, rows, -1)
        words = packed[1].reshape(-1, configuration.word_bytes)
        entries = unpacked_words(words, layout.packings["scales"], configuration)
        own = entries.reshape(-1, rows)[: layout.entries]
        scales[entry : entry + layout.entries] = own
        last = entry + layout.entries - 1
        if target == "out" and last % 2 == 0:  # the word's other half is 0
            scales[last + 1] = 0
    assert np.array_equal(buffer.codes, codes)
    assert np.array_equal(buffer.scales, scales)
    assert np.array_equal(vector(machine), values), "nothing goes to the vector buffer"
    assert made["to_vector"] == 0


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("target", ["out", "a", "w"])
@pytest.mark.parametrize("beats", [64, 13, 1])
def test_converted_numbers_are_strips(rows: int, target: str, beats: int) -> None:
    """Rounded to nearest even; numbers that are missing in the last beat are 0."""
    c = machine_of(rows, arithmetic="bf16", bank_beats=256)
    machine, values = filled(c)
    special = np.array([np.nan, np.inf, -np.inf, 1e-40, 3.4e38, -0.0], np.float32)
    values[2, : min(rows, 6)] = special[:rows]
    machine.buffers.vector[...] = values.view(np.uint32)
    buffer = machine.buffers.operand(target)
    buffer.codes[...] = 0xAAAA
    expected = buffer.codes.copy()
    ran(machine, convert="numbers", target=target, x=2, x_stride=170, beats=beats, rows=3,
        out=5, out_stride=40)  # fmt: skip
    own = values.astype(ml_dtypes.bfloat16)
    count = -(-beats // 4)
    for row in range(3):
        strip = np.zeros((count * 4, rows), np.uint16)
        strip[:beats] = own[2 + 170 * row :][:beats].view(np.uint16)
        expected[5 + 40 * row :][:count] = strip.reshape(count, 4, rows).swapaxes(1, 2)
    expected[expected == 0xFFC0] = 0x7FC0
    assert np.array_equal(buffer.codes, expected)
    assert np.array_equal(vector(machine).view("u4"), values.view("u4"))


@sizes
def test_all_steps_in_one(configuration: MachineConfiguration) -> None:
    """Bias, gelu, missing lanes, to both places."""
    machine, values = filled(configuration)
    lanes = configuration.rows - 3
    ran(machine, arithmetic="add", y_mode="numbers", y=200, function="gelu", lanes=lanes,
        to_vector=1, d=300, convert="blocks", beats=70, x=10)  # fmt: skip
    bias = values[200:].reshape(-1)[:70, None]
    expected = model.gelu(model.add(values[10:80], bias))
    expected[:, lanes:] = 0
    assert np.array_equal(vector(machine)[300:370].view("u4"), expected.view("u4"))
    q = mx.quantize(np.ascontiguousarray(expected.T), block=64)
    out = machine.buffers.operand("out")
    assert np.array_equal(out.codes[:18].swapaxes(0, 1).reshape(len(q.codes), -1)[:, :70], q.codes)
    assert np.array_equal(out.scales[:2].T, q.scales)
    assert not out.codes[17, :, 2:].any(), "70 values do not fill the last beat"


def test_rows_may_be_replaced() -> None:
    machine, values = filled(SIZES[-1])
    ran(machine, arithmetic="multiply", y_mode="constant", y=600, to_vector=1, x=10, d=10, beats=20,
        rows=3, x_stride=20, d_stride=20)  # fmt: skip
    assert np.array_equal(vector(machine)[10:70], values[10:70] * values[600])


def test_a_number_that_is_not_touched_keeps_its_bits() -> None:
    machine, _ = filled(SIZES[-1])
    words = np.array([0x7FA00001, 0xFFFFFFFF, 0x80000000, 1] * 4, np.uint32)
    machine.buffers.vector[0] = words
    ran(machine, to_vector=1, d=9)
    assert np.array_equal(machine.buffers.vector[9], words)
    ran(machine, arithmetic="add", y=0, to_vector=1, d=9)
    assert machine.buffers.vector[9, :2].tolist() == [0x7FC00000] * 2


def test_a_format_of_few_bits_and_special_numbers() -> None:
    configuration = MachineConfiguration(format_w="mxfp4_e2m1")
    machine, values = filled(configuration)
    vector(machine)[3, 0] = math.nan
    ran(machine, convert="blocks", beats=64)
    x = values[:64].T.copy()
    x[0, 3] = math.nan
    q = mx.quantize(x, "mxfp4_e2m1", block=64)
    out = machine.buffers.operand("out")
    assert np.array_equal(out.codes[:16].swapaxes(0, 1).reshape(16, 64), q.codes)
    assert np.array_equal(out.scales[0], q.scales[:, 0])
    assert out.scales[0, 0] == 255
