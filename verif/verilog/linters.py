"""Messages of linters about Verilog: a line for each message, with its file."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from mxsafe.host.verilator import verilator_bin

__all__ = ["DISTRIBUTED", "LINTERS", "distributed_verilator", "said_by_verilator"]

DISTRIBUTED = "verilator of the distribution"
_CELL = re.compile(r"^  (\w+) (\\\S+ +|\w+ )\($", re.MULTILINE)
_PARAMETRIC = re.compile(r"^module \w+ #\(", re.MULTILINE)
_HEAD = re.compile(r"^module (\w+)(\([^;]*\);)", re.MULTILINE)
_PORT = re.compile(r"^  (?:input|output) [^;]*;$", re.MULTILINE)
_EMPTY = "".join(
    f"/* verilator lint_off {rule} */\n" for rule in ("DECLFILENAME", "UNDRIVEN", "UNUSEDSIGNAL")
)
_SIGNED_PRODUCT = re.compile(r"^\w*multiplier_\w+\.v:\d+: .*\[-Wsign-conversion\]$")
"""Of a product of signed factors the net has no sign, for Yosys writes none; its bits are right."""


def distributed_verilator() -> str | None:
    """The Verilator of the distribution, which users have; 5.006 in Debian 12."""
    return shutil.which("verilator", path="/usr/bin")


def said_by_verilator(
    files: Sequence[Path], *options: str, program: str | None = None
) -> list[str]:
    """Messages of the pinned Verilator, or of another program."""
    environment = {key: os.environ[key] for key in os.environ if key != "VERILATOR_ROOT"}
    if program is None:
        program = str(verilator_bin() / "verilator_bin")
        environment["VERILATOR_ROOT"] = str(verilator_bin().parent)
    run = subprocess.run(
        [program, "--lint-only", *options, *map(str, files)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    found = [line for line in run.stderr.splitlines() if line.startswith("%")]
    # The last line counts those before it.
    messages = [line for line in found if "Exiting due to" not in line] or found
    assert messages or not run.returncode, f"{program} failed: {run.stderr}"
    return [re.sub(r"\S*/", "", line.removeprefix("%"), count=1) for line in messages]


def _by_themselves(files: Sequence[Path], folder: Path) -> list[Path]:
    """Copies of modules in which those inside are nothing but their ports.

    Verilator looks at every instance of a module anew.
    """
    copies, ports = [], [_EMPTY]
    for path in files:
        text = path.read_text()
        # One with parameters is small: it stands in the place of its instances itself.
        if not _PARAMETRIC.search(text):
            head = _HEAD.search(text)
            assert head is not None, f"{path.name} holds no module"
            declared = "\n".join(_PORT.findall(text))
            ports.append(f"module {head[1]}__ports{head[2]}\n{declared}\nendmodule\n")
        copies.append(folder / path.name)
        copies[-1].write_text(_CELL.sub(r"  \1__ports \2(", text))
    (folder / "ports.v").write_text("".join(ports))
    return [*copies, folder / "ports.v"]


def _pinned(files: Sequence[Path], folder: Path) -> list[str]:
    return said_by_verilator(_by_themselves(files, folder), "-Wall", "-Wno-MULTITOP")


def _distributed(files: Sequence[Path], folder: Path) -> list[str]:
    copies = _by_themselves(files, folder)
    program = distributed_verilator()
    return said_by_verilator(copies, "-Wall", "-Wno-MULTITOP", program=program)


def _icarus(files: Sequence[Path], folder: Path) -> list[str]:
    copies = _by_themselves(files, folder)
    run = subprocess.run(
        ["iverilog", "-g2005", "-Wall", "-t", "null", *copies],
        capture_output=True,
        text=True,
        check=False,
    )
    return [line.replace(f"{folder}/", "") for line in run.stderr.splitlines()]


def _slang(files: Sequence[Path], folder: Path) -> list[str]:
    import pyslang
    from pyslang import ast, syntax

    manager = pyslang.SourceManager()
    design = ast.Compilation()
    for path in files:
        design.addSyntaxTree(syntax.SyntaxTree.fromFile(str(path), manager))
    engine = pyslang.DiagnosticEngine(manager)
    assert not engine.setWarningOptions(["everything"])
    messages = []
    for found in design.getAllDiagnostics():
        place = f"{manager.getFileName(found.location)}:{manager.getLineNumber(found.location)}"
        said = f"{engine.formatMessage(found)} [-W{engine.getOptionName(found.code)}]"
        if str(engine.getSeverity(found.code, found.location)).endswith("Ignored"):
            continue
        messages.append(f"{Path(place).name}: {said}")
    return [message for message in messages if not _SIGNED_PRODUCT.match(message)]


LINTERS: Mapping[str, Callable[[Sequence[Path], Path], list[str]]] = MappingProxyType(
    {"verilator": _pinned, DISTRIBUTED: _distributed, "icarus": _icarus, "slang": _slang}
)
"""Messages about files, each a module and all that is inside it there, by linter.

The folder is one to write to.
"""
