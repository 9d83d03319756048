"""From hardware units to Verilog text: one module a unit, every distinct unit once."""

import gc
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import ClockDomain, Fragment, Value

from mxsafe.executors import processes
from mxsafe.rtl.unit import Configuration, Unit
from mxsafe.verilog.library import ModuleLibrary
from mxsafe.verilog.narrow import narrow
from mxsafe.verilog.notes import without_notes
from mxsafe.verilog.yosys import run_yosys

_PORT = re.compile(r"^( *wire width \d+ (?:input|output) )\d+( .*\\(\S+))$", re.MULTILINE)
_PASSES = """\
proc_clean
proc_rmdead
proc_prune
proc_mux
proc_clean
opt_expr -keepdc
attrmap -remove init
opt_clean
opt_dff
opt_clean -purge
write_verilog -noattr -norename
"""
"""Those before `attrmap` are what `proc` does where no register or latch is in a process."""
_CHOICE_IN_CHOICE = re.compile(r"^    (if \(.*\))\n((?:      (?:if|else) .*\n)+)", re.MULTILINE)
"""An ``if`` with another one alone inside: whose the ``else`` is shows in its indentation alone."""
_PARAMETERS = re.compile(r" #\(\n((?:    \.\w+\(32'[a-z]*\d+\),?\n)+)  \)")
_PARAMETER = re.compile(r"(\.\w+)\(32'[a-z]*(\d+)\)")
_KEPT = 512
"""Modules of earlier calls that are not made again: units often have parts in common."""

_Recipe = tuple[type[Unit[Any]], Configuration]
"""Class and configuration that a unit is made from."""
_Made = tuple[str, tuple[_Recipe, ...]]
"""A unit's module in RTLIL, none of a parametric one, and what is right inside it."""


@dataclass(frozen=True)
class Elaborated:
    """A unit in RTLIL.

    Attributes
    ----------
    unit : Unit
    rtlil : str
        Its one module; nothing of a parametric unit, which has a `template`.
    inside : tuple of str
        Names of the modules it needs, at any depth.
    configured : tuple of Unit
        Of a parametric unit those that are instances of its module, by their names.
    """

    unit: Unit[Any]
    rtlil: str
    inside: tuple[str, ...]
    configured: tuple[Unit[Any], ...] = ()


def elaborate_all(
    tops: Iterable[Unit[Any]],
    *,
    workers: int = 1,
    made: Callable[[str, str], object] = lambda name, rtlil: None,
) -> dict[str, Elaborated]:
    """Elaborate units and everything inside them.

    Parameters
    ----------
    tops : iterable of Unit
        The units wanted.
    workers : int
        Processes that share the work, where it is more than one. A script that asks for them must
        be safe to import.
    made : callable
        Called with the name and the RTLIL of each module as soon as it is there, in any order; of
        parametric ones it is not.

    Returns
    -------
    dict
        By module name, in the order first met: a module comes before the modules inside it.

    Raises
    ------
    ValueError
        If two different configurations share a module name.
    """
    units: dict[_Recipe, Unit[Any]] = {(type(top), top.config): top for top in tops}
    library = ModuleLibrary()
    configured: dict[str, dict[str, Unit[Any]]] = {}

    def note(unit: Unit[Any]) -> str:
        general = unit.general
        library.note(general)
        if unit.is_parametric:
            configured.setdefault(general.module_name, {})[unit.module_name] = unit
        return general.module_name

    for top in units.values():
        note(top)
    found: dict[_Recipe, _Made] = {}
    for recipe, module in (_here if workers == 1 else _in_processes(workers))(tuple(units)):
        found[recipe] = module
        if module[0]:
            made(recipe[1].module_name, module[0])
    texts: dict[str, str] = {}
    parts: dict[str, list[str]] = {}
    while pending := [unit for name, unit in library.units.items() if name not in texts]:
        for unit in pending:
            text, inner = ("", ()) if unit.is_parametric else found[type(unit), unit.config]
            for kind, config in inner:
                if (kind, config) not in units:
                    units[kind, config] = kind(config)
            texts[unit.module_name] = text
            parts[unit.module_name] = [note(units[recipe]) for recipe in inner]
    return {
        name: Elaborated(
            unit,
            texts[name],
            _inside(name, parts),
            tuple(one for _, one in sorted(configured.get(name, {}).items())),
        )
        for name, unit in library.units.items()
    }


