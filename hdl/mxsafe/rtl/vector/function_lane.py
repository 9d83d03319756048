"""Functions of one binary32 number, one of them at a time, by one polynomial.

The number stays in floating-point form. For functions of activations and their derivatives the
function, the exponent and the highest bits of the mantissa choose a segment, so nothing is aligned
before the polynomial, and results of both signs share their segments (`mxsafe.tables.activation`).
For reciprocals and square roots the mantissa alone does. A power of e comes before the tables
(`mxsafe.rtl.vector.lane_front`): `exp` passes them as it is, `sigmoid` is a reciprocal behind it.

A lane of `relu`, `gelu`, `silu` and `tanh` in NanGate 45 nm takes 2,245 GE in `compact`, whose
segments are straight lines. In grade `fine` they are parabolas: of 4,241 GE tables and distance are
by themselves 1,200, the slope 510, its product and the sum 900, normalising 260, registers 760; the
rest chooses the base. There fewer bits of offsets or results need more segments, which are larger
than what they save, and straight lines would have some 1,000 segments of about 7 GE in place of
126. Steps are in ``docs/experiments.md``.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Value, signed, unsigned
from amaranth.lib.wiring import In, Member, Out

from mxsafe import tables
from mxsafe.rtl.arithmetic.bits import any_of, delayed, equals, gated_or, named, truncated
from mxsafe.rtl.arithmetic.float_steps import (
    CANONICAL_NAN,
    EXPONENT_BITS,
    INFINITY,
    MANTISSA_BITS,
    leading_one_and_zeros,
)
from mxsafe.rtl.arithmetic.pipeline import Pipeline
from mxsafe.rtl.unit import Configuration, Ports, Unit
from mxsafe.rtl.vector.lane_front import FIELD_BITS, FRONT, POWERS, ROOTS, front_of
from mxsafe.rtl.vector.polynomial import (
    columns,
    product_rows,
    range_shape,
    rise_constant,
    slope_at,
    slope_shape,
)
from mxsafe.rtl.vector.segments import Segment, Segments
from mxsafe.tables import Grade, Table, activation
from mxsafe.tables.activation import Form
from mxsafe.validation import Names, require_integer

FUNCTIONS = ("relu", "relu_derivative", *activation.FUNCTIONS, *POWERS, *ROOTS)
"""Functions that a lane can have."""
_OF_TABLES: tuple[tuple[str, ...], ...] = (
    (),
    ("sloped",),
    ("sloped", "packed"),
    ("sloped", "summed", "packed"),
    ("chosen", "sloped", "summed", "packed"),
    ("merged", "chosen", "sloped", "summed", "packed"),
    ("merged", "chosen", "sloped", "summed", "signed", "packed"),
)
_OF_ROOTS: tuple[tuple[str, ...], ...] = (
    *_OF_TABLES[:4],
    ("merged", "sloped", "summed", "packed"),
    ("merged", "chosen", "sloped", "summed", "packed"),
)
_OF_POWERS: tuple[tuple[str, ...], ...] = (
    (),
    ("merged",),
    ("merged", "packed"),
    ("powered", "merged", "packed"),
    ("powered", "merged", "sloped", "packed"),
    ("powered", "raised", "merged", "sloped", "packed"),
    ("scaled", "powered", "raised", "merged", "sloped", "packed"),
    ("scaled", "powered", "raised", "merged", "sloped", "summed", "packed"),
    (*FRONT, "sloped", "summed", "packed"),
    (*FRONT, "chosen", "sloped", "summed", "packed"),
)
"""Where registers stand, for each number of them."""
_SIGNED = ("gelu_derivative", "silu_derivative")
"""Functions of which a sum can be negative."""
_RECIPROCALS = ("sigmoid", "reciprocal")
_BIAS = 127


def _boundaries(functions: str) -> tuple[tuple[str, ...], ...]:
    """Where registers stand, for each number of them."""
    names = set(functions.split("+"))
    if names & set(POWERS):
        return _OF_POWERS
    return _OF_ROOTS if names & set(ROOTS) else _OF_TABLES


def most_stages(functions: str) -> int:
    """The most registers that a lane of these functions may have."""
    return len(_boundaries(functions)) - 1


def default_stages(functions: str) -> int:
    """Registers for 500 MHz in 45 nm."""
    # Those of tables alone have places that only look-up tables need.
    spare = 3 if _boundaries(functions) is _OF_TABLES else 1
    return most_stages(functions) - spare


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
    """Return the short name of functions for module names."""
    return functions.replace("_derivative", "d").replace("+", "_")


class FunctionLaneConfiguration(Configuration):
    """A `FunctionLane`.

    Parameters
    ----------
    functions : str
        Of `FUNCTIONS`, joined by ``+``.
    pipeline : int
        Registers on the way, up to `most_stages` of the functions.
    grade : {"compact", "fine"}
        How exact they are, see `mxsafe.model.functions`.

    Raises
    ------
    ValueError
        If there is no such function, or there cannot be so many registers.
    """

    functions: Names = "gelu+silu+tanh"
    pipeline: int = 0
    grade: Grade = "compact"

    def __post_init__(self) -> None:
        self._set(functions=check_functions(self.functions, FUNCTIONS))
        most = most_stages(self.functions)
        self._set(pipeline=require_integer("pipeline", self.pipeline, 0, most))

    unnamed = frozenset({"functions"})

    @property
    def base(self) -> str:
        every = self.functions == "+".join(FUNCTIONS)
        return "function_lane" if every else f"{short_name(self.functions)}_lane"

    @property
    def front_latency(self) -> int:
        """Enabled cycles from an argument to the look-up in tables."""
        return sum(boundary in FRONT for boundary in self.boundaries)

    @property
    def chooses_early(self) -> bool:
        """Whether something in front of the tables depends on the function."""
        return not set(self.names).isdisjoint((*POWERS, *ROOTS))

    @property
    def boundaries(self) -> tuple[str, ...]:
        """Where registers stand."""
        return _boundaries(self.functions)[self.pipeline]

    @property
    def names(self) -> list[str]:
        """The functions, in the order of their codes."""
        return self.functions.split("+")

    @property
    def code_bits(self) -> int:
        """Bits of a function's code: its place in `functions`."""
        return (len(self.names) - 1).bit_length()


