"""Verilog of Yosys without bits that nothing reads, as far as they can be left out.

What is left out are assignments to bits of nets without a name of their own, and such bits at both
ends of a net. What a module has to leave open by its nature is said in the text: an output of an
instance that is not needed goes to a net that is called ``unused``; and declarations of inputs and
results that are not read in full stand together in the scope of one pragma for Verilator. So do
nets one bit of which decides another: Verilator 5.006 takes a net as a whole, and sees a loop. It
takes the left side of an assignment as a whole too, so that one which gives several parts of such a
net from others stands in a scope of its own.
"""

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

_DECLARATION = re.compile(
    r"  (?P<kind>input|output|wire|reg)(?P<sign> signed)?(?: \[(?P<high>\d+):(?P<low>\d+)\])?"
    r" (?P<name>\\\S+|\w+) ?(?P<array>\[\d+:\d+\])?;"
)
_REFERENCE = re.compile(
    r"\d+'s?[bdh][0-9a-fxz_?]+|\$\w+"  # numbers, and functions such as $signed
    r"|(?P<name>\\\S+|[A-Za-z_]\w*) ?(?:\[(?P<high>\d+)(?::(?P<low>\d+))?\])?"
)
_ASSIGN = re.compile(r"  assign (.+?) = (.*);")
_INSTANCE = re.compile(r"  (\w+) (?:#\(.*\) )?(?:\\\S+ +|\w+ )\(")
_PIN = re.compile(r"    \.(\\\S+ |\w+)\((.*)\),?")
_STORED = re.compile(r"( *(?:.*\) |else )?)(\S.*?) <= (.*);")
_INPUT = (
    "UNUSEDSIGNAL",
    "These inputs belong to the interface; not all of their bits are needed here.",
)
_RESULT = ("UNUSEDSIGNAL", "Some bits of these results are dropped where they are used.")
_LOOP = ("UNOPTFLAT", "Some bits of these nets follow from other bits of them, none from itself.")


@dataclass
class _Net:
    """A net, its bits as those of integers."""

    high: int
    low: int
    kind: str
    lines: list[int] = field(default_factory=list)
    """Where it is declared: a port is so twice."""
    driven: int = 0
    read: int = 0

    def bits(self, high: str | None, low: str | None) -> int:
        """A part of it, or all of it."""
        if high is None:
            return _mask(self.high, self.low)
        return _mask(int(high), int(low or high))


@dataclass
class _Statement:
    """Names that a line drives and reads, with bits."""

    line: int
    driven: list[tuple[str, int]]
    read: list[tuple[str, int]]
    is_assign: bool


def _is_anonymous(name: str) -> bool:
    """Whether Yosys made the name up: others are looked for in waveforms, and stay whole."""
    return name.startswith("\\$")


def _mask(high: int, low: int) -> int:
    return (1 << (high + 1)) - (1 << low)


