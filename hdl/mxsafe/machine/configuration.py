"""Sizes of the machine."""

from dataclasses import dataclass, fields, replace
from typing import Any, Literal, cast

from mxsafe.formats import BF16, FloatFormat, MXFormat, mx_format
from mxsafe.products import DEFAULT_INNER, OperandFormats, require_float, require_scale
from mxsafe.tables import GRADES, Grade
from mxsafe.validation import (
    Count,
    PositiveInteger,
    about,
    checked,
    one_of,
    require_integer,
    require_multiple,
    require_one_of,
    require_positive_integer,
    require_power_of_two,
    shown,
)

ARITHMETICS = ("fp12", "exact", "window", "bf16")
"""Arithmetics of the array, in the order of their numbers in a register."""
FUNCTIONS = (
    "relu",
    "relu_derivative",
    "gelu",
    "silu",
    "tanh",
    "gelu_derivative",
    "silu_derivative",
    "tanh_derivative",
    "exp",
    "sigmoid",
    "reciprocal",
    "rsqrt",
)
"""Functions that a vector unit may have, in the order of their numbers in a descriptor, from 1."""
REDUCTIONS = ("softmax", "layer_norm", "rms_norm", "sum")
"""Row reductions of a vector unit, in the order of their numbers, from 1."""
SWEEPS = ("largest", "sums", "squares", "results")
"""What rows that are not whole may be there for, in the order of their numbers, from 1."""
CONVERSIONS = ("blocks", "tiles", "numbers")
"""Conversions of a vector unit, in the order of their numbers, from 1.

The last one is that of operands without scales, the others are for those with.
"""
PACKINGS = ("nibbles", "tiles")
"""Ways in which operands are packed in memory, in the order of their numbers, from 1."""

_OPERAND_LANES = 4
"""An operand beat is two words, or four of wider codes, only with so many lanes."""
_TILE = 8
_BLOCK = 64
_NIBBLE = 4
_ROWS = (4, 8, 16)
_MOST_ROWS = _ROWS[-1]
_ARRAY_LANES = (1, 2, 4)
_VECTOR_PARTS = (1, 2, 4, 8)
_TARGETS = ("asic", "fpga")
_UNIT_ROWS = (1, 2, 4, 8, 16)
_DATA_WIDTHS = (32, 64, 128, 256, 512, 1024)
_FORMAT = "mxsf"
_MOST_OPERAND_BEATS = 1 << 16
_MOST_OPERAND_WORDS = 1 << 17
_MOST_VECTOR_BEATS = 1 << 14
_MOST_REDUCTION = 4096
_MOST_QUEUE = 63


