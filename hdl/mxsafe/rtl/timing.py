"""Where registers stand for each target, as data: units read their places by name."""

from collections.abc import Mapping
from typing import Any, Protocol

from amaranth.hdl import Module, Signal, Value

from mxsafe.rtl.arithmetic.target import TARGETS, Target

__all__ = ["REGISTERS", "Timed", "at", "domain", "held"]

_Targets = tuple[int, int]

REGISTERS: Mapping[str, Mapping[str, _Targets]] = {
    "AcceleratorCore": {
        # From the registers of a driver, and from the queues, to units all over the device.
        "start": (0, 1),
        "stop": (0, 1),
        # Descriptors, and that they are done. All a clock later, so that it stays in order.
        "gemm descriptor": (0, 1),
        "vector descriptor": (0, 1),
        "done": (0, 1),
        # Runs and words on the way to memory and back.
        "runs": (0, 1),
        "words": (0, 1),
        "axi": (0, 1),
        "quiet": (0, 1),
    },
    "AxiWriter": {"next burst": (0, 1)},
    "BurstSplitter": {"burst": (0, 1)},
    "DescriptorCheck": {"kinds": (0, 1)},
    "Fetch": {"wanted": (0, 1)},
    "FoldedChain": {"controls": (0, 1), "parts": (0, 1), "results": (0, 1)},
    "GemmEngine": {"streams": (0, 1), "rows": (0, 1), "result": (0, 1)},
    "LoadEngine": {"runs": (0, 1), "word": (0, 1)},
    "OperandBuffer": {"write": (0, 1)},
    "OperandFeed": {"pause": (0, 1)},
    "Queues": {"turn": (0, 1), "errors": (0, 1), "least": (0, 1)},
    "Registers": {"reset": (0, 3), "read address": (0, 1)},
    "ResultRows": {"descriptor": (0, 1), "room": (0, 1), "row": (0, 1)},
    "SecondOperand": {"row ends": (0, 1)},
    "StoreEngine": {"runs": (0, 1), "within": (0, 1), "beat": (0, 1)},
    "VectorBuffer": {"turns": (0, 1), "beat": (0, 1)},
    "VectorChain": {"controls": (0, 1), "units": (0, 1)},
    "VectorEngine": {"reads": (0, 1), "operands": (0, 1), "results": (0, 1), "codes": (0, 1)},
}
"""Registers by unit and place, for each of `TARGETS`."""


class Timed(Protocol):
    """A configuration that is built for a target."""

    @property
    def target(self) -> Target:
        """What it is built for."""


def at(config: Timed, place: str) -> int:
    """Registers at a place of a unit.

    Parameters
    ----------
    config : Configuration
        That of the unit.
    place : str
        One of those in `REGISTERS`.
    """
    unit = type(config).__name__.removesuffix("Configuration")
    return REGISTERS[unit][place][TARGETS.index(config.target)]


def held(m: Module, name: str, value: Value, registers: int = 1, *, reset: bool = False) -> Value:
    """A value behind so many registers; itself, if there is none.

    Parameters
    ----------
    m : amaranth.hdl.Module
        The module being elaborated.
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
    """Where what is assigned is known at once, or a clock later."""
    return m.d.sync if registers else m.d.comb
