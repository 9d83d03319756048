"""Registers and descriptors of the machine as data: the one place that says what its bits mean.

The decoder in gates, the assembler, the interpreter, the C header and the tables of the
documentation are all made from what is here. Nothing here depends on a machine's sizes; where a
limit does, the name of a property of `MachineConfiguration` stands in its place.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from types import MappingProxyType
from typing import Annotated, Any

from mxsafe.formats import BF16, MX_FORMATS, FloatFormat, MXFormat
from mxsafe.machine.configuration import (
    ARITHMETICS,
    CONVERSIONS,
    FUNCTIONS,
    PACKINGS,
    REDUCTIONS,
    SWEEPS,
    MachineConfiguration,
)
from mxsafe.validation import checked, require_integer, within

DESCRIPTOR_BITS = 256
DESCRIPTOR_BYTES = DESCRIPTOR_BITS // 8
IDENTITY = 0x4653584D
"""The bytes "MXSF" in the order in which they stand in memory."""
VERSION = 3
TOKEN_BITS = 6
"""Bits of the counter of tokens from one queue to another."""
MOST_TOKENS = (1 << TOKEN_BITS) - 1
"""Largest value of such a counter."""
QUEUES = ("load", "gemm", "vector", "store")
"""Queues in the order of their bits in a descriptor's `wait` and `signal`."""
FORMATS = (*MX_FORMATS, BF16.name)
"""Formats of operands by the numbers that a register shows."""


@dataclass(frozen=True)
class Enumeration:
    """Names for the values of a field.

    Attributes
    ----------
    name : str
    members : Mapping of str to int
        The number of each name.
    meanings : Mapping of str to str
        What each name stands for.
    """

    name: str
    members: Mapping[str, int]
    meanings: Mapping[str, str]

    @classmethod
    def of(cls, name: str, meanings: Mapping[str, str], *, first: int = 0) -> "Enumeration":
        """Names in the order of their numbers."""
        members = {member: first + at for at, member in enumerate(meanings)}
        return cls(name, MappingProxyType(members), MappingProxyType(dict(meanings)))

    def __getitem__(self, name: str) -> int:
        return self.members[name]

    def name_of(self, number: int) -> str | None:
        """The name of a number, None if it has none."""
        return self._names.get(number)

    @cached_property
    def _names(self) -> Mapping[int, str]:
        return {number: name for name, number in self.members.items()}


OPCODES = Enumeration.of(
    "opcode",
    {
        "load": "memory to a buffer",
        "gemm": "products of strips that are in the operand buffers",
        "vector": "arithmetic on rows of the vector buffer",
        "store": "a buffer to memory",
    },
    first=1,
)
LOAD_BUFFERS = Enumeration.of(
    "load_buffer",
    {
        "a_codes": "codes of operand a",
        "a_scales": "scales of operand a",
        "w_codes": "codes of operand w",
        "w_scales": "scales of operand w",
        "vector": "the vector buffer",
    },
)
STORE_BUFFERS = Enumeration.of(
    "store_buffer",
    {
        "out_codes": "codes of results",
        "out_scales": "scales of results",
        "vector": "the vector buffer",
    },
)
PACKING = Enumeration.of(
    "packing",
    {
        "none": "words of memory are words of the buffer",
        "nibbles": "a byte of memory is two codes of 4 bits, the first one below",
        "tiles": "a byte of memory is the scale of all rows of a tile",
    },
)
ARITHMETIC = Enumeration.of(
    "arithmetic",
    {
        "none": "x",
        "add": "x + y",
        "multiply": "x * y",
        "axpy": "parameter * x + y, rounded after each operation",
        "scale": "parameter * x",
    },
)
Y_MODES = Enumeration.of(
    "y_mode",
    {
        "beats": "a beat of y for each beat of x",
        "numbers": "number n of y's row for all lanes of beat n: lane n % C of beat n // C",
        "constant": "the same beat of y for all beats of x's row",
    },
)
FUNCTION = Enumeration.of(
    "function", {"none": "x", **{name: f"mxsafe.model.{name}" for name in FUNCTIONS}}
)
REDUCTION = Enumeration.of(
    "reduction",
    {
        "none": "nothing",
        "softmax": "exp(scale * x) / sum(exp(scale * x)), parameter is scale * log2(e)",
        "layer_norm": "mean 0 and variance 1, parameter is epsilon",
        "rms_norm": "mean square 1, parameter is epsilon",
        "sum": "mxsafe.model.window_sum: a row gives one beat",
    },
)
SWEEP = Enumeration.of(
    "sweep",
    {
        "whole": "a row that is reduced in one piece, or not at all",
        "largest": "a piece of a row, for its largest value",
        "sums": "for the sum of its powers or values; sum gives its result where the sweep ends",
        "squares": "for the sum of squares of norms",
        "results": "for its results",
    },
)
FOLLOWING: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "softmax": ("largest", "sums", "results"),
        "layer_norm": ("largest", "sums", "squares", "results"),
        "rms_norm": ("largest", "squares", "results"),
        "sum": ("largest", "sums"),
    }
)
"""By reduction its sweeps in their order."""
PASSES: Mapping[str, int] = MappingProxyType(
    {"softmax": 2, "layer_norm": 3, "rms_norm": 2, "sum": 1}
)
"""By reduction how often a whole row is read from the memory of rows, once it is there."""
CONVERT = Enumeration.of(
    "convert",
    {
        "none": "no conversion",
        "blocks": "a scale for 64 values of a lane",
        "tiles": "a scale for tiles of 8 beats and 8 lanes",
        "numbers": "each number to bfloat16, to nearest even",
    },
)
TARGETS = Enumeration.of(
    "target",
    {
        "out": "buffer of results",
        "a": "buffer of operand a",
        "w": "buffer of operand w",
    },
)
ERRORS = Enumeration.of(
    "error",
    {
        "none": "no error",
        "opcode": "unknown opcode",
        "malformed": "a field or a combination of fields that a descriptor must not have",
        "address": "an address outside a buffer",
        "read": "memory answered a read of LOAD with an error, or the address is 2^64 or more",
        "write": "memory answered a write with an error, or the address is 2^64 or more",
        "deadlock": "nothing runs and nothing can start; the lowest number that waits is shown",
        "fetch": "memory answered a read of descriptors with an error, or they reach past 2^64",
        "alignment": "program or base is not at a multiple of a word; the descriptor shown is 0",
        "sweep": "the sweep before has not ended, or a row has more than 65,536 beats",
    },
)
ENUMERATIONS = (
    OPCODES,
    LOAD_BUFFERS,
    STORE_BUFFERS,
    PACKING,
    ARITHMETIC,
    Y_MODES,
    FUNCTION,
    REDUCTION,
    SWEEP,
    CONVERT,
    TARGETS,
    ERRORS,
)

