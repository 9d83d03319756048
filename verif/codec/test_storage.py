"""Files: there and back, what other programs see in them, and files that are not right."""

import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.numpy

import mxsafe as mx
from mxsafe import model
from mxsafe.formats import BLOCK_FORMATS, FloatFields, FloatFormat, MXFormat
from verif.support.quantized import assert_same
from verif.support.tests import raises

suffixes = pytest.mark.parametrize("suffix", [".npz", ".safetensors"])


def tensors() -> dict[str, mx.QuantizedTensor]:
    """One of every format, in blocks of every kind, with NaN blocks."""
    x = np.random.default_rng(1).standard_normal((3, 9, 13)).astype(np.float32)
    x[0, 0, 0] = np.nan
    found = {name: mx.quantize(x, name, block=4) for name in BLOCK_FORMATS}
    for scale in (np.finfo(np.float32).max, np.finfo(np.float32).smallest_subnormal):
        found[f"scale {scale}"] = mx.quantize(x, "nvfp4", tensor_scale=scale)
    found["columns"] = mx.quantize(x, block=5, axis=0)
    found["tiles"] = mx.quantize(x, "mxfp6_e3m2", block=(8, 8))
    found["transposed"] = mx.quantize(x[0], "mxfp4_e2m1", block=4).T
    return found