class _Module:
    """The lines of a module."""

    def __init__(self, text: str, outputs: Mapping[str, Set[str]]) -> None:
        self.lines: list[str | None] = list(text.splitlines())
        self.nets: dict[str, _Net] = {}
        self.arrays: set[str] = set()
        for place, line in enumerate(text.splitlines()):
            if found := _DECLARATION.fullmatch(line):
                self._declare(place, found)
        self.statements = list(self._statements(outputs))

    def _declare(self, place: int, found: re.Match[str]) -> None:
        name = found["name"]
        if found["array"]:
            self.arrays.add(name)
            return
        net = self.nets.setdefault(
            name, _Net(int(found["high"] or 0), int(found["low"] or 0), found["kind"])
        )
        net.lines.append(place)

    def _statements(self, outputs: Mapping[str, Set[str]]) -> Iterator[_Statement]:
        driving: Set[str] = set()
        for place, line in enumerate(self.lines):
            assert line is not None
            if found := _ASSIGN.fullmatch(line):
                driven, read = self._targets(found[1])
                yield _Statement(place, driven, [*read, *self._references(found[2])], True)
            elif found := _PIN.fullmatch(line):
                pin = list(self._references(found[2]))
                drives = found[1].strip().removeprefix("\\") in driving
                yield _Statement(place, pin if drives else [], [] if drives else pin, False)
            elif found := _INSTANCE.fullmatch(line):
                driving = outputs[found[1]]
            elif line.startswith("    ") and (found := _STORED.fullmatch(line)):
                driven, read = self._targets(found[2])
                read += [*self._references(found[1]), *self._references(found[3])]
                yield _Statement(place, driven, read, False)
            elif line.startswith(("    ", "  always ")):
                yield _Statement(place, [], list(self._references(line)), False)

    def _references(self, text: str) -> Iterator[tuple[str, int]]:
        for found in _REFERENCE.finditer(text):
            net = self.nets.get(found["name"])
            if net is not None:
                yield found["name"], net.bits(found["high"], found["low"])

    def _targets(self, text: str) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
        """Return the names that an assignment's left side drives, and the addresses it reads."""
        if text.split(" ")[0].split("[")[0] in self.arrays:
            return [], list(self._references(text))
        return list(self._references(text)), []

    def settle(self) -> None:
        """Leave out assignments to bits that nothing reads, until there is none."""
        while True:
            for net in self.nets.values():
                net.driven = net.read = 0
            for statement in self.statements:
                for name, bits in statement.driven:
                    self.nets[name].driven |= bits
                for name, bits in statement.read:
                    self.nets[name].read |= bits
            for net in self.nets.values():
                if net.kind == "output":
                    net.read = _mask(net.high, net.low)
            left = [each for each in self.statements if not self._is_idle(each)]
            if len(left) == len(self.statements):
                return
            for each in self.statements:
                if self._is_idle(each):
                    self.lines[each.line] = None
            self.statements = left

    def _is_idle(self, statement: _Statement) -> bool:
        """Whether it drives bits alone that are not read."""
        return (
            statement.is_assign
            and bool(statement.driven)
            and all(
                _is_anonymous(name) and not bits & self.nets[name].read
                for name, bits in statement.driven
            )
        )

    def split(self) -> None:
        """Let parts of concatenations that nothing reads go to nets of their own."""
        for statement in self.statements:
            line = self.lines[statement.line]
            idle = [
                (name, bits)
                for name, bits in statement.driven
                if not bits & self.nets[name].read and self.nets[name].kind != "output"
            ]
            if not idle or line is None:
                continue
            for name, bits in idle:
                net = self.nets[name]
                others = [
                    each
                    for each in self.statements
                    if each is not statement and (name, bits) in each.driven
                ]
                if others or not _is_anonymous(name):
                    continue
                width = bits.bit_count()
                own = self._new_name()
                line = self._replaced(line, name, bits, own)
                net.driven &= ~bits
                place = net.lines[0]
                size = f" [{width - 1}:0]" if width > 1 else ""
                self.lines[place] = f"  wire{size} {own};\n{self.lines[place]}"
            self.lines[statement.line] = line

    def _new_name(self) -> str:
        number = 0
        while (name := f"unused_{number}") in self.nets:
            number += 1
        self.nets[name] = _Net(0, 0, "unused")
        return name

    def _replaced(self, line: str, name: str, bits: int, own: str) -> str:
        """A line with another net in the place of a part of one."""
        net = self.nets[name]

        def other(found: re.Match[str]) -> str:
            if found["name"] != name or net.bits(found["high"], found["low"]) != bits:
                return found[0]
            return own + found[0][len(found[0].rstrip()) :]

        return _REFERENCE.sub(other, line)

    def declare(self) -> None:
        """Declare each net with its bits that are driven or read, where it is an inner one."""
        groups: dict[tuple[tuple[str, str], ...], list[int]] = {}
        loops = self._loops()
        for name, net in self.nets.items():
            needed = net.driven | net.read
            if _is_anonymous(name) and needed != net.bits(None, None):
                (place,) = net.lines
                if not needed:
                    self._leave_out(place)
                    continue
                net.high, net.low = needed.bit_length() - 1, (needed & -needed).bit_length() - 1
                self._resize(place, net)
            waived = []
            if net.lines and net.bits(None, None) & ~net.read:
                waived.append(_INPUT if net.kind == "input" else _RESULT)
            if name in loops:
                waived.append(_LOOP)
            if waived:
                groups.setdefault(tuple(waived), []).extend(net.lines)
        for rules, places in groups.items():
            self._waive(rules, places)
        for each in self.statements:
            driven = [name for name, _ in each.driven]
            both = loops.intersection(driven, (name for name, _ in each.read))
            if each.is_assign and len(driven) > 1 and both:
                self._waive([_LOOP], [each.line])

    def _loops(self) -> set[str]:
        """Nets that decide themselves, each taken as a whole, and what is between such nets."""
        found = set(self.nets)
        edges = {
            (source, name)
            for each in self.statements
            if each.is_assign
            for name, _ in each.driven
            for source, _ in each.read
        }
        while True:
            edges = {edge for edge in edges if found.issuperset(edge)}
            ends = {source for source, _ in edges} & {name for _, name in edges}
            if ends == found:
                return found
            found = ends

    def _leave_out(self, place: int) -> None:
        """Leave out a declaration; nets that were made of a part of it may stand before it."""
        before = (self.lines[place] or "").splitlines()[:-1]
        self.lines[place] = "\n".join(before) or None

    def _resize(self, place: int, net: _Net) -> None:
        *before, line = (self.lines[place] or "").splitlines()
        found = _DECLARATION.fullmatch(line)
        assert found is not None
        size = f"[{net.high}:{net.low}] "
        space = " " if found["name"].startswith("\\") else ""
        sign = found["sign"] or ""
        self.lines[place] = "\n".join(
            [*before, f"  {found['kind']}{sign} {size}{found['name']}{space};"]
        )

    def _waive(self, rules: Sequence[tuple[str, str]], places: list[int]) -> None:
        """Put declarations into the scope of pragmas, where the first of them stands."""
        declared = [self.lines[place] or "" for place in places]
        for place in places:
            self.lines[place] = None
        self.lines[min(places)] = "\n".join(
            [
                *(f"  // {reason}" for _, reason in rules),
                *(f"  /* verilator lint_off {rule} */" for rule, _ in rules),
                *declared,
                *(f"  /* verilator lint_on {rule} */" for rule, _ in rules),
            ]
        )


def without_unread(text: str, outputs: Mapping[str, Set[str]]) -> str:
    """Leave out of a module the bits that nothing reads, and mark those that stay.

    Parameters
    ----------
    text : str
        A module, as `mxsafe.verilog.convert.to_verilog` writes it.
    outputs : Mapping
        Names of the outputs of every module that it has inside, by the name of that module.

    Returns
    -------
    str
        The module.
    """
    module = _Module(text, outputs)
    module.settle()
    module.split()
    module.declare()
    return "\n".join(line for line in module.lines if line is not None) + "\n"