for _enumeration, _names in (
    (FUNCTION, FUNCTIONS),
    (REDUCTION, REDUCTIONS),
    (SWEEP, SWEEPS),
    (CONVERT, CONVERSIONS),
    (PACKING, PACKINGS),
):
    if tuple(_enumeration.members)[1:] != _names:
        raise AssertionError(f"{_enumeration.name} must have the names {_names}")


@dataclass(frozen=True, kw_only=True)
class Field:
    """Bits of a descriptor.

    Attributes
    ----------
    name : str
    width : int
    meaning : str
    least : int
        The least value.
    most : int or str, optional
        The largest value, as a number or the name of a property of `MachineConfiguration`; without
        it whatever the width allows.
    multiple : int or str
        What the value must be a multiple of, in the same way: a power of two.
    enumeration : Enumeration, optional
        Names of the values; others are malformed.
    available : str, optional
        Property of `MachineConfiguration` that says which of the names the machine has, beside the
        first one.
    """

    name: str
    width: int
    meaning: str
    least: int = 0
    most: int | str | None = None
    multiple: int | str = 1
    enumeration: Enumeration | None = None
    available: str | None = None

    def bounds(self, configuration: MachineConfiguration) -> tuple[int, int]:
        """The least and the largest value on a machine."""
        most = (1 << self.width) - 1
        if self.most is not None:
            most = min(most, _limit(self.most, configuration))
        return self.least, most

    def name_of(self, value: int) -> str:
        """Return the name of a value that is allowed, of a field with names."""
        assert self.enumeration is not None, f"{self.name} has no names"
        name = self.enumeration.name_of(value)
        assert name is not None, f"{value} is no {self.name}"
        return name

    def step(self, configuration: MachineConfiguration) -> int:
        """Return the step of which values are multiples on a machine."""
        return _limit(self.multiple, configuration)

    def allowed(self, configuration: MachineConfiguration) -> tuple[int, ...] | None:
        """The values that a machine takes of a field with names; None without names."""
        if self.enumeration is None:
            return None
        members = self.enumeration.members
        if self.available is None:
            return tuple(members.values())
        there = getattr(configuration, self.available)
        return tuple(n for name, n in members.items() if n == 0 or name in there)


def _limit(bound: int | str, configuration: MachineConfiguration) -> int:
    return getattr(configuration, bound) if isinstance(bound, str) else bound


