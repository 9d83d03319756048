"""Views to and from ml_dtypes: the same memory, the same values."""

import ml_dtypes
import numpy as np
import pytest

import mxsafe as mx

DTYPES = {
    "mxfp8_e4m3": ml_dtypes.float8_e4m3fn,
    "mxfp8_e5m2": ml_dtypes.float8_e5m2,
    "mxfp6_e3m2": ml_dtypes.float6_e3m2fn,
    "mxfp6_e2m3": ml_dtypes.float6_e2m3fn,
    "mxfp4_e2m1": ml_dtypes.float4_e2m1fn,
    "mxint8": np.int8,
}


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("block", [4, (2, 4)])
def test_views_share_memory_and_values(name: str, block: int | tuple[int, int]) -> None:
    q = mx.quantize(
        np.random.default_rng(1).standard_normal((4, 8)).astype(np.float32), name, block=block
    )
    elements, scales = mx.to_ml_dtypes(q)
    assert elements.dtype == DTYPES[name]
    assert scales.dtype == ml_dtypes.float8_e8m0fnu
    assert np.shares_memory(elements, q.codes)
    assert np.shares_memory(scales, q.scales)
    relative = elements.astype(np.float32) / (64 if name == "mxint8" else 1)
    spread = scales.astype(np.float32)
    for axis, length in enumerate(block if isinstance(block, tuple) else (1, block)):
        spread = np.repeat(spread, length, axis=axis)
    np.testing.assert_array_equal(relative * spread, mx.dequantize(q))
    back = mx.from_ml_dtypes(elements, scales, block=block)
    assert np.shares_memory(back.codes, q.codes)
    assert (back.format, back.block, back.axis) == (q.format, q.block, q.axis)


def test_bad_input() -> None:
    elements, scales = mx.to_ml_dtypes(mx.quantize(np.ones((4, 8)), "mxfp8_e4m3", block=4))
    with pytest.raises(ValueError, match=r"^format must be one of mxfp8_e4m3, .*, not 'mxsf'$"):
        mx.to_ml_dtypes(mx.quantize(np.ones((4, 8))))
    with pytest.raises(
        TypeError, match=r"^elements must have dtype float8_e4m3fn, .*, not float32$"
    ):
        mx.from_ml_dtypes(elements.astype(np.float32), scales, block=4)
    with pytest.raises(TypeError, match=r"^scales must have dtype float8_e8m0fnu, not uint8$"):
        mx.from_ml_dtypes(elements, scales.view(np.uint8), block=4)
    with pytest.raises(ValueError, match=r"^scales must have shape \(4, 4\) for codes of shape"):
        mx.from_ml_dtypes(elements, scales, block=2)
