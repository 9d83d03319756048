"""Random mutants of a module, all in one netlist, by Yosys' pass ``mutate``."""

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verif.support.manifest import Module
from verif.support.proof import run_yosys

SELECTOR = "mutant"
"""A net of a mutated module: the number of the mutant, or 0."""
_CHOSEN, _SEEN = "selected_mutant", "see_mutants"
_MOST = 30
"""Mutants of a module that are watched together, each by a bit of an ``int`` of C++."""
_NUMBER = re.compile(r" -(mode|cell|port|portbit|ctrlbit|wire|wirebit) (\S+)")
_READ: dict[tuple[Path, str], "Mutants"] = {}
"""Mutants of this process by folder and what they are drawn from: designs share their modules."""
_SOURCE = re.compile(r" -src \S*?:(\d+)\.")


@dataclass(frozen=True)
class Mutant:
    """One change of a netlist.

    Attributes
    ----------
    number : int
        Counted from 1.
    mode : str
        What is done to a bit: ``inv``, ``const0``, ``const1``, or inverted where another bit is 0
        or 1: ``cnot0``, ``cnot1``.
    place : str
        Wire, or cell and port, and the bit.
    line : int
        Of the module's file.
    of_clock : bool
        A clock is changed.
    is_idle : bool
        Nothing is changed that the Verilog says: the bit is open, or it is so already.
    """

    number: int
    mode: str
    place: str
    line: int
    of_clock: bool
    is_idle: bool


@dataclass(frozen=True)
class Mutants:
    """A module with all its mutants.

    Attributes
    ----------
    module : str
    mutants : tuple of Mutant
    text : str
        Verilog in which a net chooses one.
    """

    module: str
    mutants: tuple[Mutant, ...]
    text: str

    def alone(self, number: int) -> str:
        """Verilog with one mutant; with 0 that of none."""
        return self._with(rf"wire \1{SELECTOR} = {number};")

    def chosen_at_start(self, module: int) -> str:
        """Verilog in which a function of C++, called with a number, chooses the mutant.

        With the largest number that there is, which is no mutant's, another function gets a bit for
        each mutant, 1 if what it changes is not the same already.
        """
        text = self._with(
            rf'import "DPI-C" function int {_CHOSEN}(input int module_number);\n'
            rf'  import "DPI-C" function void {_SEEN}(input int seen);\n'
            rf"  reg \1{SELECTOR};\n  initial {SELECTOR} = {_CHOSEN}({module});"
        )
        if not self.mutants:
            return text
        assert len(self.mutants) <= _MOST, f"{self.module} has {len(self.mutants)} mutants"
        differ = [f"({change}) != ({right})" for change, right in self._changes()]
        bits = ", ".join([*reversed(differ), "1'b0"])
        watch = f"  always @* if (&{SELECTOR}) {_SEEN}({{{bits}}});\n"
        return text.replace("endmodule", f"{watch}endmodule")

    def _changes(self) -> list[tuple[str, str]]:
        """For each mutant what it changes a bit to, and the bit."""
        changes = []
        for mutant in self.mutants:
            chosen = re.findall(
                rf"assign (\S+) = {SELECTOR} == \d+'h0*{mutant.number:x};", self.text
            )
            assert len(chosen) == 1, f"{self.module} chooses mutants in another way"
            (change,) = re.findall(rf"= {re.escape(chosen[0])} \? (.+?) : (.+);", self.text)
            changes.append(change)
        return changes

    def chosen_by_argument(self) -> str:
        """Verilog that a simulator tells the mutant in the words of `argument`."""
        return self._with(
            rf"reg \1{SELECTOR};\n"
            f'  initial if (!$value$plusargs("{SELECTOR}_of_{self.module}=%d", {SELECTOR})) '
            f"{SELECTOR} = 0;"
        )

    def chosen_by_bits(self, net: str) -> str:
        """Verilog in which each mutant has a bit of a net that nothing drives."""
        declared = rf"wire \1{SELECTOR};\n  (* keep *) wire [{len(self.mutants)}:1] {net};"
        chooses = rf"= {SELECTOR} == \d+'h([0-9a-f]+);"
        text, count = re.subn(
            chooses, lambda found: f"= {net}[{int(found[1], 16)}];", self._with(declared)
        )
        assert count == len(self.mutants), f"{self.module} chooses mutants in another way"
        return text

    def argument(self, number: int) -> str:
        """Words that choose a mutant."""
        return f"+{SELECTOR}_of_{self.module}={number}"

    def _with(self, declared: str) -> str:
        text, count = re.subn(rf"wire (\[\d+:0\] ){SELECTOR};", declared, self.text)
        assert count == 1, f"{self.module} has no net that chooses a mutant"
        return text


