"""RTLIL by Amaranth, without what takes most of its time there and is of no use here.

Amaranth asks of every bit which bits it depends on, to find combinational cycles: of a unit with
wide operators that takes seconds. Where cells already have no cycle, neither have their bits. It
writes the contents of each memory at power-up, a megabyte for a large one; ours have none. And it
looks at the type of each bit whenever it puts bits together.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import Fragment, _nir

__all__ = ["convert", "has_cell_cycle"]

_BY_CELL = (_nir.Operator, _nir.Part, _nir.Matches, _nir.PriorityMatch, _nir.AssignmentList)
"""Cells all of whose inputs are taken to decide all of their outputs."""


def has_cell_cycle(netlist: Any) -> bool:
    """Whether cells of a netlist of Amaranth depend on themselves within a clock.

    Parameters
    ----------
    netlist : amaranth.hdl._nir.Netlist
        If its bits have a cycle, so have its cells; but not the other way round.
    """
    above = [_sources(netlist, cell) for cell in netlist.cells]
    users: list[list[int]] = [[] for _ in above]
    for number, sources in enumerate(above):
        for source in sources:
            users[source].append(number)
    open_sources = [len(sources) for sources in above]
    free = [number for number, count in enumerate(open_sources) if not count]
    settled = 0
    while free:
        settled += 1
        for user in users[free.pop()]:
            open_sources[user] -= 1
            if not open_sources[user]:
                free.append(user)
    return settled < len(above)


def _sources(netlist: Any, cell: Any) -> set[int]:
    """Numbers of the cells that decide a cell's outputs within a clock."""
    if isinstance(cell, _BY_CELL):
        nets = set(cell.input_nets())
    elif isinstance(cell, _nir.AsyncReadPort | _nir.FlipFlop):
        nets = {net for net, _ in cell.comb_edges_to(0)}
    else:
        return set()
    found = set()
    for net in nets:
        while net.is_late:
            net = netlist.connections[net]
        if not net.is_const:
            found.add(net.cell)
    return found


class _Netlist(_nir.Netlist):
    def check_comb_cycles(self) -> None:
        if has_cell_cycle(self):
            super().check_comb_cycles()


class _ModuleEmitter(rtlil.ModuleEmitter):
    def emit_memory(self, cell_idx: int, cell: Any) -> None:
        """Leave out the contents at power-up."""


def _value(cls: type[tuple[Any, ...]], nets: Any = ()) -> Any:
    """Bits side by side, as `amaranth.hdl._nir.Value` makes them."""
    return tuple.__new__(cls, (nets,) if isinstance(nets, _nir.Net) else nets)


@contextmanager
def _quickly() -> Iterator[None]:
    """Let Amaranth use what is above."""
    usual = _nir.Netlist, rtlil.ModuleEmitter, _nir.Value.__new__
    _nir.Netlist, rtlil.ModuleEmitter, _nir.Value.__new__ = _Netlist, _ModuleEmitter, _value
    try:
        yield
    finally:
        _nir.Netlist, rtlil.ModuleEmitter, _nir.Value.__new__ = usual


def convert(fragment: Fragment, *, name: str, ports: Mapping[str, Any]) -> str:
    """RTLIL of a fragment; memories have no contents at power-up.

    Parameters
    ----------
    fragment : Fragment
    name : str
        Of the module.
    ports : Mapping
        Its ports, as `amaranth.back.rtlil.convert` takes them.

    Raises
    ------
    amaranth.hdl._nir.CombinationalCycle
        If there is one.
    """
    with _quickly():
        text: str = rtlil.convert(fragment, name=name, ports=dict(ports), emit_src=False)
    return text
