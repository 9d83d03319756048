"""The converter against the codec: every class of blocks, every shape, stalls, packets, resets."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mxsafe.formats import MX_FORMATS, FloatFields, FloatFormat, MXFormat
from mxsafe.model.converter import ConvertedBeats, convert_beats
from mxsafe.rtl.stream.converter import Converter
from mxsafe.vectors.corner_classes import BFLOAT16, FLOAT32, InputFormat, block_classes
from verif.support.manifest import Module
from verif.support.simulators import run_lockstep
from verif.support.stream_job import Streamed, check_stream
from verif.support.tests import Volume, refused, some
from verif.support.units import generated

SOURCES: dict[str, InputFormat] = {"float32": FLOAT32, "bfloat16": BFLOAT16}
Beats = tuple[NDArray[np.uint32], NDArray[np.bool_]]
"""Words of floats, shape (beats, width), and whether each beat ends a packet."""
Block = int | tuple[int, int]


def converter(format: str = "mxsf", **options: Any) -> Module:
    """A converter, generated into `folder`."""
    return generated(Converter(format=MX_FORMATS[format], **options))


def _block(module: Module) -> Block:
    block = module.parameters["block"]
    return block if isinstance(block, int) else (block[0], block[1])


def corner_beats(module: Module, seed: int, blocks: int) -> Beats:
    """Whole blocks of every class, `blocks` of each, in an order that mixes the classes."""
    p = module.parameters
    rng = np.random.default_rng(seed)
    beats, groups = p["block_beats"], p["groups"]
    span = p["width"] // groups
    classes = block_classes(module.format, SOURCES[p["source"]])
    words = np.concatenate([draw(rng, blocks, beats * span) for draw in classes.values()])
    words = rng.permutation(words)
    words = words[: len(words) // groups * groups].reshape(-1, groups, beats, span)
    words = words.swapaxes(1, 2).reshape(-1, p["width"])
    return words, rng.random(len(words)) < 0.01


def ragged_beats(module: Module, seed: int, count: int) -> Beats:
    """Beats of every class in packets of any length, most of them shorter than a block."""
    words, _ = corner_beats(module, seed, -(-count // module.parameters["block_beats"]))
    rng = np.random.default_rng(seed)
    words = words[:count]
    often = np.repeat(np.resize([0.5, 0.1, 1.0, 0.0], -(-len(words) // 16)), 16)[: len(words)]
    last = rng.random(len(words)) < often
    last[-1] = True
    return words, last


def against_block_exponents(module: Module, values: NDArray[np.float32], steps: int) -> Beats:
    """Every value under block exponents of 0 to ``steps - 1`` above its own, in blocks of a beat.

    A beat holds values of one binade, and a power of two that sets its exponent; subnormals meet
    the exponents from that of scale byte 0 on. NaN and Inf have beats of their own.
    """
    source, width = SOURCES[module.parameters["source"]], module.parameters["width"]
    infinity = 255 << source.mantissa_bits
    words = source.words(values).astype(np.int64)
    magnitudes = words & (1 << source.width - 1) - 1
    beats = []
    special = words[magnitudes >= infinity]
    others = np.resize(words[magnitudes < infinity], (len(special), width))
    others[np.arange(len(special)), np.arange(len(special)) % width] = special
    beats.append(others)
    for exponent in range(255):
        members = words[magnitudes >> source.mantissa_bits == exponent]
        if not len(members):
            continue
        for top in range(exponent, min(exponent + steps, 255)):
            rows = np.resize(members, (-(-len(members) // (width - 1)), width - 1))
            place = top % width
            beats.append(np.insert(rows, place, top << source.mantissa_bits, axis=1))
    joined = np.concatenate(beats).astype(np.uint32)
    return joined, np.ones(len(joined), np.bool_)


def _expected(module: Module, beats: Beats) -> ConvertedBeats:
    words, last = beats
    values = SOURCES[module.parameters["source"]].values(words)
    return convert_beats(values, last, module.format, block=_block(module))


def check_beats(simulator: str, module: Module, beats: Beats, **options: Any) -> Streamed:
    """Beats come out as the model has them, each `latency` cycles after it went in or later."""
    words, last = beats
    expected = _expected(module, beats)
    streamed = check_stream(
        simulator,
        module,
        {"s_axis_tdata": words, "s_axis_tlast": last},
        {
            "m_axis_tdata": np.concatenate([expected.codes, expected.scales], axis=1).astype(int),
            "m_axis_tlast": expected.last,
            "m_axis_tuser": expected.block_last,
        },
        **options,
    )
    waits = streamed.left - streamed.taken[: len(streamed.left)]
    assert waits.min() >= module.latency, f"a beat took {waits.min()} cycles"
    if not options.get("stall_in") and not options.get("stall_out"):
        assert (waits[: np.flatnonzero(last)[0] if last.any() else None] == module.latency).all()
        assert (np.diff(streamed.taken) == 1).all(), "a beat had to wait"
    return streamed


def check_long_blocks(simulator: str, module: Module) -> Streamed:
    """Whole blocks and shorter ones, many at once, wait anywhere in a chain of many stages."""
    p = module.parameters
    stages = p["block_beats"]
    rng = np.random.default_rng(6)
    lengths = [stages, 1, stages // 2, 2, 3, 1, 1, stages, stages - 1, 5, *rng.integers(1, 9, 12)]
    words = corner_beats(module, 6, p["groups"])[0][: sum(lengths)]
    last = np.zeros(len(words), np.bool_)
    last[np.cumsum(lengths) - 1] = True
    last[stages - 1] = False  # a whole block ends by itself
    return check_beats(
        simulator,
        module,
        (words, last),
        stall_in=0.15,
        stall_out=0.4,
        resets_after=(stages // 2, stages + 3, 2 * stages),
    )


committed = pytest.mark.parametrize("name", ["mxsf_converter", "mxsf_converter_8x8"])


def _blocks(simulator: str, volume: Volume) -> int:
    """How many of each class."""
    return {"icarus": 4, "verilator": volume(50, 100, 100)}[simulator]


@committed
@pytest.mark.parametrize("stall", some([0.2, 0.0]))
def test_corner_blocks(
    simulator: str, name: str, stall: float, modules: dict[str, Module], volume: Volume
) -> None:
    module = modules[name]
    beats = corner_beats(module, 1, _blocks(simulator, volume))
    check_beats(simulator, module, beats, stall_in=stall, stall_out=stall)


@committed
def test_packets_of_any_length(
    simulator: str, name: str, modules: dict[str, Module], volume: Volume
) -> None:
    """Blocks of fewer beats than usual, many of them waiting at once; resets at any moment."""
    module = modules[name]
    beats = ragged_beats(module, 2, 20 * _blocks(simulator, volume))
    moments = range(1, 2 * module.latency + 2)
    for stall_in, stall_out in ((0.0, 0.0), (0.3, 0.1)):
        check_beats(
            simulator,
            module,
            beats,
            stall_in=stall_in,
            stall_out=stall_out,
            resets_after=moments if stall_in else (),
        )


def test_blocks_of_many_rows(modules: dict[str, Module]) -> None:
    """Blocks down the columns of strips: a chain of as many stages as a block has rows."""
    module = modules["mxsf_converter_64x1"]
    check_long_blocks("icarus", module)


def test_numbers_at_every_distance_below_their_columns(
    modules: dict[str, Module], volume: Volume
) -> None:
    """Columns of two numbers whose exponents are as far apart as can be, or anything nearer.

    In every other one the larger number comes last. In the default run a third of the distances.
    """
    module = modules["mxsf_converter_64x1"]
    width, rng = module.parameters["width"], np.random.default_rng(7)
    exponents = np.arange(0, 255, volume(3, 1, 1))
    low = np.stack([np.roll(exponents, -column) for column in range(width)], axis=1)
    fields = np.stack([np.full_like(low, 254), low], axis=1)
    fields[::2] = fields[::2, ::-1].copy()
    signs, mantissas = rng.integers(0, 2, fields.shape), rng.integers(0, 1 << 23, fields.shape)
    words = (signs << 31 | fields << 23 | mantissas).astype(np.uint32).reshape(-1, width)
    last = np.arange(len(words)) % 2 == 1
    check_beats("icarus", module, (words, last), stall_out=0.1)


def _bfloat16() -> np.ndarray:
    return (np.arange(1 << 16).astype(np.uint32) << 16).view(np.float32)


def _bfloat16_edges() -> np.ndarray:
    """Numbers with exponents next to scale byte 0, to 2^0, and to Inf and NaN."""
    values = _bfloat16()
    field = values.view(np.uint32) >> 23 & 255
    return values[(field < 20) | (field == 127) | (field > 240)]


@pytest.mark.parametrize(
    "values",
    some(
        [
            _bfloat16_edges(),
            np.arange(1 << 16).astype(np.uint16).view(np.float16).astype(np.float32),
            _bfloat16(),
        ],
        every=3,
    ),
    ids=["bfloat16 edges", "float16", "bfloat16"],
)
def test_every_value_against_every_block_exponent(
    values: np.ndarray, modules: dict[str, Module]
) -> None:
    """All numbers of 16 bits, in blocks with a largest exponent of 0 to 14 above their own.

    From 13 binades above it, MXSF rounds a number to zero; what lies between does not depend on
    the exponents themselves, apart from those next to scale byte 0, where bfloat16 goes.
    """
    module = modules["mxsf_converter"]
    beats = against_block_exponents(module, values, 15)
    check_beats("verilator", module, beats)


SMALL: dict[str, tuple[Block, int]] = {
    "two beats": (8, 4),
    "one beat": (4, 4),
    "two blocks in a beat": (2, 4),
    "tiles": ((2, 2), 4),
    "oblong tiles": ((3, 4), 8),
    "columns": ((5, 1), 2),
    "single values": (1, 3),
}


@pytest.mark.parametrize("shape", some(SMALL))
def test_other_shapes(shape: str) -> None:
    block, width = SMALL[shape]
    module = converter(block=block, width=width)
    _check_small(module)


@pytest.mark.parametrize("format", some(name for name in MX_FORMATS if name != "mxsf"))
def test_other_formats(format: str) -> None:
    _check_small(converter(format, block=8, width=4))


@pytest.mark.parametrize(
    "format",
    [
        name if name in ("mxsf", "mxfp8_e5m2") else pytest.param(name, marks=pytest.mark.full)
        for name in MX_FORMATS
    ],
)
def test_bfloat16(format: str) -> None:
    _check_small(converter(format, block=8, width=4, source="bfloat16"))


def _check_small(module: Module) -> None:
    whole, ragged = corner_beats(module, 3, 24), ragged_beats(module, 4, 100)
    beats: Beats = np.concatenate([whole[0], ragged[0]]), np.concatenate([whole[1], ragged[1]])
    check_beats("icarus", module, beats, stall_in=0.1, stall_out=0.1)


@committed
def test_a_full_chain_waits(name: str, modules: dict[str, Module]) -> None:
    """Offered a beat all the time and never relieved of one, it takes a block and offers it."""
    module = modules[name]
    clocks = 3 * module.latency
    pins = dict.fromkeys((pin for pin in module.inputs if pin != "clk"), 0)
    stimulus = pins | {"s_axis_tvalid": np.ones(clocks, np.int64)}
    watched = ("s_axis_tready", "m_axis_tvalid")
    log = run_lockstep("verilator", module, stimulus, watched=watched)
    taken = np.arange(clocks) < module.latency
    assert log["s_axis_tready"].ravel().tolist() == taken.astype(int).tolist()
    assert log["m_axis_tvalid"].ravel().tolist() == (~taken).astype(int).tolist()


@pytest.mark.full
@committed
def test_millions_of_values(name: str, modules: dict[str, Module]) -> None:
    module = modules[name]
    for seed in range(4):
        for draw in (corner_beats(module, 50 + seed, 1500), ragged_beats(module, 90 + seed, 20000)):
            check_beats("verilator", module, draw, stall_in=0.1, stall_out=0.1, seed=seed)


@pytest.mark.full
@pytest.mark.parametrize("format", MX_FORMATS)
def test_every_bfloat16_in_other_formats(format: str) -> None:
    module = converter(format, block=16, source="bfloat16")
    steps = MX_FORMATS[format].emax - MX_FORMATS[format].element.quantum_exponent + 4
    beats = against_block_exponents(module, _bfloat16(), steps)
    check_beats("verilator", module, beats)


MXSF = MX_FORMATS["mxsf"]


def _own(*, bias: int, sub_bias: int | None = None) -> MXFormat:
    sub = None
    if sub_bias is not None:
        sub = FloatFields(exponent_bits=3, mantissa_bits=2, bias=sub_bias)
    fields = FloatFields(exponent_bits=2, mantissa_bits=5, bias=bias)
    return MXFormat(name="own", element=FloatFormat(name="own", fields=fields, sub=sub))


test_configurations_that_cannot_work = refused(
    Converter,
    [
        ({"width": 0}, "width must be a positive integer, not 0"),
        ({"block": 0}, "block must be a positive integer, not 0"),
        ({"block": 24}, "block must divide width 16 or be divided by it, not 24"),
        ({"block": 16 * 257}, "block must have at most 256 beats, not 257"),
        ({"block": (8, 3)}, "block must have columns that divide width 16, not 3"),
        (
            {"block": (8, 8, 8)},
            "block must be an integer or a tuple (an integer, an integer) or None, not (8, 8, 8)",
        ),
        (
            {"source": "float16"},
            "source must be one of float32, bfloat16, not 'float16'; did you mean 'bfloat16'?",
        ),
        (
            {"format": MX_FORMATS["mxfp4_e2m1"], "width": 1, "block": 1},
            "width must make m_axis_tdata whole bytes, not 12 bits",
        ),
        (
            {"format": _own(bias=4)},
            "format must have elements of at least 1, not of at most 0.984375",
        ),
        (
            {"format": _own(bias=3, sub_bias=11)},
            "format must have modes without binades between them, not those of own",
        ),
    ],
    format=MXSF,
)
