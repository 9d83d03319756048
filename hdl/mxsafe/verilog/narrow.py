"""RTLIL without bits that nothing reads, and with operands that are equally wide.

An expression of Amaranth is as wide as its operands make it: of a sum that is stored without its
carry nobody reads the highest bit. And Amaranth writes each operand as short as it can be. Linters
ask of every such bit whether it was forgotten, and of every such operand whether it is meant.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush

_Bits = tuple[tuple[str, int, int], ...]
"""Parts side by side, the lowest first: of wires by name, lowest bit and the one after the highest;
of constants the digits, the highest first, stand in the place of the name."""

_FROM_LOW = {
    **dict.fromkeys(("$add", "$sub", "$mul", "$and", "$or", "$xor", "$mux"), "AB"),
    **dict.fromkeys(("$neg", "$not", "$shl"), "A"),
    "$dff": "D",
}
"""Inputs of cells whose low bits alone decide the low bits of the output."""
_AS_RESULT = {
    **dict.fromkeys(("$add", "$sub", "$and", "$or", "$xor"), "AB"),
    **dict.fromkeys(("$neg", "$not", "$shl", "$shr", "$sshr"), "A"),
}
"""Operands that get the width of the result."""
_ALIKE = frozenset(("$mul", "$eq", "$ne", "$lt", "$le", "$gt", "$ge"))
"""Cells whose operands get the width of the longer one."""
_OUTPUTS = {"$dff": "Q", "$memrd_v2": "DATA"}
"""Outputs that are not called Y, of cells that go where nothing reads them."""
_CONTENTS = "$meminit_v2"
"""Initial content of a memory: ours have none."""

_WIRE = re.compile(r"(  wire width )(\d+)(.*? )([\\$]\S+)")
_FIELD = re.compile(r"[.[]")
"""In the name of a field of a signal, which goes where not all of it is read."""
_PART = re.compile(r"(\d+)'([01x]*)|([\\$]\S+)(?: \[(\d+)(?::(\d+))?\])?")


@dataclass(slots=True)
class _Wire:
    """A wire: how wide it is, and how many of its bits, from the lowest, are needed."""

    width: int
    line: re.Match[str]
    needed: int = 0
    driver: int | None = None
    """Number of the driver that goes with it if nothing reads it."""

    @property
    def is_port(self) -> bool:
        return "put" in self.line[3]


@dataclass(slots=True)
class _Cell:
    kind: str
    name: str
    parameters: list[str] = field(default_factory=list)
    """Their lines."""
    pins: dict[str, _Bits] = field(default_factory=dict)

    @property
    def output(self) -> str:
        """The pin that a cell is there for; empty if it is there for more."""
        pin = _OUTPUTS.get(self.kind, "Y")
        return pin if self.kind.startswith("$") and pin in self.pins else ""

    @property
    def target(self) -> str:
        """The wire that it drives and is there for, or nothing."""
        return next((name for name, _, _ in self.pins.get(self.output, ())), "")

    def least(self, width: int) -> int:
        """The fewest bits that the output can have where so many are needed."""
        return width if self.kind in _FROM_LOW else _width(self.pins[self.output])

    def reads(self, width: int) -> Iterator[_Bits]:
        """Return the bits that so many bits of the output depend on."""
        data, output = _FROM_LOW.get(self.kind, ""), self.output
        for pin, bits in self.pins.items():
            if pin != output:
                yield _cut(bits, width) if pin in data else bits

    def lines(self, width: int) -> Iterator[str]:
        """Return the cell with an output of so many bits."""
        yield f"  cell {self.kind} {self.name}"
        if self.output:
            pins = self._resized(width)
            values = {f"\\{pin}_WIDTH": _width(bits) for pin, bits in pins.items()}
            values["\\WIDTH"] = width
            if self.kind in _AS_RESULT and self.kind != "$sshr":
                # Operands that are as wide as the result have no sign to extend.
                values |= {"\\A_SIGNED": 0, "\\B_SIGNED": 0}
            for line in self.parameters:
                name = line.split()[1]
                yield f"    parameter {name} {values[name]}" if name in values else line
        else:
            pins = self.pins
            yield from self.parameters
        yield from (f"    connect \\{pin} {_text(bits)}" for pin, bits in pins.items())
        yield "  end"

    def _resized(self, width: int) -> dict[str, _Bits]:
        """Its pins, where the output has so many bits."""
        pins = dict(self.pins)
        for pin in (*_FROM_LOW.get(self.kind, ""), self.output):
            pins[pin] = _cut(pins[pin], width)
        if self.kind in _ALIKE:
            width = max(_width(pins["A"]), _width(pins["B"]))
        for pin in "AB" if self.kind in _ALIKE else _AS_RESULT.get(self.kind, ""):
            is_signed = f"    parameter \\{pin}_SIGNED 1" in self.parameters
            pins[pin] = _extended(pins[pin], width, is_signed)
        return pins


@dataclass(slots=True)
class _Assign:
    """Bits that a wire gets, from `low` on."""

    low: int
    bits: _Bits


@dataclass(slots=True)
class _Switch:
    """A choice: the line of each case, and what is in it."""

    bits: _Bits
    cases: list[tuple[str, list["_Assign | _Switch"]]] = field(default_factory=list)


_Block = list[_Assign | _Switch]


@dataclass(slots=True)
class _Process:
    name: str
    target: str
    block: _Block

    def least(self, width: int) -> int:
        """The fewest bits that the wire can have where so many are needed."""
        return width

    def reads(self, width: int) -> Iterable[_Bits]:
        """Return the bits that so many bits of the wire depend on."""
        return _block_reads(self.block, width)

    def lines(self, width: int) -> Iterator[str]:
        """Return the process of a wire of so many bits."""
        yield f"  process {self.name}"
        yield from _block_lines(self.block, self.target, width, "    ")
        yield "  end"


def _block_reads(block: _Block, width: int) -> list[_Bits]:
    """Return what is read, if it is anything: a switch stands before what it chooses."""
    found: list[_Bits] = []
    for item in block:
        if isinstance(item, _Assign):
            found += [_cut(item.bits, width - item.low)] if item.low < width else []
        elif inner := [bits for _, case in item.cases for bits in _block_reads(case, width)]:
            found += [item.bits, *inner]
    return found


def _block_lines(block: _Block, target: str, width: int, indent: str) -> Iterator[str]:
    for item in block:
        if isinstance(item, _Assign):
            if item.low < width:
                bits = _cut(item.bits, width - item.low)
                part = (target, item.low, item.low + _width(bits))
                yield f"{indent}assign {_text((part,))} {_text(bits)}"
        elif any(_block_reads(case, width) for _, case in item.cases):
            yield f"{indent}switch {_text(item.bits)}"
            for line, case in item.cases:
                yield f"{indent}  {line}"
                yield from _block_lines(case, target, width, indent + "    ")
            yield f"{indent}end"


def _width(bits: _Bits) -> int:
    return sum(high - low for _, low, high in bits)


def _cut(bits: _Bits, width: int) -> _Bits:
    """The lowest bits."""
    kept = []
    for name, low, high in bits:
        if width <= 0:
            break
        stop = min(high, low + width)
        is_wire = name[0] in "\\$"
        kept.append((name, low, stop) if is_wire else (name[high - stop :], low, stop))
        width -= stop - low
    return tuple(kept)


def _extended(bits: _Bits, width: int, is_signed: bool) -> _Bits:
    """Bits with more above them: zeros, or copies of the highest."""
    more = width - _width(bits)
    if more <= 0:
        return bits
    if not is_signed:
        return (*bits, ("0" * more, 0, more))
    name, _, high = bits[-1]
    top = (name, high - 1, high) if name[0] in "\\$" else (name[0], 0, 1)
    return bits + (top,) * more


def _text(bits: _Bits) -> str:
    """Bits as RTLIL has them."""
    parts = [
        f"{name} [{high - 1}:{low}]" if name[0] in "\\$" else f"{high - low}'{name}"
        for name, low, high in reversed(bits)
    ]
    return parts[0] if len(parts) == 1 else f"{{ {' '.join(parts)} }}"


class _Module:
    """The one module of a text."""

    def __init__(self, text: str) -> None:
        self._wires: dict[str, _Wire] = {}
        self._items: list[tuple[list[str], str | _Wire | _Cell | _Process]] = []
        """Each with the lines of its attributes."""
        self._names: dict[str, _Bits] = {}
        """Bits of wires that are other names, ports among them."""
        self._drivers: list[_Cell | _Process] = []
        self._open: list[int] = []
        """Numbers of drivers whose inputs are to be looked at, negated: the last comes first."""
        attributes: list[str] = []
        lines = iter(text.splitlines())
        for line in lines:
            if line.startswith("  attribute "):
                attributes.append(line)
            elif line.startswith("connect "):
                _, name, bits = line.split(" ", 2)
                self._names[name] = self._bits(bits)
            elif line and line != "end":
                item = self._item(line, lines)
                if not isinstance(item, _Cell) or item.kind != _CONTENTS:
                    self._items.append((attributes, item))
                attributes = []

    def _item(self, line: str, lines: Iterator[str]) -> str | _Wire | _Cell | _Process:
        """The item that begins at a line."""
        if found := _WIRE.fullmatch(line):
            wire = _Wire(int(found[2]), found)
            self._wires[found[4]] = wire
            return wire
        if line.startswith("  cell "):
            return self._cell(line, lines)
        if line.startswith("  process "):
            name = line.split()[1]
            targets: dict[str, None] = {}
            block, _ = self._block(lines, targets)
            (target,) = targets or ("",)
            return _Process(name, target, block)
        return line

    def _cell(self, line: str, lines: Iterator[str]) -> _Cell:
        _, kind, name = line.split()
        cell = _Cell(kind, name)
        for inner in lines:
            if inner == "  end":
                break
            if inner.startswith("    connect "):
                _, pin, bits = inner.strip().split(" ", 2)
                cell.pins[pin[1:]] = self._bits(bits)
            else:
                cell.parameters.append(inner)
        return cell

    def _block(self, lines: Iterator[str], targets: dict[str, None]) -> tuple[_Block, str]:
        """Statements, and the line after them: the end, or the next case."""
        block: _Block = []
        for line in map(str.strip, lines):
            word, _, rest = line.partition(" ")
            if word == "assign":
                if found := _PART.match(rest):  # else no bit is assigned
                    ((name, low, _),) = self._bits(found[0])
                    targets[name] = None
                    block.append(_Assign(low, self._bits(rest[found.end() + 1 :])))
            elif word == "switch":
                switch, stop = _Switch(self._bits(rest)), next(lines).strip()
                while stop != "end":
                    case = stop
                    inner, stop = self._block(lines, targets)
                    switch.cases.append((case, inner))
                block.append(switch)
            else:
                break
        return block, line

    def _bits(self, text: str) -> _Bits:
        parts = []
        for found in _PART.finditer(text):
            digits, name, high, low = found.group(2, 3, 4, 5)
            if name is None:
                parts.append((digits, 0, len(digits)))
            elif high is None:
                parts.append((name, 0, self._wires[name].width))
            else:
                parts.append((name, int(low or high), int(high) + 1))
        return tuple(reversed([part for part in parts if part[1] < part[2]]))

    def settle(self) -> None:
        """Find how many bits of each wire are needed."""
        for _, item in self._items:
            if isinstance(item, _Cell | _Process) and item.target:
                self._wires[item.target].driver = len(self._drivers)
                self._drivers.append(item)
        for _, item in self._items:
            if isinstance(item, _Cell) and not item.target:  # an instance, a port of a memory
                self._need(*(part for bits in item.pins.values() for part in bits))
        for name, wire in self._wires.items():
            if wire.is_port:
                self._need((name, 0, wire.width), *self._names.get(name, ()))
        self._follow()
        while self._open:
            self._follow()

    def _need(self, *parts: tuple[str, int, int]) -> None:
        """Note what is needed."""
        for name, _, high in parts:
            wire = self._wires.get(name)
            if wire is None or high <= wire.needed:
                continue
            if wire.driver is None:
                wire.needed = wire.width
            else:
                wire.needed = self._drivers[wire.driver].least(high)
                heappush(self._open, -wire.driver)

    def _follow(self) -> None:
        """Note what is needed by what is needed: mostly it stands before that."""
        while self._open:
            number = heappop(self._open)
            while self._open and self._open[0] == number:
                heappop(self._open)
            driver = self._drivers[-number]
            for bits in driver.reads(self._wires[driver.target].needed):
                self._need(*bits)
        # What is in the middle of a name is needed, if something above it is.
        for name, bits in self._names.items():
            if not _FIELD.search(name):
                self._need(*_cut(bits, self._kept(bits)))

    def _is_needed(self, part: tuple[str, int, int]) -> bool:
        """Whether all of it is."""
        wire = self._wires.get(part[0])
        return wire is None or part[2] <= wire.needed

    def _kept(self, bits: _Bits) -> int:
        """How many low bits reach up to the highest one that is needed."""
        kept = place = 0
        for name, low, high in bits:
            stop = min(high, self._wires[name].needed) if name in self._wires else high
            kept = place + stop - low if stop > low else kept
            place += high - low
        return kept

    def _name_width(self, name: str) -> int:
        """How wide another name of bits stays: a field of a signal, as it is or not at all."""
        bits = self._names[name]
        if _FIELD.search(name):
            return _width(bits) if all(map(self._is_needed, bits)) else 0
        return self._kept(bits)

    def lines(self) -> Iterator[str]:
        """Return the lines of the module."""
        names = {name: bits for name, bits in self._names.items() if not self._wires[name].is_port}
        widths = {name: wire.needed for name, wire in self._wires.items()}
        widths |= {name: self._name_width(name) for name in names}
        for attributes, item in self._items:
            if isinstance(item, str):
                inner: Iterable[str] = (item,)
            elif isinstance(item, _Wire):
                before, _, between, name = item.line.groups()
                is_there = item.is_port or widths[name]
                inner = (f"{before}{widths[name]}{between}{name}",) if is_there else ()
            elif item.target:
                width = widths[item.target]
                inner = item.lines(width) if width else ()
            else:
                inner = item.lines(0)
            inner = list(inner)
            yield from attributes if inner else ()
            yield from inner
        for name, bits in self._names.items():
            if widths[name]:
                yield f"connect {name} {_text(_cut(bits, widths[name]))}"
        yield "end"


def narrow(text: str) -> str:
    """Leave out of a module what nothing reads, and make its operands equally wide.

    What memories hold at power-up is left out too: ours have no contents. Memories, instances and
    ports stay whole, and so does a name in the middle of whose bits some are not read.

    Parameters
    ----------
    text : str
        RTLIL of one module, as `amaranth.back.rtlil.convert` writes it.

    Returns
    -------
    str
        The module.
    """
    module = _Module(text)
    module.settle()
    return "\n".join(module.lines()) + "\n"