@suffixes
def test_there_and_back(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"all{suffix}"
    mx.save(path, tensors())
    loaded = mx.load_all(path)
    assert list(loaded) == list(tensors())
    for name, q in tensors().items():
        assert_same(loaded[name], q)
        assert_same(mx.load(str(path), name), q)
    mx.save(tmp_path / f"one{suffix}", tensors()["mxsf"])
    assert_same(mx.load(tmp_path / f"one{suffix}"), tensors()["mxsf"])
    first = path.read_bytes()
    mx.save(path, tensors())
    assert path.read_bytes() == first


def test_what_other_programs_find(tmp_path: Path) -> None:
    q = mx.quantize(np.arange(8.0), "mxfp4_e2m1", block=4)
    about = {"w": {"format": "mxfp4_e2m1", "shape": [8], "block": 4, "axis": -1}}
    mx.save(tmp_path / "w.npz", {"w": q})
    with np.load(tmp_path / "w.npz") as archive:
        assert sorted(archive) == ["mxsafe", "w.codes", "w.scales"]
        assert json.loads(str(archive["mxsafe"])) == about
        assert archive["w.codes"].tolist() == mx.packing.pack_codes(q.codes, 4).tolist()
    mx.save(tmp_path / "w.safetensors", {"w": q})
    with safetensors.safe_open(tmp_path / "w.safetensors", framework="numpy") as file:
        assert json.loads(file.metadata()["mxsafe"]) == about
        assert file.get_tensor("w.scales").tolist() == q.scales.tolist()
        assert file.get_tensor("w.codes").shape == (4,)


@suffixes
def test_damaged_files(suffix: str, tmp_path: Path) -> None:
    """Cut anywhere, or with any byte changed, a file is refused or read, never a surprise."""
    path = tmp_path / f"x{suffix}"
    mx.save(path, tensors()["mxfp6_e2m3"])
    whole = path.read_bytes()
    refused = 0
    for cut in range(0, len(whole), max(len(whole) // 40, 1)):
        path.write_bytes(whole[:cut])
        with pytest.raises(ValueError, match=rf"^{path} does not hold quantised tensors: "):
            mx.load(path)
    for position in range(0, len(whole), max(len(whole) // 200, 1)):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 0x55]) + whole[position + 1 :])
        try:
            mx.load(path)
        except ValueError as error:
            assert str(path) in str(error)
            refused += 1
    assert refused > 20


def npz(path: Path, about: object, **arrays: np.ndarray) -> Path:
    np.savez(path, mxsafe=np.array(json.dumps(about)), **arrays)
    return path


def test_files_with_other_contents(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    about = {"w": {"format": "mxsf", "shape": [2, 4], "block": 4, "axis": -1}}
    codes, scales = np.zeros((2, 4), np.uint8), np.zeros((2, 1), np.uint8)
    entries = {"w.codes": codes, "w.scales": scales}
    assert mx.load(npz(path, about, **entries)).shape == (2, 4)
    cases = [
        (about, {"w.codes": codes}, "it has no 'w.scales'"),
        ({"w": {**about["w"], "format": "fp9"}}, entries, "format must be one of mxsf, "),
        ({"w": {**about["w"], "shape": [4, 4]}}, entries, "cannot reshape array"),
        ({"w": {**about["w"], "block": 3}}, entries, r"scales must have shape \(2, 2\)"),
        ({"w": {**about["w"], "axis": [0, 1]}}, entries, "axis must be an integer for 1-D"),
        (["w"], entries, "'list' object has no attribute 'items'"),
        (about, {**entries, "w.codes": codes + 0.5}, "packed must have an integer dtype"),
    ]
    for meta, arrays, message in cases:
        with pytest.raises(
            ValueError, match=rf"^{path} does not hold quantised tensors: {message}"
        ):
            mx.load(npz(path, meta, **arrays))
    np.savez(path, other=codes)
    with pytest.raises(ValueError, match=r"it has no 'mxsafe'$"):
        mx.load(path)
    foreign = tmp_path / "x.safetensors"
    safetensors.numpy.save_file({"other": codes}, foreign)
    with pytest.raises(ValueError, match=r"it has no 'mxsafe'$"):
        mx.load(foreign)


def test_bad_input_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    q = tensors()["mxsf"]
    own = MXFormat(
        name="own",
        element=FloatFormat(
            name="own", fields=FloatFields(exponent_bits=2, mantissa_bits=2, bias=1)
        ),
    )
    with pytest.raises(ValueError, match=r"^path must end in .npz or .safetensors, not 'q.bin'$"):
        mx.save(tmp_path / "q.bin", q)
    with pytest.raises(TypeError, match=r"^tensors must be QuantizedTensors, not int for a$"):
        mx.save(tmp_path / "q.npz", {"a": 3})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match=r"^format must be in the catalogue to be saved, not own$"):
        mx.save(tmp_path / "q.npz", mx.quantize(np.ones(4), own))
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(
        ImportError, match=r"^.safetensors files need the extra files, pip install '.\[files\]': "
    ):
        mx.save(tmp_path / "q.safetensors", q)
    with pytest.raises(FileNotFoundError):
        mx.load(tmp_path / "q.safetensors")
    assert not list(tmp_path.iterdir())


def test_one_of_several_is_asked_for_by_name(tmp_path: Path) -> None:
    q = tensors()["mxsf"]
    mx.save(tmp_path / "q.npz", {"a": q, "b": q})
    for name in (None, "c"):
        with pytest.raises(ValueError, match=rf"^name must be one of a, b in .*, not {name!r}$"):
            mx.load(tmp_path / "q.npz", name)


def test_a_mapping_or_a_tensor_is_saved_and_nothing_else(tmp_path: Path) -> None:
    for thing in (np.ones(3), None):
        with pytest.raises(TypeError, match=r"^tensors must be a QuantizedTensor or a mapping of"):
            mx.save(tmp_path / "q.npz", thing)
    assert not list(tmp_path.iterdir())
    mx.save(tmp_path / "none.npz", {})
    assert mx.load_all(tmp_path / "none.npz") == {}
    with pytest.raises(ValueError, match=r"none.npz holds no tensor$"):
        mx.load(tmp_path / "none.npz")
    name = tmp_path / ("x" * 251 + ".npz")  # as long as a file's name can be
    mx.save(name, {})
    assert name.exists()


def test_headers_that_lie(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    about = {"w": {"format": "mxsf", "shape": [-1, 4], "block": 4, "axis": -1}}
    entries = {"w.codes": np.zeros((2, 4), np.uint8), "w.scales": np.zeros((2, 1), np.uint8)}
    with pytest.raises(ValueError, match=r"shape must be a list of lengths, not \[-1, 4\]$"):
        mx.load(npz(path, about, **entries))
    header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (%d,), }"
    for size in (1 << 50, 1 << 70):
        text = (header % size).ljust(117) + b"\n"
        array = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("w.codes.npy", array)
        with pytest.raises(ValueError, match=rf"^{path} does not hold quantised tensors: "):
            mx.load(path)


NAMES_REFUSED = [
    ("", "''"),
    ("a\0b", "'a\\x00b'"),
    ("a\0", "'a\\x00'"),
    (1, "1"),
    (None, "None"),
    (b"a", "b'a'"),
    (("a", "b"), "('a', 'b')"),
    ("\ud800", "'\\ud800'"),
    ("x" * 1025, "one of 1,025 bytes"),
    ("é" * 513, "one of 1,026 bytes"),
    ("x" * 65530, "one of 65,530 bytes"),
]


@suffixes
@pytest.mark.parametrize(("name", "shown"), NAMES_REFUSED, ids=[case[1] for case in NAMES_REFUSED])
def test_names_that_would_lose_a_tensor(suffix: str, name: Any, shown: str, tmp_path: Path) -> None:
    q = tensors()["mxsf"]
    with raises(
        ValueError, f"tensors must have names of 1 to 1,024 bytes in UTF-8 without NUL, not {shown}"
    ):
        mx.save(tmp_path / f"q{suffix}", {"first": q, name: q})
    assert not list(tmp_path.iterdir())


@suffixes
def test_names_that_are_kept(suffix: str, tmp_path: Path) -> None:
    """Each tensor comes back under its own name, whatever else the name is made of."""
    names = ["w", "W", ".", "/", " ", " w", "w ", "a/b", "a\\b", "a\nb", "../up", "é", "e\u0301"]
    names += ["重み", "w.codes", "w.npy", "mxsafe", "file", "__metadata__", "x" * 1024, "é" * 512]
    x = np.arange(1, len(names) + 1, dtype=np.float32)
    mx.save(tmp_path / f"q{suffix}", {n: mx.quantize(x[i:], block=4) for i, n in enumerate(names)})
    loaded = mx.load_all(tmp_path / f"q{suffix}")
    assert list(loaded) == names
    for i, name in enumerate(names):
        assert_same(loaded[name], mx.quantize(x[i:], block=4))


@suffixes
@pytest.mark.parametrize("shape", [(0, 8), (8, 0), (1,), (2, 0, 3)])
def test_empty_tensors(suffix: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    q = mx.quantize(np.zeros(shape), "mxfp6_e2m3", block=4)
    mx.save(tmp_path / f"q{suffix}", q)
    assert_same(mx.load(tmp_path / f"q{suffix}"), q)


class Foreign:
    """A tensor of another library, which says what it is in NumPy's arrays."""

    def __init__(self, q: mx.QuantizedTensor) -> None:
        self.q = q

    def __quantized_tensor__(self) -> mx.QuantizedTensor:
        return self.q


@suffixes
def test_tensors_of_other_classes_are_saved(suffix: str, tmp_path: Path) -> None:
    q = tensors()["mxsf"]
    for given in (Foreign(q), {"tensor": Foreign(q)}):
        mx.save(tmp_path / f"q{suffix}", given)
        loaded = mx.load(tmp_path / f"q{suffix}")
        assert_same(loaded, q)


def test_whatever_takes_a_tensor_takes_those_of_other_classes() -> None:
    q = mx.quantize(np.random.default_rng(5).standard_normal((64, 64)), "mxfp8_e4m3")
    w = q.T
    other = Foreign(q)
    np.testing.assert_array_equal(mx.dequantize(other), mx.dequantize(q))
    np.testing.assert_array_equal(mx.packing.to_bytes(other), mx.packing.to_bytes(q))
    np.testing.assert_array_equal(mx.to_ml_dtypes(other)[1], mx.to_ml_dtypes(q)[1])
    np.testing.assert_array_equal(mx.matmul(other, Foreign(w)), mx.matmul(q, w))
    with pytest.raises(TypeError, match=r"^a must be a QuantizedTensor, not Foreign$"):
        model.Schedule(other, w)


def test_classes_of_the_same_name_are_told_apart() -> None:
    same = type("QuantizedTensor", (), {"__module__": "elsewhere"})()
    for call in (mx.dequantize, mx.packing.to_bytes, mx.to_ml_dtypes):
        with raises(TypeError, "q must be a QuantizedTensor, not elsewhere.QuantizedTensor"):
            call(same)
    with pytest.raises(TypeError, match=r"^a must be a QuantizedTensor, not elsewhere\.Quant"):
        mx.matmul(same, same)