@dataclass(frozen=True, kw_only=True)
class Condition:
    """A statement about a field of a descriptor.

    Attributes
    ----------
    field : str
    values : range or tuple of int
        The field, or the part of it, is one of them.
    above : str, optional
        Instead: the field is larger than this property of `MachineConfiguration`.
    negated : bool
        The opposite.
    low : int
        Lowest bit of the part of the field that counts; the part reaches up to the highest bit.
    """

    field: str
    values: range | tuple[int, ...] = ()
    above: str | None = None
    negated: bool = False
    low: int = 0

    def holds(self, value: int, configuration: MachineConfiguration) -> bool:
        """Whether it is so for a value of the field."""
        part = value >> self.low
        if self.above is not None:
            found = part > _limit(self.above, configuration)
        else:
            found = part in self.values
        return found != self.negated


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Rule that forbids a combination of fields.

    Attributes
    ----------
    meaning : str
        What must be so instead.
    conditions : tuple of Condition
        A descriptor of which all hold is malformed.
    rows : int, optional
        Only machines with so many rows have the rule.
    lacks, has : str, optional
        Only machines without, or with, this property of `MachineConfiguration` have it.
    """

    meaning: str
    conditions: tuple[Condition, ...]
    rows: int | None = None
    lacks: str | None = None
    has: str | None = None

    def is_on(self, configuration: MachineConfiguration) -> bool:
        """Whether a machine has the rule."""
        if self.lacks is not None and getattr(configuration, self.lacks):
            return False
        if self.has is not None and not getattr(configuration, self.has):
            return False
        return self.rows in (None, configuration.rows)

    def broken(self, values: Mapping[str, int], configuration: MachineConfiguration) -> bool:
        """Whether a descriptor with these values breaks it on a machine."""
        for condition in self.conditions:
            if not condition.holds(values[condition.field], configuration):
                return False
        return self.is_on(configuration)


@dataclass(frozen=True)
class Descriptor:
    """A kind of descriptor: the fields after `HEADER`, one after the other from the lowest bit up.

    Bits above the last field, and those of the header that no field has, are 0.

    Attributes
    ----------
    name : str
    meaning : str
    own : tuple of Field
        Fields after the header.
    rules : tuple of Rule
    """

    name: str
    meaning: str
    own: tuple[Field, ...]
    rules: tuple[Rule, ...] = ()

    @property
    def opcode(self) -> int:
        """Number of the kind."""
        return OPCODES[self.name]

    @property
    def queue(self) -> int:
        """Number of the queue that runs it."""
        return QUEUES.index(self.name)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """All fields."""
        return HEADER + self.own

    @cached_property
    def offsets(self) -> Mapping[str, int]:
        """Lowest bit of each field."""
        stops = [
            *accumulate((f.width for f in HEADER), initial=0),
            *accumulate((f.width for f in self.own), initial=HEADER_BITS),
        ]
        del stops[len(HEADER)]  # where the header's fields end
        return {f.name: at for f, at in zip(self.fields, stops, strict=False)}

    @property
    def bits(self) -> int:
        """Bits up to the end of the last field."""
        return HEADER_BITS + sum(field.width for field in self.own)

    @property
    def reserved(self) -> tuple[range, ...]:
        """Bits that must be 0."""
        used = sum(field.width for field in HEADER)
        return tuple(r for r in (range(used, HEADER_BITS), range(self.bits, DESCRIPTOR_BITS)) if r)

    def field(self, name: str) -> Field:
        """A field by its name."""
        return self._named[name]

    @cached_property
    def _named(self) -> Mapping[str, Field]:
        return {field.name: field for field in self.fields}


HEADER_BITS = 16
HEADER = (
    Field(name="opcode", width=4, meaning="kind of descriptor", enumeration=OPCODES),
    Field(
        name="wait",
        width=4,
        meaning="one bit for each queue: take a token of that queue before the start",
    ),
    Field(
        name="signal",
        width=4,
        meaning="one bit for each queue: give that queue a token when all writes are done",
    ),
)


def _count(name: str, width: int, meaning: str, *, most: str | None = None) -> Field:
    return Field(name=name, width=width, meaning=meaning, least=1, most=most)


def _number(name: str, width: int, meaning: str) -> Field:
    return Field(name=name, width=width, meaning=meaning)


def _flag(name: str, meaning: str) -> Field:
    return Field(name=name, width=1, meaning=meaning)


def _own_queue(name: str) -> tuple[Rule, ...]:
    """A queue neither waits for itself nor signals itself."""
    own = 1 << QUEUES.index(name)
    values = tuple(number for number in range(16) if number & own)
    return tuple(
        Rule(
            meaning=f"{field} must not have the bit of the own queue",
            conditions=(Condition(field=field, values=values),),
        )
        for field in ("wait", "signal")
    )


def _strided(place: str, other: str) -> tuple[Field, ...]:
    """Fields of a strided iterator over memory and a buffer, four loops deep."""
    return (
        Field(
            name="address",
            width=32,
            meaning="first byte in memory, relative to the base register",
            multiple="word_bytes",
        ),
        _count("count_0", 12, "words of the buffer of the innermost loop: one run of memory"),
        _count("count_1", 10, "turns of the second loop"),
        _count("count_2", 10, "turns of the third loop"),
        _count("count_3", 8, "turns of the outermost loop"),
        *(
            _number(f"stride_{i}", 20, f"words of memory from turn to turn of loop {i}")
            for i in (1, 2, 3)
        ),
        _number(place, 17, f"first word of the buffer; {other}, its first vector beat"),
        *(
            _number(
                f"step_{i}",
                15,
                f"words of the buffer from turn to turn of loop {i}; {other}, beats",
            )
            for i in range(4)
        ),
    )


def _without_scales(*fields: str) -> Iterator[Rule]:
    """Fields of scales, on a machine whose operands have none."""
    for field in fields:
        yield Rule(
            meaning=f"{field} must be 0 on a machine without scales",
            conditions=(Condition(field=field, values=(0,), negated=True),),
            lacks="scaled",
        )


def _packing(available: str) -> Field:
    return Field(
        name="packing",
        width=2,
        meaning="how words of the buffer are packed in memory",
        enumeration=PACKING,
        available=available,
    )


def _packing_rules(codes: Iterable[int], scales: Iterable[int]) -> Iterator[Rule]:
    for name, kind, buffers in (("nibbles", "codes", codes), ("tiles", "scales", scales)):
        yield Rule(
            meaning=f"packing {name} is for {kind}",
            conditions=(
                Condition(field="packing", values=(PACKING[name],)),
                Condition(field="buffer", values=tuple(buffers), negated=True),
            ),
        )


def _load_rules() -> Iterator[Rule]:
    codes = (LOAD_BUFFERS["a_codes"], LOAD_BUFFERS["w_codes"])
    scales = (LOAD_BUFFERS["a_scales"], LOAD_BUFFERS["w_scales"])
    vector = (LOAD_BUFFERS["vector"],)
    on = {name: Condition(field=name, values=(1,)) for name in ("transpose", "widen")}
    yield Rule(
        meaning="transpose is for codes and scales",
        conditions=(on["transpose"], Condition(field="buffer", values=vector)),
    )
    yield Rule(
        meaning="widen is for the vector buffer",
        conditions=(on["widen"], Condition(field="buffer", values=vector, negated=True)),
    )

    def group(words: int, what: str, has: str | None = None, lacks: str | None = None) -> Rule:
        """A run of LOAD is the words of the tiles that are transposed together."""
        return Rule(
            meaning=f"count_0 must be {words} when codes of {what} are transposed",
            conditions=(
                on["transpose"],
                Condition(field="buffer", values=codes),
                Condition(field="count_0", values=(words,), negated=True),
            ),
            has=has,
            lacks=lacks,
        )

    yield group(4, "a byte", has="scaled")
    yield Rule(
        meaning="scales are not transposed on a machine of 8 rows",
        conditions=(on["transpose"], Condition(field="buffer", values=scales)),
        rows=8,
    )
    yield Rule(
        meaning="nothing is transposed on a machine of 4 rows",
        conditions=(on["transpose"],),
        rows=4,
    )
    yield Rule(
        meaning="packing must be tiles where scales are transposed",
        conditions=(
            on["transpose"],
            Condition(field="buffer", values=scales),
            Condition(field="packing", values=(PACKING["tiles"],), negated=True),
        ),
    )
    yield from _packing_rules(codes, scales)
    yield group(8, "two bytes", lacks="scaled")


LOAD = Descriptor(
    "load",
    "Copies words of memory to a buffer.",
    (
        Field(
            name="buffer",
            width=3,
            meaning="where to",
            enumeration=LOAD_BUFFERS,
            available="load_buffers",
        ),
        _flag(
            "transpose",
            "tiles of 8x8 are transposed on the way; of codes of two bytes, two words that follow "
            "each other stand side by side, and step_0 leads from two to two",
        ),
        _flag("widen", "a word is C bfloat16 and becomes a vector beat of binary32"),
        _packing("load_packings"),
        *_strided("to", "with widen"),
        Field(
            name="part",
            width=3,
            meaning="with packing tiles the part of the first word at which each run begins",
            most="last_part",
        ),
    ),
    (*_own_queue("load"), *_load_rules()),
)

STORE = Descriptor(
    "store",
    "Copies words of a buffer to memory.",
    (
        Field(
            name="buffer",
            width=3,
            meaning="where from",
            enumeration=STORE_BUFFERS,
            available="store_buffers",
        ),
        Field(name="unused", width=1, meaning="0", most=0),
        _flag("narrow", "a vector beat of binary32 becomes a word of C bfloat16, to nearest even"),
        _packing("store_packings"),
        *_strided("from", "with narrow"),
    ),
    (
        *_own_queue("store"),
        Rule(
            meaning="narrow is for the vector buffer",
            conditions=(
                Condition(field="narrow", values=(1,)),
                Condition(field="buffer", values=(STORE_BUFFERS["vector"],), negated=True),
            ),
        ),
        *_packing_rules((STORE_BUFFERS["out_codes"],), (STORE_BUFFERS["out_scales"],)),
    ),
)


def run_words(values: Mapping[str, int], configuration: MachineConfiguration) -> int:
    """Words of memory of a run, the innermost loop of a LOAD or STORE.

    Parameters
    ----------
    values : Mapping of str to int
        Fields of the descriptor; those that are not named are 0.
    configuration : MachineConfiguration
    """
    packing = PACKING.name_of(values.get("packing", 0))
    assert packing is not None
    first = values.get("part", 0) if packing == "tiles" else 0
    return -(-(first + values.get("count_0", 0)) // configuration.word_parts[packing])


def run_place(values: Mapping[str, int], configuration: MachineConfiguration, number: Any) -> Any:
    """Where words of a run stand in the buffer, counted from where the run begins.

    Parameters
    ----------
    values : Mapping of str to int
        Fields of the descriptor; those that are not named are 0.
    configuration : MachineConfiguration
    number : int or ndarray of int
        Of words in the run.
    """
    together = configuration.code_bytes if values.get("transpose", 0) else 1
    return number // together * values.get("step_0", 0) + number % together


GEMM = Descriptor(
    "gemm",
    "Multiplies strips of operand a with strips of operand w: tiles of R rows and C columns.",
    (
        _number("a_codes", 16, "operand beat at which the first strip of a begins"),
        _number("a_stride", 16, "operand beats from strip to strip of a"),
        _number("a_scales", 16, "scale entry at which those of the first strip of a begin"),
        _number("a_scale_stride", 12, "scale entries from strip to strip of a"),
        _number("w_codes", 16, "operand beat at which the first strip of w begins"),
        _number("w_stride", 16, "operand beats from strip to strip of w"),
        _number("w_scales", 16, "scale entry at which those of the first strip of w begin"),
        _number("w_scale_stride", 12, "scale entries from strip to strip of w"),
        _count("strips_a", 8, "strips of a, the inner loop"),
        _count("strips_w", 8, "strips of w, the outer loop"),
        _count("beats", 13, "operand beats of a tile", most="product_beats"),
        _count("block", 7, "operand beats of a block, which has one entry", most="block_beats"),
        _count("last_rows", 6, "rows of the last strip of a that are written", most="rows"),
        _number("result", 14, "vector beat of the first row of the first tile"),
        _number("result_stride_a", 14, "vector beats from strip to strip of a"),
        _number("result_stride_w", 14, "vector beats from strip to strip of w"),
        _flag("clear", "tiles begin at 0; else the tile continues the array's previous one"),
        _flag("write", "tiles are written; else they are only computed, to be continued"),
    ),
    (
        *_own_queue("gemm"),
        *(
            Rule(
                meaning=f"{name} must be 1 without clear",
                conditions=(
                    Condition(field="clear", values=(0,)),
                    Condition(field=name, values=(1,), negated=True),
                ),
            )
            for name in ("strips_a", "strips_w")
        ),
        Rule(
            meaning="clear must be 1 with arithmetic window",
            conditions=(Condition(field="clear", values=(0,)),),
            has="anchored",
        ),
        *_without_scales("a_scales", "a_scale_stride", "w_scales", "w_scale_stride"),
    ),
)


def _vector_rules() -> Iterator[Rule]:
    softmax = (REDUCTION["softmax"],)
    norms = (REDUCTION["layer_norm"], REDUCTION["rms_norm"])
    reduces = Condition(field="reduction", values=(0,), negated=True)
    causal = Condition(field="causal", values=(1,))
    yield Rule(
        meaning="axpy and scale, which take parameter, exclude softmax and norms, which do so too",
        conditions=(
            Condition(field="arithmetic", values=(ARITHMETIC["axpy"], ARITHMETIC["scale"])),
            Condition(field="reduction", values=(*softmax, *norms)),
        ),
    )
    yield Rule(
        meaning="causal is for softmax",
        conditions=(causal, Condition(field="reduction", values=softmax, negated=True)),
    )
    yield Rule(
        meaning="arithmetic must be none with causal, which takes y as a number",
        conditions=(causal, Condition(field="arithmetic", values=(0,), negated=True)),
    )
    yield Rule(
        meaning="results must go to the vector buffer, or be converted, or both",
        conditions=(
            Condition(field="to_vector", values=(0,)),
            Condition(field="convert", values=(0,)),
            Condition(field="sweep", values=(SWEEP["whole"], SWEEP["results"])),
        ),
    )
    yield Rule(
        meaning="a row that is reduced must not be longer than the machine's longest",
        conditions=(
            reduces,
            Condition(field="sweep", values=(0,)),
            Condition(field="beats", above="reduction_beats"),
        ),
    )
    yield Rule(
        meaning="parameter of softmax must be from 2^-120 to below 2^121",
        conditions=(
            Condition(field="reduction", values=softmax),
            Condition(field="parameter", low=23, values=range(7, 248), negated=True),
        ),
    )
    yield Rule(
        meaning="parameter of a norm must be finite and not negative",
        conditions=(
            Condition(field="reduction", values=norms),
            Condition(field="parameter", low=23, values=range(255), negated=True),
        ),
    )
    affine = Condition(field="affine", values=(1,))
    yield Rule(
        meaning="affine is for norms",
        conditions=(affine, Condition(field="reduction", values=norms, negated=True)),
    )
    yield Rule(
        meaning="affine is for machines whose norms have gain and bias",
        conditions=(affine,),
        lacks="affine",
    )
    yield Rule(
        meaning="arithmetic must be none with affine, which is arithmetic too and takes y",
        conditions=(affine, Condition(field="arithmetic", values=(0,), negated=True)),
    )
    yield from _sweep_rules()
    yield from _without_scales("out_scales", "out_scale_stride")


def _sweep_rules() -> Iterator[Rule]:
    sweeps = Condition(field="sweep", values=(0,), negated=True)
    yield Rule(
        meaning="sweep is for reductions",
        conditions=(sweeps, Condition(field="reduction", values=(0,))),
        has="sweeps",
    )
    for name, steps in FOLLOWING.items():
        values = tuple(n for sweep, n in SWEEP.members.items() if sweep not in ("whole", *steps))
        if values:
            yield Rule(
                meaning=f"{name} has the sweeps {', '.join(steps)}",
                conditions=(
                    Condition(field="reduction", values=(REDUCTION[name],)),
                    Condition(field="sweep", values=values),
                ),
                has="sweeps",
            )
    yield Rule(
        meaning="rows must be 1 with a sweep",
        conditions=(sweeps, Condition(field="rows", values=(1,), negated=True)),
        has="sweeps",
    )
    for name, values in (
        ("clear", (SWEEP["largest"],)),
        ("ends", tuple(SWEEP[name] for name in ("largest", "sums", "squares"))),
    ):
        kinds = " or ".join(str(SWEEP.name_of(value)) for value in values)
        yield Rule(
            meaning=f"{name} is for a sweep for {kinds}",
            conditions=(
                Condition(field=name, values=(1,)),
                Condition(field="sweep", values=values, negated=True),
            ),
        )
    # A sum has its result at the end of a sweep, all others theirs in the last one.
    of_none = Condition(field="sweep", values=(SWEEP["largest"], SWEEP["squares"]))
    of_sums = Condition(field="sweep", values=(SWEEP["sums"],))
    of_others = Condition(field="reduction", values=(REDUCTION["sum"],), negated=True)
    unended = Condition(field="ends", values=(0,))
    for field in ("to_vector", "convert", "affine"):
        for conditions in ((of_none,), (of_sums, of_others), (of_sums, unended)):
            if field != "affine" or unended not in conditions:
                yield Rule(
                    meaning=f"{field} must be 0 in a sweep without results",
                    conditions=(
                        Condition(field=field, values=(0,), negated=True),
                        *conditions,
                    ),
                    has="sweeps",
                )


VECTOR = Descriptor(
    "vector",
    "Computes with rows of vector beats: arithmetic, function, reduction, conversion in turn.",
    (
        _number("x", 14, "vector beat at which the first row begins"),
        _number(
            "y",
            14,
            "vector beat of the second operand; with affine of the gains, behind them the biases; "
            "with causal a number of values",
        ),
        _number("d", 14, "vector beat of the first result"),
        _number("x_stride", 14, "vector beats from row to row of x"),
        _number("y_stride", 14, "vector beats from row to row of y"),
        _number("d_stride", 14, "vector beats from row to row of d"),
        _number("out", 16, "operand beat of the first converted row"),
        _number("out_stride", 14, "operand beats from row to row"),
        _number("out_scales", 15, "scale entry of the first converted row"),
        _number("out_scale_stride", 10, "scale entries from row to row"),
        _count("beats", 13, "vector beats of a row"),
        _count("rows", 8, "rows"),
        _number("parameter", 32, "binary32 number"),
        Field(name="arithmetic", width=3, meaning="first step", enumeration=ARITHMETIC),
        Field(name="y_mode", width=2, meaning="what y is", enumeration=Y_MODES),
        Field(
            name="function",
            width=4,
            meaning="second step",
            enumeration=FUNCTION,
            available="functions",
        ),
        Field(
            name="reduction",
            width=3,
            meaning="third step, along each lane of a row",
            enumeration=REDUCTION,
            available="reductions",
        ),
        _flag("causal", "of lane i of row j only the first y + 1 + C*j + i values count"),
        _flag("to_vector", "results are written to d"),
        Field(
            name="convert",
            width=2,
            meaning="results are converted to codes and scales",
            enumeration=CONVERT,
            available="conversions",
        ),
        Field(name="target", width=2, meaning="where converted rows go", enumeration=TARGETS),
        _count("lanes", 6, "lanes that count; the others become +0", most="vector_lanes"),
        _flag("affine", "a norm's results are multiplied by a gain and a bias is added"),
        Field(
            name="sweep",
            width=3,
            meaning="what the row is there for, if it is a piece of a longer one",
            enumeration=SWEEP,
            available="sweep_kinds",
        ),
        _flag("clear", "a row begins with this piece"),
        _flag("ends", "the sweep ends with this piece"),
    ),
    (*_own_queue("vector"), *_vector_rules()),
)

DESCRIPTORS: Mapping[str, Descriptor] = MappingProxyType(
    {descriptor.name: descriptor for descriptor in (LOAD, GEMM, VECTOR, STORE)}
)
"""By name, in the order of the queues and opcodes."""

for _descriptor in DESCRIPTORS.values():
    if _descriptor.bits > DESCRIPTOR_BITS:
        raise AssertionError(f"{_descriptor.name} must fit into a descriptor")


@dataclass(frozen=True)
class BitField:
    """Bits of a register: name, lowest bit, width, meaning."""

    name: str
    offset: int
    width: int
    meaning: str


Word = Annotated[int, within(0, (1 << 32) - 1)]
"""Annotation of the value of a register."""


@dataclass(frozen=True)
class Register:
    """A register of 32 bits.

    Attributes
    ----------
    name : str
    address : int
    access : {"read", "write", "read_write"}
        What the bus may do. What is not to be read is read as 0; writes to what is not to be
        written change nothing.
    meaning : str
    fields : tuple of BitField
        Parts, if there are any.
    """

    name: str
    address: int
    access: str
    meaning: str
    fields: tuple[BitField, ...] = ()

    @checked
    def pack(self, values: Mapping[str, int]) -> int:
        """The register's value from those of its fields.

        Raises
        ------
        TypeError, ValueError
            If one is missing, unknown, or no number of its bits.
        """
        names = [field.name for field in self.fields]
        if sorted(values) != sorted(names):
            raise ValueError(f"values must have {', '.join(names)}, not {', '.join(values)}")
        word = 0
        for field in self.fields:
            name, most = f"values: {field.name}", (1 << field.width) - 1
            word |= require_integer(name, values[field.name], 0, most) << field.offset
        return word

    @checked
    def unpack(self, value: Word) -> dict[str, int]:
        """Values of its fields.

        Raises
        ------
        ValueError
            If the value has more than 32 bits.
        """
        return {f.name: value >> f.offset & (1 << f.width) - 1 for f in self.fields}


_DONE_ERROR = (
    BitField("done", 0, 1, "a program has ended"),
    BitField("error", 1, 1, "the machine has stopped with an error"),
)
COUNTERS: Mapping[str, str] = MappingProxyType(
    {
        "cycles": "cycles from start to end",
        "array_busy": "cycles in which the array takes a beat",
        "wait_load": "cycles in which GEMM waits for a token of LOAD",
        "wait_vector": "cycles in which GEMM waits for a token of VECTOR",
        "wait_store": "cycles in which GEMM waits for a token of STORE",
        "words_read": "words that LOAD has read",
        "words_written": "words that STORE has written",
    }
)
"""Counters of 64 bits, set to 0 at the start of a program, in the order of their registers."""

_FIRST_COUNTER = 0x80
_FIRST_ACCESS = 0x100


def _accesses() -> Iterator[tuple[str, str]]:
    yield "descriptors", "descriptors that were fetched and handed to their queues"
    for side in ("a", "w"):
        whose = f"operand {side}"
        yield f"{side}_codes_read", f"words of codes of {whose} that GEMM has read"
        yield f"{side}_codes_written", f"words of codes of {whose} that were written"
        yield f"{side}_scales_read", f"scale entries of {whose} that GEMM has read"
        yield f"{side}_scales_written", f"scale entries of {whose} that were written"
    yield "out_codes_read", "words of codes of results that STORE has read"
    yield "out_codes_written", "words of codes of results that were written"
    yield "out_scales_read", "scale entries of results that STORE has read"
    yield "out_scales_written", "scale entries of results that were written"
    for reader, what in (
        ("x", "as first operands"),
        ("y", "as second operands, gains and biases"),
        ("store", "by STORE"),
    ):
        yield f"vector_read_{reader}", f"words of the vector buffer that were read {what}"
    for queue in ("gemm", "vector", "load"):
        yield f"vector_written_{queue}", f"words of the vector buffer that {queue.upper()} wrote"
    for name in tuple(ARITHMETIC.members)[1:]:
        yield f"arithmetic_{name}", f"vector beats through arithmetic {name}"
    yield "affine", "vector beats of norms with gain and bias"
    for name in FUNCTIONS:
        yield f"function_{name}", f"vector beats through function {name}"
    for name, steps in FOLLOWING.items():
        yield f"{name}_whole", f"vector beats of whole rows through {name}"
        for step in steps:
            yield f"{name}_{step}", f"vector beats of pieces of rows through {name}, sweep {step}"
    for name in CONVERSIONS:
        yield f"convert_{name}", f"words of codes that were converted to {name}"


ACCESSES: Mapping[str, str] = MappingProxyType(dict(_accesses()))
"""Counters of accesses and work by name, in the order of their registers.

