"""The list of files in the FuseSoC core: ``python -m mxsafe.verilog.fusesoc`` brings it up to date.

It is run in the root of the repository.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mxsafe.atomic import write_atomically
from mxsafe.validation import checked
from mxsafe.verilog.manifest import read_manifest

__all__ = ["CORE", "with_files"]

CORE = "mxsafe.core"
_BEGIN = "      # Written by `make verilog` from gen/manifest.json.\n"
_END = "      # End of what `make verilog` writes.\n"


@checked
def with_files(core: str, manifest: Mapping[str, Any], folder: str = "gen") -> str:
    """A core's description with the files of a manifest.

    Parameters
    ----------
    core : str
        The description, with the two comments between which the list stands.
    manifest : Mapping
    folder : str
        Where the files are, seen from the core.

    Raises
    ------
    ValueError
        If it lacks a comment.
    """
    head, begin, rest = core.partition(_BEGIN)
    _, end, tail = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"core must hold the lines {_BEGIN.strip()!r} and {_END.strip()!r}")
    if not isinstance(manifest.get("modules"), Mapping):
        raise ValueError("manifest must have modules by name")
    files = sorted(entry["file"] for entry in manifest["modules"].values())
    return "".join([head, begin, *(f"      - {folder}/{file}\n" for file in files), end, tail])


if __name__ == "__main__":
    path = Path(CORE)
    text = with_files(path.read_text(), read_manifest(Path("gen")))
    write_atomically(path, lambda file: file.write(text.encode()))
