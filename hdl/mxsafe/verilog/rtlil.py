"""RTLIL of Amaranth: the same text in a fraction of the time.

Amaranth looks for the wire of every bit by itself. And it writes the contents of each memory at
power-up, a megabyte for a large one; ours have none. Where linters are to read the text, no bit is
left that nothing reads, and both operands of an operator are equally wide.
"""

from collections.abc import Mapping
from itertools import count, repeat
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import Fragment, _nir

from mxsafe.verilog.narrow import narrow
from mxsafe.verilog.netlist import build_netlist, cell_value, quick_values

__all__ = ["convert"]

_WITH_WIDTH = (_nir.Operator, _nir.Part, _nir.SyncReadPort, _nir.AsyncReadPort)
_WITHOUT_WIRES = (_nir.Top, _nir.PriorityMatch, _nir.Matches, _nir.Memory, _nir.SyncWritePort)


def convert(
    fragment: Fragment, *, name: str, ports: Mapping[str, Any], linted: bool = False
) -> str:
    """RTLIL of a fragment; memories have no contents at power-up.

    Parameters
    ----------
    fragment : Fragment
        It has all clock domains that it uses.
    name : str
        Of the module.
    ports : Mapping
        Its ports, as `amaranth.back.rtlil.convert` takes them.
    linted : bool
        Whether linters are to read it; else it is Amaranth's text.

    Raises
    ------
    amaranth.hdl._nir.CombinationalCycle
        If there is one.
    amaranth.hdl._ir.DriverConflict
        If something has more than one driver.
    NotImplementedError
        If it has something that no unit has, such as a pin.
    """
    with quick_values():
        netlist = build_netlist(fragment, name=name, ports=ports)
        if linted:
            narrow(netlist)
        design = rtlil.Design(emit_src=False)
        empty = rtlil.EmptyModuleChecker(netlist)
        for number, module in enumerate(netlist.modules):
            if not empty.is_empty(number):
                written = design.module(".".join(module.name))
                if number == 0:
                    written.attribute("top", 1)
                emitter = _LintedEmitter if linted else _ModuleEmitter
                emitter(written, netlist, module, _NoNames(), empty).emit()
        return str(design)


class _NoNames(dict[Any, Any]):
    """Where Amaranth notes what signals are called in the text, which nobody asks for."""

    def __setitem__(self, signal: Any, name: Any) -> None:
        """Forget it: signals have no hashes."""


