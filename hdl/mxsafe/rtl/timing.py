"""Targets of units, and where registers stand for each of them, as data.

A *target* is one word in the configurations of units: standard cells, or the carry chains and DSP
blocks of an FPGA. It chooses where registers may stand and how many there are, and in five units
how they are built, which their notes say: "By target". Bits are the same; only the latency differs.
Units read their places by name.

Tested by `verif/rtl/test_timing.py`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from amaranth.hdl import Module, Signal, Value

from mxsafe.validation import require_integer

Target = Literal["asic", "fpga"]
_Way = tuple[float, tuple[int, ...]]
"""The longest way between two registers, and where they stand."""
TARGETS: tuple[Target, Target] = ("asic", "fpga")


@dataclass(frozen=True)
class Place:
    """A boundary where a register may stand.

    Attributes
    ----------
    name : str
    levels : float
        Levels of look-up tables from the place before, wires between them counted; a carry chain of
        24 to 32 bits counts as three.
    """

    name: str
    levels: float


def spread(places: Sequence[Place], stages: object) -> tuple[str, ...]:
    """The places that hold registers, so that the longest way between two of them is shortest.

    The last place always holds one, where there are any.

    Parameters
    ----------
    places : sequence of Place
        All places, in the direction of the data.
    stages : int
        Registers.

    Raises
    ------
    ValueError
        If there are not so many places.
    """
    count = require_integer("pipeline", stages, 0, len(places))
    if not count:
        return ()
    lengths = [place.levels for place in places]
    # Longest way, and the places taken, with the last register so far at each place.
    shortest: list[_Way] = [(sum(lengths[: end + 1]), (end,)) for end in range(len(places))]
    for _ in range(count - 1):
        longer: list[_Way] = []
        for end in range(len(places)):
            ways = [
                (max(shortest[before][0], sum(lengths[before + 1 : end + 1])), before)
                for before in range(end)
            ]
            longest, before = min(ways, default=(float("inf"), -1))
            longer.append((longest, (*(shortest[before][1] if ways else ()), end)))
        shortest = longer
    return tuple(places[place].name for place in shortest[-1][1])


_Targets = tuple[int, int]

REGISTERS: Mapping[str, Mapping[str, _Targets]] = {
    "AcceleratorCore": {
        # From the registers of a driver, and from the queues, to units all over the device.
        "start": (0, 1),
        "stop": (0, 1),
        # Descriptors, and that they are done. All a cycle later, so that it stays in order.
        "gemm descriptor": (0, 1),
        "vector descriptor": (0, 1),
        "done": (0, 1),
        # Runs and words on the way to memory and back.
        "runs": (0, 1),
        "words": (0, 1),
        "axi": (0, 1),
        "quiet": (0, 1),
    },
    "Exact": {
        # Registers of the adder by default; whether scales that are looked up have their own cycle.
        "add_stages": (3, 12),
        "scales": (0, 1),
        # Whether its MACs may serve two columns in turn.
        "columns in turn": (1, 0),
        # Those of its own in front of each MAC, where an enable of all would be the longest path.
        "near": (0, 1),
        # Those that say that a block starts, where few gates are between registers.
        "starts": (4, 1),
    },
    "BlockAccumulator": {
        # In an ASIC the last register of the adder is the accumulator. In an FPGA accumulators are
        # a memory, that is written behind the adder and read in front of it.
        "turn around": (1, 2),
        # In an FPGA a sum is chosen in two cycles.
        "head": (0, 2),
        "step": (1, 2),
    },
    # For an FPGA those of 100 MHz in an ECP5.
    "MultiplyAdd": {"multiply_stages": (2, 5), "add_stages": (1, 6)},
    "SafeMac": {"default": (3, 16)},
    "SafeMacExact": {"default": (2, 7)},
    "OperandDot": {"default": (1, 7)},
    # Those of a DSP block, which always stand.
    "OperandMultiplier": {"block": (0, 3)},
    # Where it is known whether a lane has no number, a choice stands before the registers.
    "BlockConverter": {"entry": (0, 1), "waiting": (0, 1), "lowered": (0, 1)},
    "NormaliseCore": {"squares": (0, 1), "multiply_stages": (3, 5)},
    # Behind a difference and its zeros, and within a product, behind sums of its rows.
    "RowLane": {"window": (0, 2), "distance": (0, 2), "product": (0, 1)},
    "RowReplay": {"rows": (0, 1)},
    "Rows": {"rows": (0, 1)},
    "AxiWriter": {"next burst": (0, 1)},
    "BurstSplitter": {"burst": (0, 1)},
    "DescriptorCheck": {"kinds": (0, 1)},
    "Fetch": {"wanted": (0, 1)},
    "FoldedChain": {"controls": (0, 1), "parts": (0, 1), "results": (0, 1)},
    "GemmEngine": {
        "streams": (0, 1),
        "rows": (0, 1),
        "result": (0, 1),
        # Whether all MACs of a unit share one accumulator, not only as many as a tile lasts cycles.
        "one accumulator": (0, 1),
    },
    "LoadEngine": {"runs": (0, 1), "word": (0, 1)},
    "OperandBuffer": {"write": (0, 1)},
    "OperandFeed": {"pause": (0, 1)},
    "Queues": {"turn": (0, 1), "errors": (0, 1), "least": (0, 1)},
    "Registers": {"reset": (0, 3), "read address": (0, 1)},
    "ResultRows": {"descriptor": (0, 1), "room": (0, 1), "row": (0, 1)},
    "SecondOperand": {"row ends": (0, 1)},
    "StoreEngine": {"runs": (0, 1), "within": (0, 1), "beat": (0, 1)},
    "VectorBuffer": {"turns": (0, 1), "beat": (0, 1)},
    # What is chosen for a lane from many places leaves no time for anything else.
    "VectorChain": {
        "controls": (0, 1),
        "units": (0, 1),
        "multiply_stages": (3, 5),
        # Whether a function has all registers that it may have.
        "all of a function": (0, 1),
    },
    "VectorEngine": {"reads": (0, 1), "operands": (0, 1), "results": (0, 1), "codes": (0, 1)},
}
"""Registers by unit and place, for each of `TARGETS`."""


@dataclass(frozen=True, kw_only=True)
class Stages:
    """Registers on the way through a unit: how many there may be, and where they stand.

    Attributes
    ----------
    default : int
    sets : tuple of tuple of str
        Names of the places that hold registers, for each number of them from `least` on.
    places : tuple of Place
        Or places that any number of registers is spread over.
    least : int
    """

    default: int = 0
    sets: tuple[tuple[str, ...], ...] = ()
    places: tuple[Place, ...] = ()
    least: int = 0

    @property
    def most(self) -> int:
        """Most registers."""
        return self.least + len(self.sets) - 1 if self.sets else len(self.places)

    def require(self, name: str, count: object) -> int:
        """A number of registers, if there can be so many.

        Raises
        ------
        ValueError
            If there cannot.
        """
        return require_integer(name, count, self.least, self.most)

    def standing(self, count: int) -> tuple[str, ...]:
        """Where so many stand."""
        return self.sets[count - self.least] if self.sets else spread(self.places, count)


STAGES: Mapping[str, Mapping[Target, Stages]] = {
    # Sets even out the ways between registers.
    "Float32Adder": {
        "asic": Stages(
            sets=(
                (),
                ("added",),
                ("ordered", "added"),
                ("ordered", "added", "normalised"),
                ("ordered", "aligned", "added", "normalised"),
            )
        ),
        "fpga": Stages(
            default=12,
            places=(
                Place("compared", 4),
                Place("ordered", 2),
                Place("shifted_1", 1),
                Place("shifted_2", 1),
                Place("shifted_4", 1.5),
                Place("shifted_8", 2),
                Place("shifted_16", 2),
                Place("aligned", 1),
                Place("complemented", 2),
                Place("added", 3),
                Place("shifted_left_grouped", 3),
                Place("shifted_left_counted", 2),
                Place("shifted_left_lowered", 2.5),
                Place("shifted_left_decided", 2.5),
                *(Place(f"shifted_left_{distance}", 1) for distance in (16, 8, 4, 2, 1)),
                Place("normalised", 2),
                Place("incremented", 2.5),
                Place("packed", 3.5),
                Place("output", 2),
            ),
        ),
    },
    "Float32Multiplier": {
        # The first of three leaves time to choose operands.
        "asic": Stages(
            sets=(
                (),
                ("multiplied",),
                ("halves", "shifted"),
                ("prepared", "halves", "shifted"),
                ("prepared", "halves", "multiplied", "shifted"),
            )
        ),
        # Three of them are those of DSP blocks.
        "fpga": Stages(
            default=5, least=5, sets=(("entered", "within", "behind", "multiplied", "shifted"),)
        ),
    },
    "Scaler": {
        # A single one stands before a number is turned back: what comes before takes longer than
        # rounding.
        "asic": Stages(
            sets=(
                (),
                ("shifted_1",),
                ("entered", "shifted"),
                ("entered", "turned", "shifted"),
                ("entered", "counted", "turned", "shifted"),
            )
        ),
        "fpga": Stages(
            default=10,
            places=(
                Place("entered", 1),
                Place("grouped", 3),
                Place("leading", 2),
                Place("compared", 2.5),
                Place("lowered", 2),
                Place("counted", 2),
                Place("turned", 1.5),
                *(Place(f"shifted_{distance}", 2) for distance in (64, 32, 16, 8, 4)),
                *(Place(f"shifted_{distance}", 1) for distance in (2, 1)),
                Place("shifted", 2.5),
                Place("incremented", 2.5),
                Place("packed", 3.5),
                Place("output", 1.5),
            ),
        ),
    },
}
"""Registers within units of arithmetic, for each target."""


class Timed(Protocol):
    """A configuration that is built for a target."""

    @property
    def target(self) -> Target:
        """Target that it is built for."""


def at(config: Timed, place: str, *, of: str | None = None) -> int:
    """Registers at a place of a unit.

    Parameters
    ----------
    config : Configuration
        That of the unit.
    place : str
        One of those in `REGISTERS`.
    of : str, optional
        Name of the unit, if it is another one, inside.
    """
    return REGISTERS[of or _unit(config)][place][TARGETS.index(config.target)]


def stages_of(config: Timed, *, of: str | None = None) -> Stages:
    """Registers on the way through a unit, one of those in `STAGES`.

    Parameters
    ----------
    config : Configuration
        That of the unit.
    of : str, optional
        Name of the unit, if it is another one, inside.
    """
    return STAGES[of or _unit(config)][config.target]


def _unit(config: Timed) -> str:
    return type(config).__name__.removesuffix("Configuration")


def only_for(config: Timed, target: Target, flag: str) -> None:
    """Refuse a flag that is for one target alone.

    Raises
    ------
    ValueError
        If it is set for another.
    """
    if getattr(config, flag) and config.target != target:
        raise ValueError(f"{flag} must be False with target {config.target}, not True")


def held(m: Module, name: str, value: Value, registers: int = 1, *, reset: bool = False) -> Value:
    """A value behind so many registers; itself, if there is none.

    Parameters
    ----------
    m : amaranth.hdl.Module
    name : str
        Name of the register; several are numbered.
    value : Value
    registers : int
    reset : bool
        Whether they are reset: flags want it, data need it not.
    """
    for number in range(registers):
        label = name if registers == 1 else f"{name}_{number}"
        register = Signal(len(value), name=label, reset_less=not reset)
        m.d.sync += register.eq(value)
        value = register
    return value


def domain(m: Module, registers: int) -> Any:
    """Where what is assigned is known at once, or a cycle later."""
    return m.d.sync if registers else m.d.comb
