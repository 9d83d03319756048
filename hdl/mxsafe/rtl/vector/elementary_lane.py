"""Exponential, sigmoid, reciprocal and reciprocal square root of one binary32 number.

There are two polynomials in a row: a power of two, which `exp` ends with, and a reciprocal or a
reciprocal square root. `sigmoid` takes both, with 1 added between them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from amaranth.hdl import Cat, Const, Module, Mux, Value, signed
from amaranth.lib.wiring import In, Member, Out

from mxsafe import tables
from mxsafe.rtl.arithmetic.bits import any_of, named, truncated
from mxsafe.rtl.arithmetic.float_steps import (
    CANONICAL_NAN,
    INFINITY,
    MANTISSA_BITS,
    leading_one_and_zeros,
)
from mxsafe.rtl.arithmetic.pipeline import Pipeline
from mxsafe.rtl.configuration import Configuration
from mxsafe.rtl.unit import Unit
from mxsafe.rtl.vector.polynomial import polynomial
from mxsafe.rtl.vector.table_lane import check_functions, short_name
from mxsafe.tables import Table
from mxsafe.validation import require_integer

__all__ = [
    "ELEMENTARY_FUNCTIONS",
    "MOST_ELEMENTARY_STAGES",
    "ElementaryLane",
    "ElementaryLaneConfiguration",
]

_BOUNDARIES: tuple[tuple[str, ...], ...] = (
    (),
    ("powered",),
    ("powered", "packed"),
    ("scaled", "powered", "packed"),
    ("scaled", "powered", "root_sloped", "packed"),
    ("scaled", "power_sloped", "powered", "root_sloped", "packed"),
    ("scaled", "power_sloped", "powered", "added", "root_sloped", "packed"),
)
"""Where registers stand, for each number of them."""
MOST_ELEMENTARY_STAGES = len(_BOUNDARIES) - 1
ELEMENTARY_FUNCTIONS = ("exp", "sigmoid", "reciprocal", "rsqrt")
"""Functions that a lane can have."""
_BIAS = 127
_LOG2_E = 0x5C551D9
"""log2(e) in units of 2^-26."""
_LOG2_E_BITS = 26
_LEAST_FIELD, _FAR_FIELD = _BIAS - 20, _BIAS + 7
"""Numbers below count as 0 in a power of e; from there on it is 0 or Inf."""
_EXPONENT_SHAPE = signed(10)


@dataclass(frozen=True, kw_only=True)
class ElementaryLaneConfiguration(Configuration):
    """An `ElementaryLane`.

    Parameters
    ----------
    functions : str
        Of `ELEMENTARY_FUNCTIONS`, joined by ``+``.
    pipeline : int
        Registers on the way, 0 to 6.

    Raises
    ------
    ValueError
        If there is no such function, or there cannot be so many registers.
    """

    unnamed = frozenset({"functions"})

    functions: str = "exp"
    pipeline: int = 0

    def __post_init__(self) -> None:
        self._set(
            functions=check_functions(self.functions, ELEMENTARY_FUNCTIONS),
            pipeline=require_integer("pipeline", self.pipeline, 0, MOST_ELEMENTARY_STAGES),
        )

    @property
    def base(self) -> str:
        """Name of the module in its usual configuration."""
        every = self.functions == "+".join(ELEMENTARY_FUNCTIONS)
        return "elementary_lane" if every else f"{short_name(self.functions)}_lane"

    @property
    def latency(self) -> int:
        """Enabled clocks from an argument to the result."""
        return self.pipeline

    @property
    def names(self) -> list[str]:
        """The functions."""
        return self.functions.split("+")


class ElementaryLane(Unit[ElementaryLaneConfiguration]):
    """Functions of one number, one of them at a time.

    Attributes
    ----------
    en : In(1)
        Clock enable, if there are registers.
    chosen : In
        A bit for each function, in the order of the configuration, of which one is set; if there
        are several.
    value : In(32)
    result : Out(32)
    """

    def ports(self) -> Mapping[str, Member]:
        """The argument and its function, and the result."""
        enable = {"en": In(1)} if self.config.pipeline else {}
        names = self.config.names
        chosen = {"chosen": In(len(names))} if len(names) > 1 else {}
        return {**enable, **chosen, "value": In(32), "result": Out(32)}

    def elaborate(self, platform: object) -> Module:
        m = Module()
        stages = self.config.pipeline
        enable = self.en if stages else Const(1)
        pipe = Pipeline(m, enable, _BOUNDARIES[stages], stages, reset=False)
        names = self.config.names
        chosen = self.chosen if len(names) > 1 else [Const(1, 1)]
        lane = _Lane(m, pipe, self.value, dict(zip(names, chosen, strict=True)))
        m.d.comb += self.result.eq(lane.result())
        return m


class _Lane:
    """What a lane is made of, step by step.

    What later steps need of earlier ones is kept in a dictionary, which crosses the registers.
    """

    def __init__(self, m: Module, pipe: Pipeline, word: Value, chosen: Mapping[str, Value]) -> None:
        self._m, self._pipe, self._word = m, pipe, word
        self._names = frozenset(chosen)
        self._kept: dict[str, Value] = {f"is_{name}": flag for name, flag in chosen.items()}
        self._has_power = bool(self._names & {"exp", "sigmoid"})
        self._has_root = bool(self._names - {"exp"})

    def _is(self, *names: str) -> Value:
        """Whether one of these functions is chosen."""
        if self._names <= set(names):
            return Const(1, 1)
        return any_of([Const(0, 1), *(self._kept[f"is_{n}"] for n in names if n in self._names)])

    def _cross(self, *boundaries: str) -> None:
        for boundary in boundaries:
            for name, value in self._kept.items():
                self._kept[name] = self._pipe.cross(boundary, name, value)

    def result(self) -> Value:
        """Bits of the result, behind all registers."""
        self._decode()
        if self._has_power:
            self._scale()
        self._cross("scaled")
        if self._has_power:
            self._raise()
        else:
            self._cross("power_looked_up", "power_sloped")
        self._cross("powered")
        if self._has_power:
            self._merge()
        self._cross("added")
        if self._has_root:
            self._root()
        else:
            self._cross("root_looked_up", "root_sloped")
        return self._pipe.cross("packed", "result", self._packed())

    def _decode(self) -> None:
        """Specials, and what the root is of: fraction, and the field of an exact result."""
        m, kept = self._m, self._kept
        sign, field = self._word[31], self._word[MANTISSA_BITS:31]
        mantissa = self._word[:MANTISSA_BITS]
        subnormal = named(m, "is_subnormal_or_zero", 1, ~field.any())
        some = named(m, "has_mantissa", 1, mantissa.any())
        top = named(m, "has_top_exponent", 1, field.all())
        zero = named(m, "is_zero", 1, subnormal & ~some)
        far = named(m, "is_far", 1, field >= _FAR_FIELD)
        reciprocal, rsqrt = self._is("reciprocal"), self._is("rsqrt")
        nan = (top & some) | (rsqrt & sign & ~zero)
        # Of subnormals the two upper binades have a finite reciprocal.
        vanishing = subnormal & ~mantissa[-2:].any()
        infinite = (self._is("exp") & far & ~sign) | (reciprocal & vanishing) | (rsqrt & zero)
        none = (self._is("exp", "sigmoid") & far & sign) | (rsqrt & top)
        kept["becomes_nan"] = named(m, "becomes_nan", 1, nan)
        kept["becomes_infinite"] = named(m, "becomes_infinite", 1, infinite)
        kept["becomes_zero"] = named(m, "becomes_zero", 1, none)
        kept["is_negative"] = named(m, "is_negative", 1, sign & (reciprocal | (rsqrt & zero)))
        if "sigmoid" in self._names:
            kept["becomes_one"] = named(m, "becomes_one", 1, self._is("sigmoid") & far & ~sign)
        choices: list[tuple[Value, Value, Value]] = []
        if "reciprocal" in self._names:
            shifted = Mux(mantissa[-1], mantissa << 1, mantissa << 2)[:MANTISSA_BITS]
            fraction = named(m, "fraction", MANTISSA_BITS, Mux(subnormal, shifted, mantissa))
            raised = Mux(subnormal, Cat(mantissa[-1], ~mantissa[-1]), 0)
            exact = named(m, "exact_field", _EXPONENT_SHAPE, 254 - field.as_unsigned())
            lifted = truncated(m, "field", 10, exact + raised - subnormal)
            choices.append((reciprocal, fraction, lifted))
        if "rsqrt" in self._names:
            choices.append((rsqrt, *self._normalised(field, mantissa, subnormal)))
        if choices:
            _, fraction, reference = choices[-1]
            for chosen, other, field_of_other in choices[:-1]:
                fraction = Mux(chosen, other, fraction)
                reference = Mux(chosen, field_of_other, reference)
            kept["fraction"] = named(m, "root_fraction", MANTISSA_BITS, fraction)
            kept["reference"] = named(m, "root_reference", 10, reference)

    def _normalised(self, field: Value, mantissa: Value, subnormal: Value) -> tuple[Value, Value]:
        """Fraction and field of an exact square root, also of subnormals; whether it is odd."""
        m = self._m
        _, zeros = leading_one_and_zeros(m, "leading_zeros", mantissa)
        up = named(m, "normalised", MANTISSA_BITS, (mantissa << (zeros + 1))[:MANTISSA_BITS])
        fraction = named(m, "square_fraction", MANTISSA_BITS, Mux(subnormal, up, mantissa))
        # Less the bias, an exponent is odd where its field is even.
        lowered = named(m, "lowered_field", 8, -zeros)
        low = named(m, "low_field", 8, Mux(subnormal, lowered, field))
        below = named(m, "is_below_bias", 1, subnormal & low[-1])
        place = Cat(low, below, below).as_signed()
        self._kept["is_odd"] = named(m, "is_odd", 1, ~low[0])
        half = named(m, "half", signed(10), (place - _BIAS) >> 1)
        return fraction, truncated(m, "square_reference", 10, _BIAS - half)

    def _scale(self) -> None:
        """x, or -x for the sigmoid, times log2(e)."""
        m = self._m
        field, mantissa = self._word[MANTISSA_BITS:31], self._word[:MANTISSA_BITS]
        table = tables.load("exp2")
        fraction_bits = table.index_bits + table.offset_bits
        within = named(m, "counts", 1, (field >= _LEAST_FIELD) & (field < _FAR_FIELD))
        significand = Cat(mantissa, within) & within.replicate(MANTISSA_BITS + 1)
        product = named(m, "scaled", None, significand * Const(_LOG2_E, _LOG2_E_BITS + 1))
        # The largest number that counts has the smallest shift.
        least = MANTISSA_BITS + _LOG2_E_BITS - fraction_bits - (_FAR_FIELD - 1 - _BIAS)
        upper = product[least:]
        amount = truncated(m, "amount", 5, Const(_FAR_FIELD - 1, 8) - field)
        size = named(m, "size", len(upper), upper >> amount)
        downwards = named(m, "is_downwards", 1, self._word[31] ^ self._is("sigmoid"))
        power = named(m, "power", signed(len(upper) + 1), Mux(downwards, -size, size))
        self._kept["power_fraction"] = power[:fraction_bits]
        self._kept["power_exponent"] = power[fraction_bits:]

    def _raise(self) -> None:
        """Two to the power."""
        m, kept = self._m, self._kept
        table = tables.load("exp2")
        fraction = kept.pop("power_fraction")
        segment, offset = fraction[table.offset_bits :], fraction[: table.offset_bits]
        kept["has_fraction"] = named(m, "has_fraction", 1, fraction.any())
        self._cross("power_looked_up")
        value = polynomial(
            m, "power_of_two", table, segment, offset, pipe=self._pipe, prefix="power_"
        )
        self._cross("power_sloped")
        # Powers of two are exact.
        exact = kept.pop("has_fraction").replicate(table.fraction_bits)
        kept["power_mantissa"] = named(
            m, "power_mantissa", table.fraction_bits, value[: table.fraction_bits] & exact
        )

    def _merge(self) -> None:
        """Fraction and field of the exponential, or those of which the sigmoid is a reciprocal."""
        m, kept = self._m, self._kept
        exponent = kept.pop("power_exponent").as_signed()
        mantissa = Cat(Const(0, 1), kept.pop("power_mantissa"))
        choices: list[tuple[Value, Value, Value]] = []
        if "exp" in self._names:
            field = truncated(m, "power_field", 10, exponent + _BIAS)
            choices.append((self._is("exp"), mantissa, field))
        if "sigmoid" in self._names:
            choices.append((self._is("sigmoid"), *self._one_more(exponent, mantissa)))
        fraction, reference = kept.get("fraction"), kept.get("reference")
        for chosen, other, field in choices:
            fraction = other if fraction is None else Mux(chosen, other, fraction)
            reference = field if reference is None else Mux(chosen, field, reference)
        assert fraction is not None
        assert reference is not None
        kept["fraction"] = named(m, "merged_fraction", MANTISSA_BITS, fraction)
        kept["reference"] = named(m, "merged_reference", 10, reference)

    def _one_more(self, exponent: Value, mantissa: Value) -> tuple[Value, Value]:
        """One more than a power of e: fraction, and field of its reciprocal if that is exact."""
        m = self._m
        lower = exponent[-1]
        size = named(m, "exponent_size", len(exponent), Mux(lower, -exponent, exponent))
        most = MANTISSA_BITS + 1
        beyond = named(m, "is_beyond", 1, size > most)
        distance = named(m, "distance", 5, Mux(beyond, most, size[:5]))
        one, power = Const(1 << MANTISSA_BITS, MANTISSA_BITS + 1), Cat(mantissa, Const(1, 1))
        large = named(m, "larger", MANTISSA_BITS + 1, Mux(lower, one, power))
        small = named(m, "smaller", MANTISSA_BITS + 1, Mux(lower, power, one) >> distance)
        total = named(m, "one_more", MANTISSA_BITS + 2, large + small)
        carry = total[-1]
        fraction = Mux(carry, total[1:-1], total[:-2])
        upper = named(m, "upper_exponent", len(exponent), Mux(lower, 0, exponent) + carry)
        return fraction[:MANTISSA_BITS], truncated(m, "sigmoid_field", 10, _BIAS - upper)

    def _root(self) -> None:
        """Reciprocal or reciprocal square root of the fraction, unless that is the result."""
        m, kept = self._m, self._kept
        fraction = kept["fraction"]
        is_root = self._is("rsqrt")
        parts = [(name, _root_argument(name, fraction, kept.get("is_odd"))) for name in _ROOTS]
        used = [part for name, part in parts if _ROOTS[name] & self._names]
        table = _joined([name for name in _ROOTS if _ROOTS[name] & self._names])
        segment, offset, exact = used[0]
        if len(used) > 1:
            other = used[1]
            segment = Cat(Mux(is_root, other[0], segment), is_root)
            offset, exact = Mux(is_root, other[1], offset), Mux(is_root, other[2], exact)
        kept.pop("is_odd", None)
        passes = self._is("exp")
        if "exp" not in self._names:
            kept.pop("fraction")
        # Of what is exact the mantissa is 0 already, or passes.
        kept["is_exact"] = named(m, "is_exact", 1, exact | passes)
        self._cross("root_looked_up")
        value = polynomial(
            m,
            "root",
            table,
            named(m, "root_segment", table.index_bits, segment),
            named(m, "root_offset", table.offset_bits, offset),
            pipe=self._pipe,
            prefix="root_",
        )
        self._cross("root_sloped")
        low = MANTISSA_BITS + 1 - table.fraction_bits
        below = Cat(Const(0, low), value[: MANTISSA_BITS - low])
        exact = kept.pop("is_exact")
        mantissa = below & ~exact.replicate(MANTISSA_BITS)
        if "exp" in self._names:
            passing = self._is("exp").replicate(MANTISSA_BITS)
            mantissa = mantissa | (kept["fraction"] & passing)
        kept["fraction"] = named(m, "root_mantissa", MANTISSA_BITS, mantissa)
        kept["reference"] = truncated(m, "root_field", 10, kept["reference"] - ~exact)

    def _packed(self) -> Value:
        """A binary32 of fraction and field, or what takes its place."""
        m, kept = self._m, self._kept
        field, mantissa = kept["reference"], kept["fraction"]
        small = named(m, "is_too_small", 1, field[-1] | ~field.any())
        large = named(m, "is_too_large", 1, ~field[-1] & (field[8] | field[:8].all()))
        word = Cat(mantissa, field[:8])
        sigmoid = self._is("sigmoid")
        if "sigmoid" in self._names:
            # Only the sigmoid has subnormal results.
            most = MANTISSA_BITS + 1
            lost = truncated(m, "lost", 10, 1 - field.as_signed())
            beyond = named(m, "is_lost", 1, lost[5:].any())
            amount = named(m, "lost_bits", 5, Mux(beyond, most, lost[:5]))
            rest = named(m, "rest", most, Cat(mantissa, Const(1, 1)) >> amount)
            word = Mux(small & sigmoid, rest, word)
        zero = kept["becomes_zero"] | (small & ~sigmoid)
        infinite = kept["becomes_infinite"] | large
        number = Mux(zero, 0, Mux(infinite, INFINITY, word))
        if "sigmoid" in self._names:
            number = Mux(kept["becomes_one"], _BIAS << MANTISSA_BITS, number)
        bits = named(m, "number", 31, number)
        return Mux(kept["becomes_nan"], CANONICAL_NAN, Cat(bits, kept["is_negative"]))


_ROOTS: Mapping[str, frozenset[str]] = MappingProxyType(
    {"reciprocal": frozenset({"reciprocal", "sigmoid"}), "rsqrt": frozenset({"rsqrt"})}
)
"""By table the functions that take it."""


def _root_argument(name: str, fraction: Value, odd: Value | None) -> tuple[Value, Value, Value]:
    """Segment and offset in a table, and whether the result is a power of two."""
    table = tables.load(name)
    shares = name == "rsqrt"  # its upper half is for odd exponents
    kept = fraction[-(table.index_bits - shares + table.offset_bits) :]
    segment, offset = kept[table.offset_bits :], kept[: table.offset_bits]
    if not shares:
        return segment, offset, ~kept.any()
    if odd is None:
        return segment, offset, Const(0, 1)
    return Cat(segment, odd), offset, ~kept.any() & ~odd


def _joined(names: list[str]) -> Table:
    """Tables of equal widths, one after the other."""
    first, *others = (tables.load(name) for name in names)
    for other in others:
        first = replace(
            first,
            coefficients=first.coefficients + other.coefficients,
            bounds=first.bounds + other.bounds,
        )
    return first
