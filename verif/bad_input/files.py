"""Damaged files, and what their readers say of them."""

import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import mxsafe as mx
from mxsafe import vectors
from mxsafe.cli.arguments import UserError, read_array
from mxsafe.codec import gguf
from mxsafe.machine.assembler import Assembler, assemble_text, disassemble
from mxsafe.machine.compiled import Compiled, compile_graph
from mxsafe.machine.configuration import SMALL_MACHINE
from mxsafe.machine.graph import Graph
from mxsafe.synthesis.earlier import read_synthesis
from mxsafe.verilog.manifest import read_manifest
from verif.bad_input.trial import Answer, bounded
from verif.support.manifest import GEN


@dataclass(frozen=True)
class Reader:
    """Reader of a kind of file.

    Attributes
    ----------
    file : str
        Name of such a file.
    content : callable
        A good one.
    read : callable
        Reads it.
    special : tuple of bytes
        Files that are wrong in a way that chance does not find.
    """

    file: str
    content: Callable[[Path], bytes]
    read: Callable[[Path], Any]
    special: tuple[bytes, ...] = ()


def _tensor(suffix: str) -> Callable[[Path], bytes]:
    def content(folder: Path) -> bytes:
        path = folder / f"whole{suffix}"
        mx.save(path, {"a": mx.quantize(np.ones((4, 64), np.float32), "mxfp6_e2m3")})
        return path.read_bytes()

    return content


def _array(folder: Path) -> bytes:
    file = io.BytesIO()
    np.save(file, np.ones((4, 8), np.float32))
    return file.getvalue()


def _header(text: str, body: bytes = b"") -> bytes:
    raw = text.encode()
    return b"\x93NUMPY\x01\x00" + len(raw).to_bytes(2, "little") + raw + body


def _archive(**members: bytes) -> bytes:
    import zipfile

    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return file.getvalue()


_LIES = (
    _header("[" * 9000),
    _header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", b"\0" * 8),
    _header("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,)}", b"\0" * 8),
    _header("{'descr': '|O', 'fortran_order': False, 'shape': (2,)}", b"\0" * 8),
    _header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': 3}", b"\0" * 8),
    _header("{'descr': '<f4', 'fortran_order': 'no', 'shape': (2,), 'more': 1}", b"\0" * 8),
)
_DEEP = b'{"modules": ' + b"[" * 100_000
_SHAPES = (b"[]", b"3", b"null", b'{"modules": 3}', b'{"modules": {"a": 1}}', _DEEP)
_TOPS = tuple(b'{"modules": {}, "tops": %b}' % tops for tops in (b"3", b"null", b'"a"', b"[[1]]"))
_COLUMNS = tuple(
    b'{"columns": %b}' % columns for columns in (b"3", b"[3]", b'[{"name": 3}]', b"[" * 100_000)
)
_VECTORS = vectors.decoder(count=4)


def _vectors(folder: Path) -> bytes:
    vectors.write(_VECTORS, folder)
    return (folder / vectors.DESCRIPTION).read_bytes()


_PROGRAM = Assembler(SMALL_MACHINE).assemble(
    [Assembler(SMALL_MACHINE).load(buffer="a_codes", address=0, count_0=1)]
)


def _gguf(folder: Path) -> bytes:
    path = folder / "whole.gguf"
    values = np.ones((4, 64), np.float32)
    tensors = {name: mx.quantize(values, name) for name in ("mxfp4_e2m1", "nvfp4")}
    gguf.write(path, {**tensors, "rest": values})
    return path.read_bytes()


def _compiled(folder: Path) -> bytes:
    graph = Graph()
    graph.output("y", graph.scale(graph.input("x", (2, 3)), 2.0))
    compile_graph(graph, SMALL_MACHINE).save(folder / "whole.mxprog")
    return (folder / "whole.mxprog").read_bytes()


READERS: Mapping[str, Reader] = {
    ".npz of tensors": Reader(
        "file.npz", _tensor(".npz"), mx.load_all, tuple(_archive(mxsafe=lie) for lie in _LIES)
    ),
    ".safetensors": Reader("file.safetensors", _tensor(".safetensors"), mx.load_all),
    ".gguf": Reader("file.gguf", _gguf, gguf.read),
    ".mxprog": Reader("file.mxprog", _compiled, Compiled.load),
    ".npy": Reader("file.npy", _array, read_array, _LIES),
    "manifest.json": Reader(
        "manifest.json",
        lambda folder: (GEN / "manifest.json").read_bytes()[:4000],
        lambda path: read_manifest(path.parent),
        (*_SHAPES, *_TOPS),
    ),
    vectors.DESCRIPTION: Reader(
        vectors.DESCRIPTION,
        _vectors,
        lambda path: vectors.write(_VECTORS, path.parent),
        (*_SHAPES, *_COLUMNS),
    ),
    "synthesis.json": Reader(
        "synthesis.json",
        lambda folder: json.dumps({"results": [], "tools": {}, "clock_ns": 2.0}).encode(),
        read_synthesis,
        _SHAPES,
    ),
    "program of the machine": Reader(
        "program.bin", lambda folder: _PROGRAM, lambda path: disassemble(path.read_bytes())
    ),
    "text of a program": Reader(
        "program.txt",
        lambda folder: disassemble(_PROGRAM, SMALL_MACHINE).encode(),
        lambda path: assemble_text(path.read_text(errors="replace")),
    ),
}


def damaged(content: bytes, random: np.random.Generator, count: int) -> Iterator[bytes]:
    """The file cut short, with bits turned, bytes put in or taken out, or all of it noise."""
    for _ in range(count):
        data = bytearray(content)
        place = int(random.integers(0, len(data)))
        kind = random.integers(0, 5)
        if kind == 0:
            data = data[:place]
        elif kind == 1:
            for at in random.integers(0, len(data), int(random.integers(1, 8))):
                data[at] ^= 1 << int(random.integers(0, 8))
        elif kind == 2:
            data[place:place] = random.bytes(int(random.integers(1, 16)))
        elif kind == 3:
            del data[place : place + int(random.integers(1, 64))]
        else:
            data[place:] = random.bytes(len(data) - place)
        yield bytes(data)


def read(reader: Reader, folder: Path, content: bytes) -> Answer:
    """Return a reader's answer: a result, or a ValueError, OSError or a line for users."""
    path = folder / reader.file
    path.write_bytes(content)
    try:
        with bounded():
            reader.read(path)
    except (ValueError, UserError) as error:
        if "\n" in str(error).strip():
            return Answer("fault", f"more than a line: {error}")
        return Answer("ValueError", str(error))
    except OSError as error:
        return Answer("documented", str(error))
    except Exception as error:
        return Answer("fault", f"{type(error).__name__}: {error}")
    return Answer("result")
