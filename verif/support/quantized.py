"""Quantised tensors compared as wholes."""

import numpy as np

import mxsafe as mx


def assert_same(a: mx.QuantizedTensor, b: mx.QuantizedTensor) -> None:
    np.testing.assert_array_equal(a.codes, b.codes)
    np.testing.assert_array_equal(a.scales, b.scales)
    assert (a.format, a.block, a.axis) == (b.format, b.block, b.axis)
    assert a.tensor_scale == b.tensor_scale
    assert type(a.tensor_scale) is type(b.tensor_scale) in (np.float32, type(None))
