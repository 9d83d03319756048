"""Command lines with wrong words for any argument, and what came of them.

Commands and what they take are read from their parsers. What would take minutes once a command line
is accepted, a tool or a simulator, is not run: that it is asked for counts as a result.
"""

import argparse
import contextlib
import io
import pkgutil
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import mxsafe as mx
import mxsafe.cli
from mxsafe.cli.command import Command
from mxsafe.machine.assembler import Assembler
from mxsafe.machine.compiled import compile_graph
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.graph import Graph
from verif.bad_input.trial import Answer, bounded
from verif.cli.command import run

WORDS = (
    *("", " ", "-", "--", "-1", "0", "1", "3", "65", "1.5", "-0.0", "1e400", "nan", "inf", "0x"),
    *("1x", "0x0x0x0", "1x1", "1x2x3x4", "64x64x64x64", str(2**31), str(2**63), str(10**30)),
    *("x", "mxsf", "nvfp4", "*", "%s", "{}", "\u00e9\u2260", "\udcff", "a" * 300, "a\tb", "\u0663"),
    *(".", "..", "/", "/dev/null", "/dev/full", "no/such/folder/file", "folder", "folder/file"),
    *("x.npy", "q.npz", "odd.npy", "odd.npz", "odd.safetensors", "new.npy", "new.npz", "empty"),
    *("cut.npy", "cut.npz", "text.json", "link", "locked"),
)
"""Replacements of a valid word: numbers, names and files of all kinds."""
_RIGHT = {
    "IN.npy": "x.npy",
    "X.npy": "x.npy",
    "OUT.npz": "new.npz",
    "IN.npz": "q.npz",
    "OUT.npy": "new.npy",
    "PROGRAM": "program.bin",
    "MEMORY": "memory.bin",
    "CODE": "0x5f",
    "NUMBER": "0.15625",
    "UNIT": "decoder",
    "MODEL": "model.pt2",
    "MODEL.mxprog": "new.mxprog",
    "COMPILED.mxprog": "model.mxprog",
    "FOLDER": "new",
}
"""By what the help calls an argument: a word that is right."""
_NEEDED = ("--profile",)
"""Options that a command cannot do without, though its parser can."""
_NOT_RUN = "it would be run now"
_HEAVY = (
    "mxsafe.verilog.generate.generate",
    "mxsafe.synthesis.run._designs",
    "mxsafe.synthesis.bitstream.make_bitstream",
    "mxsafe.host.simulated.Simulated",
)


@cache
def commands() -> Mapping[str, Command]:
    """Commands by name, as the modules of the command line have them."""
    found = {}
    for info in pkgutil.iter_modules(mxsafe.cli.__path__):
        module = import_module(f"mxsafe.cli.{info.name}")
        if hasattr(module, "COMMAND"):
            found[info.name] = module.COMMAND
    return found


@cache
def arguments(command: str) -> Sequence[argparse.Action]:
    """Return the arguments of a command that take a word."""
    parser = argparse.ArgumentParser(add_help=False)
    commands()[command].add_arguments(parser)
    return [action for action in parser._actions if action.nargs != 0]


def words_for(action: argparse.Action) -> list[str]:
    """Wrong words for an argument, and what it chooses from."""
    return [*WORDS, *map(str, action.choices or ())]


def line(command: str, wrong: Sequence[tuple[argparse.Action, str]]) -> list[str]:
    """A command line with words for some arguments, and right ones where others are needed."""
    words = [command]
    given = {id(action): word for action, word in wrong if not action.option_strings}
    for action in arguments(command):
        if action.option_strings:
            is_needed = action.required or action.option_strings[0] in _NEEDED
            if is_needed and all(action is not other for other, _ in wrong):
                right = next(iter(action.choices or ()), None) or _RIGHT[str(action.metavar)]
                words.append(f"{action.option_strings[0]}={right}")
            continue
        word = given.get(id(action), _RIGHT[str(action.metavar)])
        # Behind a space argparse takes for a word what looks like an option.
        words.append(f" {word}" if re.match("-.", word) else word)
    words += [
        f"{action.option_strings[0]}={word}" for action, word in wrong if action.option_strings
    ]
    return words