class FunctionLane(Unit[FunctionLaneConfiguration]):
    """Functions of one number, one of them at a time.

    Attributes
    ----------
    en : In(1)
        Clock enable, if there are registers.
    chosen : In
        A bit for each function, in the order of the configuration, of which one is set; if there
        are several, and no registers before the tables.
    code, code_next : In
        With such registers in its place: the place of the function in the configuration, and the
        same one enabled cycle less than `front_latency` later; without powers and roots the latter
        alone. Lanes can share registers before that. Each has the last one for itself, a bit for
        each function: it chooses many rows.
    value : In(32)
        A binary32 number.
    result : Out(32)
        The function of it.
    """

    def __init__(
        self, configuration: FunctionLaneConfiguration | None = None, **parameters: Any
    ) -> None:
        super().__init__(configuration, **parameters)
        # Synthesis would make one register of those that lanes have for themselves.
        self.synthesised_once = self.config.front_latency > 0

    def ports(self) -> Ports:
        enable = {"en": In(1)} if self.config.pipeline else {}
        function: dict[str, Member] = {}
        if len(self.config.names) > 1:
            function = {"chosen": In(len(self.config.names))}
        if function and self.config.front_latency:
            names = ("code", "code_next") if self.config.chooses_early else ("code_next",)
            function = {name: In(self.config.code_bits) for name in names}
        return {**enable, **function, "value": In(32), "result": Out(32)}

    def fill(self, m: Module, platform: object) -> None:
        config, names = self.config, self.config.names
        enable = self.en if config.pipeline else Const(1)
        pipe = Pipeline(m, enable, config.boundaries, config.pipeline, reset=False)
        first: dict[str, Value] = dict.fromkeys(names, Const(1, 1))
        late = first
        if len(names) > 1 and config.front_latency:
            if config.chooses_early:
                first = function_flags(m, "is", names, self.code)
            late = {
                name: delayed(m, enable, f"{name}_chosen", flag, 1)
                for name, flag in function_flags(m, "next_is", names, self.code_next).items()
            }
        elif len(names) > 1:
            late = first = dict(zip(names, self.chosen, strict=True))
        known = sorted(
            {
                place.exponent + _BIAS
                for place in tables.load(f"activation_{config.grade}").places
                if place.function in names
            }
        )
        number = front_of(m, pipe, self.value, first, known, config.grade)
        m.d.comb += self.result.eq(_Lane(m, pipe, number, late, config.grade).result())


def function_flags(m: Module, verb: str, names: Sequence[str], code: Value) -> dict[str, Value]:
    """Of each function whether it has a code, which is its place among the names."""
    return {
        name: named(m, f"{verb}_{name}", 1, equals(code, number))
        for number, name in enumerate(names)
    }


_Flags = dict[str, Value]


