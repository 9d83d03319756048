"""Compiled networks: calls, files, what is refused."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mxsafe as mx
from mxsafe.machine import compiled
from mxsafe.machine.compiled import Compiled, compile_graph
from mxsafe.machine.configuration import SMALL_MACHINE, MachineConfiguration, resized
from mxsafe.machine.graph import Graph

SMALL_BF16 = resized(SMALL_MACHINE, arithmetic="bf16")
RNG = np.random.default_rng(0)
WEIGHT = RNG.standard_normal((40, 8)).astype("f4")
TABLE = RNG.standard_normal((50, 40)).astype("f4")


def network(machine: MachineConfiguration = SMALL_MACHINE) -> Compiled:
    """A product of looked-up rows, and the rows themselves with others added."""
    g = Graph()
    ids = g.input("ids", (6,), "int64")
    rows = g.host("rows", [g.constant(TABLE), ids], (6, 40))
    g.output("product", g.matmul(rows, WEIGHT))
    g.output("sum", g.add(rows, g.input("x", (40,))))
    return compile_graph(g, machine)


IDS = np.array([3, 1, 4, 1, 5, 9])
X = RNG.standard_normal(40).astype("f4")


def test_call() -> None:
    product, total = network()(IDS, X)
    a, w = mx.quantize(TABLE[IDS]), mx.quantize(WEIGHT, axis=0)
    assert np.array_equal(product, mx.matmul(a, w, arithmetic="exact"))
    assert np.array_equal(total, TABLE[IDS] + X)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((IDS,), "inputs must be 2 (ids, x), not 1"),
        ((IDS, X[:3]), "x must have shape (40,), not (3,)"),
        ((IDS, np.float64(X)), "x must be float32, not float64"),
        ((IDS[:2], X), "ids must have shape (6,), not (2,)"),
        ((np.float32(IDS), X), "ids must be integers, not float32"),
        ((IDS + 41, X), "ids must be from 0 to 49, not 50"),
        ((IDS - 2, X), "ids must be from 0 to 49, not -1"),
    ],
)
def test_wrong_inputs(given: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        network()(*given)
    assert str(caught.value) == message


@pytest.mark.parametrize("machine", [SMALL_MACHINE, SMALL_BF16], ids=["exact", "bf16"])
def test_file(tmp_path: Path, machine: MachineConfiguration) -> None:
    path = tmp_path / "network.mxprog"
    made = network(machine)
    assert made.identity["machine"]["arithmetic"] == machine.arithmetic
    made.save(path)
    read = Compiled.load(path, machine)
    assert read.report() == made.report()
    assert read.parts[0].program == made.parts[0].program
    for one, other in zip(read(IDS, X), made(IDS, X), strict=True):
        assert np.array_equal(one, other)


def _head(change: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
    def changed(arrays: dict[str, Any]) -> None:
        head = json.loads(arrays["head"].tobytes())
        change(head)
        arrays["head"] = np.frombuffer(json.dumps(head).encode(), np.uint8)

    return changed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda arrays: arrays["image_of_0"].__setitem__(0, 77), "must have the hash"),
        (lambda arrays: arrays["program_of_0"].__setitem__(0, 77), "must have the hash"),
        (lambda arrays: arrays["result_0_of_0"].__setitem__(0, 1), "must have the hash"),
        (lambda arrays: arrays.pop("sources_of_0"), "must have the hash"),
        (lambda arrays: arrays.pop("head"), "must be a file of a compiled network"),
        (_head(lambda head: head.pop("hash")), "must be a file of a compiled network"),
        (_head(lambda head: head.update(text="")), "must have the hash"),
    ],
)
def test_changed_files(
    change: Callable[[dict[str, Any]], object], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "network.mxprog"
    network().save(path)
    with np.load(path) as file:
        arrays = {name: file[name].copy() for name in file.files}
    change(arrays)
    data = BytesIO()
    np.savez(data, **arrays)
    path.write_bytes(data.getvalue())
    with pytest.raises(ValueError, match=message):
        Compiled.load(path)


def _places(part: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where in a head something stands, of long lists at the first two items."""
    if place:
        yield place
    if isinstance(part, dict):
        inner = list(part.items())
    else:
        inner = list(enumerate(part[:2])) if isinstance(part, list) else []
    for key, one in inner:
        yield from _places(one, (*place, key))


