"""Netlists without bits that nothing reads, where leaving them out is leaving out high bits.

An expression of Amaranth is as wide as its operands make it: of a sum that is stored without its
carry nobody reads the highest bit. Linters ask of every such bit whether it was forgotten.
"""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import Any

from amaranth.hdl import Shape, Signal, _nir

__all__ = ["narrow"]

_DATA = (_nir.Operator, _nir.Part, _nir.AssignmentList, _nir.FlipFlop)
"""Cells that can have fewer bits."""
_CONTROL = (_nir.Matches, _nir.PriorityMatch, _nir.AsyncReadPort, _nir.SyncReadPort)
"""Cells that are there for what reads them, with all their bits or not at all."""
_FROM_LOW = frozenset(("+", "-", "*", "&", "|", "^", "~"))
"""Operators whose low bits follow from the low bits of their operands."""


def narrow(netlist: Any) -> None:
    """Leave out of a netlist what nothing reads.

    Memories, instances and ports stay whole, and so does a name in the middle of whose bits some
    are not read.

    Parameters
    ----------
    netlist : amaranth.hdl._nir.Netlist
        Its nets are resolved; it is changed in place.
    """
    needs = _needs(netlist)
    for module in netlist.modules:
        module.cells[:] = [
            number
            for number in module.cells
            if needs[number] or not isinstance(netlist.cells[number], _DATA + _CONTROL)
        ]
        module.signal_names = _narrowed_names(netlist, module.signal_names, needs)
        for number in module.cells:
            _narrow_cell(netlist.cells[number], needs[number])


def _narrowed_names(netlist: Any, names: Any, needs: list[int]) -> Any:
    """Signals with their names; for one with fewer bits a signal of so many stands there."""
    kept = type(names)()
    for signal, name in names.items():
        value = netlist.signals[signal]
        width = _read_width(netlist, value, needs)
        if width == len(value):
            kept[signal] = name
            fields = netlist.signal_fields[signal]
            netlist.signal_fields[signal] = {
                path: field
                for path, field in fields.items()
                if not path or _read_width(netlist, field.value, needs) == len(field.value)
            }
        elif width:
            less = Signal(Shape(width, signal.shape().signed), name=name, attrs=signal.attrs)
            netlist.signals[less] = value[:width]
            field = _nir.SignalField(value[:width], signed=less.shape().signed)
            netlist.signal_fields[less] = {(): field}
            kept[less] = name
    return kept


def _is_read(netlist: Any, net: Any, needs: list[int]) -> bool:
    """Whether a net stays."""
    number = net >> 16
    if net < 2 or not isinstance(netlist.cells[number], _DATA + _CONTROL):
        return True
    return (net & 0xFFFF) < needs[number]


def _read_width(netlist: Any, value: Any, needs: list[int]) -> int:
    """How many low bits of a value reach up to its highest one that is read."""
    width = len(value)
    while width and not _is_read(netlist, value[width - 1], needs):
        width -= 1
    return width


def _needs(netlist: Any) -> list[int]:
    """For each cell how many of its bits, from the lowest, are read; of control any number."""
    needs = [0] * len(netlist.cells)
    open_cells = [
        -number
        for number, cell in enumerate(netlist.cells)
        if not isinstance(cell, _DATA + _CONTROL)
    ]
    heapify(open_cells)
    while True:
        # A cell mostly stands behind what it reads, so that most are met once.
        while open_cells:
            number = -heappop(open_cells)
            while open_cells and open_cells[0] == -number:
                heappop(open_cells)
            needs[number] = _possible_width(netlist.cells[number], needs[number])
            for source, bits in _reads(netlist.cells[number], needs[number]):
                if bits > needs[source]:
                    needs[source] = bits
                    if isinstance(netlist.cells[source], _DATA + _CONTROL):
                        heappush(open_cells, -source)
        gaps = {
            net
            for module in netlist.modules
            for signal in module.signal_names
            for value in [netlist.signals[signal]]
            for net in value[: _read_width(netlist, value, needs)]
            if not _is_read(netlist, net, needs)
        }
        if not gaps:
            return needs
        for source, bits in _bits(gaps):
            needs[source] = max(bits, needs[source])
            heappush(open_cells, -source)


def _possible_width(cell: Any, width: int) -> int:
    """The fewest bits that a cell can have where so many are read."""
    can = not isinstance(cell, _nir.Operator) or cell.operator in _FROM_LOW | {"m", "<<"}
    return width if can else cell.width


def _bits(nets: Iterable[Any]) -> Iterable[tuple[int, int]]:
    """Cells of nets, each with the number of bits up to the net."""
    return [(net >> 16, (net & 0xFFFF) + 1) for net in nets if net > 1]


def _reads(cell: Any, width: int) -> Iterable[tuple[int, int]]:
    """Return the inputs that the lowest bits of a cell depend on."""
    if isinstance(cell, _nir.Operator):
        inputs = cell.inputs
        if cell.operator in _FROM_LOW:
            inputs = [value[:width] for value in inputs]
        elif cell.operator == "m":
            inputs = [inputs[0], inputs[1][:width], inputs[2][:width]]
        elif cell.operator == "<<":
            inputs = [inputs[0][:width], inputs[1]]
        return _bits(net for value in inputs for net in value)
    if isinstance(cell, _nir.AssignmentList):
        nets = list(cell.default[:width])
        for each in cell.assignments:
            if each.start < width:
                nets += [each.cond, *each.value[: width - each.start]]
        return _bits(nets)
    if isinstance(cell, _nir.FlipFlop):
        return _bits([*cell.data[:width], cell.clk, cell.arst])
    return _bits(cell.input_nets())


def _narrow_cell(cell: Any, width: int) -> None:
    if isinstance(cell, _nir.Operator):
        if cell.operator in _FROM_LOW:
            cell.inputs = tuple(value[:width] for value in cell.inputs)
        elif cell.operator == "m":
            choice, *values = cell.inputs
            cell.inputs = (choice, *(value[:width] for value in values))
        elif cell.operator == "<<":
            cell.inputs = (cell.inputs[0][:width], cell.inputs[1])
    elif isinstance(cell, _nir.Part):
        cell.width = width
    elif isinstance(cell, _nir.AssignmentList):
        cell.default = cell.default[:width]
        cell.assignments = [each for each in cell.assignments if each.start < width]
        for each in cell.assignments:
            each.value = each.value[: width - each.start]
    elif isinstance(cell, _nir.FlipFlop):
        cell.data = cell.data[:width]
        cell.init &= (1 << width) - 1
