"""Tables of energies: of DRAM, of memories on the chip, of units; or a user's own.

All energies are in pJ, powers in mW. What stands behind a number, and where it comes from, its
table says.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from mxsafe.formats import FloatFormat, MXFormat
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.tables import GRADES
from mxsafe.validation import checked, one_of, require_one_of, shown

__all__ = ["BUFFERS", "DRAMS", "NODES", "UNITS", "EnergyTables", "in_use", "own_tables"]

_TABLES = Path(__file__).with_name("energies")
SRAM_FILE = _TABLES / "sram.json"
UNIT_FILE = _TABLES / "unit.json"
DRAM_FILE = _TABLES / "dram.json"

_DRAM = json.loads(DRAM_FILE.read_text())["sources"]
DRAMS: tuple[str, ...] = tuple(_DRAM)
"""Sources of energies of DRAM."""
_MOST = 1e9
"""Largest figure that a table may have: a millijoule, or a megawatt."""
CLOCKS = (0.001, 1e5)
"""Least and highest clock, MHz."""
_DRAM_FIELDS = ("read", "write", "activate", "background_mw")
BUFFER_FIELDS = ("read", "write", "leakage_mw")
_HALVES = 2
"""Memories of a bank of vectors, and of an operand's scales."""
_GIVEN = "the table given"
NODES = (65, 45, 28)
"""Processes of memories on the chip, in nm."""
BUFFERS = (
    *(f"{owner}_{kind}" for owner in ("a", "w", "out") for kind in ("codes", "scales")),
    "vector",
    "rows",
)
"""Memories on the chip."""
UNITS = ("product", "arithmetic", "function", "softmax", "layer_norm", "rms_norm", "sum", "convert")
"""Work whose energy is known."""
_LIKE = {"sum": "rms_norm"}
"""Work without a netlist of its own, and the one that it is taken for."""
_TAKEN = {
    "sum": "a sum of rows for RMS normalisation",
    "arithmetic": "every operation of arithmetic for one of all kinds",
    "function": "every function for those of four",
}
"""Work of several kinds, or without a netlist, and what all of it is taken for."""
GRADED = ("function", "softmax", "layer_norm", "rms_norm")
"""Work of units that are there in several grades."""
NETLISTS: Mapping[str, Any] = {
    "target": "asic",
    "grade": GRADES[0],
    "unit_rows": 4,
    "array_lanes": 4,
    "vector_lanes": 16,
}
"""What all netlists are of whose energies are known."""


@cache
def _sram(node: int) -> dict[int, list[list[float]]]:
    """By width in bytes: bytes, read, write, leakage of memories, from small to large."""
    found: dict[int, list[list[float]]] = {}
    for nm, width, *rest in json.loads(SRAM_FILE.read_text())["rows"]:
        if nm == node:
            found.setdefault(width, []).append(rest)
    return found


@cache
def _units() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(UNIT_FILE.read_text())["units"]
    return found


def _between(points: Sequence[tuple[float, float]], at: float) -> float:
    """A value between known ones, along a straight line of logarithms; the first one before it."""
    if at <= points[0][0]:
        return points[0][1]
    for (low, below), (high, above) in pairwise(points):
        if at <= high:
            share = math.log(at / low) / math.log(high / low)
            return below * (above / below) ** share
    return math.nan


def memory_figure(node: int, width: int, depth: int, what: str) -> float:
    """Energy of an access of a memory, pJ, or the power that it leaks, mW.

    Parameters
    ----------
    node : int
        One of `NODES`.
    width, depth : int
        Bytes of a word, and words. What is smaller than all that are known is taken for the
        smallest.
    what : {"read", "write", "leakage_mw"}

    Raises
    ------
    ValueError
        If it is larger than all that are known.
    """
    column = 1 + BUFFER_FIELDS.index(what)
    table, size = _sram(node), width * depth
    points = [
        (wide, _between([(row[0], row[column]) for row in rows], size))
        for wide, rows in table.items()
    ]
    found = _between(points, width)
    if math.isnan(found):
        most = min(rows[-1][0] for rows in table.values())
        raise ValueError(
            f"a memory must have at most {most} bytes in words of at most {max(table)}, for which "
            f"there are figures, not {size} in words of {width}"
        )
    return found


