"""What files seem to hold."""

from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

from mxsafe.machine.assembler import Assembler
from mxsafe.machine.compiled import compile_graph
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.contents import COMPILED, contents
from mxsafe.machine.graph import Graph


def _archive(*names: str) -> bytes:
    data = BytesIO()
    with ZipFile(data, "w") as file:
        for name in names:
            file.writestr(name, "1")
    return data.getvalue()


def _array() -> bytes:
    data = BytesIO()
    np.save(data, np.zeros(3))
    return data.getvalue()


@pytest.mark.parametrize(
    ("data", "seems"),
    [
        (b"", "an empty file"),
        (_array(), "an array of NumPy"),
        (b'{"a": [1, 2]}\n', "JSON"),
        (b'{"a": [1, 2]', "text"),
        (b"[" * 100_000, "text"),
        ("20 \N{DEGREE SIGN}C\r\n".encode(), "text"),
        (b"20 \xb0C", ""),
        (b"with a NUL\0", ""),
        (_archive("m/archive_format")[:-9], "a damaged archive"),
        (
            _archive("m/models/model.json", "m/archive_format", "m/data.pkl"),
            "a model of torch.export.save, which mxsafe compile takes",
        ),
        (_archive("m/data.pkl", "m/version"), "a file of torch.save"),
        (_archive("a.npy"), "an archive"),
    ],
)
def test_kinds(data: bytes, seems: str) -> None:
    assert contents(data) == seems


def test_programs(tmp_path: Path) -> None:
    """A compiled model is known by what it holds; descriptors are of no known kind."""
    graph = Graph()
    graph.output("y", graph.scale(graph.input("x", (2, 3)), 2.0))
    compile_graph(graph).save(tmp_path / "model.mxprog")
    assert contents((tmp_path / "model.mxprog").read_bytes()) == COMPILED
    make = Assembler(MachineConfiguration())
    assert not contents(make.assemble([make.load(buffer="vector", count_0=2)]))
