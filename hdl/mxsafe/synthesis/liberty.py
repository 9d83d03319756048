"""Reading of cell libraries in the Liberty format: what simulation and power need of a cell."""

import bisect
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Axis: TypeAlias = tuple[float, ...]


class LibertyError(ValueError):
    """A library lacks something, or is not understood."""


@dataclass
class Group:
    """A group ``kind (arguments) { ... }`` of a Liberty file.

    Attributes
    ----------
    kind : str
    arguments : tuple of str
    attributes : dict
        Text of each simple attribute, and the arguments of each complex one.
    groups : list of Group
        The groups inside, in order.
    """

    kind: str
    arguments: tuple[str, ...]
    attributes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    groups: list["Group"] = field(default_factory=list)

    def text(self, name: str) -> str | None:
        """A simple attribute; None if it is not there."""
        values = self.attributes.get(name)
        return values[0] if values else None

    def number(self, name: str, default: float = 0.0) -> float:
        """A simple attribute that is a number."""
        text = self.text(name)
        return default if text is None else float(text)

    def inside(self, *kinds: str) -> list["Group"]:
        """The groups inside that are of some kind."""
        return [group for group in self.groups if group.kind in kinds]


@dataclass(frozen=True, kw_only=True)
class Table:
    """Energy by transition time of the input and load of the output.

    Attributes
    ----------
    slews : tuple of float
        Transition times, ns; empty where the energy does not depend on them.
    loads : tuple of float
        Loads, fF; likewise.
    values : tuple of tuple of float
        A row for each transition time, fJ.
    """

    slews: Axis
    loads: Axis
    values: tuple[Axis, ...]

    def at(self, slew: float, load: float) -> float:
        """Energy between the entries, linear in both; at the border outside of them."""
        low, high, share = _place(self.slews, slew)
        left, right, part = _place(self.loads, load)
        rows = [
            (1.0 - part) * self.values[row][left] + part * self.values[row][right]
            for row in (low, high)
        ]
        return (1.0 - share) * rows[0] + share * rows[1]


def _place(axis: Axis, value: float) -> tuple[int, int, float]:
    """The two entries of an axis around a value, and how far the value is towards the second."""
    if len(axis) < 2 or value <= axis[0]:
        return 0, 0, 0.0
    if value >= axis[-1]:
        return len(axis) - 1, len(axis) - 1, 0.0
    high = bisect.bisect_right(axis, value)
    return high - 1, high, (value - axis[high - 1]) / (axis[high] - axis[high - 1])


@dataclass(frozen=True, kw_only=True)
class Energy:
    """Energy inside a cell when a pin changes.

    Attributes
    ----------
    related : str or None
        The input whose change it follows; None for the pin's own.
    when : str or None
        Condition on the other pins.
    rise, fall : Table
    """

    related: str | None
    when: str | None
    rise: Table
    fall: Table