@cache
def _compiled() -> bytes:
    """File of a compiled model."""
    graph = Graph()
    graph.output("y", graph.scale(graph.input("x", (2, 3)), 2.0))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.mxprog"
        compile_graph(graph).save(path)
        return path.read_bytes()


def _fill(folder: Path) -> None:
    """Files that command lines name, whole ones and others."""
    x = np.linspace(-2, 2, 256, dtype=np.float32).reshape(4, 64)
    np.save(folder / "x.npy", x)
    mx.save(folder / "q.npz", mx.quantize(x))
    np.save(folder / "odd.npy", np.array(["a", "b"]))
    np.savez(folder / "odd.npz", a=x)
    make = Assembler(MachineConfiguration())
    (folder / "program.bin").write_bytes(make.assemble([make.vector(to_vector=1)]))
    (folder / "memory.bin").write_bytes(bytes(64))
    (folder / "empty").write_bytes(b"")
    (folder / "model.pt2").write_bytes(b"no model")
    (folder / "model.mxprog").write_bytes(_compiled())
    (folder / "odd.safetensors").write_bytes(b"\xff" * 40)
    for name in ("x.npy", "q.npz"):
        (folder / f"cut{Path(name).suffix}").write_bytes((folder / name).read_bytes()[:100])
    (folder / "text.json").write_text('{"results": 1}')
    (folder / "link").symlink_to("nowhere/at/all")
    (folder / "folder").mkdir()
    (folder / "locked").mkdir(mode=0o500)


def _content(folder: Path) -> dict[str, bytes | None]:
    """Everything in a folder; None of what is no file."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def _not_run(*words: Any, **more: Any) -> None:
    raise RuntimeError(_NOT_RUN)


@contextmanager
def unharmed(folder: Path) -> Iterator[Callable[[], list[str]]]:
    """A folder with files to work in; what is yielded names those that have changed since then.

    Heavy work is not done in it.
    """
    _fill(folder)
    before = _content(folder)

    def changed() -> list[str]:
        now = _content(folder)
        return sorted(name for name in {*before, *now} if before.get(name, 0) != now.get(name, 0))

    with contextlib.ExitStack() as stack:
        for name in _HEAVY:
            stack.enter_context(mock.patch(name, _not_run))
        stack.enter_context(contextlib.chdir(folder))
        yield changed


def put(words: Sequence[str], changed: Callable[[], list[str]]) -> Answer:
    """Run a command line in the folder of `unharmed` and return its answer.

    A fault is anything but a result, and one line that says what is wrong, with nothing written.
    """
    output, errors = io.StringIO(), io.StringIO()
    try:
        with (
            bounded(),
            warnings.catch_warnings(),
            contextlib.redirect_stdout(output),
            contextlib.redirect_stderr(errors),
        ):
            warnings.simplefilter("error")
            code = run(*words)
    except Exception as error:
        return Answer("fault", f"{type(error).__name__}: {error}")
    left = changed()
    if code == 0:
        odd = [name for name in left if Path(name).name.startswith(".")]
        return Answer("fault", f"it left {odd}") if odd else Answer("result")
    # argparse shows the usage first.
    said = re.sub(r"\Ausage: .*\n(?: .*\n)*", "", errors.getvalue())
    if code not in (1, 2) or not re.fullmatch(r"mxsafe(?: \w+: error)?: .+\n", said):
        return Answer("fault", f"code {code}: {said}")
    if left:
        return Answer("fault", f"code {code} and {left} written: {said}")
    if _NOT_RUN in said:
        return Answer("result")
    return Answer("ValueError" if code == 2 else "documented", said)
