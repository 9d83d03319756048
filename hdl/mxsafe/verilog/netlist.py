"""Netlists of Amaranth: the same cells in the same order, in a third of the time.

Amaranth copies every expression to put clock and reset into it, asks each part of it for its width
again and again, asks of every bit which bits it depends on, and makes an object of every look at a
signal. Here expressions are read where they stand, and bits move many at a time. What is wrong with
a design is still found and said by Amaranth.
"""

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any

from amaranth.hdl import Fragment, _ast, _ir, _nir

__all__ = ["build_netlist", "cell_value", "has_cell_cycle", "quick_values"]

_BITS = {"0": _nir.Net(0), "1": _nir.Net(1)}
_BY_CELL = (_nir.Operator, _nir.Part, _nir.Matches, _nir.PriorityMatch, _nir.AssignmentList)
"""Cells all of whose inputs are taken to decide all of their outputs."""
_Path = tuple[str | int, ...]
"""Names and places of a field within fields."""


def build_netlist(fragment: Fragment, *, name: str, ports: Mapping[str, Any]) -> Any:
    """Netlist of a fragment, as `amaranth.hdl._ir.build_netlist` makes it.

    Parameters and errors are those of `mxsafe.verilog.rtlil.convert`.
    """
    named = fragment._prepare_ports(dict(ports))
    fragment._propagate_domains_up()
    fragment._propagate_domains_down()
    design = _Design(fragment, named, hierarchy=(name,))
    netlist = _Netlist()
    _Emitter(netlist, design).emit_fragment(fragment, None)
    netlist.check_comb_cycles()
    netlist.resolve_all_nets()
    if len(netlist.modules) > 1:
        _ir._compute_net_flows(netlist)
    _ir._compute_ports(netlist)
    _ir._compute_ionet_dirs(netlist)
    _ir._compute_io_ports(netlist, design.ports)
    return netlist


def cell_value(cell: int, width: int, start: int = 0) -> Any:
    """Outputs of a cell, by its number."""
    first = (cell << 16) + start
    return _side_by_side(map(_nir.Net, range(first, first + width)))


def has_cell_cycle(netlist: Any) -> bool:
    """Whether cells of a netlist depend on themselves within a cycle.

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
    """Numbers of the cells that decide a cell's outputs within a cycle."""
    if isinstance(cell, _BY_CELL):
        nets = cell.input_nets()
    elif isinstance(cell, _nir.AsyncReadPort | _nir.FlipFlop):
        nets = {net for net, _ in cell.comb_edges_to(0)}
    else:
        return set()
    return {net >> 16 for net in netlist.resolve_value(tuple(nets)) if net > 1}


def _side_by_side(nets: Iterable[Any]) -> Any:
    """Bits as a value."""
    return tuple.__new__(_nir.Value, nets)


def _value(cls: type[tuple[Any, ...]], nets: Any = ()) -> Any:
    """Bits side by side, as `amaranth.hdl._nir.Value` makes them."""
    return tuple.__new__(cls, (nets,) if isinstance(nets, _nir.Net) else nets)


@contextmanager
def quick_values() -> Iterator[None]:
    """Let Amaranth put bits together without a look at the type of each."""
    usual = _nir.Value.__new__
    _nir.Value.__new__ = _value
    try:
        yield
    finally:
        _nir.Value.__new__ = usual


def _of_domain(value: Any, domains: Mapping[str, Any]) -> Any:
    """The signal that is the clock or the reset of a domain."""
    domain = domains[value.domain]
    return domain.clk if type(value) is _ast.ClockSignal else domain.rst


