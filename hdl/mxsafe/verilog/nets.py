"""Names for nets that have none in the source: after what they feed, and how they are made.

Yosys numbers them. A net that becomes ``$total_sum$add`` is a sum on its way into ``total_sum``;
one that feeds a register is called after the register. Names begin with ``$`` still, so that tools
and people can tell them from those of the source.
"""

import re
from collections.abc import Iterator

_ANONYMOUS = re.compile(r"\\\$\S+ ")
_DECLARED = re.compile(r"^  (?:wire|reg)(?: signed)?(?: \[\d+:\d+\])? (\\\$\S+ );$", re.MULTILINE)
_ASSIGN = re.compile(r"  assign (.+?) = (.*);")
_STORED = re.compile(r" +(?:.*\) |else )?(\S.*?) <= .*;")
_INSTANCE = re.compile(r"  \w+ (?:#\(.*\) )?(\\\S+|\w+) +\(")
_PIN = re.compile(r"    \.(\\\S+ |\w+)\(.*\),?")
_NET = re.compile(r"\\\S+ |(?<![\w'$])[A-Za-z_]\w*")
_UNARY = {"~": "not", "|": "any", "&": "all", "^": "parity"}
_BINARY = {
    "?": "mux",
    "==": "equal",
    "!=": "differ",
    "<": "less",
    "<=": "less",
    ">": "more",
    ">=": "more",
    "+": "add",
    "-": "sub",
    "*": "mul",
    "<<": "left",
    ">>": "right",
    ">>>": "right",
    "&": "and",
    "|": "or",
    "^": "xor",
    "&&": "and",
    "||": "or",
}
_LONGEST = 40
"""Characters of the name of what a net feeds."""


def with_names(text: str) -> str:
    """A module whose numbered nets have names.

    Parameters
    ----------
    text : str
        As `mxsafe.verilog.unread.without_unread` gives it.
    """
    anonymous = _DECLARED.findall(text)
    made: dict[str, str] = {}
    fed: dict[str, str] = {}
    for target, read in _statements(text, made):
        for net in _ANONYMOUS.findall(read):
            if target and net != target:
                fed.setdefault(net, target)
    names: dict[str, str] = {}
    taken: dict[str, int] = {}
    for net in anonymous:
        name = f"\\${_word(_named(net, fed))}${made.get(net, 'net')}"
        taken[name] = taken.get(name, 0) + 1
        names[net] = f"{name}_{taken[name]} " if taken[name] > 1 else f"{name} "
    return _ANONYMOUS.sub(lambda found: names.get(found[0], found[0]), text)


def _statements(text: str, made: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Return what each line drives first, and what it reads; `made` gets how nets are made."""
    instance = conditions = ""
    for line in text.splitlines():
        if found := _ASSIGN.fullmatch(line):
            targets = _NET.findall(found[1])
            for target in targets:
                made.setdefault(target, _operation(found[2]))
            yield targets[0], found[2]
        elif found := _PIN.fullmatch(line):
            yield f"{instance}_{found[1].strip()}", line
        elif found := _INSTANCE.fullmatch(line):
            instance = found[1]
        elif found := _STORED.fullmatch(line):
            yield _NET.findall(found[1])[0], conditions + line
            conditions = ""
        elif line.startswith("    "):
            conditions += line


def _operation(expression: str) -> str:
    """The last operation of an expression, of which Yosys writes one a line."""
    start = expression[:1]
    if start in _UNARY:
        return _UNARY[start]
    depth, words = 0, []
    for word in expression.split():
        depth += word.count("{") - word.count("}")
        words += [word] if not depth and word in _BINARY else []
    # A choice comes after the comparison that it follows from.
    return _BINARY["?" if "?" in words else words[0]] if words else "bits"


def _named(net: str, fed: dict[str, str]) -> str:
    """The first net of the source that follows from a net, or nothing."""
    met = set()
    while net in fed and net not in met:
        met.add(net)
        net = fed[net]
    return "" if _ANONYMOUS.fullmatch(net) else net


def _word(name: str) -> str:
    """A name as part of another one."""
    return re.sub(r"\W+", "_", name.strip().removeprefix("\\"))[:_LONGEST]
