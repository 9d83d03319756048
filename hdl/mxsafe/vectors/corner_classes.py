"""Inputs that go where arithmetic goes wrong, by name, for every format.

Three kinds: codes for a decoder, pairs of codes for a MAC, blocks of floats for a converter. The
tests of the hardware and the test vectors for other people's hardware draw from the same classes.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mxsafe.codec import elements
from mxsafe.formats import (
    FP12_E4M7,
    FloatFields,
    FloatFormat,
    IntFormat,
    MXFormat,
    mx_format,
    mx_formats,
)
from mxsafe.validation import checked

Codes = NDArray[np.uint8]
Pair = tuple[Codes, Codes]
DrawPairs = Callable[[np.random.Generator, int, int], Pair]
Words = NDArray[np.uint32]
DrawBlocks = Callable[[np.random.Generator, int, int], Words]


def _binade_edges(fields: FloatFields) -> list[int]:
    """Smallest and largest magnitude code of every binade of normal numbers."""
    binades = range(1, 1 << fields.exponent_bits)
    lowest = [field << fields.mantissa_bits for field in binades]
    return lowest + [code + (1 << fields.mantissa_bits) - 1 for code in lowest]


def _float_magnitudes(element: FloatFormat) -> dict[str, Iterable[int]]:
    low, seam, top = (
        element.sub or element.fields,
        1 << element.mantissa_bits,
        element.max_magnitude,
    )
    edges = [*_binade_edges(low), *_binade_edges(element.fields)]
    return {
        "zeros of both signs": [0],
        "subnormals": range(1, 1 << low.mantissa_bits),
        "seam": range(seam - 2, seam + 2) if element.sub is not None else [],
        "largest": range(max(top - 2, 0), top + 1),
        "binade edges": [code for code in edges if code <= top],
        "Inf": sorted(element.inf_magnitudes),
        "NaN": sorted(element.nan_magnitudes),
    }


def _int_magnitudes(element: IntFormat) -> dict[str, Iterable[int]]:
    top = element.max_magnitude
    powers = [1 << bit for bit in range(element.width - 1)]
    return {
        "zero": [0],
        "largest": range(max(top - 2, 0), top + 1),
        "never encoded": [top + 1],
        "powers of two": [*powers, *(power - 1 for power in powers)],
    }


def code_classes(format: str | MXFormat = "mxsf") -> dict[str, list[int]]:
    """Classes of element codes, both signs of each magnitude.

    Parameters
    ----------
    format : str or MXFormat
        Name in the catalogue, or a specification.

    Returns
    -------
    dict
        Codes by class name. No code is in two classes, no class is empty.
    """
    element = mx_format(format).element
    sign = 1 << (element.width - 1)
    if isinstance(element, IntFormat):
        magnitudes = _int_magnitudes(element)
        codes = {
            name: [code for m in members for code in (m, -m & (2 * sign - 1))]
            for name, members in magnitudes.items()
        }
    else:
        magnitudes = _float_magnitudes(element)
        codes = {
            name: [code for m in members for code in (m, m | sign)]
            for name, members in magnitudes.items()
        }
    seen: set[int] = set()
    classes: dict[str, list[int]] = {}
    for name, members in codes.items():
        classes[name] = [code for code in dict.fromkeys(members) if code not in seen]
        seen.update(members)
    return {name: members for name, members in classes.items() if members}


Element = FloatFormat | IntFormat


def _sign(element: Element) -> np.uint8:
    return np.uint8(1 << (element.width - 1))


def _negated(element: Element, codes: Codes) -> Codes:
    """Codes of the same values with the other sign; the most negative integer stays."""
    if isinstance(element, IntFormat):
        return -codes & np.uint8((1 << element.width) - 1)
    return codes ^ _sign(element)


def _both_signs(element: Element, magnitudes: Iterable[int]) -> Codes:
    """A pool of codes: magnitudes, then the same with the other sign."""
    codes = np.array(list(magnitudes), np.uint8)
    return np.concatenate([codes, _negated(element, codes)])


def _any_code(element: Element) -> Codes:
    return np.arange(1 << element.width).astype(np.uint8)


@dataclass(frozen=True)
class _Pool:
    """Codes that an operand is drawn from; a quarter of them from others, if there are any."""

    codes: Codes
    others: Codes = field(default_factory=lambda: np.zeros(0, np.uint8))

    def draw(self, rng: np.random.Generator, n: int, lanes: int) -> Codes:
        drawn = rng.choice(self.codes, (n, lanes))
        if self.others.size:
            elsewhere = rng.random((n, lanes)) < 0.25
            drawn[elsewhere] = rng.choice(self.others, int(elsewhere.sum()))
        return drawn


def _float_pools(element: FloatFormat) -> dict[str, _Pool]:
    fields, seam, top = element.fields, 1 << element.mantissa_bits, element.max_magnitude
    edges = [code for code in _binade_edges(fields) if code <= top]
    half = len(edges) // 2
    magnitudes: dict[str, Iterable[int]] = {
        "zeros of both signs": [0, 0, 1, 1 << (fields.width - 1)],
        "subnormals": range((1 << (element.sub or fields).mantissa_bits) + 2),
        "sub-FP": range(seam) if element.sub is not None else [],
        "normals": range(seam, top + 1),
        "seam": range(seam - 2, seam + 2) if element.sub is not None else [],
        "largest": range(max(top - 2, 0), top + 1),
        "carries": [*edges[half:], *edges[:half], seam - 1, (seam - 1) // 2],
    }
    pools = {
        name: _Pool(_both_signs(element, members))
        for name, members in magnitudes.items()
        if members
    }
    specials = [*element.inf_magnitudes, *element.nan_magnitudes]
    if specials:
        pools["specials"] = _Pool(_any_code(element), _both_signs(element, specials))
    return pools


def _int_pools(element: IntFormat) -> dict[str, _Pool]:
    top = element.max_magnitude
    powers = [1 << bit for bit in range(element.width - 1)]
    return {
        "zeros": _Pool(np.zeros(1, np.uint8), _any_code(element)),
        "largest": _Pool(_both_signs(element, [top, top - 1])),
        "most negative": _Pool(_both_signs(element, [top + 1, top])),
        "powers of two": _Pool(_both_signs(element, [*powers, *(power - 1 for power in powers)])),
    }


def _pools(element: Element) -> dict[str, _Pool]:
    """Codes where arithmetic goes wrong, by name; ``uniform``, all alike, is the first."""
    found = _int_pools(element) if isinstance(element, IntFormat) else _float_pools(element)
    return {"uniform": _Pool(_any_code(element)), **found}


def _from_pools(a: _Pool, w: _Pool) -> DrawPairs:
    def draw(rng: np.random.Generator, n: int, lanes: int) -> Pair:
        return a.draw(rng, n, lanes), w.draw(rng, n, lanes)

    return draw


def _cancelling(element_a: Element, element_w: Element) -> DrawPairs:
    """Lanes in pairs of opposite products, or products one unit apart."""

    def draw(rng: np.random.Generator, n: int, lanes: int) -> Pair:
        a, w = _from_pools(*(_Pool(_any_code(e)) for e in (element_a, element_w)))(rng, n, lanes)
        for left in range(0, lanes - 1, 2):
            a[:, left + 1] = a[:, left]
            nudge = rng.integers(0, 2, n, np.uint8)  # changes the last bit of half of them
            w[:, left + 1] = _negated(element_w, w[:, left]) ^ nudge
        return a, w

    return draw


def _small_and_large(element: Element) -> tuple[Codes, Codes]:
    """Codes far below others, and powers of two above them, the largest last."""
    if isinstance(element, IntFormat):
        powers = [1 << bit for bit in range(element.width // 2, element.width - 1)]
        return np.arange(4, dtype=np.uint8), np.array(powers, np.uint8)
    seam = 1 << element.mantissa_bits
    fields = np.arange(1, (element.max_magnitude >> element.mantissa_bits) + 1)
    large = (fields << element.mantissa_bits).astype(np.uint8)
    return _both_signs(element, range(seam + seam // 4)), large


def _uneven(element_a: Element, element_w: Element) -> DrawPairs:
    """One large product and others far below it: guard and tie bits come from the small ones."""
    (small_a, large_a), (small_w, large_w) = map(_small_and_large, (element_a, element_w))

    def draw(rng: np.random.Generator, n: int, lanes: int) -> Pair:
        a, w = _from_pools(_Pool(small_a), _Pool(small_w))(rng, n, lanes)
        lane, rows = rng.integers(0, lanes, n), np.arange(n)
        a[rows, lane] |= large_a[-1]
        w[rows, lane] |= rng.choice(large_w, n)
        return a, w

    return draw


def _one_lane(element_a: Element, element_w: Element) -> DrawPairs:
    """A single product, in every lane in turn, between zeros (of both signs, if there are two)."""
    zeros = _from_pools(*(_Pool(_both_signs(e, [0])) for e in (element_a, element_w)))

    def draw(rng: np.random.Generator, n: int, lanes: int) -> Pair:
        a, w = zeros(rng, n, lanes)
        lane, rows = np.arange(n) % lanes, np.arange(n)
        a[rows, lane] = rng.integers(0, 1 << element_a.width, n, np.uint8)
        w[rows, lane] = rng.integers(0, 1 << element_w.width, n, np.uint8)
        return a, w

    return draw


def _negative(element_a: FloatFormat, element_w: FloatFormat) -> DrawPairs:
    """Only negative products: the one way to a sum of -0."""

    def pool(element: FloatFormat) -> _Pool:
        seam = 1 << element.mantissa_bits
        magnitudes = {*range(min(8, seam)), seam - 1, seam, element.max_magnitude}
        return _Pool(_both_signs(element, sorted(magnitudes)))

    def draw(rng: np.random.Generator, n: int, lanes: int) -> Pair:
        a, w = _from_pools(pool(element_a), pool(element_w))(rng, n, lanes)
        positive = a & _sign(element_a) == 0
        magnitudes = w & ~_sign(element_w)
        return a, np.where(positive, magnitudes | _sign(element_w), magnitudes)

    return draw


_DRAWN = 1 << 10
"""Products whose sums are looked at for ties."""


def _ties(element_a: FloatFormat, element_w: FloatFormat) -> DrawPairs:
    """One or two products between zeros whose sum lies halfway between two numbers of FP12.

    Two are neighbours, which an adder tree adds first, in half of the vectors at least.
    """
    zeros = _from_pools(*(_Pool(_both_signs(e, [0])) for e in (element_a, element_w)))
    values = [elements.code_values(element) for element in (element_a, element_w)]
    finite = [np.flatnonzero(np.isfinite(each)).astype(np.uint8) for each in values]
    shares = [_shares(each[codes]) for each, codes in zip(values, finite, strict=True)]
    precision = FP12_E4M7.mantissa_bits + 1

    def draw(rng: np.random.Generator, n: int, lanes: int) -> Pair:
        codes_a, codes_w = (
            rng.choice(codes, (2, _DRAWN), p=each)
            for codes, each in zip(finite, shares, strict=True)
        )
        codes_a[1, 0] = 0  # beside which the other product is the sum
        first, second = values[0][codes_a] * values[1][codes_w]
        second = second[: 1 if lanes == 1 else None]
        sums = first[:, None] + second
        ties = _fits(sums, precision + 1) & ~_fits(sums, precision)
        found = np.argwhere(
            ties & ((second == 0) | (_fits(first, precision)[:, None] & _fits(second, precision)))
        )
        if not found.size:  # all products are too short
            return _from_pools(*map(_Pool, finite))(rng, n, lanes)
        chosen = rng.choice(found, n)
        a, w = zeros(rng, n, lanes)
        places = rng.permuted(np.tile(np.arange(lanes), (n, 1)), axis=1)[:, :2]
        neighbour = places[:, 0] ^ 1
        beside = (rng.random(n) < 0.5) & (neighbour < lanes)
        places[beside, -1] = neighbour[beside]
        for which, lane in enumerate(places.T):
            rows = np.arange(n), lane
            a[rows], w[rows] = codes_a[which, chosen[:, which]], codes_w[which, chosen[:, which]]
        return a, w

    return draw


def _shares(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Shares of numbers by which all binades are alike."""
    _, binades, counts = np.unique(np.frexp(values)[1], return_inverse=True, return_counts=True)
    return 1 / (len(counts) * counts[binades])