@dataclass(frozen=True, kw_only=True)
class MachineConfiguration:
    """Sizes of a machine; the default ones have the paper's array.

    Parameters
    ----------
    rows : int
        Rows of the array and, as many, its columns and the numbers of a vector beat: 4, 8 or 16.
        A machine of 4 rows has no tiles of 8x8: it neither converts to them nor transposes them.
    unit_rows : int
        Rows and columns of each of the array's sub-matrix units; they divide `rows`.
    lanes : int
        Values of k of a row that an operand beat holds: 4, so that it is two words.
    array_lanes : int
        Values of k of a row that the array takes a cycle: 1, 2 or 4. With fewer than `lanes` it
        takes an operand beat in ``lanes / array_lanes`` cycles.
    arithmetic : {"exact", "fp12", "window", "bf16"}
        What the array computes with. With ``window`` a tile has at most 4,096 products an output,
        and none continues the one before it. With ``bf16`` operands are bfloat16 without scales,
        and `array_lanes` is 4.
    format_a, format_w : MXFormat, FloatFormat or str, optional
        Formats of the array's operands: by default MXSF; ``bf16``, and nothing else, with
        arithmetic ``bf16``. Results are converted to `format_w`, for whatever buffer.
    data_width : int
        Bits of the data channels towards memory: a power of two from 32 to 1,024.
    a_beats, w_beats, out_beats : int
        Operand beats that the buffers of operands and of results hold: multiples of 4. Each has
        room for one scale entry for two beats, if operands have scales.
    vector_banks, bank_beats : int
        Banks of the vector buffer, and vector beats of each: powers of two.
    queue_depth : int
        Descriptors that wait in each queue.
    reduction_beats : int
        Beats of the longest row that is reduced in one piece: a power of two.
    sweeps : bool
        Whether a row can be reduced by one descriptor after the other, which makes it as long as
        65,536 beats. Vector units with fewer lanes than a beat and those of an FPGA cannot.
    functions, reductions, conversions : tuple of str
        What the vector unit has: some of `FUNCTIONS`, `REDUCTIONS` and `CONVERSIONS`. All of the
        last ones, the default, stand for those that the machine can have.
    affine : bool
        Whether norms can apply a gain and a bias. Without norms there is neither.
    grade : {"compact", "fine"}
        How exact functions, softmax and norms are: errors of 2^-10 to 2^-9, or of 2^-16 to 2^-14.
    vector_parts : int
        Parts in which vector units take a beat, one a cycle: 1, 2, 4 or 8. They have as many
        times fewer lanes.
    target : {"asic", "fpga"}
        What it is built for: standard cells, or the carry chains and DSP blocks of an FPGA. There
        the array is `exact`, and takes tiles of 8x8 more slowly than blocks.
    counts : bool
        Whether it counts accesses of its buffers and work of its units, see
        `mxsafe.machine.description.ACCESSES`. No program depends on it.

    Raises
    ------
    ValueError
        If a parameter is not as above; the message names it.
    """

    rows: int = 16
    unit_rows: int = 4
    lanes: int = _OPERAND_LANES
    array_lanes: int = _OPERAND_LANES
    arithmetic: Literal["exact", "fp12", "window", "bf16"] = "exact"
    format_a: MXFormat | FloatFormat | str | None = None
    format_w: MXFormat | FloatFormat | str | None = None
    data_width: int = 256
    a_beats: int = 2048
    w_beats: int = 4096
    out_beats: int = 512
    vector_banks: int = 4
    bank_beats: int = 1024
    queue_depth: int = 8
    reduction_beats: int = 512
    sweeps: bool = True
    functions: tuple[str, ...] = FUNCTIONS
    reductions: tuple[str, ...] = REDUCTIONS
    conversions: tuple[str, ...] = CONVERSIONS
    affine: bool = True
    grade: Grade = "compact"
    vector_parts: int = 1
    target: Literal["asic", "fpga"] = "asic"
    counts: bool = False

    def __post_init__(self) -> None:
        self._check_array()
        if self.conversions == CONVERSIONS:
            mine = [name for name in self._kinds if self.transposes or name != "tiles"]
            self._set("conversions", tuple(mine))
        self._set("data_width", _number_among("data_width", self.data_width, _DATA_WIDTHS))
        for name in ("a_beats", "w_beats", "out_beats"):
            most = _MOST_OPERAND_WORDS // self.beat_words
            beats = require_integer(name, getattr(self, name), 4, most)
            self._set(name, require_multiple(name, beats, 4))
        for name in ("vector_banks", "bank_beats", "reduction_beats"):
            self._set(name, require_power_of_two(name, getattr(self, name)))
        if self.vector_beats > _MOST_VECTOR_BEATS:
            raise ValueError(
                f"vector_banks * bank_beats must be at most {_MOST_VECTOR_BEATS}, "
                f"not {self.vector_beats}"
            )
        require_integer("reduction_beats", self.reduction_beats, 1, _MOST_REDUCTION)
        self._set("queue_depth", require_integer("queue_depth", self.queue_depth, 1, _MOST_QUEUE))
        for name, known in (
            ("functions", FUNCTIONS),
            ("reductions", REDUCTIONS),
            ("conversions", self._kinds),
        ):
            self._set(name, _some_of(name, getattr(self, name), known))
        if not self.transposes and "tiles" in self.conversions:
            raise ValueError(
                f"conversions must be without tiles with {self.rows} rows, "
                f"not {', '.join(self.conversions)}"
            )
        self._set("vector_parts", _number_among("vector_parts", self.vector_parts, _VECTOR_PARTS))
        for name in ("affine", "sweeps", "counts"):
            if not isinstance(value := getattr(self, name), bool):
                raise ValueError(f"{name} must be True or False, not {shown(value)}")
        self._set("affine", self.affine and self.norms)
        can_sweep = self.reductions and self.vector_parts == 1 and self.target == "asic"
        self._set("sweeps", bool(self.sweeps and can_sweep))

    def _check_array(self) -> None:
        self._set("rows", require_rows(self.rows))
        divisors = tuple(number for number in _UNIT_ROWS if number <= self.rows)
        self._set("unit_rows", _number_among("unit_rows", self.unit_rows, divisors))
        self._set("lanes", _number_among("lanes", self.lanes, (_OPERAND_LANES,)))
        self._set("array_lanes", _number_among("array_lanes", self.array_lanes, _ARRAY_LANES))
        require_one_of("arithmetic", self.arithmetic, ARITHMETICS)
        require_one_of("target", self.target, _TARGETS)
        require_one_of("grade", self.grade, GRADES)
        if self.target == "fpga" and self.arithmetic != "exact":
            raise ValueError(
                f"arithmetic must be exact with target fpga, not {shown(self.arithmetic)}"
            )
        if not self.scaled and self.array_lanes != self.lanes:
            raise ValueError(
                f"array_lanes must be {self.lanes} with arithmetic {self.arithmetic}, whose sums "
                f"depend on what is added first, not {self.array_lanes}"
            )
        for name in ("format_a", "format_w"):
            self._set(name, self._format(name, getattr(self, name)))

    def _format(self, name: str, given: MXFormat | FloatFormat | str | None) -> Any:
        """A format of operands as the arithmetic takes it."""
        if isinstance(given, str) and given.lower() == BF16.name:  # as others are named
            given = BF16
        if not self.scaled:
            if given not in (None, BF16):
                raise ValueError(
                    f"{name} must be {BF16.name} with arithmetic {self.arithmetic}, "
                    f"not {getattr(given, 'name', given)}"
                )
            return BF16
        if given == BF16:
            raise ValueError(
                f"{name} must be a format with scales with arithmetic {self.arithmetic}, "
                f"not {BF16.name}"
            )
        with about(format=name):
            fmt = mx_format(_FORMAT if given is None else given)  # type: ignore[arg-type]
        require_scale(name, fmt)
        if self.arithmetic == "fp12":
            require_float(name, fmt)
        return fmt

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    @property
    def scaled(self) -> bool:
        """Whether operands have scales: codes of MX formats, else numbers of bfloat16."""
        return self.arithmetic != "bf16"

    @property
    def _kinds(self) -> tuple[str, ...]:
        """Conversions that operands of its arithmetic can have."""
        return CONVERSIONS[:-1] if self.scaled else CONVERSIONS[-1:]

    @property
    def formats(self) -> OperandFormats:
        """MX formats of both operands; only where they have scales."""
        return OperandFormats(cast(MXFormat, self.format_a), cast(MXFormat, self.format_w))

    @property
    def norms(self) -> bool:
        """Whether the vector unit has a norm."""
        return any(name.endswith("_norm") for name in self.reductions)

    @property
    def sweep_kinds(self) -> tuple[str, ...]:
        """Kinds of pieces of rows that descriptors may name beside whole rows."""
        return SWEEPS if self.sweeps else ()

    @property
    def conversion_format(self) -> MXFormat:
        """MX format that results are converted to; only where operands have scales."""
        return cast(MXFormat, self.format_w)

    @property
    def code_bytes(self) -> int:
        """Bytes of a code of operands, in the buffers and, unless it is packed, in memory."""
        return 1 if self.scaled else BF16.width // 8

    @property
    def word_bytes(self) -> int:
        """Bytes of a word, the unit of transfer and address: half an operand or vector beat."""
        return 2 * self.rows

    @property
    def word_parts(self) -> dict[str, int]:
        """Words of a buffer in one of memory, by packing."""
        packings = {"nibbles": 2, "tiles": min(_TILE, self.rows)} if self.scaled else {}
        return {"none": 1, **packings}

    @property
    def last_part(self) -> int:
        """Number of the last of most parts of a word, from 0."""
        return max(self.word_parts.values()) - 1

    @property
    def load_packings(self) -> tuple[str, ...]:
        """Ways in which LOAD unpacks words of memory."""
        formats = cast(MXFormat, self.format_a), cast(MXFormat, self.format_w)
        return _packings(any(one.width == _NIBBLE for one in formats), self.scaled)

    @property
    def store_packings(self) -> tuple[str, ...]:
        """Ways in which STORE packs what has been converted."""
        nibbles = bool(self.conversions) and self.conversion_format.width == _NIBBLE
        return _packings(nibbles, "tiles" in self.conversions)

    @property
    def load_buffers(self) -> tuple[str, ...]:
        """Buffers that LOAD writes."""
        scales = ("a_scales", "w_scales") if self.scaled else ()
        return ("a_codes", "w_codes", *scales, "vector")

    @property
    def store_buffers(self) -> tuple[str, ...]:
        """Buffers that STORE reads."""
        return ("out_codes", *(("out_scales",) if self.scaled else ()), "vector")

    @property
    def beat_words(self) -> int:
        """Words of an operand beat."""
        return 2 * self.code_bytes

    @property
    def beat_bytes(self) -> int:
        """Bytes of an operand beat."""
        return self.beat_words * self.word_bytes

    @property
    def vector_beat_bytes(self) -> int:
        """Bytes of a vector beat: two words."""
        return 2 * self.word_bytes

    @property
    def entry_bytes(self) -> int:
        """Bytes of a scale entry: one for each row."""
        return self.rows

    @property
    def vector_lanes(self) -> int:
        """Numbers of a vector beat."""
        return self.rows

    @property
    def vector_beats(self) -> int:
        """Beats of the whole vector buffer."""
        return self.vector_banks * self.bank_beats

    @property
    def transposes(self) -> bool:
        """Whether it has whole tiles of 8x8, which it transposes as they are loaded."""
        return self.rows >= _TILE

    @property
    def array_parts(self) -> int:
        """Cycles in which the array takes an operand beat."""
        return self.lanes // self.array_lanes

    @property
    def tile_beats(self) -> int:
        """Operand beats of a tile of 8x8."""
        return _TILE // self.lanes

    @property
    def block_beats(self) -> int:
        """Operand beats of the longest block; of numbers one, whose products are added first."""
        return _BLOCK // self.lanes if self.scaled else 1

    @property
    def default_block(self) -> int:
        """Values of k of a block, if nothing else is said: the most."""
        return self.block_beats * self.lanes

    @property
    def anchored(self) -> bool:
        """Whether the array wants anchors: the largest scales of rows and columns."""
        return self.arithmetic == "window"

    @property
    def product_beats(self) -> int:
        """Most operand beats of a tile that the array's sums hold."""
        return DEFAULT_INNER // self.lanes if self.anchored else _MOST_OPERAND_BEATS

    @property
    def turns_operands(self) -> bool:
        """Whether LOAD transposes whole operands: codes, and scales if they have some."""
        return self.rows == _MOST_ROWS if self.scaled else self.transposes

    @property
    def operand_parts(self) -> tuple[str, ...]:
        """What there is of an operand, each part in buffers and places of its own."""
        return ("codes", "scales") if self.scaled else ("codes",)

    def conversion(self, block_beats: int) -> str:
        """Name of the conversion into blocks of so many operand beats."""
        if not self.scaled:
            return "numbers"
        return "blocks" if block_beats == self.block_beats else "tiles"

    def operand_block(
        self, block: int | tuple[int, int] | None, default: int | tuple[int, int] = _BLOCK
    ) -> int | tuple[int, int]:
        """Blocks of the operands of a program.

        Parameters
        ----------
        block : int or tuple of int, optional
            What was asked for: 64, along the sums of products, or ``(8, 8)``. Operands without
            scales have no blocks, so nothing can be asked for.
        default : int or tuple of int
            What they are if nothing was.

        Raises
        ------
        ValueError
            If there are no such blocks.
        """
        if not self.scaled:
            if block is not None:
                raise ValueError(
                    f"block must be None with arithmetic {self.arithmetic}, whose operands have "
                    f"no scales, not {shown(block)}"
                )
            return self.default_block
        if block is None:
            return default
        if block not in (_BLOCK, (_TILE, _TILE)):
            raise ValueError(f"block must be {_BLOCK} or {(_TILE, _TILE)}, not {shown(block)}")
        return block

    @property
    def a_entries(self) -> int:
        """Scale entries of the buffer of operand a."""
        return self._entries(self.a_beats)

    @property
    def w_entries(self) -> int:
        """Scale entries of the buffer of operand w."""
        return self._entries(self.w_beats)

    @property
    def out_entries(self) -> int:
        """Scale entries of the buffer of results."""
        return self._entries(self.out_beats)

    def _entries(self, beats: int) -> int:
        return self.entries(beats, 2)

    @checked
    def entries(self, beats: Count, span: PositiveInteger) -> int:
        """Scale entries of so many operand beats, if one is for some of them."""
        return -(-beats // span) if self.scaled else 0


def require_rows(rows: object) -> int:
    """Return the rows of an array, if a machine can have so many.

    Raises
    ------
    ValueError
        If it cannot.
    """
    return _number_among("rows", rows, _ROWS)


def _packings(nibbles: bool, tiles: bool) -> tuple[str, ...]:
    return tuple(name for name, there in zip(PACKINGS, (nibbles, tiles), strict=True) if there)


def _number_among(name: str, value: object, known: tuple[int, ...]) -> int:
    number = require_positive_integer(name, value)
    if number not in known:
        raise ValueError(f"{name} must be {one_of(known, number)}")
    return number


def _some_of(name: str, given: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    """Names in the order of those that are known, each once."""
    names = given if isinstance(given, tuple | list) else (None,)  # one word is no tuple of words
    unknown = any(not isinstance(item, str) or item not in known for item in names)
    if unknown or len(set(names)) < len(names):
        raise ValueError(
            f"{name} must be some of {', '.join(known)}, each once, not {shown(given)}"
        )
    return tuple(item for item in known if item in names)


WINDOW_MACHINE = MachineConfiguration(arithmetic="window")
"""The default machine with integers of a window in place of eight adders a sub-matrix unit."""

BF16_MACHINE = MachineConfiguration(arithmetic="bf16")
"""The default machine with numbers of bfloat16 in place of MXSF: the paper's baseline."""

SMALL_MACHINE = MachineConfiguration(
    rows=8,
    data_width=64,
    a_beats=256,
    w_beats=512,
    out_beats=64,
    vector_banks=2,
    bank_beats=256,
    reduction_beats=128,
    functions=("relu", "gelu", "silu", "tanh"),
)
"""A machine for simulators: a quarter of the default array, and short buffers."""

FPGA_MACHINE = replace(SMALL_MACHINE, array_lanes=2, vector_parts=8, target="fpga")
"""The same for FPGAs: half the multipliers, vector units of one lane."""

BOARD_MACHINE = replace(
    FPGA_MACHINE,
    rows=4,
    array_lanes=4,
    vector_parts=4,
    functions=("relu",),
    reductions=(),
    conversions=("blocks",),
    affine=False,
)
"""For a board's LFE5U-85F: 64 products a cycle, arithmetic of vectors and ReLU."""


@checked
def sizes_of(machine: MachineConfiguration) -> dict[str, Any]:
    """Fields of a machine by their names, formats by theirs: `resized` makes it of them again."""
    formats = {name: getattr(machine, name).name for name in ("format_a", "format_w")}
    return {field.name: getattr(machine, field.name) for field in fields(machine)} | formats


_NONE = "none"
_OF_OPERANDS = ("format_a", "format_w", "conversions")
"""Fields of which operands with scales have other values than those without."""


@checked
def resized(default: MachineConfiguration, **values: Any) -> MachineConfiguration:
    """A machine with some other sizes.

    Parameters
    ----------
    default : MachineConfiguration
        What it is apart from them. Where the arithmetic is one of operands with scales and the
        other is not, formats and conversions are the default ones of the arithmetic.
    **values
        Fields of `MachineConfiguration`. A list of names may be one string, joined by ``+``, or
        ``none``.

    Raises
    ------
    ValueError
        If there is no field of that name, or there can be no such machine.
    """
    known = [field.name for field in fields(default)]
    for name, value in values.items():
        if name not in known:
            raise ValueError(f"field must be {one_of(known, name)}")
        if isinstance(value, str) and isinstance(getattr(default, name), tuple):
            values[name] = () if value == _NONE else tuple(value.split("+"))
    plain = MachineConfiguration(arithmetic=values.get("arithmetic", default.arithmetic))
    if plain.scaled != default.scaled:
        values = {name: getattr(plain, name) for name in _OF_OPERANDS} | values
    return replace(default, **values)
