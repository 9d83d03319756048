"""Energies of a gate-level simulation: changes counted from its record, and what each costs."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from mxsafe.synthesis.gates import Instance
from mxsafe.synthesis.liberty import Cell, Energy, Pin, Table

Bits = NDArray[np.bool_]
Counts = NDArray[np.int32]
Energies = NDArray[np.float64]

VOLTS = 1.1
SETTLED = 0.01
"""How long before a clock edge things are looked at, ns."""


class PowerError(RuntimeError):
    """A simulation does not say what power is computed from."""


@dataclass
class Changes:
    """Recorded changes of a gate-level simulation.

    Attributes
    ----------
    names : list of (str, str)
        Instance and output.
    rises, falls : ndarray of int, shape (cycles, outputs)
        Changes in each cycle.
    before_rise, before_fall : ndarray of bool, shape (cycles, outputs)
        Values just before the rising edge that starts the clock, and before its falling edge.
    """

    names: list[tuple[str, str]]
    rises: Counts = field(default_factory=lambda: np.zeros((0, 0), np.int32))
    falls: Counts = field(default_factory=lambda: np.zeros((0, 0), np.int32))
    before_rise: Bits = field(default_factory=lambda: np.zeros((0, 0), bool))
    before_fall: Bits = field(default_factory=lambda: np.zeros((0, 0), bool))


def _header(
    lines: Iterator[str], wanted: Collection[tuple[str, str]]
) -> dict[str, list[tuple[str, str]]]:
    """Instance and output by identifier code, from the declarations of a VCD file."""
    scopes: list[str] = []
    found: dict[str, list[tuple[str, str]]] = {}
    for line in lines:
        words = line.split()
        if words[:1] == ["$scope"]:
            scopes.append(words[2].lstrip("\\"))
        elif words[:1] == ["$upscope"]:
            scopes.pop()
        elif words[:1] == ["$var"] and (scopes[-1], words[4]) in wanted:
            found.setdefault(words[3], []).append((scopes[-1], words[4]))
        elif words[:1] == ["$enddefinitions"]:
            return found
    raise PowerError("the record of changes has no end of its declarations")


def read_changes(
    lines: Iterator[str],
    wanted: Sequence[tuple[str, str]],
    *,
    period: float,
    skipped: int,
    clocks: int,
) -> Changes:
    """Count the changes of a VCD file in steps of 1 ps.

    Parameters
    ----------
    lines : iterator of str
        The file.
    wanted : sequence of (str, str)
        Instances and outputs that are counted; others may be there.
    period : float
        ns.
    skipped, clocks : int
        The cycles from `skipped` to ``clocks - 1`` are counted.

    Raises
    ------
    PowerError
        If outputs are missing, or have no value.
    """
    codes = _header(lines, set(wanted))
    names = [name for several in codes.values() for name in several]
    if len(names) != len(wanted):
        raise PowerError(f"changes of {len(names)} of {len(wanted)} outputs of cells were recorded")
    index, spare = {code: place for place, code in enumerate(codes)}, len(codes)
    rises, falls, value = ([start] * (len(codes) + 1) for start in (0, 0, 2))
    edges = [round(1000 * (clock * period / 2 - SETTLED / 2)) for clock in range(2 * clocks + 1)]
    step = 2 * skipped
    counts: list[Counts] = []
    values: list[NDArray[np.uint8]] = []

    def look() -> None:
        """Keep what there is at an edge: values at all of them, counts at the end of a clock."""
        values.append(np.array(value[:-1], np.uint8))
        if step % 2 == 0:
            counts.append(np.array([rises[:-1], falls[:-1]], np.int32))

    until = edges[step]
    for line in chain(lines, [f"#{edges[-1] + 1}"]):
        first = line[0]
        if first == "1":
            place = index.get(line[1:-1], spare)
            rises[place] += value[place] == 0
            value[place] = 1
        elif first == "0":
            place = index.get(line[1:-1], spare)
            falls[place] += value[place] == 1
            value[place] = 0
        elif first == "#":
            now = int(line[1:])
            while step < len(edges) and now > until:
                look()
                step += 1
                until = edges[min(step, len(edges) - 1)]
            if step == len(edges):
                break
        elif first == "x":
            value[index.get(line[1:-1], spare)] = 2
    seen = np.stack(values)
    unknown = np.flatnonzero((seen > 1).any(axis=0))
    if len(unknown):
        name = ".".join(list(codes.values())[unknown[0]][0])
        raise PowerError(
            f"{len(unknown)} of {len(index)} nets have no value, the first of them at {name}"
        )
    # An alias in the netlist has the changes of its own cell only once: codes are nets.
    wide = [place for place, several in enumerate(codes.values()) for _ in several]
    until_clock = np.stack(counts)[:, :, wide]
    in_clocks = until_clock[1:] - until_clock[:-1]
    # What is asked for later is all cycles of a net.
    rising, falling = (np.asfortranarray(in_clocks[:, kind]) for kind in (0, 1))
    before = [np.asfortranarray(seen[start:-1:2, wide].astype(bool)) for start in (0, 1)]
    return Changes(names, rising, falling, before[0], before[1])


@dataclass
class Sums:
    """Energies of every cycle, fJ: internal and of switching; and leakage, nW."""

    internal: Energies
    switching: Energies
    leakage: float = 0.0


def _when(condition: str | None, state: Mapping[str, Bits]) -> Bits | bool:
    """Whether a condition holds, cycle by cycle; pins that are not in the state do not matter."""
    if condition is None:
        return True
    holds: Bits | bool = True
    for term in condition.replace("(", "").replace(")", "").split("&"):
        name = term.strip()
        if name.lstrip("!") in state:
            value = state[name.lstrip("!")]
            holds = holds & (~value if name.startswith("!") else value)
    return holds


Times = Counts | Energies
"""How often something happens in each cycle: a number, or the mean of it."""


@dataclass(frozen=True, kw_only=True)
class Circuit:
    """A netlist of cells, and what energies of its changes depend on.

    Attributes
    ----------
    instances : sequence of Instance
    cells : Mapping
        By kind.
    slews : Mapping
        Transition times at ``instance/pin``, rise and fall, ns.
    outputs : sequence of str
        Nets that leave the unit.
    load : float
        On each of these, fF.
    wires : Mapping
        Capacitances of the wires of nets, whose names have no backslash, fF.
    """

    instances: Sequence[Instance]
    cells: Mapping[str, Cell]
    slews: Mapping[str, tuple[float, float]]
    outputs: Sequence[str]
    load: float
    wires: Mapping[str, float] = field(default_factory=dict)


class Nets(ABC):
    """Loads of a circuit's nets, and what they do.

    Parameters
    ----------
    circuit : Circuit
    cycles : int
        How many are looked at.
    """

    def __init__(self, circuit: Circuit, cycles: int) -> None:
        self.instances, self.cells, self.cycles = circuit.instances, circuit.cells, cycles
        self.slews = circuit.slews
        self.loads: dict[str, float] = {}
        for instance in self.instances:
            for pin, net in instance.pins.items():
                known = self.cells[instance.kind].pins[pin]
                if known.direction != "output":
                    self.loads[net] = self.loads.get(net, 0.0) + known.capacitance
        for net in circuit.outputs:
            self.loads[net] = self.loads.get(net, 0.0) + circuit.load
        for net in self.loads:
            self.loads[net] += circuit.wires.get(net.lstrip("\\"), 0.0)

    @abstractmethod
    def look_at(self, instance: Instance) -> None:
        """Be asked about nets of this instance from now on."""

    @abstractmethod
    def before(self, net: str, edge: str) -> Bits:
        """Values of a net just before each rising or falling edge of the clock."""

    @abstractmethod
    def counts(self, net: str) -> tuple[Times, Times]:
        """Rises and falls of a net in each cycle."""

    def sums(self) -> dict[str, Sums]:
        """Energies of every cycle: of registers (with clock gates and clock pins) and of logic."""
        sums = {
            name: Sums(np.zeros(self.cycles), np.zeros(self.cycles))
            for name in ("sequential", "combinational")
        }
        for instance in self.instances:
            self.look_at(instance)
            cell = self.cells[instance.kind]
            part = sums["sequential" if cell.is_sequential else "combinational"]
            part.leakage += cell.leakage
            if cell.is_sequential:
                part.internal += _sequential_energy(self, instance, cell)
            for pin in cell.outputs:
                net = instance.pins.get(pin)
                if not net:
                    continue
                if not cell.is_sequential:
                    part.internal += _combinational_energy(self, instance, pin, cell.pins[pin])
                part.switching += self._charge(net)
        sums["sequential"].switching += self._charge("clk")
        return sums

    def _charge(self, net: str) -> Energies:
        """Energy of charging and discharging what a net drives, fJ."""
        rises, falls = self.counts(net)
        changes: Energies = (rises + falls).astype(np.float64)
        return 0.5 * self.loads.get(net, 0.0) * VOLTS**2 * changes


class _Recorded(Nets):
    """Nets of a netlist that was simulated, whose inputs have these values."""

    def __init__(self, circuit: Circuit, changes: Changes, inputs: Mapping[str, Bits]) -> None:
        super().__init__(circuit, len(changes.rises))
        self.changes = changes
        column = {name: place for place, name in enumerate(changes.names)}
        self.driver = {
            net: column[instance.name.lstrip("\\"), pin]
            for instance in self.instances
            for pin in self.cells[instance.kind].outputs
            if (net := instance.pins.get(pin))
        }
        self.given = {
            f"{name}[{bit}]" if bits.shape[1] > 1 else name: bits[:, bit]
            for name, bits in inputs.items()
            for bit in range(bits.shape[1])
        }

    def look_at(self, instance: Instance) -> None:
        """Be asked about nets of this instance from now on; all are known already."""

    def before(self, net: str, edge: str) -> Bits:
        """Values of a net just before each rising or falling edge of the clock."""
        if net in self.driver:
            seen = self.changes.before_rise if edge == "rise" else self.changes.before_fall
            return seen[:, self.driver[net]]
        if net in self.given:
            late = self.given[net]
            return late[:-1] if edge == "rise" else late[1:]
        if net == "clk":
            return np.full(self.cycles, edge == "fall")
        return np.full(self.cycles, net.endswith("1"))

    def counts(self, net: str) -> tuple[Times, Times]:
        """Rises and falls of a net in each cycle."""
        if net in self.driver:
            place = self.driver[net]
            return self.changes.rises[:, place], self.changes.falls[:, place]
        if net in self.given:
            bits = self.given[net]
            return (bits[1:] & ~bits[:-1]).astype(np.int32), (~bits[1:] & bits[:-1]).astype(
                np.int32
            )
        beats = np.full(self.cycles, int(net == "clk"), np.int32)
        return beats, beats


def _sequential_energy(nets: Nets, instance: Instance, cell: Cell) -> Energies:
    """Energy inside a register or clock gate in every cycle, fJ."""
    total = np.zeros(nets.cycles)
    states = {
        edge: {
            pin: nets.before(net, edge)
            for pin, net in instance.pins.items()
            if net and cell.pins[pin].direction != "internal"
        }
        for edge in ("rise", "fall")
    }
    clock = cell.clock
    for pin, net in instance.pins.items():
        if not net:
            continue
        known = cell.pins[pin]
        rises, falls = nets.counts(net)
        energies = [e for e in known.energies if e.related in (None, pin, clock)]
        clocked = pin == clock or known.direction == "output"
        load = nets.loads.get(net, 0.0) if known.direction == "output" else 0.0
        slew = nets.slews.get(
            f"{instance.name.lstrip(chr(92))}/{clock if clocked else pin}", (0.0, 0.0)
        )
        for energy in energies:
            if clocked:
                # What happens at an edge depends on the state before it.
                total += energy.rise.at(slew[0], load) * (
                    rises * _when(energy.when, states["rise"])
                )
                edge = "rise" if cell.clock_gate is None and pin != clock else "fall"
                total += energy.fall.at(slew[1], load) * (falls * _when(energy.when, states[edge]))
            else:
                # Data change after the edge, in either half of the clock, most while it is high.
                state = {**states["fall"], clock: np.ones(nets.cycles, bool)}
                holds = _when(energy.when, state)
                total += energy.rise.at(slew[0], load) * (rises * holds)
                total += energy.fall.at(slew[1], load) * (falls * holds)
    return total


def _mean(
    energies: Sequence[Energy], kind: str, slews: Sequence[tuple[float, float]], load: float
) -> float:
    """Mean energy of a change of an output over the paths to it."""
    if not energies:
        return 0.0
    values = []
    for energy, (rise, fall) in zip(energies, slews, strict=True):
        table: Table = getattr(energy, kind)
        values.append(table.at((rise + fall) / 2, load))
    return sum(values) / len(values)


def _combinational_energy(nets: Nets, instance: Instance, pin: str, known: Pin) -> Energies:
    net = instance.pins[pin]
    rises, falls = nets.counts(net)
    name = instance.name.lstrip("\\")
    slews = [nets.slews.get(f"{name}/{e.related}", (0.0, 0.0)) for e in known.energies]
    load = nets.loads.get(net, 0.0)
    return rises * _mean(known.energies, "rise", slews, load) + falls * _mean(
        known.energies, "fall", slews, load
    )


def sum_energies(circuit: Circuit, changes: Changes, inputs: Mapping[str, Bits]) -> dict[str, Sums]:
    """Energies of every cycle: of registers (with clock gates and clock pins) and of logic.

    Parameters
    ----------
    circuit : Circuit
    changes : Changes
    inputs : Mapping
        Bits of the unit's inputs for the cycles counted and the one before.
    """
    return _Recorded(circuit, changes, inputs).sums()