They are what the hardware does in a program that ends without an error: a buffer has a memory for
each word of a beat, and one for each scale entry of a word, and each access of one of them counts.
"""


def _wide(first: int, counters: Mapping[str, str]) -> Iterator[Register]:
    for number, (name, meaning) in enumerate(counters.items()):
        address = first + 8 * number
        yield Register(f"{name}_low", address, "read", f"{meaning}, lower half")
        yield Register(f"{name}_high", address + 4, "read", f"{meaning}, upper half")


def _sizes() -> Iterator[Register]:
    yield Register("identity", 0x00, "read", f"{IDENTITY:#x}")
    yield Register("version", 0x04, "read", f"version of this description, {VERSION}")
    yield Register(
        "array",
        0x08,
        "read",
        "size of the array",
        (
            BitField("rows", 0, 8, "rows R"),
            BitField("columns", 8, 8, "columns C"),
            BitField("lanes", 16, 8, "lanes L"),
        ),
    )
    yield Register(
        "formats",
        0x0C,
        "read",
        "what the array computes with",
        (
            BitField("arithmetic", 0, 4, ", ".join(f"{i} {n}" for i, n in enumerate(ARITHMETICS))),
            BitField("format_a", 4, 8, ", ".join(f"{i} {n}" for i, n in enumerate(FORMATS))),
            BitField("format_w", 12, 8, "the same of operand w"),
        ),
    )
    yield Register(
        "widths",
        0x10,
        "read",
        "widths of transfers",
        (
            BitField("word_bytes", 0, 16, "bytes of a word"),
            BitField("data_width", 16, 16, "bits of the data channels towards memory"),
        ),
    )
    yield Register("a_beats", 0x14, "read", "operand beats of the buffer of operand a")
    yield Register("w_beats", 0x18, "read", "operand beats of the buffer of operand w")
    yield Register("out_beats", 0x1C, "read", "operand beats of the buffer of results")
    yield Register(
        "vector",
        0x20,
        "read",
        "size of the vector buffer",
        (
            BitField("bank_beats", 0, 16, "vector beats of a bank"),
            BitField("banks", 16, 16, "banks"),
        ),
    )
    yield Register(
        "reduction_beats", 0x24, "read", "beats of the longest row that is reduced in one piece"
    )
    yield Register("queue_depth", 0x28, "read", "descriptors that wait in each queue")
    yield Register(
        "units",
        0x2C,
        "read",
        "what the vector unit has",
        (
            BitField("functions", 0, 15, "bit n: function n + 1"),
            BitField("affine", 15, 1, "norms can apply gain and bias"),
            BitField("reductions", 16, 4, "bit n: reduction n + 1"),
            BitField("compact", 20, 1, "functions and reductions are of the compact grade"),
            BitField("sweeps", 21, 1, "rows can be reduced by one descriptor after the other"),
            BitField("counts", 22, 1, "accesses are counted"),
            BitField("conversions", 24, 3, "bit n: conversion n + 1"),
        ),
    )


REGISTERS: tuple[Register, ...] = (
    *_sizes(),
    Register(
        "control",
        0x40,
        "write",
        "commands",
        (
            BitField(
                "start",
                0,
                1,
                "run the program, with or during a reset when that has ended; "
                "nothing while one runs or waits for that, or after an error",
            ),
            BitField("reset", 1, 1, "soft reset: end all work legally and forget it"),
        ),
    ),
    Register(
        "status",
        0x44,
        "read",
        "what the machine does",
        (
            BitField("running", 0, 1, "a program runs or waits for a reset, or a soft reset does"),
            BitField("done", 1, 1, "the program has ended without an error"),
            BitField("error", 2, 1, "the machine has stopped with an error"),
        ),
    ),
    Register("error", 0x48, "read", "code of the error"),
    Register("error_descriptor", 0x4C, "read", "number of the descriptor with the error, from 0"),
    Register("interrupt_enable", 0x50, "read_write", "what raises the interrupt", _DONE_ERROR),
    Register("interrupt", 0x54, "read_write", "what has happened; a 1 clears", _DONE_ERROR),
    Register(
        "program_low",
        0x58,
        "read_write",
        "address of the program, a multiple of a word, lower half",
    ),
    Register("program_high", 0x5C, "read_write", "address of the program, upper half"),
    Register("program_length", 0x60, "read_write", "descriptors of the program"),
    Register(
        "base_low",
        0x68,
        "read_write",
        "base of addresses in descriptors, a multiple of a word, lower half",
    ),
    Register("base_high", 0x6C, "read_write", "base of addresses in descriptors, upper half"),
    *_wide(_FIRST_COUNTER, COUNTERS),
)
"""Registers of all machines, by address."""
ACCESS_REGISTERS: tuple[Register, ...] = tuple(_wide(_FIRST_ACCESS, ACCESSES))
"""Registers of machines that count accesses beside them; what a machine lacks is 0 there."""
FLAGS: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        register.name: MappingProxyType(
            {field.name: 1 << field.offset for field in register.fields if field.width == 1}
        )
        for register in REGISTERS
    }
)
"""By register and field what a field of one bit adds to the register's value."""


