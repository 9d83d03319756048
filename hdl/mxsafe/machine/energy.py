"""Energy of programs: counted accesses and work times energies of tables."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mxsafe.machine.compiler.timing import Times, predict
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import ACCESSES, DESCRIPTOR_BITS, FOLLOWING, PASSES
from mxsafe.machine.energy_tables import (
    EnergyTables,
    assumptions_of,
    buffer_figure,
    dram_background,
    dram_bit,
    leaked,
    unit_energy,
)
from mxsafe.machine.program import Program
from mxsafe.validation import Count, checked

__all__ = ["COUNTED", "GROUPS", "Work", "energy_of", "work_of"]

GROUPS = ("off chip", "on chip", "core")
"""Where energy goes, as the paper divides it."""
_BUFFERS = ("a", "w", "out")
_KINDS = ("codes", "scales")
_VECTOR = {
    "read": ("x", "y", "store"),
    "write": ("gemm", "vector", "load"),
}
_WRITTEN = {"read": "read", "write": "written"}
_COUNTERS = ("cycles", "array_busy", "words_read", "words_written")
COUNTED = (*_COUNTERS, *ACCESSES)
"""Counters of a machine that energy and time are made of."""


@checked
@dataclass(frozen=True)
class Work:
    """Everything that is counted of programs, which energy and time are made of.

    Attributes
    ----------
    configuration : MachineConfiguration
    counters : Mapping of str to int
        By names of `COUNTED`.
    memory : int
        Cycles in which memory answers, with which the cycles were predicted.

    Raises
    ------
    ValueError
        If a counter is missing.
    """

    configuration: MachineConfiguration
    counters: Mapping[str, int]
    memory: Count = Times.memory

    def __post_init__(self) -> None:
        for name in COUNTED:
            if name not in self.counters:
                raise ValueError(f"counters must have {name}")


@dataclass(frozen=True)
class Part:
    """Energy of one kind of access or work.

    Attributes
    ----------
    group : str
        One of `GROUPS`.
    name, unit : str
        What it is, and what is counted.
    count : int
        How often.
    each : float
        Energy of one, in pJ.
    """

    group: str
    name: str
    unit: str
    count: int
    each: float

    @property
    def energy(self) -> float:
        """All of it, in pJ."""
        return self.count * self.each


@dataclass(frozen=True)
class Energy:
    """Energy of programs, and time beside it.

    Attributes
    ----------
    parts : tuple of Part
    cycles : int
    clock_mhz : float
    assumptions : tuple of str
    """

    parts: tuple[Part, ...]
    cycles: int
    clock_mhz: float
    assumptions: tuple[str, ...]

    @property
    def total(self) -> float:
        """All parts, in pJ."""
        return sum(part.energy for part in self.parts)

    @property
    def milliseconds(self) -> float:
        """Time at the clock."""
        return self.cycles / self.clock_mhz / 1000

    @property
    def moved(self) -> int:
        """Bytes that are moved off chip, descriptors among them."""
        moved = (part for part in self.parts if part.group == GROUPS[0] and part.unit == "bits")
        return sum(part.count for part in moved) // 8

    @property
    def bandwidth(self) -> float:
        """GB/s off chip, over all of the time; 0 of no cycle."""
        return 1e-6 * self.moved / self.milliseconds if self.cycles else 0.0

    @property
    def groups(self) -> dict[str, float]:
        """By group all of its parts, in pJ."""
        return {
            name: sum(part.energy for part in self.parts if part.group == name) for name in GROUPS
        }


@checked
def work_of(programs: Sequence[Program], times: Times) -> Work:
    """Predicted work of programs that run one after the other.

    Parameters
    ----------
    programs : sequence of Program
    times : Times
        Those of their machine: `mxsafe.rtl.machine.times.times_of`.

    Raises
    ------
    CompileError
        If a machine would wait for ever.
    ValueError
        If there is no descriptor, they are not all of one machine, or it does not take one.
    """
    if not any(program.data for program in programs):
        raise ValueError("programs must have one descriptor at least")
    if any(program.configuration != programs[0].configuration for program in programs):
        raise ValueError("programs must be of one machine, not of several")
    counters: dict[str, int] = {}
    for program in programs:
        predicted = predict(program, times)
        own = {name: getattr(predicted, name) for name in _COUNTERS} | predicted.accesses
        counters = {name: counters.get(name, 0) + count for name, count in own.items()}
    return Work(programs[0].configuration, counters, times.memory)


@checked
def energy_of(work: Work, tables: EnergyTables) -> Energy:
    """Energy of what was counted, predicted or by a machine.

    Raises
    ------
    ValueError
        If the tables have no figure for one of the machine's parts.
    """
    parts = (*_off_chip(work, tables), *_on_chip(work, tables), *_core(work, tables))
    assumptions = (
        *assumptions_of(tables, work.configuration),
        f"cycles: with a memory that answers after {work.memory}",
    )
    return Energy(parts, work.counters["cycles"], tables.clock_mhz, assumptions)


def _off_chip(work: Work, tables: EnergyTables) -> Iterable[Part]:
    bits, counted = 8 * work.configuration.word_bytes, work.counters
    read, written = dram_bit(tables, "read"), dram_bit(tables, "write")
    yield Part("off chip", "DRAM read", "bits", counted["words_read"] * bits, read)
    yield Part("off chip", "DRAM written", "bits", counted["words_written"] * bits, written)
    descriptors = counted["descriptors"] * DESCRIPTOR_BITS
    yield Part("off chip", "descriptors", "bits", descriptors, read)
    background = dram_background(tables)
    if tables.static_power and background is not None:
        yield _all_the_time("off chip", "DRAM, background", background, work, tables)


def _all_the_time(group: str, name: str, mw: float, work: Work, tables: EnergyTables) -> Part:
    """A part that takes power in each cycle."""
    nanoseconds = 1e3 / tables.clock_mhz  # with mW these are pJ
    return Part(group, name, "cycles", work.counters["cycles"], mw * nanoseconds)


def _on_chip(work: Work, tables: EnergyTables) -> Iterable[Part]:
    c, counted = work.configuration, work.counters
    for owner in _BUFFERS:
        for kind in _KINDS if c.scaled else _KINDS[:1]:
            for way, verb in _WRITTEN.items():
                buffer = f"{owner}_{kind}"
                each = buffer_figure(tables, buffer, way, c)
                name = f"{owner}, {kind} {verb}"
                yield Part("on chip", name, "accesses", counted[f"{buffer}_{verb}"], each)
    for way, users in _VECTOR.items():
        verb = _WRITTEN[way]
        count = sum(counted[f"vector_{verb}_{user}"] for user in users)
        each = buffer_figure(tables, "vector", way, c)
        yield Part("on chip", f"vector, {verb}", "accesses", count, each)
    if c.reductions:
        for way, count in _rows(counted).items():
            each = buffer_figure(tables, "rows", way, c)
            yield Part("on chip", f"rows, {_WRITTEN[way]}", "accesses", count, each)
    if tables.static_power:
        yield _all_the_time("on chip", "leakage", leaked(tables, c), work, tables)


def _rows(counted: Mapping[str, int]) -> dict[str, int]:
    """Accesses of the memory of rows: whole ones are read in each pass, pieces come once."""
    read = written = 0
    for name, passes in PASSES.items():
        whole = counted[f"{name}_whole"]
        pieces = sum(counted[f"{name}_{step}"] for step in FOLLOWING[name] if step != "largest")
        written += whole + pieces
        read += passes * whole + pieces
    return {"read": read, "write": written}


def _core(work: Work, tables: EnergyTables) -> Iterable[Part]:
    c, counted = work.configuration, work.counters
    products = counted["array_busy"] * c.rows * c.rows * c.lanes
    yield Part("core", "array", "products", products, unit_energy(tables, "product", c))
    for unit, prefix in (("arithmetic", "arithmetic_"), ("function", "function_")):
        beats = sum(count for name, count in counted.items() if name.startswith(prefix))
        beats += counted["affine"] if unit == "arithmetic" else 0
        yield Part("core", unit, "numbers", beats * c.vector_lanes, unit_energy(tables, unit, c))
    for name, passes in PASSES.items():
        beats = passes * counted[f"{name}_whole"]
        beats += sum(counted[f"{name}_{step}"] for step in FOLLOWING[name])
        each = unit_energy(tables, name, c) / passes
        yield Part("core", name, "numbers in a pass", beats * c.vector_lanes, each)
    words = sum(count for name, count in counted.items() if name.startswith("convert_"))
    numbers = words * c.rows * c.lanes * c.word_bytes // c.beat_bytes
    yield Part("core", "conversion", "numbers", numbers, unit_energy(tables, "convert", c))