@dataclass(frozen=True, kw_only=True)
class Pin:
    """A pin of a cell.

    Attributes
    ----------
    direction : str
        ``input``, ``output`` or ``internal``.
    capacitance : float
        fF.
    function : str or None
        What an output is, in terms of inputs and of the cell's state.
    role : str or None
        Of a clock gate: ``clock``, ``enable``, ``test`` or ``out``.
    energies : tuple of Energy
    """

    direction: str
    capacitance: float
    function: str | None
    role: str | None
    energies: tuple[Energy, ...]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A cell.

    Attributes
    ----------
    name : str
    leakage : float
        nW, the mean over its states.
    pins : Mapping
        By name.
    state : Group or None
        The group ``ff`` or ``latch`` of a register.
    clock_gate : str or None
        Kind of an integrated clock gate, such as ``latch_posedge``.
    """

    name: str
    leakage: float
    pins: Mapping[str, Pin]
    state: Group | None = None
    clock_gate: str | None = None

    @property
    def is_sequential(self) -> bool:
        """Whether it is a register or a clock gate."""
        return self.state is not None or self.clock_gate is not None

    @property
    def inputs(self) -> list[str]:
        """Names of its inputs."""
        return [name for name, pin in self.pins.items() if pin.direction == "input"]

    @property
    def outputs(self) -> list[str]:
        """Names of its outputs."""
        return [name for name, pin in self.pins.items() if pin.direction == "output"]

    @property
    def clock(self) -> str:
        """The clock pin of a register or clock gate.

        Raises
        ------
        LibertyError
            If it has none.
        """
        condition = self.state and (self.state.text("clocked_on") or self.state.text("enable"))
        words = re.findall(r"\w+", condition or "")
        names = [n for n in self.inputs if n in words or self.pins[n].role == "clock"]
        if len(names) != 1:
            raise LibertyError(f"{self.name} must have one clock pin, not {names}")
        return names[0]


_TOKEN = re.compile(r'"[^"]*"|[^\s{}():;,"\\]+|[{}():;,]')


def _tokens(text: str) -> Iterator[str]:
    for match in _TOKEN.finditer(re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)):
        yield match.group().strip('"')


def _read_group(kind: str, arguments: tuple[str, ...], tokens: Iterator[str]) -> Group:
    """A group whose opening brace has been read."""
    group = Group(kind, arguments)
    for name in tokens:
        if name == "}":
            return group
        if name == ";":
            continue
        mark = next(tokens, "")
        if mark == ":":
            words = []
            while (word := next(tokens, ";")) != ";":
                words.append(word)
            group.attributes[name] = (" ".join(words),)
        elif mark == "(":
            values = []
            while (word := next(tokens, ")")) != ")":
                if word != ",":
                    values.append(word)
            after = next(tokens, "")
            if after == "{":
                group.groups.append(_read_group(name, tuple(values), tokens))
            elif after == ";":
                group.attributes[name] = tuple(values)
            else:
                raise LibertyError(f"{name} must end with ; or begin a group, not go on {after!r}")
        else:
            raise LibertyError(f"{name} must be an attribute or a group, not be before {mark!r}")
    raise LibertyError(f"{kind} {' '.join(arguments)} has no end")


def _numbers(values: Iterable[str]) -> tuple[Axis, ...]:
    return tuple(
        tuple(float(number) for number in re.split(r"[\s,]+", row.strip())) for row in values
    )


def _read_table(groups: list[Group]) -> Table:
    """A table whose first axis is the transition time; nothing of zero."""
    if not groups:
        return Table(slews=(), loads=(), values=((0.0,),))
    (group,) = groups
    axes = [_numbers(group.attributes.get(name, ())) for name in ("index_1", "index_2")]
    slews, loads = (axis[0] if axis else () for axis in axes)
    values = _numbers(group.attributes["values"])
    if slews and not loads and len(values) == 1:
        values = tuple((value,) for value in values[0])
    if len(values) != max(len(slews), 1) or {len(row) for row in values} != {max(len(loads), 1)}:
        raise LibertyError(f"values of {group.kind} must be {len(slews)} x {len(loads)}")
    return Table(slews=slews, loads=loads, values=values)


_ROLES = ("clock", "enable", "test", "out")


def _read_pin(group: Group) -> Pin:
    energies = tuple(
        Energy(
            related=power.text("related_pin"),
            when=power.text("when"),
            rise=_read_table(power.inside("rise_power")),
            fall=_read_table(power.inside("fall_power")),
        )
        for power in group.inside("internal_power")
    )
    return Pin(
        direction=group.text("direction") or "",
        capacitance=group.number("capacitance"),
        function=group.text("function"),
        role=next((role for role in _ROLES if group.text(f"clock_gate_{role}_pin")), None),
        energies=energies,
    )


def read_cells(text: str, names: Iterable[str]) -> dict[str, Cell]:
    """Cells of a library by name.

    Parameters
    ----------
    text : str
        A Liberty file in ns, fF and nW, its energies in fJ.
    names : iterable of str
        The cells wanted.

    Raises
    ------
    LibertyError
        If the units are others, a cell is not there, or something is not understood.
    """
    head = text[: text.find("cell (")]
    for unit, pattern in {
        "time_unit": r'time_unit\s*:\s*"1ns"',
        "leakage_power_unit": r'leakage_power_unit\s*:\s*"1nW"',
        "voltage_unit": r'voltage_unit\s*:\s*"1V"',
        "capacitive_load_unit": r"capacitive_load_unit\s*\(1,\s*ff\)",
    }.items():
        if re.search(pattern, head) is None:
            raise LibertyError(f"{unit} of the library is not as expected")
    starts = {
        match.group(1): match.end()
        for match in re.finditer(r'^\s*cell\s*\(\s*"?(\w+)"?\s*\)\s*\{', text, re.MULTILINE)
    }
    ends = sorted(starts.values())
    cells = {}
    for name in names:
        if name not in starts:
            raise LibertyError(f"the library has no cell {name}")
        start = starts[name]
        after = bisect.bisect_right(ends, start)
        body = text[start : ends[after] if after < len(ends) else len(text)]
        group = _read_group("cell", (name,), _tokens(body))
        states = group.inside("ff", "latch")
        cells[name] = Cell(
            name=name,
            leakage=group.number("cell_leakage_power"),
            pins={pin.arguments[0]: _read_pin(pin) for pin in group.inside("pin")},
            state=states[0] if states else None,
            clock_gate=group.text("clock_gating_integrated_cell"),
        )
    return cells