@checked
def registers_of(configuration: MachineConfiguration) -> tuple[Register, ...]:
    """Registers of a machine, by address."""
    return REGISTERS + ACCESS_REGISTERS if configuration.counts else REGISTERS


@checked
def counted_accesses(configuration: MachineConfiguration) -> tuple[str, ...]:
    """Names of `ACCESSES` that can be other than 0 on a machine, if it counts them."""
    c = configuration
    there = {
        "function": c.functions,
        "convert": c.conversions,
        **{
            name: () if name not in c.reductions else ("whole", *c.sweep_kinds)
            for name in REDUCTIONS
        },
    }
    found = []
    for name in ACCESSES:
        owner = next((one for one in there if name.startswith(f"{one}_")), None)
        is_there = owner is None or name.removeprefix(f"{owner}_") in there[owner]
        lacks = not c.affine if name == "affine" else "_scales_" in name and not c.scaled
        if is_there and not lacks:
            found.append(name)
    return tuple(found)


@checked
def constant_registers(configuration: MachineConfiguration) -> dict[str, int]:
    """Values of the registers that say what a machine is."""
    c = configuration
    values: dict[str, Mapping[str, int] | int] = {
        "identity": IDENTITY,
        "version": VERSION,
        "array": {"rows": c.rows, "columns": c.rows, "lanes": c.lanes},
        "formats": {
            "arithmetic": ARITHMETICS.index(c.arithmetic),
            **{name: _number_of(getattr(c, name)) for name in ("format_a", "format_w")},
        },
        "widths": {"word_bytes": c.word_bytes, "data_width": c.data_width},
        "a_beats": c.a_beats,
        "w_beats": c.w_beats,
        "out_beats": c.out_beats,
        "vector": {"bank_beats": c.bank_beats, "banks": c.vector_banks},
        "reduction_beats": c.reduction_beats,
        "queue_depth": c.queue_depth,
        "units": {
            "functions": _bits(c.functions, FUNCTIONS),
            "affine": int(c.affine),
            "reductions": _bits(c.reductions, REDUCTIONS),
            "compact": int(c.grade == "compact"),
            "sweeps": int(c.sweeps),
            "counts": int(c.counts),
            "conversions": _bits(c.conversions, CONVERSIONS),
        },
    }
    registers = {register.name: register for register in REGISTERS}
    return {
        name: value if isinstance(value, int) else registers[name].pack(value)
        for name, value in values.items()
    }


