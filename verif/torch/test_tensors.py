"""Quantised tensors of PyTorch: where they are, parts of them, products, what they show, files."""

import io
from typing import Any

import numpy as np
import pytest

import mxsafe as mx
from verif.support.tests import raises

torch = pytest.importorskip("torch", reason="torch is not installed")
mxt = pytest.importorskip("mxsafe.torch")


def drawn(*shape: int) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def test_what_a_tensor_says_of_itself() -> None:
    q = mxt.quantize(drawn(6, 4, 40).bfloat16(), "nvfp4", axis=1)
    assert (q.dtype, q.device, q.ndim, len(q)) == (torch.bfloat16, torch.device("cpu"), 3, 6)
    assert q.nbytes == q.codes.nbytes + q.scales.nbytes + 4 == 6 * 4 * 40 + 6 * 40 + 4
    assert repr(q) == (
        "QuantizedTensor(format='nvfp4', shape=(6, 4, 40), block=16, axis=-2, nbytes=1204, "
        "dtype=bfloat16)"
    )
    page = q._repr_html_()
    for cell in ("nvfp4", "6 x 4 x 40", "16", "-2", "bfloat16", "cpu", "1,204"):
        assert f"<td>{cell}</td>" in page


@pytest.mark.parametrize("name", ["mxsf", "nvfp4", "mxfp4_e2m1"])
def test_values_have_the_dtype_of_what_was_quantised(name: str) -> None:
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        x = drawn(3, 64).to(dtype)
        q = mxt.quantize(x, name)
        assert q.dequantize().dtype == dtype
        assert torch.equal(q.dequantize(), mxt.fake_quantize(x, name))
        assert torch.equal(q.dequantize(torch.float64), mxt.dequantize(q, dtype=torch.float64))


def test_to_moves_codes_and_renames_the_dtype() -> None:
    q = mxt.quantize(drawn(3, 64), "nvfp4")
    other = q.to(torch.float16)
    assert (other.dtype, other.codes.dtype, other.tensor_scale.dtype) == (
        torch.float16,
        torch.uint8,
        torch.float32,
    )
    assert torch.equal(other.codes, q.codes)
    far = q.to("meta", torch.float64)
    assert {part.device.type for part in (far.codes, far.scales, far.tensor_scale)} == {"meta"}
    assert (far.dtype, far.device) == (torch.float64, torch.device("meta"))
    assert "device='meta'" in repr(far)
    with raises(
        TypeError, "dtype must be float64, float32, float16, bfloat16, not torch.complex64"
    ):
        q.to(torch.complex64)


def test_numpys_tensors_become_those_of_pytorch() -> None:
    x = drawn(5, 40)
    for name in ("mxsf", "nvfp4"):
        theirs = mx.quantize(x.numpy(), name)
        q = mxt.QuantizedTensor.from_numpy(theirs)
        assert torch.equal(q.dequantize(), mxt.fake_quantize(x, name))
        assert q.codes.data_ptr() == theirs.codes.ctypes.data
        theirs.codes.flags.writeable = False
        q = mxt.QuantizedTensor.from_numpy(theirs, dtype=torch.bfloat16)
        assert q.dequantize().dtype == torch.bfloat16
    with raises(TypeError, "q must be a QuantizedTensor, not 3"):
        mxt.QuantizedTensor.from_numpy(3)


INDICES = {
    "integer": 2,
    "negative": -1,
    "slice": slice(1, 5, 2),
    "mask": torch.tensor([True, False, True, True, False, False]),
    "numbers": torch.tensor([[3, 0], [1, 1]]),
    "list": [4, 4, 0],
    "array": np.array([1, 2]),
    "all": Ellipsis,
}


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_parts(index: Any, axis: int) -> None:
    """Along each axis, beside blocks along each other one."""
    x = drawn(6, 6, 6)
    for along in {0, 1, 2} - {axis}:
        q = mxt.quantize(x, block=4, axis=along)
        where = (*[slice(None)] * axis, index)
        part, wanted = q[where], q.dequantize()[where]
        assert torch.equal(part.dequantize(), wanted)
        mx.dequantize(part)  # scales and codes belong together
        with_more = (*where, slice(None)) if axis == 1 and index is not Ellipsis else where
        assert torch.equal(q[with_more].dequantize(), q.dequantize()[with_more])