@checked
@dataclass(frozen=True, kw_only=True)
class EnergyTables:
    """Which energies are taken.

    Attributes
    ----------
    dram : str
        One of `DRAMS`.
    sram : int
        One of `NODES`.
    static_power : bool
        Count what memories take all the time too: leakage, and what a channel of DRAM takes in
        the background, if there is a figure of it.
    clock_mhz : float
        Cycles of a microsecond, from which static power is counted.
    own : Mapping
        A user's own energies, which go before all others: see `own_tables`.

    Raises
    ------
    ValueError
        If there is no such table, or the clock is not within `CLOCKS`.
    """

    dram: str = "bitmod"
    sram: int = 28
    static_power: bool = False
    clock_mhz: float = 500
    own: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_one_of("dram", self.dram, DRAMS)
        if self.sram not in NODES:
            raise ValueError(f"sram must be {one_of(NODES, self.sram)}")
        if not CLOCKS[0] <= self.clock_mhz <= CLOCKS[1]:
            low, high = CLOCKS
            raise ValueError(
                f"clock_mhz must be from {low:g} to {high:g}, not {shown(self.clock_mhz)}"
            )
        _check_own("own", self.own)

    @property
    def dram_table(self) -> Mapping[str, Any]:
        """Figures of DRAM: a user's own, or those of the source."""
        found: Mapping[str, Any] = self.own.get("dram", _DRAM[self.dram])
        return found


def dram_bit(tables: EnergyTables, way: str) -> float:
    """Energy of a bit that is read or written, with its share of opening a row."""
    table = tables.dram_table
    return float(table[way] + table.get("activate", 0))


def dram_background(tables: EnergyTables) -> float | None:
    """Power of a channel of DRAM in the background, mW; None if its table has none."""
    found: float | None = tables.dram_table.get("background_mw")
    return found


def buffer_figure(
    tables: EnergyTables, buffer: str, what: str, configuration: MachineConfiguration
) -> float:
    """Energy of an access of one memory of a buffer, pJ, or the power that it leaks, mW.

    Parameters
    ----------
    tables : EnergyTables
    buffer : str
        One of `BUFFERS`.
    what : {"read", "write", "leakage_mw"}
    configuration : MachineConfiguration

    Raises
    ------
    ValueError
        If it is larger than all that are known.
    """
    own = tables.own.get("buffers", {}).get(buffer, {})
    if what in own:
        return float(own[what])
    try:
        return memory_figure(tables.sram, *memory_size(buffer, configuration), what)
    except ValueError as error:
        raise ValueError(f"buffers must have {buffer} in a table of your own: {error}") from None


def leaked(tables: EnergyTables, configuration: MachineConfiguration) -> float:
    """Power that all memories of a machine's buffers leak, mW.

    Raises
    ------
    ValueError
        If one is larger than all that are known.
    """
    return sum(
        memories_of(buffer, configuration)
        * buffer_figure(tables, buffer, "leakage_mw", configuration)
        for buffer in _buffers_of(configuration)
    )


def unit_energy(tables: EnergyTables, name: str, configuration: MachineConfiguration) -> float:
    """Energy of a unit's work.

    It is that of a product, of a number of an operation or a conversion, or of a number of a
    row that is reduced in all of its passes.

    Raises
    ------
    ValueError
        If there is no netlist of the machine's products.
    """
    own = tables.own.get("units", {})
    return float(own[name] if name in own else _netlist(name, configuration)["pj"])


def _netlist(name: str, configuration: MachineConfiguration) -> Mapping[str, Any]:
    """The row of a unit's netlist, or of the one that it is taken for."""
    units = _units()
    key = _LIKE.get(name, name)
    if name == "product":
        key = f"product {configuration.arithmetic} {_formats(configuration)}"
    if key not in units:
        raise ValueError(
            f"units must have product in a table of your own for arithmetic "
            f"{configuration.arithmetic} of {_formats(configuration)}, of which there is "
            "no netlist's energy"
        )
    return units[key]


def _formats(c: MachineConfiguration) -> str:
    """Formats of both operands, one if they are the same."""
    return "_".join(dict.fromkeys((_name(c.format_a), _name(c.format_w))))


def _name(fmt: Any) -> str:
    """Name of a format that a configuration has settled."""
    return cast(MXFormat | FloatFormat, fmt).name


@checked
def in_use(tables: EnergyTables, configuration: MachineConfiguration) -> dict[str, Any]:
    """Which figures a machine's energies are made of.

    Returns
    -------
    dict
        ``own``, a user's; and of what it does not have ``dram`` and ``sram``, names of tables, or
        None if it has all, and ``units``: by work of `UNITS` the configuration and the format of
        the netlist, as ``docs/synthesis.json`` names them; ``static_power`` and ``clock_mhz``.

    Raises
    ------
    ValueError
        If there is no netlist of the machine's products.
    """
    own = tables.own
    netlists = {
        name: {key: _netlist(name, configuration)[key] for key in ("configuration", "format")}
        for name in _units_of(configuration)
        if name not in own.get("units", {})
    }
    memories = own.get("buffers", {}).keys() >= {*_buffers_of(configuration)}
    return {
        "dram": None if "dram" in own else tables.dram,
        "sram": None if memories else tables.sram,
        "units": netlists,
        "own": own,
        "static_power": tables.static_power,
        "clock_mhz": tables.clock_mhz,
    }