class _Lane:
    """Tables, polynomial and result, step by step."""

    def __init__(
        self,
        m: Module,
        pipe: Pipeline,
        number: tuple[Value, Value, Value, dict[int, Value]],
        chosen: Mapping[str, Value],
        grade: Grade,
    ) -> None:
        self._m, self._pipe, self._chosen, self._grade = m, pipe, chosen, grade
        self._sign, self._wide_field, self._mantissa, fields = number
        self._field = self._wide_field[:EXPONENT_BITS]
        self._some = named(m, "has_mantissa", 1, self._mantissa.any())
        self._has_roots = bool({*ROOTS, *POWERS[1:]} & set(chosen))
        table = tables.load(f"activation_{grade}")
        self._places = [place for place in table.places if place.function in chosen]
        self._table = table.only(
            [i for i, place in enumerate(table.places) if place.function in chosen]
        )
        places = [Segment(p.function, p.exponent, p.depth, p.index) for p in self._places]
        lines = dict(chosen)
        self._exact, rows = self._roots(lines)
        for name, segments in rows:
            places += segments
            self._table = _with_rows(self._table, tables.load(f"{name}_{self._grade}"))
        self._rows = places
        self._segments = Segments(m, places, lines, fields, self._mantissa)
        self._base_bits = activation.BASE_BITS[grade]
        # Roots have a bit more, and none above that of 1/2.
        least = self._table.fraction_bits + 2 * self._has_roots
        self._fraction_bits = max(self._base_bits, least)

    def _any(self, names: Iterable[str]) -> Value:
        """Whether one of these functions is chosen."""
        return any_of(
            [Const(0, 1), *(self._chosen[name] for name in names if name in self._chosen)]
        )

    def _roots(self, lines: dict[str, Value]) -> tuple[Value, list[tuple[str, list[Segment]]]]:
        """Whether a root is a power of two, and the tables of roots with their segments.

        When segments of roots are chosen is added to `lines`: where the result is not exact.
        """
        m = self._m
        exact: list[Value] = [Const(0, 1)]
        rows = []
        for name, users in (("reciprocal", _RECIPROCALS), ("rsqrt", ("rsqrt",))):
            if not set(users) & set(self._chosen):
                continue
            table, chosen = tables.load(f"{name}_{self._grade}"), self._any(users)
            halves = ("",) if name == "reciprocal" else ("_even", "_odd")
            depth = (table.segments // len(halves) - 1).bit_length()
            kept = self._mantissa[MANTISSA_BITS - depth - table.offset_bits :]
            whole = named(m, f"{name}_is_whole", 1, chosen & ~kept.any())
            # Less the bias, an exponent is odd where its field is even.
            odd = ~self._field[0] if len(halves) > 1 else Const(0, 1)
            lines[f"{name}{halves[0]}"] = chosen & ~odd & ~whole
            if len(halves) > 1:
                lines[f"{name}_odd"] = chosen & odd
            exact.append(whole & ~odd)
            each = [
                Segment(f"{name}{half}", None, depth, index)
                for half in halves
                for index in range(1 << depth)
            ]
            rows.append((name, each))
        return named(m, "is_exact", 1, any_of(exact)), rows

    def result(self) -> Value:
        """Bits of the result, behind all registers."""
        m = self._m
        nan = self._nan()
        relu = self._any(["relu"])
        of_odd = {name for name, form in activation.FUNCTIONS.items() if form.odd}
        odd = self._any(name for name in self._chosen if name in of_odd.union(ROOTS))
        # A NaN keeps its sign with relu, and has none otherwise.
        keeps = named(m, "keeps_sign", 1, Mux(nan, relu, odd))
        forms = self._forms()
        base, subtract, absolute = self._base(forms, nan)
        tiny = named(m, "is_tiny", 1, ~absolute & ~self._field[1:].any())
        field = Mux(absolute, _BIAS, Cat(self._field[0] | tiny, self._field[1:]))
        flags: _Flags = {
            "subtracts": subtract,
            "reference": named(m, "reference", EXPONENT_BITS, field),
            "is_tiny": tiny,
            "is_negative": named(m, "is_negative", 1, self._sign & keeps),
            "becomes_nan": named(m, "becomes_nan", 1, nan & ~relu),
            "has_sign": self._any(_SIGNED),
        }
        if "relu" in self._chosen and self._base_bits < MANTISSA_BITS:
            # The base is cut, but relu keeps every bit.
            keeps = named(m, "keeps_rest", 1, relu & (~self._sign | nan))
            rest = self._mantissa[: MANTISSA_BITS - self._base_bits]
            flags["rest"] = named(m, "rest", len(rest), rest & keeps.replicate(len(rest)))
        if self._has_roots:
            self._refer_to_root(flags)
        total = self._pipe.cross("signed", "total", self._sum(base, flags))
        self._cross(flags, "signed")
        return self._pipe.cross("packed", "result", self._packed(total, flags))

    def _nan(self) -> Value:
        """Whether the result is NaN, or the argument where that stays."""
        top = self._field.all() & self._some
        sigmoid, rsqrt = self._any(["sigmoid"]), self._any(["rsqrt"])
        if not self._has_roots:
            return named(self._m, "is_nan", 1, top)
        # Beyond what a binary32 can be, fields have the same lower bits.
        is_zero = self._wide_field[-1] & ~self._wide_field[EXPONENT_BITS - 1]
        signed_nan = self._sign & (sigmoid | (rsqrt & ~is_zero))
        inside = top & ~self._wide_field[-1] & ~sigmoid
        return named(self._m, "is_nan", 1, inside | signed_nan)

    def _refer_to_root(self, flags: _Flags) -> None:
        """The exponent of a root, and where that is none of a binary32's."""
        m, field = self._m, self._wide_field
        root = named(m, "is_root", 1, self._any([*ROOTS, "sigmoid"]))
        exact = self._exact
        references = []
        if set(_RECIPROCALS) & set(self._chosen):
            references.append(truncated(m, "reciprocal_field", FIELD_BITS, 254 - field))
        if "rsqrt" in self._chosen:
            half = (field >> 1) + field[0].as_unsigned()
            references.append(truncated(m, "rsqrt_field", FIELD_BITS, 191 - half))
        reference = references[-1]
        if len(references) > 1:
            reference = Mux(self._chosen["rsqrt"], references[1], references[0])
        reference = named(m, "root_field", FIELD_BITS, reference)
        negative = reference[-1]
        low = named(m, "is_low", 1, negative | ~reference[1:].any())
        none = named(m, "has_no_field", 1, negative | ~reference.any() | (low & ~exact))
        top = reference[8] | (reference[:8].all() & exact)
        sigmoid = self._any(["sigmoid"])
        field_of_root = reference[:EXPONENT_BITS]
        if "sigmoid" in self._chosen:
            # Only the sigmoid has subnormal results: what they lose stands in place of the field.
            lost = truncated(m, "lost", FIELD_BITS, 1 - reference.as_signed())
            beyond = named(m, "is_lost", 1, lost[5:].any())
            amount = lost[:5] | beyond.replicate(5)
            field_of_root = Mux(sigmoid & low, amount, field_of_root)
            flags["is_subnormal"] = named(m, "is_subnormal", 1, sigmoid & low)
        flags["reference"] = named(
            m, "any_reference", EXPONENT_BITS, Mux(root, field_of_root, flags["reference"])
        )
        flags["vanishes"] = named(m, "vanishes", 1, root & ~sigmoid & none)
        flags["becomes_infinite"] = named(m, "becomes_infinite", 1, root & ~negative & top)
        flags["is_inexact"] = named(m, "is_inexact", 1, root & ~exact)

    def _forms(self) -> dict[str, Value]:
        """By name, whether the result has that form."""
        m = self._m
        found: dict[str, list[Value]] = {}
        others = [False] * (len(self._rows) - len(self._places))
        for form in dict.fromkeys(place.form for place in self._places):
            flags = [*(place.form == form for place in self._places), *others]
            found[form] = [self._segments.column(f"{form}_segments", flags)]
        for name, function in activation.FUNCTIONS.items():
            if name in self._chosen:
                first, last = (each + _BIAS for each in function.exponents[self._grade])
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
        zero = named(m, "is_zero", 1, ~self._field.any() & ~self._some)
        step, root = self._any(["relu_derivative"]), self._any([*ROOTS, "sigmoid"])
        whole = where(
            "whole_base",
            lambda form, side: form.base[side] == 2,
            relu,
            step & ~self._sign & ~zero,
            self._any(["exp"]),
            self._exact,
        )
        half = where("half_base", lambda form, side: form.base[side] == 1)
        subtract = where("subtracts", lambda form, side: form.subtract[side])
        absolute = where("is_absolute", lambda form, side: form.absolute, step, root)
        hidden = named(m, "hidden_bit", 1, absolute | self._field.any())
        bits = self._base_bits
        fraction = self._mantissa[MANTISSA_BITS - bits :] & ~absolute.replicate(bits)
        significand = named(m, "significand", bits + 1, Cat(fraction, hidden))
        choices = (whole, significand), (half, significand[1:])
        return gated_or(m, "base", choices), subtract, absolute

    def _where_side(self, positive: bool, negative: bool) -> Value:
        if positive and negative:
            return Const(1, 1)
        if not positive and not negative:
            return Const(0, 1)
        return ~self._sign if positive else self._sign

    def _sum(self, base: Value, flags: dict[str, Value]) -> Value:
        """Magnitude of base plus or less the polynomial. The flags cross the registers too."""
        m, pipe, table = self._m, self._pipe, self._table
        subtract = flags["subtracts"]
        # a - b is ~(~a + b): to subtract takes inverters and no carry.
        sum_bits = self._fraction_bits + 1
        wide = Cat(Const(0, self._fraction_bits - self._base_bits), base)
        start: Value = named(m, "start", sum_bits, wide ^ subtract.replicate(sum_bits))
        low = self._fraction_bits - table.fraction_bits
        bits = sum_bits - low
        width = bits + 1 if self._has_roots else bits
        upper: Value = start[low:]
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
            self._segments.connect()
            slope = slope_at(m, "segment", table, c1, c2, distance)
            upper = truncated(m, "upper_start", width, start[low:] + c0)
            slope = pipe.cross("sloped", "slope", slope)
            distance = pipe.cross("sloped", "distance", distance).as_signed()
            start = pipe.cross("sloped", "start", Cat(start[:low], upper))
            self._cross(flags, "sloped")
            rows = product_rows(m, "rise", slope, distance, table.result_shift)
            upper = truncated(m, "upper_sum", width, sum(rows, start[low:]))
        else:
            for boundary in ("chosen", "sloped"):
                start = pipe.cross(boundary, "start", start)
                self._cross(flags, boundary)
            upper = start[low:]
        self._cross(flags, "summed")
        lowest = pipe.cross("summed", "lowest", start[:low])
        upper = pipe.cross("summed", "upper", upper)
        sums = Cat(lowest, upper[:bits])
        if self._has_roots:
            root = Cat(Const(0, low - 2), upper, Const(0, 1))
            sums = Mux(flags["is_inexact"], root, sums)
        sums = named(m, "sum_or_root", sum_bits, sums)
        total = named(m, "total", sum_bits, sums ^ flags["subtracts"].replicate(sum_bits))
        # A sum below 0 is one of a derivative, and close to 0: its upper bits are both set.
        below = named(m, "is_below_zero", 1, flags["has_sign"] & total[-1] & total[-2])
        flags["is_negative"] = flags["is_negative"] | below
        inverted = below.replicate(self._base_bits + 1) << self._fraction_bits - self._base_bits
        return named(m, "magnitude", sum_bits, total ^ inverted)

    def _cross(self, flags: dict[str, Value], boundary: str) -> None:
        for name, value in flags.items():
            flags[name] = self._pipe.cross(boundary, name, value)

    def _distance(self) -> Value:
        """Where in its segment the argument is, from the middle; 0 if there is no segment."""
        m, bits = self._m, self._table.offset_bits
        windows = []
        for depth in sorted({segment.depth for segment in self._rows}):
            flags = [segment.depth == depth for segment in self._rows]
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
        shifted = named(m, "shifted", len(magnitude), (magnitude << distance)[: len(magnitude)])
        lowered = truncated(m, "lowered", EXPONENT_BITS, flags["reference"] - distance)
        field = lowered & shifted[-1].replicate(EXPONENT_BITS)
        padding = Const(0, MANTISSA_BITS - self._fraction_bits)
        number: Value = Cat(padding, shifted[:-1], field)
        if "is_subnormal" in flags:
            cut = named(m, "cut", len(magnitude), magnitude >> flags["reference"][:5])
            number = Mux(flags["is_subnormal"], Cat(padding, cut), number)
        if "rest" in flags:
            number = number | flags["rest"]
        if self._has_roots:
            special = Mux(flags["becomes_infinite"], INFINITY, number)
            number = special & ~flags["vanishes"].replicate(31)
        bits = named(m, "number", 31, number)
        return Mux(flags["becomes_nan"], CANONICAL_NAN, Cat(bits, flags["is_negative"]))


def _with_rows(table: Table, other: Table) -> Table:
    """A table with the rows of another, whose products lose as many bits."""
    return replace(
        table,
        coefficients=table.coefficients + other.coefficients,
        bounds=table.bounds + other.bounds,
        places=(),
    )