def test_parts_of_tiles_and_several_indices() -> None:
    x = drawn(4, 3, 10, 12)
    q = mxt.quantize(x, "nvfp4", block=(8, 8))
    for index in ((1, 2), (slice(1, 3),), (..., slice(None)), (0, [0, 2]), ([1], 0, slice(0, 10))):
        assert torch.equal(q[index].dequantize(), q.dequantize()[index])
    rows = mxt.quantize(x, block=8, axis=2)
    some: list[Any] = [(1, 0, slice(None), 3), (1, slice(None), slice(None), [2, 5]), (..., 0)]
    for index in some:
        assert torch.equal(rows[index].dequantize(), rows.dequantize()[index])
        mx.dequantize(rows[index])


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ((0, 3), "index must be ':' for axis 1, which is cut in blocks, not 3"),
        (
            (..., slice(0, 8)),
            "index must be ':' for axis 1, which is cut in blocks, not slice",
        ),
        (None, "index must be integers, slices and tensors, not None"),
        (True, "index must be integers, slices and tensors, not True"),
        ((0, slice(None), 0), "index must have at most 2 items, not 3"),
    ],
)
def test_parts_that_are_refused(index: Any, message: str) -> None:
    with raises(IndexError, message):
        mxt.quantize(drawn(4, 16), block=8)[index]


def test_more_than_one_tensor_is_refused() -> None:
    with raises(IndexError, "index must have at most one tensor, not more"):
        mxt.quantize(drawn(4, 4, 16), block=8)[[0], [1]]


def test_products() -> None:
    a, b = drawn(5, 64), drawn(64, 7)
    qa, qb = mxt.quantize(a), mxt.quantize(b, axis=0)
    values = qa.dequantize(), qb.dequantize()
    assert torch.equal(qa @ qb, values[0] @ values[1])
    assert torch.equal(qa @ b, values[0] @ b)
    assert torch.equal(a @ qb, a @ values[1])
    assert (qa @ b.double()).dtype == torch.float64
    assert torch.equal(qa.to(torch.bfloat16) @ qb, values[0] @ values[1])
    with pytest.raises(TypeError, match="unsupported operand"):
        qa @ 3


@pytest.mark.parametrize("name", ["mxsf", "nvfp4"])
def test_pytorch_keeps_all_of_it(name: str) -> None:
    q = mxt.quantize(drawn(6, 64).bfloat16(), name)
    file = io.BytesIO()
    torch.save({"q": q}, file)
    file.seek(0)
    again = torch.load(file)["q"]
    assert repr(again) == repr(q)
    assert torch.equal(again.dequantize(), q.dequantize())


def test_tensors_are_sequences_along_axes_without_blocks() -> None:
    q = mxt.quantize(torch.arange(12.0).reshape(3, 4), "mxsf", block=4)
    assert [part.dequantize().tolist() for part in q] == q.dequantize().tolist()
    assert len(list(q)) == 3
    for other in (q.T, mxt.quantize(torch.ones(4, 4), "mxsf", block=(2, 2)), q[0]):
        with raises(
            TypeError,
            "a QuantizedTensor can be iterated over along an axis that is not cut in blocks: "
            "use q.dequantize()",
        ):
            list(other)


def test_tensors_are_no_arrays_of_numpy() -> None:
    q = mxt.quantize(torch.ones(3, 4), "mxsf")
    message = "a QuantizedTensor is no array: use q.dequantize() for its values, or q.numpy()"
    for take in (np.asarray, np.array, lambda q: np.asarray(q, np.float32)):
        with raises(TypeError, message):
            take(q)
    message = "a QuantizedTensor multiplies tensors, not arrays: use q.dequantize()"
    for product in (lambda: np.ones((4, 3), np.float32) @ q, lambda: q @ np.ones((4, 3))):
        with raises(TypeError, message):
            product()
    with pytest.raises(TypeError, match="unsupported operand"):
        q @ 3