class _Signals(MutableMapping[Any, Any]):
    """Things by signal; `amaranth.hdl._ast.SignalDict` makes an object at every look."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[Any, Any]] = {}

    def __getitem__(self, signal: Any) -> Any:
        return self._found[signal.duid][1]

    def __setitem__(self, signal: Any, value: Any) -> None:
        self._found[signal.duid] = signal, value

    def __delitem__(self, signal: Any) -> None:
        del self._found[signal.duid]

    def __contains__(self, signal: Any) -> bool:
        return signal.duid in self._found

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[Any]:
        return (signal for signal, _ in self._found.values())

    def items(self) -> Any:
        """Signals, each with what there is by it."""
        return self._found.values()


class _Design(_ir.Design):
    """Design that looks at each expression once, not once for each of its uses."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._known: set[tuple[int, int]] = set()
        super().__init__(*args, **kwargs)

    def _compute_fragment_depth_parent(self, fragment: Fragment, parent: Any, depth: int) -> None:
        if parent is None:
            self.signal_lca = _Signals()
        super()._compute_fragment_depth_parent(fragment, parent, depth)
        info = self.fragments[fragment]
        info.signal_names, info.used_signals = _Signals(), _Signals()

    def _collect_used_signals_value(self, fragment: Fragment, value: Any) -> None:
        key = id(fragment), id(value)
        if key in self._known:
            return
        self._known.add(key)
        kind = type(value)
        if kind is _ast.Signal:
            self._use_signal(fragment, value)
        elif kind is _ast.Operator:
            for operand in value.operands:
                self._collect_used_signals_value(fragment, operand)
        elif kind is _ast.ClockSignal or kind is _ast.ResetSignal:
            self._use_signal(fragment, _of_domain(value, fragment.domains))
        else:
            super()._collect_used_signals_value(fragment, value)


class _Netlist(_nir.Netlist):
    """A netlist that finds the drivers of all nets at once."""

    def __init__(self) -> None:
        super().__init__()
        self.signals, self.signal_fields = _Signals(), _Signals()
        self._drivers: dict[Any, Any] = {}

    def alloc_late_value(self, signal: Any) -> Any:
        stop = self.last_late_net
        self.last_late_net -= len(signal)
        return _side_by_side(map(_nir.Net, range(self.last_late_net, stop)))

    def add_value_cell(self, width: int, cell: Any) -> Any:
        return cell_value(self.add_cell(cell), width)

    def check_comb_cycles(self) -> None:
        if not self._find_drivers() or has_cell_cycle(self):
            # Errors name signals.
            for signal, value in self.signals.items():
                for bit, net in enumerate(value):
                    self.late_to_signal[net] = signal, bit
            super().check_comb_cycles()

    def _find_drivers(self) -> bool:
        """Find the driver of each late net; returns whether each has one."""
        drivers = dict(self.connections)
        # Chains of nets get half as long in every round.
        for _ in range(len(drivers).bit_length() + 1):
            late = [net for net, source in drivers.items() if source < 0]
            if not late:
                break
            drivers |= {net: drivers[drivers[net]] for net in late}
        self._drivers = drivers
        return not late

    def resolve_net(self, net: Any) -> Any:
        return self._drivers[net] if net < 0 else net

    def resolve_value(self, value: Any) -> Any:
        if not value or min(value) >= 0:
            return value
        drivers = self._drivers
        return _side_by_side([drivers[net] if net < 0 else net for net in value])