_Every = Callable[[Iterable[_Recipe]], Iterator[tuple[_Recipe, _Made]]]


def _here(recipes: Iterable[_Recipe]) -> Iterator[tuple[_Recipe, _Made]]:
    """Units, and all that they turn out to have inside, each once."""
    known = set(recipes)
    waiting = deque(recipes)
    while waiting:
        recipe = waiting.popleft()
        module = _elaborate(recipe)
        yield recipe, module
        new = [part for part in module[1] if part not in known]
        known.update(new)
        waiting += new


def _in_processes(workers: int) -> _Every:
    """The same, by so many processes."""

    def every(recipes: Iterable[_Recipe]) -> Iterator[tuple[_Recipe, _Made]]:
        # A process ends before it would need the memory that only a search for cycles frees.
        with processes(workers, gc.disable) as pool:
            known = set(recipes)
            running = {pool.submit(_elaborate, recipe): recipe for recipe in recipes}
            while running:
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    recipe, module = running.pop(future), future.result()
                    new = [part for part in module[1] if part not in known]
                    known.update(new)
                    running |= {pool.submit(_elaborate, part): part for part in new}
                    yield recipe, module

    return every


@lru_cache(_KEPT)
def _elaborate(recipe: _Recipe) -> _Made:
    """The unit that is made from a configuration."""
    kind, config = recipe
    if kind.is_parametric:
        return "", ()
    library = ModuleLibrary()
    # Amaranth makes millions of objects that live to the end: looking through them for cycles
    # again and again takes a fifth of the time.
    collects = gc.isenabled()
    gc.disable()
    try:
        unit = kind(config)
        unit.own_names()
        text = _to_rtlil(unit, library)
    finally:
        if collects:
            gc.enable()
    return text, tuple((type(part), part.config) for part in library.units.values())


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
    return narrow(_PORT.sub(lambda wire: wire[1] + places[wire[3]] + wire[2], text))


def _inside(top: str, parts: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Modules within a module, level by level."""
    met: dict[str, None] = {top: None}
    level = [top]
    while level:
        below = dict.fromkeys(part for name in level for part in parts[name] if part not in met)
        met |= below
        level = list(below)
    return tuple(met)[1:]


@lru_cache(_KEPT)
def to_verilog(rtlil_text: str) -> str:
    """Verilog for one RTLIL module, with the Yosys that comes with Amaranth.

    Registers are recognised (``if (rst) ... else if (en) ...``) and dead wires removed; nothing
    else is optimised, so that the text stays close to the source. Notes are left out: see
    `mxsafe.verilog.notes.with_notes`. Registers and memories get no
    power-up value: a design that leans on one shows as X in simulation.

    Raises
    ------
    RuntimeError
        If Yosys fails; the message is its own.
    """
    printed = run_yosys(f"read_rtlil <<rtlil\n{without_notes(rtlil_text)}\nrtlil\n{_PASSES}")
    lines = [line.rstrip() for line in printed.splitlines()]
    (start,) = (place for place, line in enumerate(lines) if line.startswith("module "))
    text = "\n".join(lines[start:]) + "\n"
    text = _PARAMETERS.sub(_in_a_line, text)
    return _CHOICE_IN_CHOICE.sub(r"    \1 begin\n\2    end\n", text)


def _in_a_line(found: re.Match[str]) -> str:
    """Parameters of an instance in one line, as plain numbers."""
    return f" #({', '.join(f'{name}({value})' for name, value in _PARAMETER.findall(found[1]))})"
