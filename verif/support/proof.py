"""Proofs about generated Verilog by Yosys' own solver: temporal induction over assertions."""

import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from mxsafe.rtl.unit import Unit
from mxsafe.synthesis.first_calls import call_first
from mxsafe.synthesis.technologies import command
from mxsafe.verilog.names import part_name
from verif.support.fresh import require_fresh
from verif.support.manifest import Module
from verif.support.units import generated, mutated

REACHABILITY, INTERPOLATION, INDUCTION = "pdr,-a", "int", "induction"
_METHODS = (REACHABILITY, INTERPOLATION, INDUCTION)
"""Of proving: property-directed reachability and interpolation by ABC, induction by Yosys."""
_SHOWN = 24
"""Values that an error shows."""
_STEPS = 2
"""Of temporal induction, for claims that are strong enough."""
# A register that is never loaded keeps what it held at first, which may be anything.
_OPTIMISED = "opt -nodffe -nosdff -keepdc"
_TO_GATES = (
    f"techmap; simplemap; {_OPTIMISED}; dffunmap; simplemap; {_OPTIMISED}",
    "aigmap; opt_clean",
    "write_aiger -map map.txt design.aig",
)
"""Lines for Yosys that write a design as ABC reads it."""
# ABC runs within a design of Yosys, whichever it is.
_HOST = "module host(input a, input b, output y); assign y = a & b; endmodule\n"


class NoAnswerError(AssertionError):
    """ABC has ended without an answer."""


@cache
def _call_first() -> None:
    def call(words: list[str]) -> int:
        return subprocess.run(words, capture_output=True, check=False).returncode

    call_first(["yosys"], call)


def yosys(*words: str) -> list[str]:
    """The command of Yosys, which has been called before: the first call of all compiles it."""
    _call_first()
    return [*command("yosys"), *words]