def _fits(values: NDArray[np.float64], bits: int) -> NDArray[np.bool_]:
    """Whether numbers have so many significant bits at most."""
    scaled = np.ldexp(np.frexp(values)[0], bits)
    return scaled == np.rint(scaled)


def operand_classes(
    format: str | MXFormat = "mxsf", format_w: str | MXFormat | None = None
) -> dict[str, DrawPairs]:
    """Classes of operands for a MAC.

    Parameters
    ----------
    format : str or MXFormat
        Format of `a`: name in the catalogue, or a specification.
    format_w : str or MXFormat, optional
        Format of `w`, by default that of `a`.

    Returns
    -------
    dict
        By class name a function ``draw(rng, n, lanes)`` that gives the codes ``a`` and ``w``,
        each of shape ``(n, lanes)``. ``uniform``, all codes alike, is the first. A format with
        one mode has no ``sub-FP`` and no ``seam``, one without codes for NaN or Inf no
        ``specials``; one with integer elements has classes of its own. Where only one of two
        formats has a class, the other operand is uniform. Formats whose products are too short to
        add up to ``ties`` have any finite codes there.
    """
    a, w = (fmt.element for fmt in mx_formats(format, format_w))
    pools_a, pools_w = _pools(a), _pools(w)
    classes = {
        name: _from_pools(
            pools_a.get(name, pools_a["uniform"]), pools_w.get(name, pools_w["uniform"])
        )
        for name in {**pools_a, **pools_w}
    }
    classes |= {
        "cancellation": _cancelling(a, w),
        "uneven": _uneven(a, w),
        "one lane": _one_lane(a, w),
    }
    if isinstance(a, FloatFormat) and isinstance(w, FloatFormat):
        classes["all negative"] = _negative(a, w)
        classes["ties"] = _ties(a, w)
    return classes


