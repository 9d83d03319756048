"""The machine for those who write programs for it.

Its tables are made of `mxsafe.machine.description`, ``docs/synthesis.json`` and
``docs/machine_figures.json``.
"""

from collections.abc import Mapping
from typing import Any

from mxsafe.machine.configuration import (
    BF16_MACHINE,
    FPGA_MACHINE,
    SMALL_MACHINE,
    WINDOW_MACHINE,
    MachineConfiguration,
)
from mxsafe.machine.description import (
    ACCESS_REGISTERS,
    ACCESSES,
    DESCRIPTORS,
    ERRORS,
    FOLLOWING,
    MOST_TOKENS,
    REGISTERS,
)
from mxsafe.rtl.machine.accelerator_core import AcceleratorCoreConfiguration
from mxsafe.rtl.machine.axi import burst_constants
from mxsafe.rtl.machine.control.registers import RegistersConfiguration
from mxsafe.synthesis.machine import PARTS
from studies import machine_figures
from studies.pages import kept
from studies.synthesised import find, load

_KINDS = {
    "load": "memory to a buffer",
    "gemm": "products of strips",
    "vector": "rows of vector beats",
    "store": "a buffer to memory",
}
_ARRAY = "sta_exact 4x2x4x8, 2 columns a MAC"
"""Configuration of synthesis that is the machine's array."""
_WINDOW = "sta_window 4x2x4x8, 2 groups of lanes", "accelerator_window, rest"
"""Configurations of synthesis in which a machine with windows differs: its array, and its rest."""
_GATE = 1.44
_PAPER: Mapping[str, tuple[str, int]] = {
    "array": ("core", 1_784_575),
    "functions": ("activation", 10_970),
    "softmax and norms": ("softmax, normalisation", 181_606 + 38_267),
    "converter": ("converter", 14_926),
}
"""Units of the paper that do the work of a part, and their areas in um2: Table IV."""
_PAPER_TOTAL = 2_030_345


def values() -> dict[str, Any]:
    """Return the values of the page's template."""
    sizes = MachineConfiguration()
    core = AcceleratorCoreConfiguration(machine=sizes)
    figures = kept("machine_figures")
    machines = {"exact": sizes, "window": WINDOW_MACHINE}
    return {
        "sizes": sizes,
        "small": SMALL_MACHINE,
        "stages": RegistersConfiguration(machine=FPGA_MACHINE).reset_stages,
        "address_bits": RegistersConfiguration(machine=sizes).address_bits,
        "most_tokens": MOST_TOKENS,
        "descriptors": [(each, _KINDS[name]) for name, each in DESCRIPTORS.items()],
        "registers": REGISTERS,
        "accesses": dict(zip(ACCESS_REGISTERS[::2], ACCESSES.items(), strict=True)),
        "following": FOLLOWING,
        "errors": ERRORS,
        "address": DESCRIPTORS["load"].field("address"),
        "reader": core.reader,
        "writer": core.writer,
        "constants": burst_constants("", core.reader.data_bits),
        "figures": machine_figures.rows(figures),
        "idle": figures["idle"],
        "gates": gates(load()),
        "units": vector_gates(load()),
        "window": window_gates(load()),
        "window_machine": WINDOW_MACHINE,
        "bf16_machine": BF16_MACHINE,
        "busy": {name: machine_figures.busy_after_another(m) for name, m in machines.items()},
    }


def gates(synthesis: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Parts of the machine beside those of the paper, and their sum.

    Raises
    ------
    LookupError
        If one of them has not been synthesised.
    """
    rows = MachineConfiguration().rows
    parts = {"array": (_ARRAY, f"{rows}x{rows} MACs of four products")}
    parts |= {name: (f"accelerator, {name}", part.meaning) for name, part in PARTS.items()}
    table = []
    for name, (configuration, meaning) in parts.items():
        numbers = find(synthesis, configuration)["numbers"]["area"]
        paper, area = _PAPER.get(name, ("", 0))
        table.append(
            {
                "name": name,
                "meaning": meaning,
                "paper": paper,
                "ge": numbers["ge"],
                "ns": numbers["delay_ns"],
                "paper_ge": area / _GATE,
            }
        )
    total = {
        "name": "whole machine",
        "meaning": "",
        "paper": "total",
        "ge": sum(part["ge"] for part in table),
        "ns": max(part["ns"] for part in table),
        "paper_ge": _PAPER_TOTAL / _GATE,
    }
    return [*table, total]


def vector_gates(synthesis: Mapping[str, Any]) -> dict[str, float]:
    """Gates of functions, softmax and norms together, those of the paper's three units; ns."""
    parts = {part["name"]: part for part in gates(synthesis)}
    names = ("functions", "powers and roots", "softmax and norms")
    return {
        "ours": sum(parts[name]["ge"] for name in names),
        "paper": sum(parts[name]["paper_ge"] for name in names),
        "ns": max(parts[name]["ns"] for name in names),
    }


def window_gates(synthesis: Mapping[str, Any]) -> dict[str, float]:
    """Gates of the array with windows, of the rest beyond that of the other, and of the machine.

    Raises
    ------
    LookupError
        If one of them has not been synthesised.
    """

    def area(name: str) -> float:
        return float(find(synthesis, name)["numbers"]["area"]["ge"])

    array, rest = map(area, _WINDOW)
    exact = {part["name"]: part["ge"] for part in gates(synthesis)}
    total = exact["whole machine"] - exact["array"] - exact["rest"] + array + rest
    ns = find(synthesis, _WINDOW[1])["numbers"]["area"]["delay_ns"]
    return {"array": array, "rest": rest - exact["rest"], "machine": total, "ns": ns}