class _ModuleEmitter(rtlil.ModuleEmitter):
    """Emitter of a module."""

    def emit_memory(self, cell_idx: int, cell: Any) -> None:
        """Leave out the contents at power-up."""

    def emit_driven_wire(self, value: Any) -> Any:
        name = self.value_names.get(value)
        if name is None:
            wire = self.builder.wire(len(value), attrs=self.value_attrs.get(value, {}))
        else:
            wire, _ = self.sigport_wires[name]
            self.driven_sigports.add(name)
        self.nets.update(zip(value, zip(repeat(wire), count()), strict=False))
        return wire

    def emit_cell_wires(self) -> None:
        for number in self.module.cells:
            cell = self.netlist.cells[number]
            if isinstance(cell, _nir.Instance):
                for name, (start, width) in cell.ports_o.items():
                    wire = self.emit_driven_wire(cell_value(number, width, start))
                    self.instance_wires[number, name] = wire
            elif isinstance(cell, _WITH_WIDTH):
                self.cell_wires[number] = self.emit_driven_wire(cell_value(number, cell.width))
            elif isinstance(cell, _nir.AssignmentList | _nir.FlipFlop):
                value = cell.default if isinstance(cell, _nir.AssignmentList) else cell.data
                self.cell_wires[number] = self.emit_driven_wire(cell_value(number, len(value)))
            elif not isinstance(cell, _WITHOUT_WIRES):
                raise NotImplementedError(f"{type(cell).__name__} must not be in a unit")

    def sigspec(self, *parts: Any) -> str:
        nets: list[Any] = []
        for part in parts:
            nets += (part,) if isinstance(part, _nir.Net) else part
        wires = self.nets
        chunks = []
        start, stop = 0, len(nets)
        while start < stop:
            end = start + 1
            if nets[start] < 2:
                while end < stop and nets[end] < 2:
                    end += 1
                bits = "".join(["1" if net else "0" for net in nets[start:end]])
                chunks.append(f"{end - start}'{bits[::-1]}")
            else:
                wire, low = wires[nets[start]]
                high = low + 1
                while end < stop and wires.get(nets[end]) == (wire, high):
                    high += 1
                    end += 1
                chunks.append(_part(wire, low, high))
            start = end
        if len(chunks) == 1:
            return chunks[0]
        return "{ " + " ".join(reversed(chunks)) + " }"

    def shorten_operand(self, value: Any, *, signed: bool) -> Any:
        stop = len(value)
        if signed:
            while stop > 1 and value[stop - 1] == value[stop - 2]:
                stop -= 1
        else:
            while stop and not value[stop - 1]:
                stop -= 1
        return value[:stop]

    def emit_assignment_list(self, cell_idx: int, cell: Any) -> None:
        wire = self.cell_wires[cell_idx]
        process = self.builder.process()
        process.assign(_part(wire, 0, len(cell.default)), self.sigspec(cell.default))
        self._emit_assignments(process, _nir.Net(1), wire, list(reversed(cell.assignments)))

    def _emit_assignments(self, case: Any, condition: Any, wire: Any, left: list[Any]) -> None:
        """Put assignments into a case, up to the first that does not belong there."""
        while left:
            assign = left[-1]
            if assign.cond == condition:
                part = _part(wire, assign.start, assign.start + len(assign.value))
                case.assign(part, self.sigspec(assign.value))
                left.pop()
                continue
            inner = assign.cond
            while inner != condition:
                if inner == 1:
                    return
                number = inner.cell
                inner = self.netlist.cells[number].en
            self._emit_switch(case, number, wire, left)

    def _emit_switch(self, case: Any, number: int, wire: Any, left: list[Any]) -> None:
        """Put a choice into a case, with the assignments that belong there."""
        inputs = self.netlist.cells[number].inputs
        matches = [None if net == 1 else self.netlist.cells[net.cell] for net in inputs]
        tested = next((match.value for match in matches if match is not None), ())
        switch = case.switch(self.sigspec(tested))
        for match, chosen in zip(matches, cell_value(number, len(matches)), strict=True):
            inner = switch.default() if match is None else switch.case(match.patterns)
            self._emit_assignments(inner, chosen, wire, left)


class _LintedEmitter(_ModuleEmitter):
    """Emitter of a module whose operators have operands of one width."""

    _whole: tuple[Any, ...] = ()
    """Operands that are not shortened."""

    def emit_operator(self, cell_idx: int, cell: Any) -> None:
        if cell.operator == "*":
            self._emit_product(cell_idx, cell)
            return
        is_shift = cell.operator in ("<<", "u>>", "s>>")
        self._whole = cell.inputs[:1] if is_shift else cell.inputs
        super().emit_operator(cell_idx, cell)

    def shorten_operand(self, value: Any, *, signed: bool) -> Any:
        if any(value is whole for whole in self._whole):
            return value
        return super().shorten_operand(value, signed=signed)

    def _emit_product(self, cell_idx: int, cell: Any) -> None:
        """Both factors get the width that the longer one needs, that of a multiplier."""
        self._whole = ()
        widths = {
            signed: max(len(self.shorten_operand(each, signed=signed)) for each in cell.inputs)
            for signed in (False, True)
        }
        signed = widths[True] < widths[False]
        left, right = (value[: widths[signed]] for value in cell.inputs)
        self.builder.cell(
            "$mul",
            ports={
                "A": self.sigspec(left),
                "B": self.sigspec(right),
                "Y": self.cell_wires[cell_idx].name,
            },
            parameters={
                "A_SIGNED": signed,
                "B_SIGNED": signed,
                "A_WIDTH": len(left),
                "B_WIDTH": len(right),
                "Y_WIDTH": cell.width,
            },
        )


def _part(wire: Any, low: int, high: int) -> str:
    """Bits of a wire from `low` to below `high`."""
    return f"{wire.name} [{low}]" if high == low + 1 else f"{wire.name} [{high - 1}:{low}]"
