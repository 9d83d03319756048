"""Whether a mutant has the outputs of its module, for all inputs in all cycles.

That is proved, or seen in the netlist: nothing reads the bit.
"""

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from studies.mutants.limits import run_within
from studies.mutants.mutation import Mutants
from verif.support.manifest import Module, Port
from verif.support.proof import compared, yosys

_MOST_TEXT = 400_000
"""Characters of Verilog with all instances that are still proved as a whole, and of a module inside
that is still looked into for what it reads."""
_MEMORY = re.compile(r"^  reg \[\S+:0\] \S+ \[\S+\];$", re.MULTILINE)
_CHOOSING = "mutant_is_chosen"
"""A net with a bit for each mutant."""
_STEPS = 6
"""Longest induction that is tried."""


def is_equivalent(
    module: Module, mutants: Mutants, number: int, folder: Path, *, seconds: float, size: int
) -> bool | None:
    """Whether a proof of a mutant succeeds, that it makes no difference to whoever uses the module.

    None if there is no end of it.

    Registers are 0 at first. What lies beside a ``valid`` that is not set makes no difference.

    At first the modules inside are taken out: what enters them is an output, and what leaves them
    is free; should this fail, the module is taken as a whole. Induction is tried first, and then
    property-directed reachability, which finds what else holds at any time: that registers differ
    only while nobody looks, for instance.

    Parameters
    ----------
    module : Module
    mutants : Mutants
        Of that module.
    number : int
        Of one that changes no clock.
    folder : Path
        Where files are written.
    seconds : float
        Of a processor that each proof may take.
    size : int
        Characters of Verilog of the module with all instances.
    """
    inside = [source for source in module.sources if source.stem != module.name]
    if inside and _proved(module, mutants, number, folder, inside, seconds, whole=False):
        return True
    if inside and (size > _MOST_TEXT or any(_MEMORY.search(s.read_text()) for s in inside)):
        return False
    return _proved(module, mutants, number, folder, inside, seconds, whole=True)


