"""Record of the sources of ``gen/``, written by ``python -m mxsafe.verilog.sources``.

It is run in the root of the repository, after ``mxsafe verilog``. With the Amaranth and Yosys that
are pinned, a module of ``gen/`` is what its sources generate while the digests of all files of the
library that it was made from are those of then.
"""

import ast
import hashlib
import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import mxsafe
from mxsafe.atomic import write_atomically
from mxsafe.validation import checked

SOURCES = "sources.json"
_PACKAGE = Path(mxsafe.__file__).parent
GENERATOR = ("mxsafe.verilog.generate", "mxsafe.verilog.presets")
"""All units are made by these."""


def _file(module: str) -> Path | None:
    """File of a module of the library; None if there is none of this name."""
    path = _PACKAGE.joinpath(*module.split(".")[1:])
    found = (path / "__init__.py", path.with_suffix(".py"))
    return next((file for file in found if file.exists()), None)


@cache
def _imported(module: str) -> frozenset[str]:
    """Modules of the library that the text of one imports."""
    file = _file(module)
    if file is None or module == "mxsafe":  # that holds the version, and brings everything in
        return frozenset()
    names = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(n for n in names if n.split(".")[0] == "mxsafe" and _file(n) is not None)


@checked
def reached(modules: Iterable[str]) -> set[str]:
    """Files of the library, relative to it, that modules are made from: what they import.

    Parameters
    ----------
    modules : iterable of str
        Full names of Python modules of the library.
    """
    pending, found = list(modules), set()
    while pending:
        module = pending.pop()
        if module not in found:
            found.add(module)
            pending += _imported(module)
    files = {file for module in found if (file := _file(module)) is not None}
    folders = {file.parent for file in files}
    files |= {
        data for folder in folders for kind in ("json", "v") for data in folder.glob(f"*.{kind}")
    }
    return {file.relative_to(_PACKAGE).as_posix() for file in files}


@checked
def digests(files: Iterable[str]) -> dict[str, str]:
    """SHA-256 of files of the library by their names relative to it; of one that is gone, none."""
    found = {name: _PACKAGE / name for name in sorted(files)}
    return {
        name: hashlib.sha256(file.read_bytes()).hexdigest() if file.exists() else ""
        for name, file in found.items()
    }


@checked
def record() -> str:
    """Return the record: digests of all files that any unit and its Verilog are made from."""
    return json.dumps(digests(reached(GENERATOR)), indent=2) + "\n"


if __name__ == "__main__":
    text = record()
    write_atomically(Path("gen") / SOURCES, text)