def _rewritten(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the head of a file, and let its hash be right."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    head = json.loads(arrays.pop("head").tobytes())
    del head["hash"]
    change(head)
    head["hash"] = compiled._hash(head, arrays)
    arrays["head"] = np.frombuffer(json.dumps(head).encode(), np.uint8)
    np.savez(path.with_suffix(".npz"), **arrays)
    path.with_suffix(".npz").replace(path)


def _changed(place: tuple[Any, ...], wrong: Any) -> Callable[[dict[str, Any]], object]:
    def change(head: Any) -> None:
        for key in place[:-1]:
            head = head[key]
        if wrong == "gone":
            del head[place[-1]]
        else:
            head[place[-1]] = wrong

    return change


def test_heads_of_another_shape(tmp_path: Path) -> None:
    """Whatever stands at any place of a head, the answer is a ValueError about the file."""
    whole, path = tmp_path / "whole.mxprog", tmp_path / "network.mxprog"
    network().save(whole)
    with np.load(whole) as file:
        head = json.loads(file["head"].tobytes())
    del head["hash"]
    refused = 0
    for place in _places(head):
        for wrong in ("gone", None, {}, [[1]], -1, 1 << 40, 1.5):
            path.write_bytes(whole.read_bytes())
            _rewritten(path, _changed(place, wrong))
            try:
                Compiled.load(path)
            except ValueError as error:
                assert str(error).startswith(f"{path} ")
                refused += 1
            else:  # an item that may be missing, a number or a list of any length
                assert wrong in ("gone", -1, 1 << 40, 1.5) or wrong == {}
    assert refused > 500


@pytest.mark.parametrize(
    ("place", "wrong", "message"),
    [
        (
            ("descriptors",),
            "gone",
            "head must have the fields descriptors, file, machine, parts, values, outputs, kept, "
            "text, not ['file', 'kept', 'machine', 'outputs', 'parts', 'text', 'values']",
        ),
        (("file",), 1, f"must have version {compiled.FILE_VERSION} of file, not 1"),
        (("values", 0, "host"), 3, "head.values[0].host must be True or False, not 3"),
        (("values", 1, "inputs"), [1], "head.values[1].inputs must lie in 0..0, not 1"),
        (("machine", "rows"), "gone", "head.machine must have the fields "),
        (("parts", 0, "outputs"), [["y", 3]], "head.parts[0].outputs must be "),
        (("parts", 1), {}, "head.parts[1] must have the fields feeds, kept, codes, outputs, lab"),
    ],
)
def test_messages_about_heads(
    place: tuple[Any, ...], wrong: Any, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "network.mxprog"
    network().save(path)

    def change(head: Any) -> None:
        if place == ("parts", 1):
            head["parts"].append(wrong)
        else:
            _changed(place, wrong)(head)

    _rewritten(path, change)
    with pytest.raises(ValueError, match=f"^{re.escape(f'{path} {message}')}"):
        Compiled.load(path)


def test_missing_folders_are_named(tmp_path: Path) -> None:
    path = tmp_path / "none" / "network.mxprog"
    with pytest.raises(FileNotFoundError, match=f"{re.escape(repr(str(path)))}$") as caught:
        network().save(path)
    assert caught.value.filename == str(path)


@pytest.mark.parametrize(
    ("content", "seems"),
    [
        (b"", "an empty file"),
        (b"PK\x03\x04", "a damaged archive"),
        (b"\x93NUMPY", "an array of NumPy"),
        (b"nothing of that kind", "text"),
        (b"\x80\x04\x95\x00", "something else"),
    ],
)
def test_other_files(content: bytes, seems: str, tmp_path: Path) -> None:
    path = tmp_path / "network.mxprog"
    path.write_bytes(content)
    message = f"{path} must be a file of a compiled network, not {seems}"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Compiled.load(path)


def test_other_machines(tmp_path: Path) -> None:
    path = tmp_path / "network.mxprog"
    network().save(path)
    for machine, message in (
        (MachineConfiguration(), "whose rows is 16, not 8"),
        (replace(SMALL_MACHINE, w_beats=1024), "whose w_beats is 1024, not 512"),
        (SMALL_BF16, "whose arithmetic is 'bf16', not 'exact'"),
    ):
        with pytest.raises(ValueError, match=f"must be for this machine, {message}"):
            Compiled.load(path, machine)
    with pytest.raises(ValueError, match=r"path must end in \.mxprog, not network\.npz"):
        network().save(tmp_path / "network.npz")
    assert [p.name for p in tmp_path.iterdir()] == ["network.mxprog"]


def test_outputs_are_needed() -> None:
    g = Graph()
    with pytest.raises(ValueError, match="graph must have an output, not none"):
        compile_graph(g)
    g.output("x", g.input("x", (3,)))
    with pytest.raises(ValueError, match="graph must have something that the machine computes"):
        compile_graph(g)


def test_parts_of_outputs() -> None:
    """Parts outside every output are not computed; values of the host can be outputs."""
    g = Graph()
    x = g.input("x", (4, 20))
    parts = [g.scale(x, 2.0), g.function("relu", x)]
    g.output("y", g.gather([g.concatenate(parts)], np.arange(80).reshape(4, 20)))
    given = RNG.standard_normal((4, 20)).astype("f4")
    compiled = compile_graph(g)
    assert np.array_equal(compiled(given), given * 2)
    assert "relu" not in compiled.report()
    g.output("z", g.concatenate([parts[0], x]))
    g.output("x", x)
    _, z, same = compile_graph(g)(given)
    assert np.array_equal(z, np.concatenate([given * 2, given]))
    assert np.array_equal(same, given)


def between() -> Compiled:
    """Two programs, and the sine of all that the first one computes between them."""
    g = Graph()
    x = g.input("x", (4, 20))
    first = g.scale(x, 2.0)
    g.on_host = True
    middle = g.function("sin", g.add(g.transpose(first, (1, 0)), g.input("y", (20, 4))))
    g.on_host = False
    g.output("sum", g.add(g.transpose(middle, (1, 0)), first))
    g.output("rows", g.host("less", [middle, g.constant(np.float32(0))], (20, 4), "bool"))
    return compile_graph(g, SMALL_MACHINE)


def test_the_host_between_programs(tmp_path: Path) -> None:
    made = between()
    x, y = (RNG.standard_normal(size).astype("f4") for size in ((4, 20), (20, 4)))
    middle = np.sin(np.float64(2 * x.T + y)).astype("f4")
    made.save(tmp_path / "network.mxprog")
    for one in (made, Compiled.load(tmp_path / "network.mxprog")):
        assert len(one.parts) == 2
        total, below = one(x, y)
        assert np.array_equal(total, middle.T + 2 * x)
        assert below.dtype == bool
        assert np.array_equal(below, middle < 0)
        assert "by the host, in binary32: " in one.report()
    g = Graph()
    ids = g.input("x", (3,), "int64")
    with pytest.raises(ValueError, match=r"operands of arithmetic must be float32, not int64"):
        g.scale(ids, 2.0)


def test_report() -> None:
    first, *kernels, host, last = network().report().splitlines()
    assert host == "by the host, in binary32: host_2 (rows)"
    assert first.split()[:2] == ["descriptors", "cycles"]
    assert len(kernels) == 3
    total = sum(int(line.split()[0]) for line in kernels)
    assert last.startswith(f"{total} descriptors, ")