def assumptions_of(tables: EnergyTables, configuration: MachineConfiguration) -> list[str]:
    """What all energies rest on, a sentence each."""
    dram, units = tables.own.get("dram"), tables.own.get("units", {})
    source = _GIVEN if dram else _DRAM[tables.dram]["source"]
    product = unit_energy(tables, "product", configuration)
    memories = _source(
        f"CACTI 7, {tables.sram} nm, high-performance cells, a port to read and one to write",
        _buffers_of(configuration),
        tables.own.get("buffers", {}),
    )
    netlists = _source(
        "netlists of NanGate 45 nm at 500 MHz with activity of MiniLM, the array's at the full "
        "rate, without wires and a clock tree",
        _units_of(configuration),
        units,
    )
    there = {*_units_of(configuration)}
    taken = [what for name, what in _TAKEN.items() if name in there and name not in units]
    return [
        f"DRAM: {dram_bit(tables, 'read'):g} pJ a bit read, {dram_bit(tables, 'write'):g} written "
        f"({source}); no row is opened more often than that says",
        f"memories on the chip: {memories}",
        f"a product: {product:g} pJ; units: {netlists}",
        *([f"taken for others: {', '.join(taken)}"] if taken else []),
        *_stand_ins(tables, configuration),
        *_static(tables, configuration),
    ]


def _static(tables: EnergyTables, configuration: MachineConfiguration) -> Iterator[str]:
    """What is said of static power, and all that is not counted."""
    missing = ["what the host computes"]
    background = dram_background(tables)
    if not tables.static_power:
        missing.append("leakage of memories")
        missing += ["the background of DRAM"] if background is not None else []
    else:
        power = f"memories on the chip leak {leaked(tables, configuration):.4g} mW"
        if background is None:
            power += ", the background of DRAM is in the energy of a bit or not counted"
        else:
            power += f", a channel of DRAM takes {background:g} mW in the background"
        yield f"static power: {power}; all the time that is predicted"
    missing += [
        "leakage of units that wait",
        "the clock while nothing moves",
        "wires between units",
        "registers between units of the array",
        "packing and what moves words",
    ]
    yield f"not counted: {', '.join(missing)}, control apart from the DRAM of descriptors"


def _source(usual: str, names: Iterable[str], own: Mapping[str, Any]) -> str:
    """Where energies of these names are from: the usual source, or a user's own table."""
    if own.keys() >= {*names}:
        return _GIVEN
    return f"{usual}; some from {_GIVEN}" if own else usual


def _stand_ins(tables: EnergyTables, configuration: MachineConfiguration) -> Iterator[str]:
    """What else is taken for something that there is a figure of, a sentence each."""
    c, known = configuration, NETLISTS
    own = tables.own.get("units", {})
    mine = [name for name in _units_of(c) if name not in own]
    vectors = [name for name in mine if name != "product"]
    if mine and c.target != known["target"]:
        yield f"units for an FPGA are taken for those of standard cells: {', '.join(mine)}"
    graded = [name for name in mine if name in GRADED]
    if graded and c.grade != known["grade"]:
        yield f"grade {c.grade} is taken for {known['grade']}: {', '.join(graded)}"
    shape, usual = (
        f"{rows}x{rows} MACs with array_lanes {lanes}"
        for rows, lanes in (
            (c.unit_rows, c.array_lanes),
            (known["unit_rows"], known["array_lanes"]),
        )
    )
    if "product" in mine and shape != usual:
        yield f"a sub-matrix unit of {shape} is taken for one of {usual}"
    lanes = c.vector_lanes // c.vector_parts
    if vectors and lanes != known["vector_lanes"]:
        yield (
            f"vector units {lanes} wide are taken for those {known['vector_lanes']} wide: "
            f"{', '.join(vectors)}"
        )
    to, usual = _name(c.format_w), _units()["convert"]["format"]
    if "convert" in mine and to != usual:
        yield f"a conversion to {to} is taken for one to {usual}"
    if small := list(_small_memories(tables, c)):
        yield f"memories smaller than all that are known are taken for such: {'; '.join(small)}"


def _units_of(c: MachineConfiguration) -> Iterator[str]:
    """Work that a machine has units for, of `UNITS`."""
    yield from ("product", "arithmetic")
    yield from ("function",) if c.functions else ()
    yield from c.reductions
    yield from ("convert",) if c.conversions else ()


