"""Files of modules with parameters, as files of modules without."""

from collections.abc import Sequence
from pathlib import Path

from mxsafe.atomic import write_atomically
from mxsafe.verilog.parameters import without_parameters


def files_without_parameters(sources: Sequence[Path], folder: Path) -> list[Path]:
    """Files with the same modules, those that are others now in a folder.

    Parameters
    ----------
    sources : sequence of Path
        Verilog, a module each that has the name of its file.
    folder : Path
    """
    files = {source.stem: source for source in sources}
    texts = {name: file.read_text() for name, file in files.items()}
    found = []
    for name, text in without_parameters(texts).items():
        is_same = texts.get(name) == text
        found.append(files[name] if is_same else _written(folder / f"{name}.v", text))
    return found


def _written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        write_atomically(path, lambda file: file.write(text.encode()))
    return path