def unread(module: Module, mutants: Mutants, folder: Path, *, seconds: float) -> frozenset[int]:
    """Mutants of bits that nothing reads: no path of gates and registers leads to an output.

    What is behind a mutant of another bit counts as reading that bit: some that nothing reads may
    be left out. In modules inside all inputs lead to all outputs, if they lead to one.

    Parameters
    ----------
    module : Module
    mutants : Mutants
        Of that module.
    folder : Path
        Where files are written.
    seconds : float
        Of a processor that this may take.

    Returns
    -------
    frozenset of int
        Their numbers; none if there is no time.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    inside = [source for source in module.sources if source.stem != module.name]
    for source in inside:
        (folder / source.name).write_text(source.read_text())
    (folder / "mutants.v").write_text(mutants.chosen_by_bits(_CHOOSING))
    seen = [s for s in inside if s.stat().st_size <= _MOST_TEXT]
    others = " ".join(source.name for source in inside if source not in seen)
    names = " ".join([module.name, *(source.stem for source in seen)])
    script = [
        *([f"read_verilog -lib {others}"] if others else []),
        f"read_verilog mutants.v {' '.join(source.name for source in seen)}",
        f"select {names}; proc -norom; memory -nomap; opt_clean",
        f"techmap {module.name}; opt_clean {module.name}; write_json -selected gates.json",
    ]
    code, output, _ = run_within(seconds, yosys("-p", "; ".join(script)), folder=folder)
    if code is None:
        return frozenset()
    assert code == 0, f"Yosys failed in {folder}:\n{output[-1500:]}"
    netlists = json.loads((folder / "gates.json").read_text())["modules"]
    netlist = netlists.pop(module.name)
    read = _read(netlist, netlists)
    chosen = netlist["netnames"][_CHOOSING]["bits"]
    assert all(isinstance(bit, int) for bit in chosen), f"{module.name} chooses by constants"
    return frozenset(n for n, bit in enumerate(chosen, start=1) if bit not in read)


def _read(netlist: dict[str, Any], netlists: Mapping[str, dict[str, Any]]) -> set[int]:
    """Bits of a netlist that lead to its outputs, through modules inside as far as in these."""
    cells = netlist["cells"].values()
    within = {cell["type"] for cell in cells} & netlists.keys()
    entering = {name: _read(netlists[name], netlists) for name in within}
    inputs_of: dict[int, list[int]] = {}
    for cell in cells:
        kind, ways = cell["type"], cell["port_directions"]
        inputs: list[int] = []
        for port, bits in cell["connections"].items():
            if ways[port] != "output":
                own = netlists[kind]["ports"][port]["bits"] if kind in within else bits
                reach = entering.get(kind, own)
                inputs += [bit for bit, inner in zip(bits, own, strict=True) if inner in reach]
        for port, bits in cell["connections"].items():
            if ways[port] == "output":
                inputs_of.update(dict.fromkeys(bits, inputs))
    ports = netlist["ports"].values()
    left = [bit for port in ports if port["direction"] != "input" for bit in port["bits"]]
    read: set[int] = set()
    while left:
        bit = left.pop()
        if bit not in read:
            read.add(bit)
            left += inputs_of.get(bit, [])
    return read


def _guarded(module: Module) -> str:
    """A module around another one that shows results only while they are valid."""
    ports = module.ports.values()
    declared = ", ".join(f"{port.direction} [{port.width - 1}:0] {port.name}" for port in ports)
    outputs = [port for port in ports if port.direction == "output"]
    wires = "".join(f"  wire [{port.width - 1}:0] {port.name}_inside;\n" for port in outputs)
    connections = ", ".join(
        f".{port.name}({port.name}{'_inside' if port in outputs else ''})" for port in ports
    )
    shown = "".join(
        f"  assign {port.name} = {_valid(port, outputs)}{port.name}_inside;\n" for port in outputs
    )
    name = module.name
    return f"module guarded({declared});\n{wires}{shown}  {name} unit ({connections});\nendmodule\n"


def _valid(port: Port, outputs: Sequence[Port]) -> str:
    for other in outputs:
        prefix = other.name.removesuffix("valid")
        follows = port.name.startswith(prefix) and not port.name.endswith(("valid", "ready"))
        if other.width == 1 and prefix not in ("", other.name) and follows:
            return f"{{{port.width}{{{other.name}_inside}}}} & "
    return ""


def _proved(
    module: Module,
    mutants: Mutants,
    number: int,
    folder: Path,
    inside: Sequence[Path],
    seconds: float,
    *,
    whole: bool,
) -> bool | None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for source in inside:
        (folder / source.name).write_text(source.read_text())
    (folder / "right.v").write_text(mutants.alone(0))
    (folder / "wrong.v").write_text(mutants.alone(number))
    (folder / "guarded.v").write_text(_guarded(module))
    names = " ".join(source.name for source in inside)
    # Nothing but these: wires that are selected would become outputs, and all be compared.
    instances = " ".join(f"guarded/t:{source.stem}" for source in inside)
    script = []
    for side in ("right", "wrong"):
        library = f"read_verilog -lib {names}" if not whole else f"read_verilog {names}"
        script += [
            *([library] if inside else []),
            f"read_verilog guarded.v {side}.v",
            "hierarchy -top guarded",
            "proc -norom",
            "flatten",
            *([f"expose -evert {instances}"] if inside and not whole else []),
            f"opt_clean; rename guarded {side}",
        ]
        script.append(f"memory -nomap; memory_map; opt_clean; design -stash {side}")
    *lines, simplify, clean = compared("right", "wrong", clocked="clk" in module.ports)
    script += [
        *lines,
        "aigmap; opt_clean; write_aiger -zinit miter.aig",
        simplify,
        clean,
        f"tee -o proof.log sat -tempinduct -maxsteps {_STEPS} -set-init-zero -prove trigger 0 "
        "miter",
    ]
    (folder / "prove.ys").write_text("\n".join(script) + "\n")
    command = yosys("-Q", "-T", "-p", "script prove.ys")
    code, output, errors = run_within(seconds, command, folder=folder)
    if code is None:
        return _never_differs(folder, seconds) or None
    log = folder / "proof.log"
    # ABC within Yosys may leave nothing of what is printed after it.
    said = log.read_text() if log.exists() else ""
    if not re.search("SUCCESS!|FAIL|fail|Reached maximum", said):
        raise AssertionError(f"Yosys failed in {folder}:\n{output[-1500:]}{errors[-1500:]}")
    if "SUCCESS!" in said or "found for base case" in said:
        return "SUCCESS!" in said
    return _never_differs(folder, seconds)


def _never_differs(folder: Path, seconds: float) -> bool:
    """Whether ABC proves that the output of a design that was written is never 1."""
    if not (folder / "miter.aig").exists():
        return False
    # ABC runs within a design of Yosys, whichever it is, and Yosys fails after it.
    (folder / "host.v").write_text("module host(input a, b, output y); assign y = a & b; endmodule")
    script = "read_aiger,miter.aig;strash;scorr;dc2;scorr;pdr;write_status,status.txt"
    words = ["-Q", "-T", "-p", f"read_verilog host.v; techmap; abc -g AND -script +{script}"]
    run_within(seconds, yosys(*words), folder=folder)
    status = folder / "status.txt"
    return status.exists() and status.read_text().startswith("snl_UNSAT")