class _Emitter(_ir.NetlistEmitter):
    """Emitter of the cells of a netlist.

    An expression makes its cells again at each of its uses, as it does where Amaranth has copied
    it: the Verilog says it as often as the source.
    """

    def __init__(self, netlist: _Netlist, design: _Design) -> None:
        super().__init__(netlist, design)
        self.drivers = _Signals()
        self._domains = design.fragment.domains
        self._connected: list[tuple[Any, Any]] = []
        self._choices: list[int] = []
        """Expressions of the statement's left side, by which it chooses what to assign."""
        self._made_of = {
            _ast.Const: self._constant,
            _ast.Signal: self._signal,
            _ast.ClockSignal: self._domain_signal,
            _ast.ResetSignal: self._domain_signal,
            _ast.Slice: self._slice,
            _ast.Concat: self._concat,
            _ast.Operator: self._operator,
            _ast.SwitchValue: self._switch,
        }

    def emit_signal(self, signal: Any) -> Any:
        signals = self.netlist.signals
        if signal not in signals:
            signals[signal] = self.netlist.alloc_late_value(signal)
        return signals[signal]

    def extend(self, value: Any, signed: bool, width: int) -> Any:
        more = width - len(value)
        if more <= 0:
            return value
        return _side_by_side(value + (value[-1] if signed else _BITS["0"],) * more)

    def unify_shapes_bitwise(
        self, operand_a: Any, signed_a: bool, operand_b: Any, signed_b: bool
    ) -> tuple[Any, Any, bool]:
        signed = signed_a or signed_b
        width = max(
            len(operand_a) + (signed and not signed_a), len(operand_b) + (signed and not signed_b)
        )
        operand_a = self.extend(operand_a, signed_a, width)
        return operand_a, self.extend(operand_b, signed_b, width), signed

    def connect(self, lhs: Any, rhs: Any, *, src_loc: Any) -> None:
        connections = self.netlist.connections
        if not connections.keys().isdisjoint(lhs) or len(set(lhs)) < len(lhs):
            self._note_for_errors()
            super().connect(lhs, rhs, src_loc=src_loc)
        connections.update(zip(lhs, rhs, strict=True))
        self._connected.append((lhs, src_loc))

    def _note_for_errors(self) -> None:
        """Note what errors say of nets: their signals, and where they are driven."""
        for signal, value in self.netlist.signals.items():
            for bit, net in enumerate(value):
                self.late_net_to_signal[net] = signal, bit
        for value, src_loc in self._connected:
            self.connect_src_loc |= dict.fromkeys(value, src_loc)

    def emit_undriven(self) -> None:
        connections = self.netlist.connections
        for signal, value in self.netlist.signals.items():
            for bit, net in enumerate(value):
                if net not in connections:
                    connections[net] = _BITS[str((signal.init >> bit) & 1)]

    def emit_rhs(self, module_idx: int, value: Any) -> tuple[Any, bool]:
        known = self.rhs_cache.get(id(value))
        if known is not None:
            return known[:2]
        kind = type(value)
        made = self._made_of.get(kind, self._any)(module_idx, value)
        if kind is _ast.Signal or kind is _ast.Const:
            self.rhs_cache[id(value)] = (*made, value)
        return made

    def _any(self, module_idx: int, value: Any) -> tuple[Any, bool]:
        """Return Amaranth's result for an expression, and drop it from the cache."""
        made = super().emit_rhs(module_idx, value)
        del self.rhs_cache[id(value)]
        return made

    def _constant(self, module_idx: int, value: Any) -> tuple[Any, bool]:
        width = len(value)
        bits = f"{value.value & ((1 << width) - 1):0{width}b}"[::-1] if width else ""
        return _side_by_side(map(_BITS.__getitem__, bits)), value.shape().signed

    def _signal(self, module_idx: int, value: Any) -> tuple[Any, bool]:
        return self.emit_signal(value), value.shape().signed

    def _domain_signal(self, module_idx: int, value: Any) -> tuple[Any, bool]:
        return self.emit_rhs(module_idx, _of_domain(value, self._domains))

    def _slice(self, module_idx: int, value: Any) -> tuple[Any, bool]:
        inner, _ = self.emit_rhs(module_idx, value.value)
        return inner[value.start : value.stop], False

    def _concat(self, module_idx: int, value: Any) -> tuple[Any, bool]:
        nets: list[Any] = []
        for part in value.parts:
            nets += self.emit_rhs(module_idx, part)[0]
        return _side_by_side(nets), False

    def _operator(self, module_idx: int, value: Any) -> tuple[Any, bool]:
        operator = value.operator
        if operator in ("//", "%"):
            return self._any(module_idx, value)
        operands = [self.emit_rhs(module_idx, operand) for operand in value.operands]
        if len(operands) == 1:
            return self._unary(module_idx, value, *operands[0])
        (a, signed_a), (b, signed_b) = operands
        if operator == "*":
            signed = signed_a or signed_b
            width = len(a) + len(b)
            a, b = self.extend(a, signed_a, width), self.extend(b, signed_b, width)
        elif operator == "<<":
            signed = signed_a
            a = self.extend(a, signed, len(a) + 2 ** len(b) - 1)
        elif operator == ">>":
            signed = signed_a
            operator = "s>>" if signed else "u>>"
        else:
            operator, a, b, signed = self._unified(operator, operands)
        return self.emit_operator(module_idx, operator, a, b, src_loc=value.src_loc), signed

    def _unified(
        self, operator: str, operands: Iterable[tuple[Any, bool]]
    ) -> tuple[str, Any, Any, bool]:
        """Operator and operands, those made equally wide, and whether the result is signed."""
        (a, signed_a), (b, signed_b) = operands
        a, b, signed = self.unify_shapes_bitwise(a, signed_a, b, signed_b)
        if operator in ("+", "-"):
            width = len(a) + 1
            a, b = self.extend(a, signed, width), self.extend(b, signed, width)
            return operator, a, b, signed or operator == "-"
        if operator in ("|", "&", "^"):
            return operator, a, b, signed
        if operator in ("<", ">", "<=", ">="):
            operator = ("s" if signed else "u") + operator
        return operator, a, b, False

    def _unary(self, module_idx: int, value: Any, a: Any, signed: bool) -> tuple[Any, bool]:
        operator = value.operator
        if operator in ("s", "u"):
            return a, operator == "s"
        if operator == "-":
            a = self.extend(a, signed, len(a) + 1)
        made = self.emit_operator(module_idx, operator, a, src_loc=value.src_loc)
        return made, operator == "-" or (operator == "~" and signed)

    def _switch(self, module_idx: int, value: Any) -> tuple[Any, bool]:
        """A choice between two values; Amaranth makes those between more."""
        test, cases = value.test, value.cases
        if len(cases) != 2 or cases[0][0] != ("0" * len(test),) or cases[1][0] is not None:
            return self._any(module_idx, value)
        chooser, _ = self.emit_rhs(module_idx, test)
        a, signed_a = self.emit_rhs(module_idx, cases[1][1])
        b, signed_b = self.emit_rhs(module_idx, cases[0][1])
        if len(chooser) != 1:
            chooser = self.emit_operator(module_idx, "b", chooser, src_loc=value.src_loc)
        a, b, signed = self.unify_shapes_bitwise(a, signed_a, b, signed_b)
        return self.emit_operator(module_idx, "m", chooser, a, b, src_loc=value.src_loc), signed

    def emit_stmt(self, module_idx: int, fragment: Any, domain: str, stmt: Any, cond: Any) -> None:
        super().emit_stmt(module_idx, fragment, domain, stmt, cond)
        for choice in self._choices:
            del self.rhs_cache[choice]
        self._choices.clear()

    def emit_assign(self, module_idx: int, cd: Any, lhs: Any, *args: Any, src_loc: Any) -> None:
        kind = type(lhs)
        if kind is _ast.Part or kind is _ast.SwitchValue:
            choice = lhs.offset if kind is _ast.Part else lhs.test
            made = self.emit_rhs(module_idx, choice)
            if id(choice) not in self.rhs_cache:
                self.rhs_cache[id(choice)] = (*made, choice)
                self._choices.append(id(choice))
        super().emit_assign(module_idx, cd, lhs, *args, src_loc=src_loc)

    def emit_signal_fields(self) -> None:
        for signal, fragment in self.design.signal_lca.items():
            module_idx = self.fragment_module_idx[fragment]
            fields: dict[_Path, Any] = {}
            self._add_fields(fields, module_idx, (), signal._format)
            value, signed = self.emit_rhs(module_idx, signal)
            if () not in fields or fields[()].value != value:
                fields[()] = _nir.SignalField(value, signed=signed)
            self.netlist.signal_fields[signal] = fields

    def _add_fields(
        self, fields: dict[_Path, Any], module_idx: int, path: _Path, form: Any
    ) -> None:
        """Add the fields at a path and below."""
        inside: Iterable[tuple[str | int, Any]] = ()
        about: dict[str, Any] = {}
        if isinstance(form, _ast.Format):
            values = [chunk[0] for chunk in form._chunks if not isinstance(chunk, str)]
            if len(values) != 1:
                return
            (value,) = values
        else:
            value = form._value
            if isinstance(form, _ast.Format.Enum):
                about = {"enum_name": form._name, "enum_variants": form._variants}
            elif isinstance(form, _ast.Format.Struct):
                inside = form._fields.items()
            else:
                inside = enumerate(form._fields)
        nets, signed = self.emit_rhs(module_idx, value)
        fields[path] = _nir.SignalField(nets, signed=signed, **about)
        for name, inner in inside:
            self._add_fields(fields, module_idx, (*path, name), inner)
