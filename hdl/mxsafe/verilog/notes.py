"""Notes on signals as comments of the Verilog: Yosys would print them as attributes, or not at all.

They go around Yosys, which prefers nets with attributes: the Verilog is the same but for comments.
"""

import re
import textwrap

from mxsafe.rtl.arithmetic.bits import NOTE

_WIDTH = 96
"""Most characters of a line of a note's text."""
_NOTE = re.compile(rf'^ *attribute \\{NOTE} "(.*)"\n', re.MULTILINE)
_NOTED = re.compile(_NOTE.pattern + r"(?: *attribute .*\n)* *wire .*\\(\S+)$", re.MULTILINE)
_DECLARED = re.compile(r"  (?:input|output|wire|reg)\b.*?(\\\S+|\w+)(?: \[\d+:\d+\])? ?;")
_ASSIGNED = re.compile(r"  assign (.+?) = ")
_STORED = re.compile(r"    .*?(\\\S+ |\w+)(?:\[[^]]*\])? <= .*;")
_NET = re.compile(r"\\\S+|(?<![\w'])[A-Za-z_]\w*")


def without_notes(rtlil: str) -> str:
    """RTLIL of a module without notes."""
    return _NOTE.sub("", rtlil)


def with_notes(text: str, rtlil: str) -> str:
    """A module with its notes, each once: before what drives the first net that has it.

    Parameters
    ----------
    text : str
        The module in Verilog.
    rtlil : str
        The same in RTLIL, with notes. Those on nets that the text does not have are left out.
    """
    lines = text.splitlines()
    places = _places(lines)
    notes: dict[str, int] = {}
    for note, name in _NOTED.findall(rtlil):
        if name in places:
            notes[note] = min(places[name], notes.get(note, len(lines)))
    for note, place in sorted(notes.items(), key=lambda each: each[1], reverse=True):
        comment = textwrap.wrap(note, _WIDTH, break_long_words=False)
        lines[place:place] = [f"  // {line}" for line in comment]
    return "".join(f"{line}\n" for line in lines)


def _places(lines: list[str]) -> dict[str, int]:
    """Where each net is driven: its declaration where that is not a statement."""
    declared: dict[str, int] = {}
    driven: dict[str, int] = {}
    start = 0
    for place, line in enumerate(lines):
        if line.startswith("  always "):
            start = place
        if found := _DECLARED.fullmatch(line):
            declared.setdefault(_NET.findall(found[1])[0].removeprefix("\\"), place)
        elif found := _ASSIGNED.match(line):
            for net in _NET.findall(found[1]):
                driven.setdefault(net.removeprefix("\\"), place)
        elif found := _STORED.fullmatch(line):
            driven.setdefault(found[1].strip().removeprefix("\\"), start)
    return declared | driven
