"""Activation functions and their derivatives of one binary32 number, from one table.

The number stays in floating-point form: function, exponent and the highest bits of the mantissa
choose a segment, so nothing is aligned before the polynomial, and results of both signs share their
segments (`mxsafe.tables.activation`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib.wiring import In, Member, Out

from mxsafe import tables
from mxsafe.rtl.arithmetic.bits import any_of, gated_or, named, truncated
from mxsafe.rtl.arithmetic.float_steps import (
    CANONICAL_NAN,
    EXPONENT_BITS,
    MANTISSA_BITS,
    leading_one_and_zeros,
)
from mxsafe.rtl.arithmetic.pipeline import Pipeline
from mxsafe.rtl.configuration import Configuration
from mxsafe.rtl.unit import Unit
from mxsafe.rtl.vector.polynomial import (
    columns,
    product_rows,
    range_shape,
    rise_constant,
    slope_at,
    slope_shape,
)
from mxsafe.tables import Place, activation
from mxsafe.tables.activation import Form
from mxsafe.validation import require_integer

__all__ = [
    "MOST_TABLE_STAGES",
    "TABLE_FUNCTIONS",
    "TableLane",
    "TableLaneConfiguration",
    "check_functions",
    "short_name",
]

_BOUNDARIES: tuple[tuple[str, ...], ...] = (
    (),
    ("sloped",),
    ("sloped", "packed"),
    ("sloped", "summed", "packed"),
    ("chosen", "sloped", "summed", "packed"),
)
"""Where registers stand, for each number of them."""
MOST_TABLE_STAGES = len(_BOUNDARIES) - 1
TABLE_FUNCTIONS = ("relu", "relu_derivative", *activation.FUNCTIONS)
"""Functions that a lane can have."""
_SIGNED = ("gelu_derivative", "silu_derivative")
"""Functions of which a sum can be negative."""
_BIAS = 127
_SUM_BITS = MANTISSA_BITS + 1


def check_functions(functions: object, known: Sequence[str]) -> str:
    """Names of functions, joined by ``+``, from these or from a sequence of names.

    Raises
    ------
    ValueError
        If there is none, one is not known, or one is there twice.
    """
    given = functions.split("+") if isinstance(functions, str) else functions
    names: list[Any] = list(given) if isinstance(given, tuple | list) else [given]
    for name in names or [""]:
        if name not in known or names.count(name) > 1:
            raise ValueError(
                f"functions must be different ones of {', '.join(known)}, not {name!r}"
            )
    return "+".join(names)


def short_name(functions: str) -> str:
    """What names of modules say of functions."""
    return functions.replace("_derivative", "d").replace("+", "_")


@dataclass(frozen=True, kw_only=True)
class TableLaneConfiguration(Configuration):
    """A `TableLane`.

    Parameters
    ----------
    functions : str
        Of `TABLE_FUNCTIONS`, joined by ``+``.
    pipeline : int
        Registers on the way, 0 to 4.

    Raises
    ------
    ValueError
        If there is no such function, or there cannot be so many registers.
    """

    functions: str = "gelu+silu+tanh"
    pipeline: int = 0

    def __post_init__(self) -> None:
        self._set(
            functions=check_functions(self.functions, TABLE_FUNCTIONS),
            pipeline=require_integer("pipeline", self.pipeline, 0, MOST_TABLE_STAGES),
        )

    unnamed = frozenset({"functions"})

    @property
    def base(self) -> str:
        """Name of the module in its usual configuration."""
        every = self.functions == "+".join(TABLE_FUNCTIONS)
        return "table_lane" if every else f"{short_name(self.functions)}_lane"

    @property
    def latency(self) -> int:
        """Enabled clocks from an argument to the result."""
        return self.pipeline

    @property
    def names(self) -> list[str]:
        """The functions."""
        return self.functions.split("+")


class TableLane(Unit[TableLaneConfiguration]):
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


_Part = tuple[str, int, int, int]
"""Function, exponent, how many of the highest bits of the mantissa count, and these bits."""


class _Segments:
    """Where the argument is: a line for each part of a binade that some bit of a table asks for.

    A bit that is the same in both halves of a part comes from the line of the part. So a table has
    a fourth fewer inputs of gates than with the lines of segments alone.

    Parameters
    ----------
    m : amaranth.hdl.Module
        The module being elaborated.
    places : sequence of Place
        Of all segments.
    chosen : Mapping
        By name whether a function is chosen.
    field, mantissa : Value
        Of the argument.
    """

    def __init__(
        self,
        m: Module,
        places: Sequence[Place],
        chosen: Mapping[str, Value],
        field: Value,
        mantissa: Value,
    ) -> None:
        self._m, self._chosen, self._field, self._mantissa = m, chosen, field, mantissa
        self._places = places
        self._lines: dict[_Part, Signal] = {}

    def column(self, name: str, flags: Sequence[bool], rest: bool | None = False) -> Value:
        """A bit of a table: that of the segment, `rest` if there is none (None: anything)."""
        if rest is None:
            rest = 2 * sum(flags) > len(flags)
        parts = self._parts([flag != rest for flag in flags])
        if not parts:
            return Const(rest, 1)
        differs = Cat(*(self._line(part) for part in parts)).any()
        return named(self._m, name, 1, ~differs if rest else differs)

    def _parts(self, flags: Sequence[bool]) -> list[_Part]:
        """The fewest parts that are made of the segments with a flag."""
        binades: dict[tuple[str, int], dict[tuple[int, int], bool]] = {}
        for place, flag in zip(self._places, flags, strict=True):
            binade = binades.setdefault((place.function, place.exponent), {})
            binade[place.depth, place.index] = flag
        return [
            (*binade, *part)
            for binade, leaves in binades.items()
            for part in _covered(leaves, 0, 0)
        ]

    def _line(self, part: _Part) -> Signal:
        """Whether the argument is in a part."""
        if part not in self._lines:
            function, exponent, depth, index = part
            name = f"in_{function}_{exponent + _BIAS}_{depth}_{index}"
            line = self._chosen[function] & (self._field == exponent + _BIAS)
            if depth:
                # As a test of bits: a comparison with 0 becomes a logical operator of Verilog.
                wrong = self._mantissa[-depth:] ^ index
                line = line & ~wrong.any()
            self._lines[part] = named(self._m, name, 1, line)
        return self._lines[part]


def _covered(
    leaves: Mapping[tuple[int, int], bool], depth: int, index: int
) -> list[tuple[int, int]]:
    """Depths and indices of the fewest parts of a part in which all segments have a flag."""
    if (depth, index) in leaves:
        return [(depth, index)] if leaves[depth, index] else []
    halves = [(depth + 1, 2 * index + half) for half in (0, 1)]
    found = [part for half in halves for part in _covered(leaves, *half)]
    return [(depth, index)] if found == halves else found


class _Lane:
    """What a lane is made of, step by step."""

    def __init__(self, m: Module, pipe: Pipeline, word: Value, chosen: Mapping[str, Value]) -> None:
        self._m, self._pipe, self._chosen = m, pipe, chosen
        self._sign, self._mantissa = word[31], word[:MANTISSA_BITS]
        self._field = word[MANTISSA_BITS:31]
        table = tables.load("activation")
        self._table = table.only(
            [i for i, place in enumerate(table.places) if place.function in chosen]
        )
        self._segments = _Segments(m, self._table.places, chosen, self._field, self._mantissa)

    def _any(self, names: Iterable[str]) -> Value:
        """Whether one of these functions is chosen."""
        return any_of(
            [Const(0, 1), *(self._chosen[name] for name in names if name in self._chosen)]
        )

    def result(self) -> Value:
        """Bits of the result, behind all registers."""
        m = self._m
        some = named(m, "has_mantissa", 1, self._mantissa.any())
        nan = named(m, "is_nan", 1, self._field.all() & some)
        relu = self._any(["relu"])
        odd = self._any(name for name in self._chosen if _is_odd(name))
        # A NaN keeps its sign with relu, and has none otherwise.
        keeps = named(m, "keeps_sign", 1, Mux(nan, relu, odd))
        forms = self._forms()
        base, subtract, absolute = self._base(forms, nan)
        tiny = named(m, "is_tiny", 1, ~absolute & ~self._field[1:].any())
        field = Mux(absolute, _BIAS, Cat(self._field[0] | tiny, self._field[1:]))
        flags: dict[str, Value] = {
            "subtracts": subtract,
            "reference": named(m, "reference", EXPONENT_BITS, field),
            "is_tiny": tiny,
            "is_negative": named(m, "is_negative", 1, self._sign & keeps),
            "becomes_nan": named(m, "becomes_nan", 1, nan & ~relu),
            "has_sign": self._any(_SIGNED),
        }
        total = self._sum(base, flags)
        return self._pipe.cross("packed", "result", self._packed(total, flags))

    def _forms(self) -> dict[str, Value]:
        """By name, whether the result has that form."""
        m = self._m
        found: dict[str, list[Value]] = {}
        for form in dict.fromkeys(place.form for place in self._table.places):
            flags = [place.form == form for place in self._table.places]
            found[form] = [self._segments.column(f"{form}_segments", flags)]
        for name, function in activation.FUNCTIONS.items():
            if name in self._chosen:
                first, last = function.first + _BIAS, function.last + _BIAS
                small = named(m, f"is_below_{name}", 1, self._chosen[name] & (self._field < first))
                large = named(m, f"is_beyond_{name}", 1, self._chosen[name] & (self._field > last))
                found.setdefault(function.small, []).append(small)
                found.setdefault(function.large, []).append(large)
        return {form: named(m, f"is_{form}", 1, any_of(parts)) for form, parts in found.items()}

    def _base(self, forms: Mapping[str, Value], nan: Value) -> tuple[Value, Value, Value]:
        """The base, whether the polynomial is subtracted from it, and whether in units of 1."""
        m = self._m

        def where(name: str, test: Callable[[Form, int], bool], *others: Value) -> Value:
            parts = [
                form & self._where_side(*(test(activation.FORMS[key], side) for side in (0, 1)))
                for key, form in forms.items()
            ]
            return named(m, name, 1, any_of([Const(0, 1), *parts, *others]))

        # Both `relu` and its derivative are 0 where the sign is set, but for NaN; the latter at 0.
        relu = self._any(["relu"]) & (~self._sign | nan)
        zero = named(m, "is_zero", 1, ~self._field.any() & ~self._mantissa.any())
        step = self._any(["relu_derivative"])
        whole = where(
            "whole_base", lambda form, side: form.base[side] == 2, relu, step & ~self._sign & ~zero
        )
        half = where("half_base", lambda form, side: form.base[side] == 1)
        subtract = where("subtracts", lambda form, side: form.subtract[side])
        absolute = where("is_absolute", lambda form, side: form.absolute, step)
        hidden = named(m, "hidden_bit", 1, absolute | self._field.any())
        fraction = self._mantissa & ~absolute.replicate(MANTISSA_BITS)
        significand = named(m, "significand", _SUM_BITS, Cat(fraction, hidden))
        choices = (whole, significand), (half, significand[1:])
        return gated_or(m, "base", choices), subtract, absolute

    def _where_side(self, positive: bool, negative: bool) -> Value:
        if positive and negative:
            return Const(1, 1)
        if not positive and not negative:
            return Const(0, 1)
        return ~self._sign if positive else self._sign

    def _sum(self, base: Value, flags: dict[str, Value]) -> Value:
        """Base plus or less the polynomial: its magnitude. The flags cross the registers too."""
        m, pipe, table = self._m, self._pipe, self._table
        subtract = flags["subtracts"]
        # a - b is ~(~a + b): to subtract takes inverters and no carry.
        start: Value = named(m, "start", _SUM_BITS, base ^ subtract.replicate(_SUM_BITS))
        low = MANTISSA_BITS - table.fraction_bits
        width = _SUM_BITS - low
        if table.segments:
            distance = self._distance()
            rest = (rise_constant(table) % (1 << width), None, None)
            c0, c1, c2 = (
                pipe.cross("chosen", f"c{power}", self._coefficient(power, width, other))
                for power, other in enumerate(rest)
            )
            distance = pipe.cross("chosen", "distance", distance).as_signed()
            start = pipe.cross("chosen", "start", start)
            self._cross(flags, "chosen")
            slope = slope_at(m, "segment", table, c1, c2, distance)
            upper = truncated(m, "upper_start", width, start[low:] + c0)
            slope = pipe.cross("sloped", "slope", slope)
            distance = pipe.cross("sloped", "distance", distance).as_signed()
            start = pipe.cross("sloped", "start", Cat(start[:low], upper))
            self._cross(flags, "sloped")
            rows = product_rows(m, "rise", slope, distance, table.result_shift)
            start = Cat(start[:low], truncated(m, "upper_sum", width, sum(rows, start[low:])))
        else:
            for boundary in ("chosen", "sloped"):
                start = pipe.cross(boundary, "start", start)
                self._cross(flags, boundary)
        total = start ^ flags["subtracts"].replicate(_SUM_BITS)
        # A sum below 0 is one of a derivative, and close to 0: its upper bits are both set.
        below = named(m, "is_below_zero", 1, flags["has_sign"] & total[-1] & total[-2])
        magnitude = named(m, "magnitude", _SUM_BITS, total ^ below.replicate(_SUM_BITS))
        flags["is_negative"] = flags["is_negative"] | below
        self._cross(flags, "summed")
        return pipe.cross("summed", "magnitude", magnitude)

    def _cross(self, flags: dict[str, Value], boundary: str) -> None:
        for name, value in flags.items():
            flags[name] = self._pipe.cross(boundary, name, value)

    def _distance(self) -> Value:
        """Where in its segment the argument is, from the middle; 0 if there is no segment."""
        m, bits = self._m, self._table.offset_bits
        windows = []
        for depth in sorted({place.depth for place in self._table.places}):
            flags = [place.depth == depth for place in self._table.places]
            gate = self._segments.column(f"has_depth_{depth}", flags)
            top = MANTISSA_BITS - depth
            windows.append((gate, self._mantissa[top - bits : top]))
        offset = gated_or(m, "offset", windows)
        within = named(m, "is_within", 1, any_of(gate for gate, _ in windows))
        return named(m, "distance", signed(bits), Cat(offset[:-1], ~offset[-1] & within))

    def _coefficient(self, power: int, width: int, other: int | None) -> Value:
        """A coefficient of the segment: of none `other`, or anything."""
        m, table = self._m, self._table
        values = columns(table, width)[power]
        shape = (width, slope_shape(table).width, None)[power]
        shape = range_shape(values) if shape is None else unsigned(shape)
        if shape.width == 0 or (len(set(values)) == 1 and power == 2):
            return Const(values[0], shape)
        bits = []
        for bit in range(shape.width):
            flags = [bool(value >> bit & 1) for value in values]
            rest = None if other is None else bool(other >> bit & 1)
            bits.append(self._segments.column(f"c{power}_{bit}", flags, rest))
        return named(m, f"c{power}", shape, Cat(*bits))

    def _packed(self, magnitude: Value, flags: Mapping[str, Value]) -> Value:
        """A binary32 of a sum and the exponent field of its upper bit."""
        m = self._m
        _, zeros = leading_one_and_zeros(m, "zeros", magnitude)
        # Numbers near the smallest are not moved.
        stays = flags["is_tiny"].replicate(len(zeros))
        distance = named(m, "distance_up", len(zeros), zeros & ~stays)
        shifted = named(m, "shifted", _SUM_BITS, (magnitude << distance)[:_SUM_BITS])
        lowered = truncated(m, "lowered", EXPONENT_BITS, flags["reference"] - distance)
        field = lowered & shifted[-1].replicate(EXPONENT_BITS)
        word = Cat(shifted[:-1], field, flags["is_negative"])
        return Mux(flags["becomes_nan"], CANONICAL_NAN, word)


def _is_odd(name: str) -> bool:
    return name in activation.FUNCTIONS and activation.FUNCTIONS[name].odd
