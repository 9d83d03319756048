"""Accesses of buffers and work of units in a cycle, as they are seen at the ports of the parts.

Tested by `verif/rtl/machine/test_access_counters.py`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from amaranth.hdl import Module, Mux, Value

from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import DESCRIPTORS, counted_accesses
from mxsafe.rtl.arithmetic.bits import any_of, equals, named, noted
from mxsafe.rtl.machine.control.registers import ACCESS_BITS

_HALVES = 2
"""Memories side by side of a buffer: of words of a vector beat, or of scale entries of a word."""


def access_events(
    m: Module, machine: MachineConfiguration, parts: Mapping[str, Any]
) -> dict[str, Value]:
    """How many accesses of each kind there are, by names of `counted_accesses`.

    Parameters
    ----------
    m : Module
    machine : MachineConfiguration
    parts : Mapping of str to Unit
        Parts of the core by their names.
    """
    found = dict(_operands(machine, parts))
    found |= _vectors(parts["vector_buffer"])
    fetch = parts["fetch"]
    found["descriptors"] = fetch.descriptor_valid & fetch.descriptor_ready
    found |= dict(_work(m, parts))
    return {
        name: named(m, f"{name}_now", ACCESS_BITS, found[name])
        for name in counted_accesses(machine)
    }


def _written(*ports: Any) -> Value:
    """Memories that are written: of several writers one is, in a cycle."""
    return any_of(Mux(port.valid & port.ready, sum(port.halves), 0) for port in ports)


def _operands(
    machine: MachineConfiguration, parts: Mapping[str, Any]
) -> Iterator[tuple[str, Value]]:
    """Accesses of the buffers of operands and results."""
    for name in ("a", "w", "out"):
        buffer = parts[f"{name}_buffer"]
        writers = ["vector"] if name == "out" else ["vector", "load"]
        # Of scales GEMM reads one entry, and STORE a word of two.
        entries = _HALVES if name == "out" else 1
        for kind in buffer.config.writes:
            memories = entries if kind == "scales" else machine.beat_words
            yield f"{name}_{kind}_read", Mux(getattr(buffer, kind).en, memories, 0)
            ports = (getattr(buffer, f"{writer}_{kind}") for writer in writers)
            yield f"{name}_{kind}_written", _written(*ports)


def _vectors(buffer: Any) -> dict[str, Value]:
    """Accesses of the vector buffer, whose reads are of whole beats."""
    reads: dict[str, Value] = {}
    for name in ("x", "y", "store"):
        port = getattr(buffer, name)
        reads[f"vector_read_{name}"] = Mux(port.valid & port.ready, _HALVES, 0)
    writes = {
        f"vector_written_{name}": _written(getattr(buffer, name))
        for name in ("gemm", "vector", "load")
    }
    return reads | writes


def _work(m: Module, parts: Mapping[str, Any]) -> Iterator[tuple[str, Value]]:
    """Beats through the vector units: what the descriptor wants of each beat that is read."""
    command, x = parts["vector"].queue.descriptor, parts["vector_buffer"].x
    beat = named(m, "beat_enters", 1, x.valid & x.ready)
    noted(
        beat,
        "A beat of first operands passes all units that its descriptor names, which stands in the "
        "queue until the last result is written.",
    )
    words = any_of(_written(parts[f"{name}_buffer"].vector_codes) for name in ("a", "w", "out"))
    by_field: Mapping[str, Value] = {"arithmetic": beat, "function": beat, "convert": words}
    for field, number in by_field.items():
        for name, value in _values(field):
            yield f"{field}_{name}", Mux(equals(command[field], value), number, 0)
    yield "affine", beat & command.affine
    for reduction, number in _values("reduction"):
        is_one = equals(command.reduction, number)
        for sweep, step in _values("sweep", first=True):
            yield f"{reduction}_{sweep}", beat & is_one & equals(command.sweep, step)


def _values(field: str, *, first: bool = False) -> list[tuple[str, int]]:
    """Names and numbers of a field, without the first one, which is for nothing."""
    enumeration = DESCRIPTORS["vector"].field(field).enumeration
    assert enumeration is not None
    return [(name, number) for name, number in enumeration.members.items() if number or first]
