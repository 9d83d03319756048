"""GGUF files: what is written is read again, here and by gguf-py; damaged ones are refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mxsafe as mx
from mxsafe.codec import gguf
from verif.support.tests import Tally, raises


def tensors() -> dict[str, Any]:
    rng = np.random.default_rng(5)
    return {
        "blk.0.ffn.weight": mx.quantize(rng.standard_normal((3, 6, 64)), "mxfp4_e2m1"),
        "blk.0.up.weight": mx.quantize(rng.standard_normal((2, 128)), "nvfp4"),
        "norm": rng.standard_normal(7).astype(np.float32),
        "half": rng.standard_normal((2, 5)).astype(np.float16),
    }


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    given = tensors()
    gguf.write(path, given, values={"general.architecture": "none", "none.layers": 3})
    again = gguf.read(path)
    for name in ("blk.0.ffn.weight", "blk.0.up.weight"):
        q, expected = again.pop(name), given.pop(name)
        np.testing.assert_array_equal(q.codes, expected.codes)
        np.testing.assert_array_equal(q.scales, expected.scales)
        assert q.tensor_scale == expected.tensor_scale
    assert again.keys() == given.keys()
    for name, array in again.items():
        assert array.dtype == given[name].dtype
        np.testing.assert_array_equal(array, given[name])
    assert list(gguf.read(path, ["norm"])) == ["norm"]


@pytest.mark.parametrize("alignment", [1, 8, 64, 4096])
def test_data_begin_where_the_alignment_says(alignment: int, tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    given = {"a" * 6: np.arange(24, dtype=np.float32), "b": np.arange(5, dtype=np.float32)}
    gguf.write(path, given, values={"general.alignment": alignment})
    again = gguf.read(path)
    assert path.stat().st_size % alignment == 0
    for name, array in given.items():
        np.testing.assert_array_equal(again[name], array)


def test_gguf_py_reads_and_writes_the_same(tmp_path: Path, tally: Tally) -> None:
    theirs = pytest.importorskip("gguf", reason="gguf is not installed")
    given = tensors()
    q = given["blk.0.ffn.weight"]
    gguf.write(tmp_path / "ours.gguf", given, values={"general.architecture": "none"})
    reader = theirs.GGUFReader(tmp_path / "ours.gguf")
    found = {tensor.name: tensor for tensor in reader.tensors}
    assert found.keys() == given.keys() | {"blk.0.up.scale"}
    tensor, up = found["blk.0.up.weight"], given["blk.0.up.weight"]
    assert tensor.tensor_type == theirs.GGMLQuantizationType.NVFP4
    values = theirs.quants.dequantize(tensor.data, tensor.tensor_type)
    np.testing.assert_array_equal(values * found["blk.0.up.scale"].data, mx.dequantize(up))
    tensor = found["blk.0.ffn.weight"]
    assert tensor.tensor_type == theirs.GGMLQuantizationType.MXFP4
    values = theirs.quants.dequantize(tensor.data, tensor.tensor_type)
    np.testing.assert_array_equal(values, mx.dequantize(q))
    np.testing.assert_array_equal(found["norm"].data, given["norm"])

    path = tmp_path / "theirs.gguf"
    kind = theirs.GGMLQuantizationType.MXFP4
    writer = theirs.GGUFWriter(path, "none")
    writer.add_array("none.words", ["a", "bc"])
    writer.add_array("none.rates", [1.0, 2.0])
    writer.add_tensor("w", theirs.quants.quantize(mx.dequantize(q), kind), raw_dtype=kind)
    writer.add_tensor("norm", given["norm"])
    other = theirs.GGMLQuantizationType.Q8_0
    writer.add_tensor("other", theirs.quants.quantize(mx.dequantize(q), other), raw_dtype=other)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    again = gguf.read(path, ["w", "norm"])
    np.testing.assert_array_equal(mx.dequantize(again["w"]), mx.dequantize(q))
    np.testing.assert_array_equal(again["norm"], given["norm"])
    with raises(
        ValueError,
        f"{path} does not hold tensors of MXFP4, NVFP4 or floats: other is of type Q8_0; give "
        "names to read others alone",
    ):
        gguf.read(path)
    tally("gguf-py", "files", values.size)


def test_damaged_and_foreign_files_are_refused(tmp_path: Path) -> None:
    path, bad = tmp_path / "a.gguf", tmp_path / "bad.gguf"
    given = tensors()
    gguf.write(path, given, values={"general.architecture": "none"})
    data = path.read_bytes()
    for cut in range(0, len(data) - 32, 13):
        bad.write_bytes(data[:cut])
        with pytest.raises(ValueError, match=r"bad\.gguf does not hold tensors"):
            gguf.read(bad)
    rng = np.random.default_rng(6)
    read = 0
    for _ in range(300):  # no other error, and no memory for what is not there
        array = np.frombuffer(data, np.uint8).copy()
        array[rng.integers(0, 256, 3)] = rng.integers(0, 256, 3)
        bad.write_bytes(array.tobytes())
        try:
            gguf.read(bad)
            read += 1
        except ValueError as error:
            assert "does not hold tensors" in str(error)
    assert read < 200
    bad.write_bytes(b"GGML" + data[4:])
    with raises(
        ValueError, f"{bad} does not hold tensors of MXFP4, NVFP4 or floats: it is no GGUF file"
    ):
        gguf.read(bad)
    with raises(
        ValueError, f"{path} does not hold tensors of MXFP4, NVFP4 or floats: it has no tensor 'x'"
    ):
        gguf.read(path, ["x"])


def test_scales_of_nvfp4(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    q = mx.quantize(np.ones((1, 64), np.float32), "nvfp4", tensor_scale=np.float32(0.5))
    gguf.write(path, {"a.weight": q})
    assert gguf.read(path, ["a.scale"])["a.scale"] == [0.5]
    data = path.read_bytes()
    where = data.index(b"a.scale")
    path.write_bytes(data[:where] + b"b.scale" + data[where + 7 :])
    assert gguf.read(path, ["a.weight"])["a.weight"].tensor_scale == 1.0  # there is none
    path.write_bytes(data[: where + 20] + bytes([40]) + data[where + 21 :])
    with pytest.raises(ValueError, match=r"a\.gguf does not hold tensors"):
        gguf.read(path)
    message = "tensors must not have 'a.scale', where the scale of a tensor of NVFP4 is"
    with raises(ValueError, message):
        gguf.write(path, {"a.weight": q, "a.scale": np.float32([1])})


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    x = np.ones((2, 64), np.float32)
    cases: list[tuple[Any, type[Exception], str]] = [
        (mx.quantize(x, "mxsf"), ValueError,
         "tensors must be of mxfp4_e2m1 or nvfp4 in GGUF, not mxsf for a"),
        (x.astype(np.float64), TypeError,
         "tensors must be QuantizedTensors, float32 or float16, not float64 for a"),
        (3, TypeError, "tensors must be QuantizedTensors, float32 or float16, not int for a"),
        (np.ones((), np.float32), ValueError, "tensors must have 1 to 4 axes, not 0 for a"),
    ]  # fmt: skip
    for one, error, message in cases:
        with raises(error, message):
            gguf.write(tmp_path / "x.gguf", {"a": one})
    with raises(ValueError, "values must be texts or integers of 32 bits, not -1 for a"):
        gguf.write(tmp_path / "x.gguf", {}, values={"a": -1})
    for alignment in (0, 24, -8, "32"):
        message = f"values must have a power of two for general.alignment, not {alignment!r}"
        with raises(ValueError, message):
            gguf.write(tmp_path / "x.gguf", {}, values={"general.alignment": alignment})
    x[0, 0] = np.nan
    for name in ("mxfp4_e2m1", "nvfp4"):
        with pytest.raises(ValueError, match=r"^layer\.weight: "):
            gguf.write(tmp_path / "x.gguf", {"layer.weight": mx.quantize(x, name)})
    assert not list(tmp_path.iterdir())