def run_yosys(folder: Path, script: str) -> str:
    # Yosys from WebAssembly opens relative paths only.
    run = subprocess.run(
        yosys("-p", script),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    output = run.stdout + run.stderr
    assert run.returncode == 0, f"Yosys failed:\n{output[-2000:]}"
    return output


def compared(first: str, second: str, *, clocked: bool) -> list[str]:
    """Lines for Yosys that make two saved designs into one, ``miter``, with 1 where they differ.

    Registers are 0 at first. ABC joins those of both that are always equal, by induction.
    """
    gates = "opt -nodffe -nosdff"  # ABC takes no registers with an enable or a reset
    return [
        *(f"design -copy-from {name} {name}" for name in (first, second)),
        f"miter -equiv -flatten {first} {second} miter",
        "hierarchy -top miter",
        "async2sync",
        # Before anything is simplified: a register that is never loaded would be unknown, and what
        # is compared with something unknown does not differ.
        "setattr -unset init; setundef -zero -init",
        f"techmap; simplemap; {gates}; dffunmap; simplemap; {gates}",
        "setundef -undriven -zero",
        f"abc {'-dff' if clocked else ''} -g AND -script +strash;scorr,-F,1;dc2;scorr",
        "opt_clean",
    ]


def prove(
    module: Module,
    folder: Path,
    statements: Sequence[str],
    *,
    free: str,
    declarations: str = "",
) -> None:
    """Prove assertions about a module for all inputs and all times.

    Parameters
    ----------
    statements : sequence of str
        ``assert (...);`` and ``assume (...);`` of Verilog, over the nets of the flattened module.
    free : str
        What names of units inside begin with whose outputs may be anything at any time: memories.
    declarations : str
        Registers of the proof's own, in Verilog; they begin with 0.
    """
    folder.mkdir(exist_ok=True)
    names = []
    require_fresh(module.sources)
    free = part_name(free)
    for source in module.sources:
        if not source.stem.startswith(free):
            (folder / source.name).write_text(source.read_text())
            names.append(source.name)
    run_yosys(
        folder,
        f"read_verilog {' '.join(names)}; delete t:{free}*; hierarchy -top {module.name}; "
        "proc; flatten; write_verilog -noattr flat.v",
    )
    text = (folder / "flat.v").read_text()
    body = declarations + "".join(
        f"  always @* begin\n{statement}\n  end\n" for statement in statements
    )
    # A net that is called otherwise must not become a new one.
    text = "`default_nettype none\n" + text.replace("endmodule", f"{body}endmodule")
    _induce(folder, text, module.name, "-set-init-zero", "proc; opt; async2sync; opt_clean")


def not_proved(
    prove: Callable[[Module, Path], None], unit: Unit[Any], *changes: tuple[str, str]
) -> Callable[..., None]:
    """A test that a proof about a unit fails with each of some texts of its Verilog changed."""

    @pytest.mark.yosys
    @pytest.mark.parametrize(("right", "wrong"), changes)
    def test(right: str, wrong: str, tmp_path: Path) -> None:
        with pytest.raises(AssertionError, match="proof did fail"):
            prove(mutated(generated(unit), right, wrong), tmp_path)

    return test


def prove_text(folder: Path, text: str, top: str, *, after_reset: Mapping[str, int]) -> None:
    """Prove the assertions that a module's text holds, registers of their own among them.

    Parameters
    ----------
    text : str
        The module with its ``assert`` and ``assume``; it instantiates no other.
    after_reset : Mapping of str to int
        Registers that are reset, and what they then hold.
    """
    start = " ".join(f"-set-init {name} {value}" for name, value in after_reset.items())
    passes = f"hierarchy -top {top}; proc; flatten; async2sync; chformal -lower; opt"
    _induce(folder, text, top, start, passes)


def _induce(folder: Path, text: str, top: str, start: str, passes: str) -> None:
    """Prove assertions by induction of up to three steps; the error names one and what it is of."""
    text, claims = _with_names(text)
    assert claims, f"{top} claims nothing"
    (folder / "claims.sv").write_text(text)
    output = run_yosys(
        folder,
        f"read_verilog -sv -formal claims.sv; {passes}; "
        f"sat -tempinduct -maxsteps 3 -prove-asserts -set-assumes -show-public {start} {top}",
    )
    if "SUCCESS!" not in output:
        raise AssertionError(f"proof did fail: {top}: {_broken(output, claims)}")


def _with_names(text: str) -> tuple[str, dict[str, str]]:
    """Verilog whose assertions are nets with names, and what each asserts.

    Assertions stand in blocks ``always @* begin``.
    """
    head, *blocks = re.split(r"(?<=always @\* begin\n)", text)
    claims: dict[str, str] = {}
    made = [head]
    for block in blocks:
        parts, names = [], []
        rest = block
        while (found := re.search(r"\bassert \(", rest)) is not None:
            end = _closed(rest, found.end())
            name = f"claim_{len(claims)}"
            claims[name] = " ".join(rest[found.end() : end].split())
            names.append(name)
            parts.append(f"{rest[: found.start()]}{name} = ({rest[found.end() : end]})")
            rest = rest[end + 1 :]
        made += ["".join(f"    {name} = 1;\n" for name in names), *parts, rest]
    declared = "".join(f"  (* keep *) reg {name};\n" for name in claims)
    proved = "".join(f"  always @* assert ({name});\n" for name in claims)
    whole = "".join(made)
    end = whole.rindex("endmodule")
    first = whole.index(";\n", whole.index("module ")) + 2
    return whole[:first] + declared + whole[first:end] + proved + whole[end:], claims


def _closed(text: str, start: int) -> int:
    """Place of the bracket that closes the one opened before `start`."""
    depth = 1
    for place in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if not depth:
            return place
    raise AssertionError(f"a bracket is not closed in {text[start : start + 80]!r}")


def _broken(output: str, claims: Mapping[str, str]) -> str:
    """Return the claim that is 0 in the last cycle of a Yosys trace, and what it is about."""
    rows = re.findall(r"^ +(\d+) \\(\S+) +(?:\d+|--) +([0-9a-f]+) +[01]+ *$", output, re.MULTILINE)
    if not rows:
        return "no trace: " + " ".join(output[-300:].split())
    last = max(int(clock) for clock, _, _ in rows)
    values = {name: int(value, 16) for clock, name, value in rows if int(clock) == last}
    broken = next((claim for name, claim in claims.items() if values.get(name) == 0), "?")
    about = {name.strip() for name in re.findall(r"\\?[A-Za-z_][\w.$]*", broken)}
    about = {name.removeprefix("\\") for name in about}
    # Then what else is not 0, as far as there is room.
    own = [name for name in values if name not in claims]
    names = [name for name in own if name in about]
    names += [name for name in own if name not in about and values[name]][: _SHOWN - len(names)]
    is_start = "model found for base case" in output
    when = (
        f"in cycle {last} from the start" if is_start else f"after {last - 1} cycles of any state"
    )
    shown = ", ".join(f"{name} = {values[name]:#x}" for name in names)
    return f"assert ({broken}) is broken {when}, where {shown}"


def never(
    folder: Path,
    text: str,
    top: str,
    *,
    seconds: int,
    clocks: int = 0,
    first: str = REACHABILITY,
) -> int | None:
    """Prove that no output of a module is 1 in any cycle, whatever it gets.

    Registers may hold anything at first, unless they are initialised. Memories are not looked at:
    what is read from them may be anything. ABC within Yosys joins registers that are always equal,
    by induction, and proves the rest by property-directed reachability or interpolation; or Yosys
    proves all of it by temporal induction.

    Parameters
    ----------
    seconds : int
        That each method may take.
    clocks : int
        Where all methods come to no end, so many cycles are enough.
    first : str
        The method that is tried first, since it ends soonest.

    Returns
    -------
    int or None
        For how many cycles from the first on it is proved; None for all time.
    """
    _write(folder, text, top, gates=first != INDUCTION)
    for method in sorted(_METHODS, key=lambda method: method != first):
        if method == INDUCTION:
            if _is_inductive(folder, seconds):
                return None
            continue
        try:
            status = _status(folder, f"scorr;orpos;{method},-T,{seconds}")
        except NoAnswerError:
            continue  # interpolants of a large module may outgrow ABC's memory
        if status.startswith("snl_UNSAT"):
            return None
        if status.startswith("snl_SAT"):
            raise AssertionError(f"proof did fail: {_counterexample(folder, seconds)}")
    if clocks:
        status = _status(folder, f"scorr;orpos;bmc3,-F,{clocks},-T,{seconds}")
        assert not status.startswith("snl_SAT"), "proof did fail"
        if (reached := int(status.split()[1])) > 0:
            return reached + 1
    raise AssertionError(f"no proof did end within {seconds} seconds")


def _outputs(folder: Path) -> dict[int, str]:
    """Outputs of a design that has been written, by number, but for constants."""
    lines = (line.split() for line in (folder / "map.txt").read_text().splitlines())
    return {int(words[1]): words[3] for words in lines if words[0] == "output"}


def _is_inductive(folder: Path, seconds: int) -> bool:
    """Whether temporal induction by Yosys proves that all outputs of a design are always 0."""
    names = re.findall(r"^  wire .*output \d+ (\S+)$", (folder / "design.il").read_text(), re.M)
    claims = " ".join(f"-prove {name} 0" for name in names)
    output = run_yosys(
        folder,
        f"read_rtlil design.il; sat -tempinduct -maxsteps {_STEPS} -timeout {seconds} {claims}",
    )
    return "Induction step proven: SUCCESS!" in output


def _counterexample(folder: Path, seconds: int) -> str:
    """An output of a design that can be 1, the soonest one found, and its inputs in that cycle."""
    for method in ("bmc3,-F,200", "pdr"):
        status, *bits = _status(folder, f"scorr;{method},-T,{seconds}").splitlines()
        words = status.split()
        if words[0] == "snl_SAT":
            break
    else:
        return "no trace was found"
    output, clock = int(words[3]), int(words[4])
    lines = (line.split() for line in (folder / "map.txt").read_text().splitlines())
    inputs = [(int(words[1]), int(words[2]), words[3]) for words in lines if words[0] == "input"]
    every = len(bits[1]) // (clock + 1)
    given = bits[1][clock * every :]
    values: dict[str, int] = {}
    for place, bit, name in inputs:
        values[name] = values.get(name, 0) | (given[place] == "1") << bit
    shown = ", ".join(f"{name} = {value:#x}" for name, value in values.items() if value)
    name = _outputs(folder).get(output, f"output {output}")
    return f"{name} in cycle {clock + 1}, where {shown or 'all inputs are 0'}"


def first_clock(folder: Path, text: str, top: str, *, seconds: int) -> int:
    """The first of 200 cycles, counted from 1, in which the only output of a module can be 1.

    Parameters
    ----------
    text : str
        Verilog of the module and of all inside it; see `never` of registers and memories.
    seconds : int
        That the search may take.
    """
    _write(folder, text, top)
    status = _status(folder, f"scorr;bmc3,-F,200,-T,{seconds}")
    assert status.startswith("snl_SAT"), f"{top} was not found to be 1 within {seconds} seconds"
    return int(status.split()[1]) + 1


def never_at(folder: Path, text: str, top: str, *, clock: int) -> None:
    """Prove that no output of a module is 1 in one cycle, whatever registers held at first.

    Parameters
    ----------
    clock : int
        Counted from 0.
    """
    _write(folder, text, top)
    status = _status(folder, f"frames,-F,{clock + 1},-i;orpos;fraig;iprove")
    named = ", ".join(_outputs(folder).values())
    assert status.startswith("snl_UNSAT"), f"proof did fail: {named} may be 1 in cycle {clock}"


def _write(folder: Path, text: str, top: str, *, gates: bool = True) -> None:
    """Write a design, also as ABC reads it if its `gates` are wanted at once."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "design.aig").unlink(missing_ok=True)
    (folder / "design.sv").write_text(text)
    script = [
        "read_verilog -formal design.sv",
        f"hierarchy -top {top}",
        "proc -norom",
        "delete t:$mem*",
        "flatten -noscopeinfo",
        "setundef -anyseq",
        f"opt_clean; async2sync; {_OPTIMISED}",
        "write_rtlil design.il",
        *(_TO_GATES if gates else ()),
    ]
    (folder / "design.ys").write_text("\n".join(script) + "\n")
    run_yosys(folder, "script design.ys")


def run_abc(folder: Path, commands: str, made: str) -> Path:
    """Run commands of ABC, with commas for spaces, in a folder, and return a file made there."""
    (folder / made).unlink(missing_ok=True)
    (folder / "host.v").write_text(_HOST)
    # Yosys fails after it: the design that comes back is not the one that went in.
    words = ["-Q", "-T", "-p", f"read_verilog host.v; techmap; abc -g AND -script +{commands}"]
    run = subprocess.run(yosys(*words), cwd=folder, capture_output=True, check=False)
    if not (folder / made).exists():
        raise NoAnswerError(f"ABC failed:\n{run.stdout[-2000:]!r}")
    return folder / made


def _status(folder: Path, commands: str) -> str:
    """Return ABC's status after some commands about a design that has been written."""
    if not (folder / "design.aig").exists():
        run_yosys(folder, "; ".join(["read_rtlil design.il", *_TO_GATES]))
    # Free registers become inputs of the first cycle; ABC itself would let them begin with 0.
    abc = f"read_aiger,design.aig;logic;undc;strash;{commands};write_status,status.txt"
    return run_abc(folder, abc, "status.txt").read_text()