def _number_of(fmt: MXFormat | FloatFormat) -> int:
    return FORMATS.index(fmt.name)


def _bits(there: Sequence[str], known: Sequence[str]) -> int:
    return sum(1 << bit for bit, name in enumerate(known) if name in there)


@checked
def configuration_of(values: Mapping[str, int]) -> MachineConfiguration:
    """The machine of which registers have these values, by name.

    The size of its sub-matrix units, which programs do not depend on, is not among them: it is that
    of the default machine.

    Raises
    ------
    ValueError
        If there is no such machine.
    """
    missing = [r.name for r in _sizes() if r.fields and r.name not in values]
    if missing:
        raise ValueError(f"values must have the registers {', '.join(missing)} too")
    parts = {r.name: r.unpack(values[r.name]) for r in _sizes() if r.fields}
    formats, vector, units = parts["formats"], parts["vector"], parts["units"]
    array = parts["array"]
    if array["columns"] != array["rows"]:
        raise ValueError(f"columns must be the {array['rows']} rows, not {array['columns']}")
    return MachineConfiguration(
        rows=array["rows"],
        lanes=array["lanes"],
        arithmetic=_named("arithmetic", formats["arithmetic"], ARITHMETICS),  # type: ignore[arg-type]
        format_a=_named("format_a", formats["format_a"], FORMATS),
        format_w=_named("format_w", formats["format_w"], FORMATS),
        data_width=parts["widths"]["data_width"],
        vector_banks=vector["banks"],
        bank_beats=vector["bank_beats"],
        functions=_there(units["functions"], FUNCTIONS),
        reductions=_there(units["reductions"], REDUCTIONS),
        conversions=_there(units["conversions"], CONVERSIONS),
        affine=bool(units["affine"]),
        sweeps=bool(units["sweeps"]),
        counts=bool(units["counts"]),
        grade="compact" if units["compact"] else "fine",
        **{name: values[name] for name in _PLAIN_SIZES},  # type: ignore[arg-type]
    )


_PLAIN_SIZES = ("a_beats", "w_beats", "out_beats", "reduction_beats", "queue_depth")
"""Sizes that have a register of their own."""


def _named(field: str, number: int, names: Sequence[str]) -> str:
    if number >= len(names):
        raise ValueError(f"{field} must be a number below {len(names)}, not {number}")
    return names[number]


def _there(bits: int, known: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for bit, name in enumerate(known) if bits >> bit & 1)