@dataclass(frozen=True, kw_only=True)
class InputFormat:
    """A floating-point format that a converter reads: a sign, 8 exponent bits, a mantissa.

    Parameters
    ----------
    name : str
        NumPy's or ml_dtypes' name.
    mantissa_bits : int
        Bits of the mantissa, at most the 23 of float32.
    """

    name: str
    mantissa_bits: int

    @property
    def width(self) -> int:
        """Bits of a word."""
        return 9 + self.mantissa_bits

    def words(self, values: NDArray[np.floating]) -> Words:
        """Words of values that the format holds exactly."""
        return np.asarray(values, np.float32).view(np.uint32) >> np.uint32(32 - self.width)

    def values(self, words: Words) -> NDArray[np.float32]:
        """Values of words, exactly."""
        return (np.asarray(words, np.uint32) << np.uint32(32 - self.width)).view(np.float32)


FLOAT32 = InputFormat(name="float32", mantissa_bits=23)
BFLOAT16 = InputFormat(name="bfloat16", mantissa_bits=7)

_NEAR = np.array([-1, 0, 1])
_SCALES = 60  # powers of two up and down by which blocks are scaled: no element leaves the normals


class _Blocks:
    """Drawing of blocks for a converter from one format to another.

    Words are built as magnitudes in int64, where one unit in the last place is 1 and a binade
    ``1 << mantissa_bits``; signs come last.
    """

    def __init__(self, fmt: MXFormat, source: InputFormat) -> None:
        self.fmt, self.source = fmt, source
        self.table = elements.magnitudes(fmt.element)
        self.binade = 1 << source.mantissa_bits
        self.inf = 255 * self.binade

    def _words(self, values: NDArray[np.floating]) -> NDArray[np.int64]:
        return self.source.words(values).astype(np.int64)

    def signed(self, rng: np.random.Generator, magnitudes: NDArray[np.int64]) -> Words:
        signs = rng.integers(0, 2, magnitudes.shape) << (self.source.width - 1)
        return (magnitudes | signs).astype(np.uint32)

    def _near(self, values: Iterable[float]) -> NDArray[np.int64]:
        """Words of values and of their neighbours."""
        return (self._words(np.array(list(values)))[:, None] + _NEAR).ravel()

    def relative(self, pool: NDArray[np.int64]) -> DrawBlocks:
        """Elements from a pool in turn, beside one that sets the scale; all scaled at random."""

        def draw(rng: np.random.Generator, n: int, block: int) -> Words:
            body = np.resize(pool, (n, max(block - 1, 1)))
            if block > 1:
                one = np.full((n, 1), self._words(np.array(2.0**self.fmt.emax)))
                body = rng.permuted(np.concatenate([one, body], axis=1), axis=1)
            scale = rng.integers(-_SCALES, _SCALES + 1, (n, 1))
            return self.signed(rng, body + scale * self.binade)

        return draw

    def below(
        self,
        rng: np.random.Generator,
        top: NDArray[np.int64],
        block: int,
        reach: int | NDArray[np.int64],
    ) -> NDArray[np.int64]:
        """Blocks with these largest magnitudes, and others at most `reach` binades below."""
        rest = top[:, None] - rng.integers(0, reach * self.binade + 1, (len(top), block))
        return self.placed(rng, top, np.maximum(rest, 0))

    def placed(
        self, rng: np.random.Generator, top: NDArray[np.int64], rest: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """`rest` with one element of each block, anywhere in it, replaced by `top`."""
        rest[np.arange(len(top)), rng.integers(0, rest.shape[1], len(top))] = top
        return rest

    def ties(self) -> DrawBlocks:
        return self.relative(self._near((self.table[:-1] + self.table[1:]) / 2))

    def seam(self) -> DrawBlocks:
        low, high = self.table[(1 << self.fmt.element.mantissa_bits) + np.array([-1, 0])]
        return self.relative(self._near([low, (low + high) / 2, high]))

    def saturating(self) -> DrawBlocks:
        """From the largest element to just below the next power of two."""
        largest, power = float(self.table[-1]), 2.0 ** (self.fmt.emax + 1)
        pool = self._near([largest, (largest + power) / 2, power])
        low, high = self._words(np.array([largest, power]))
        return self.relative(pool[(pool >= low) & (pool < high)])

    def zeros(self, rng: np.random.Generator, n: int, block: int) -> Words:
        """All +0, all -0, both, both around one other element; in turn."""
        kind = np.arange(n) % 4
        words = rng.integers(0, 2, (n, block)) << (self.source.width - 1)
        words[kind == 0] = 0
        words[kind == 1] = 1 << (self.source.width - 1)
        other = np.flatnonzero(kind == 3)
        words[other, rng.integers(0, block, len(other))] = rng.integers(1, self.inf, len(other))
        return words.astype(np.uint32)

    def subnormals(self, rng: np.random.Generator, n: int, block: int) -> Words:
        """Smallest, largest, any, any beside the smallest normal number; in turn."""
        kind = np.arange(n) % 4
        words = rng.integers(0, self.binade, (n, block))
        words[kind == 0] = 1
        words[kind == 1] = self.binade - 1
        normal = np.flatnonzero(kind == 3)
        words[normal, rng.integers(0, block, len(normal))] = self.binade
        return self.signed(rng, words)

    def special(self, payloads: Iterable[int]) -> DrawBlocks:
        """NaN or Inf anywhere in a random block."""
        specials = self.inf + np.array(list(payloads))

        def draw(rng: np.random.Generator, n: int, block: int) -> Words:
            top = rng.integers(1, self.inf, n)
            rest = self.below(rng, top, block, 16)
            return self.signed(rng, self.placed(rng, np.resize(specials, n), rest))

        return draw

    def largest_inputs(self, rng: np.random.Generator, n: int, block: int) -> Words:
        """The largest finite inputs, alone and in company; in turn."""
        reach = np.where(np.arange(n) % 2 == 0, 0, 16)[:, None]
        return self.signed(rng, self.below(rng, np.full(n, self.inf - 1), block, reach))

    def below_powers(self, rng: np.random.Generator, n: int, block: int) -> Words:
        """The largest element is one unit in the last place below a power of two."""
        top = rng.integers(1, 255, n) * self.binade - 1
        return self.signed(rng, self.below(rng, top, block, 4))

    def extreme_scales(self, rng: np.random.Generator, n: int, block: int) -> Words:
        """The two smallest and the two largest scales that inputs can have, in turn."""
        emax = self.fmt.emax
        fields = np.resize(sorted({0, emax, emax + 1, 253, 254}), n)
        top = fields * self.binade + rng.integers(0, self.binade, n)
        return self.signed(rng, self.below(rng, top, block, 8))

    def one_large(self, rng: np.random.Generator, n: int, block: int) -> Words:
        """One large element; the others round to the smallest codes, or to zero."""
        depth = self.fmt.emax - self.fmt.element.quantum_exponent
        top = rng.integers((depth + 8) * self.binade, self.inf, n)
        binades = rng.integers(depth - 2, depth + 4, (n, block))
        rest = (top[:, None] // self.binade - binades) * self.binade
        # Half are powers of two: ties between zero and the smallest code among them.
        rest += rng.integers(0, self.binade, (n, block)) * rng.integers(0, 2, (n, block))
        return self.signed(rng, self.placed(rng, top, rest))

    def random(self, rng: np.random.Generator, n: int, block: int) -> Words:
        """Largest elements in every binade, the others up to 1, 4, 16 or 64 binades below."""
        top = rng.integers(1, self.inf, n)
        reach = rng.choice(np.array([1, 4, 16, 64]), (n, 1))
        return self.signed(rng, self.below(rng, top, block, reach))


@checked
def block_classes(
    format: str | MXFormat = "mxsf", source: InputFormat = FLOAT32
) -> Mapping[str, DrawBlocks]:
    """Classes of blocks for a converter with rounding ``rne`` and scale mode ``floor``.

    Parameters
    ----------
    format : str or MXFormat
        What is converted to.
    source : InputFormat
        What is converted.

    Returns
    -------
    Mapping
        By class name a function ``draw(rng, n, block)`` that gives the words of `n` blocks, shape
        ``(n, block)``. ``random``, largest elements of any magnitude, is the last. A format with
        one mode has no ``seam``. Scale byte 254 needs a format with an ``emax`` of 0: the largest
        that finite inputs reach is ``254 - emax``.
    """
    fmt = mx_format(format)
    blocks = _Blocks(fmt, source)
    with_seam = isinstance(fmt.element, FloatFormat) and fmt.element.sub is not None
    half = blocks.binade // 2
    return {
        "ties": blocks.ties(),
        **({"seam": blocks.seam()} if with_seam else {}),
        "zeros of both signs": blocks.zeros,
        "subnormal inputs": blocks.subnormals,
        "NaN": blocks.special([1, half, half + 1, 2 * half - 1]),
        "Inf": blocks.special([0]),
        "largest inputs": blocks.largest_inputs,
        "below a power of two": blocks.below_powers,
        "saturating": blocks.saturating(),
        "extreme scales": blocks.extreme_scales,
        "one large": blocks.one_large,
        "random": blocks.random,
    }