def mutate(module: Module, folder: Path, *, count: int, seed: int) -> Mutants:
    """Draw mutants of a module; those of modules inside it are theirs.

    Where a folder has them already they are read.

    Parameters
    ----------
    module : Module
    folder : Path
        Where files are written.
    count : int
        How many; fewer if there are no more.
    seed : int
        Of the choice.
    """
    folder.mkdir(parents=True, exist_ok=True)
    name = module.name
    digested = hashlib.sha256(f"{count} {seed} bits".encode())
    for source in module.sources:
        digested.update(source.read_bytes())
    known = (folder.absolute(), digested.hexdigest())
    if known in _READ:
        return _READ[known]
    drawn = folder / "drawn"
    if not drawn.exists() or drawn.read_text() != digested.hexdigest():
        _draw(module, folder, count=count, seed=seed)
        drawn.write_text(digested.hexdigest())
    lines = (folder / "list.txt").read_text().splitlines()
    bits = _Bits(json.loads((folder / "bits.json").read_text())["modules"][name])
    mutants = tuple(_mutant(number, line, bits) for number, line in enumerate(lines, start=1))
    text = (folder / "mutants.v").read_text()
    found = re.search(rf"^module {name}\b.*?^endmodule", text, re.MULTILINE | re.DOTALL)
    assert found is not None, f"Yosys wrote no {name}"
    return _READ.setdefault(known, Mutants(name, mutants, found[0] + "\n"))


def _draw(module: Module, folder: Path, *, count: int, seed: int) -> None:
    name = module.name
    inside = [source for source in module.sources if source.stem != name]
    (folder / f"{name}.v").write_text(module.sources[0].read_text())
    for source in inside:
        (folder / source.name).write_text(source.read_text())
    library = f"read_verilog -lib {' '.join(s.name for s in inside)}; " if inside else ""
    control = f"-ctrl {SELECTOR} {(count + 1).bit_length()} 1"
    # What is written to JSON is sorted: mutants would be others if that came first.
    run_yosys(
        folder,
        f"{library}read_verilog {name}.v; proc {name}; opt_clean {name}; "
        f"mutate -list {count} -seed {seed} {control} -module {name} -o list.txt {name}; "
        f"write_json -selected bits.json; script list.txt; delete -input {name}/w:{SELECTOR}; "
        f"write_verilog -noattr -selected mutants.v",
    )


class _Bits:
    """Connections of the cells of a netlist: constants, or numbers of nets.

    Parameters
    ----------
    netlist : dict
        Of a module, as Yosys writes it to JSON.
    """

    def __init__(self, netlist: dict[str, Any]) -> None:
        self._cells = netlist["cells"]
        ends = [(port["direction"] != "output", port["bits"]) for port in netlist["ports"].values()]
        for cell in self._cells.values():
            directions = cell["port_directions"]
            ends += [(directions[p] != "input", bits) for p, bits in cell["connections"].items()]
        self._driven = {bit for drives, bits in ends if drives for bit in bits}

    def is_idle(self, mode: str, cell: str, port: str, bit: int) -> bool:
        """Whether a mutant changes an open bit, or makes a constant of the same one."""
        changed = self._cells[cell]["connections"][port][bit]
        if changed in ("0", "1"):
            return bool(mode == f"const{changed}")
        return changed not in self._driven


def _mutant(number: int, line: str, bits: _Bits) -> Mutant:
    said = dict(_NUMBER.findall(line))
    place = f"{said['cell']}.{said['port']}[{said['portbit']}]"
    if "wire" in said:
        place = f"{said['wire']}[{said['wirebit']}]"
    if "ctrlbit" in said:
        place += f" by bit {said['ctrlbit']}"
    lines = _SOURCE.findall(line)
    mode, cell, port = said["mode"], said["cell"], said["port"]
    return Mutant(
        number,
        mode,
        place,
        int(lines[-1]) if lines else 0,
        of_clock=port == "CLK",
        is_idle=bits.is_idle(mode, cell, port, int(said["portbit"])),
    )
