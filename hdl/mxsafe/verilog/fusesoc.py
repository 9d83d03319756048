"""FuseSoC core of ``gen/``, written anew by ``python -m mxsafe.verilog.fusesoc``.

It is run in the root of the repository.
"""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mxsafe.atomic import write_atomically
from mxsafe.validation import checked
from mxsafe.verilog.constraints import SUFFIX
from mxsafe.verilog.manifest import read_manifest

CORE = "mxsafe.core"
_BEGIN = "  # Written by `make verilog` from gen/manifest.json.\n"
_END = "  # End of what `make verilog` writes.\n"
_WRITTEN = re.compile(f"{_BEGIN}(.*?){_END}", re.DOTALL)


@checked
def with_files(core: str, manifest: Mapping[str, Any], folder: str = "gen") -> str:
    """A core's description with the files of a manifest.

    There is a set of files called ``rtl`` with all of them, and for each top one of its name, with
    its constraints, and a target.

    Parameters
    ----------
    core : str
        The description, with two pairs of comments: sets of files stand between the first two,
        targets between the others.
    manifest : Mapping
    folder : str
        Where the files are, seen from the core.

    Raises
    ------
    ValueError
        If it lacks a comment.
    """
    if len(_WRITTEN.findall(core)) != 2:
        raise ValueError(
            f"core must hold the lines {_BEGIN.strip()!r} and {_END.strip()!r} twice, around sets "
            "of files and around targets"
        )
    modules = manifest.get("modules")
    if not isinstance(modules, Mapping):
        raise ValueError("manifest must have modules by name")
    sets = {"rtl": sorted(entry["file"] for entry in modules.values())}
    sets |= {top: [*modules[top]["sources"], f"{top}{SUFFIX}"] for top in manifest["tops"]}
    targets = [
        f"  {top}:\n    description: {json.dumps(modules[top]['summary'])}\n"
        f"    filesets: [{top}]\n    toplevel: {top}\n"
        for top in manifest["tops"]
    ]
    parts = iter(["".join(_set(*each, folder) for each in sets.items()), "".join(targets)])
    return _WRITTEN.sub(lambda found: f"{_BEGIN}{next(parts)}{_END}", core)


def _set(name: str, files: Iterable[str], folder: str) -> str:
    listed = "".join(
        f"      - {folder}/{file}{': {file_type: SDC}' if file.endswith(SUFFIX) else ''}\n"
        for file in files
    )
    return f"  {name}:\n    file_type: verilogSource\n    files:\n{listed}"


if __name__ == "__main__":
    path = Path(CORE)
    text = with_files(path.read_text(), read_manifest(Path("gen")))
    write_atomically(path, text)
