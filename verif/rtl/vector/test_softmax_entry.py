"""Values before softmax's memory: keys, masks and maxima."""

import numpy as np
import pytest

from mxsafe.rtl.vector.softmax_entry import SoftmaxEntry
from verif.support.manifest import Module
from verif.support.simulators import lint
from verif.support.stream_job import check_stream
from verif.support.units import generated, published

LOWEST = -0x7F800001
LONG = np.array([*[3] * 56, 150, 300, 600, 4400]), np.array([*[2] * 56, 128, 256, 500, 4096])
"""Beats of rows, and values of each that count."""


@pytest.mark.parametrize(
    ("along", "lanes"), [("lanes", 5), ("lanes", 4), ("beats", 3), ("beats", 1)]
)
def test_keys_and_maxima(along: str, lanes: int) -> None:
    module = generated(SoftmaxEntry(along=along, lanes=lanes))
    assert lint(module) == ""
    _check(module)


@pytest.mark.variant
@pytest.mark.parametrize("name", published(SoftmaxEntry))
def test_published_ones(name: str) -> None:
    _check(published(SoftmaxEntry)[name])


def _check(module: Module) -> None:
    """Rows of numbers of all kinds, with few values that count, many, or all."""
    along, lanes = module.parameters["along"], module.parameters["lanes"]
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 9, 80)
    # A few more than a power of two are few if the bit is lost.
    powers = 1 << rng.integers(0, 13, 80)
    few = rng.integers(0, 9 * lanes, 80)
    limits = np.minimum(few + np.where(rng.random(80) < 0.4, powers, 0), 4096)
    # Masks that end with each lane.
    limits[20 : 20 + 2 * lanes] = np.arange(2 * lanes)
    if (along, lanes) == ("beats", 1):
        # Longer ones by some beats than each power of two, and than the longest one that counts.
        lengths[20:], limits[20:] = LONG
    elif along == "beats":
        # A causal row goes on so far beyond its length that no bit of the distance may be lost.
        lengths[-1], limits[-1] = 300, 2
    last = np.zeros(lengths.sum(), np.bool_)
    last[np.cumsum(lengths) - 1] = True
    row = np.repeat(np.arange(80), lengths)
    words = rng.integers(0, 1 << 32, (len(row), lanes), np.uint32)
    special = rng.choice(np.array([0, 1 << 31, 0x7F800000, 0xFF800000, 0xFFC00000]), words.shape)
    # NaN of either sign for a single bit, and rows of numbers that differ in one or two. The first
    # two numbers of some rows differ in a bit that is another one in each of them.
    nan = rng.choice(np.array([0x7F800000, 0xFF800000]), words.shape)
    nan |= 1 << rng.integers(0, 23, words.shape)
    special = np.where(rng.random(words.shape) < 0.3, nan, special)
    bits = np.uint32(1) << rng.integers(0, 31, words.shape).astype(np.uint32)
    beat = np.arange(len(row)) - np.flatnonzero(np.append(True, last[:-1]))[row]
    differs = (np.arange(80) >= 20) & (np.arange(80) < 20 + 31)
    bits[differs[row] & (beat == 0)] = 0
    second = differs[row] & (beat == 1)
    bits[second] = (np.uint32(1) << (row[second] % 31).astype(np.uint32))[:, None]
    near = words[np.flatnonzero(np.append(True, last[:-1]))][row][:, :1] ^ bits
    words = np.where((differs[:, None] | (rng.random((80, 1)) < 0.4))[row], near, words)
    is_special = ~differs[row][:, None] & (rng.random(words.shape) < 0.2)
    words = np.where(is_special, special, words)
    # Negative numbers whose exponent is that of NaN but for one bit.
    at = np.flatnonzero(~differs[row] & (row % 3 == 0))[::2]
    exponent = 0xFF ^ 1 << np.arange(len(at)) % 8
    words[at] = (1 << 31 | exponent << 23)[:, None] | words[at] & 0x7FFFFF
    words = words.astype(np.uint32)
    factor = rng.integers(0, 1 << 32, 80)[row]
    length = limits[row]
    is_causal = rng.integers(0, 2, 80) * (along == "beats")
    is_causal[-1] = along == "beats"
    causal = is_causal[row]
    controls = [factor, length] + ([causal] if along == "beats" else [])

    lane = np.arange(lanes)
    if along == "beats":
        counts = beat[:, None] < length[:, None] + causal[:, None] * lane
    else:
        counts = beat[:, None] * lanes + lane < length[:, None]
    values = words.view(np.float32)
    bits = words.view(np.int32).astype(np.int64)
    keys = np.where(bits < 0, -0x80000001 - bits, bits)
    keys = np.where(np.isnan(values), words & 0x7FFFFFFF, keys)
    keys = np.where(counts, keys, LOWEST)

    axis = (0, 1) if along == "lanes" else 0
    maxima = [np.atleast_1d(keys[row == number].max(axis=axis)) for number in range(80)]
    check_stream(
        "icarus",
        module,
        {"s_axis_tdata": words, "s_axis_tlast": last, "s_axis_tuser": np.stack(controls, axis=1)},
        {
            "m_axis_tdata": keys & 0xFFFFFFFF,
            "m_axis_tlast": last,
            "m_axis_summary_tdata": np.column_stack([factor[last], np.array(maxima) & 0xFFFFFFFF]),
        },
        stall_in=0.2,
        stall_out=0.2,
        resets_after=range(1, 12, 3),
        # Whole rows, for softmax.
        steady={name: on for name, on in (("is_softmax", 1), ("sweep", 0)) if name in module.ports},
        beside=["m_axis_summary"],
    )
