"""What a converter is held to: beats of floats, and the model's answers to them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mxsafe.formats import MX_FORMATS
from mxsafe.model.converter import ConvertedBeats, convert_beats
from mxsafe.rtl.stream.converter import Converter
from mxsafe.vectors.corner_classes import BFLOAT16, FLOAT32, InputFormat, block_classes
from verif.support.checkers import assert_equal
from verif.support.generated import generated
from verif.support.manifest import Module
from verif.support.stream_job import Streamed, run_stream

__all__ = [
    "Beats",
    "Block",
    "against_block_exponents",
    "check_beats",
    "check_long_blocks",
    "converter",
    "corner_beats",
    "ragged_beats",
]

SOURCES: dict[str, InputFormat] = {"float32": FLOAT32, "bfloat16": BFLOAT16}
Beats = tuple[NDArray[np.uint32], NDArray[np.bool_]]
"""Words of floats, shape (beats, width), and whether each beat ends a packet."""
Block = int | tuple[int, int]


def converter(
    folder: Path,
    format: str = "mxsf",
    *,
    block: Block | None = None,
    width: int = 16,
    source: str = "float32",
) -> Module:
    """A converter, generated into `folder`."""
    unit = Converter(format=MX_FORMATS[format], block=block, width=width, source=source)
    return generated(unit, folder)


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


def check_beats(
    simulator: str,
    module: Module,
    beats: Beats,
    *,
    stall_in: float = 0.0,
    stall_out: float = 0.0,
    seed: int = 1,
    resets_after: Sequence[int] = (),
) -> Streamed:
    """Beats come out as the model has them, each `latency` clocks after it went in or later."""
    words, last = beats
    ports = module.ports
    streamed = run_stream(
        simulator,
        module,
        {
            "s_axis_tdata": ports["s_axis_tdata"].join(words),
            "s_axis_tlast": ports["s_axis_tlast"].words(last),
        },
        stall_in=stall_in,
        stall_out=stall_out,
        seed=seed,
        resets_after=resets_after,
    )
    expected = _expected(module, beats)
    got = ports["m_axis_tdata"].split(streamed.words["m_axis_tdata"])
    known = np.concatenate([expected.codes, expected.scales], axis=1).astype(np.int64)
    index = np.arange(len(known))
    assert_equal(f"{module.name} beats", got, known, beat=index, words=words[: len(known)])
    for port, flags in (("m_axis_tlast", expected.last), ("m_axis_tuser", expected.block_last)):
        assert_equal(port, streamed.words[port][:, 0], flags.astype(np.uint8), beat=index)
    waits = streamed.left - streamed.taken[: len(known)]
    assert waits.min() >= module.latency, f"a beat took {waits.min()} clocks"
    if not stall_in and not stall_out:
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