def _buffers_of(c: MachineConfiguration) -> list[str]:
    """Memories that a machine has, of `BUFFERS`."""
    absent = [] if c.scaled else [name for name in BUFFERS if name.endswith("_scales")]
    absent += [] if c.reductions else ["rows"]
    return [name for name in BUFFERS if name not in absent]


def _small_memories(tables: EnergyTables, c: MachineConfiguration) -> Iterator[str]:
    """Memories that are smaller, or have narrower words, than all that there are figures of."""
    table, own = _sram(tables.sram), tables.own.get("buffers", {})
    for name in _buffers_of(c):
        width, depth = memory_size(name, c)
        size, wide = width * depth, max(width, min(table))
        least = int(table[wide][0][0])
        if name not in own and (size < least or width < wide):
            taken = f"{max(size, least)} in words of {wide}"
            yield f"{name}, {size} bytes in words of {width}, for {taken}"


def memories_of(buffer: str, configuration: MachineConfiguration) -> int:
    """How many memories a buffer is made of."""
    if buffer == "rows":
        return 1
    if buffer == "vector":
        return _HALVES * configuration.vector_banks
    return configuration.beat_words if buffer.endswith("_codes") else _HALVES


def memory_size(buffer: str, configuration: MachineConfiguration) -> tuple[int, int]:
    """Bytes of a word, and words, of one of a buffer's memories."""
    c = configuration
    if buffer == "vector":
        return c.word_bytes, c.bank_beats
    if buffer == "rows":
        return 4 * c.vector_lanes, c.reduction_beats
    owner, _, kind = buffer.partition("_")
    beats = int(getattr(c, f"{owner}_beats"))
    if kind == "codes":
        return c.word_bytes, beats
    return c.entry_bytes, beats // 4


@checked
def own_tables(text: str, name: str) -> dict[str, Any]:
    """Energies of a user's own table.

    Parameters
    ----------
    text : str
        JSON: an object with some of: ``dram`` with ``read`` and ``write``, pJ a bit, and perhaps
        ``activate``, which is added to both, and ``background_mw`` of a channel; ``buffers`` with
        some of `BUFFERS`, each with ``read`` and ``write``, pJ of an access of one memory, and
        perhaps ``leakage_mw`` of one; ``units`` with some of `UNITS`, pJ.
    name : str
        Its file, for errors.

    Raises
    ------
    TypeError, ValueError
        If it is anything else; the message names the file, the field and the value.
    """
    try:
        table = json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name} must be JSON of energies: {error}") from None
    _check_own(name, table)
    return dict(table)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, each of whose fields may be there once."""
    seen: dict[str, Any] = {}
    for name, value in pairs:
        if name in seen:
            raise ValueError(f"the field {shown(name)} must be there once in an object, not twice")
        seen[name] = value
    return seen


def _check_own(name: str, table: Any) -> None:
    """Refuse what are no energies of a user's own, with the name of what they came from."""
    _fields(name, "", table, ("dram", "buffers", "units"))
    if "dram" in table:
        _figures(name, "dram", table["dram"], _DRAM_FIELDS, needed=("read", "write"))
    if "buffers" in table:
        _fields(name, "buffers", table["buffers"], BUFFERS)
        for one, ways in table["buffers"].items():
            _figures(name, f"buffers.{one}", ways, BUFFER_FIELDS, needed=("read", "write"))
    if "units" in table:
        _figures(name, "units", table["units"], UNITS)


def _fields(file: str, where: str, value: Any, known: Sequence[str]) -> None:
    name = where or "its content"
    if not isinstance(value, dict):
        raise ValueError(f"{file}: {name} must be an object, not {_as_json(value)}")
    for key in value:
        if key not in known:
            raise ValueError(f"{file}: a field of {name} must be {one_of(known, key)}")


def _as_json(value: Any) -> str:
    """A value in an error about JSON: words of it are not Python's."""
    is_word = value is None or isinstance(value, bool | float)
    return json.dumps(value) if is_word else shown(value)


def _figures(
    file: str, where: str, value: Any, known: Sequence[str], needed: Sequence[str] = ()
) -> None:
    _fields(file, where, value, known)
    for name in needed:
        if name not in value:
            raise ValueError(f"{file}: {where} must have {name}")
    for name, figure in value.items():
        is_number = isinstance(figure, int | float) and not isinstance(figure, bool)
        if not is_number or not 0 <= figure <= _MOST:
            unit = "mW" if name.endswith("_mw") else "pJ"
            raise ValueError(
                f"{file}: {where}.{name} must be a number of {unit} from 0 to {_MOST:g}, "
                f"not {_as_json(figure)}"
            )
