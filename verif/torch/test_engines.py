"""Compiled code gets addresses: whatever a tensor looks like, bits are those of the operations."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mxsafe as mx
from mxsafe.formats import mx_format
from verif.support.tests import raises

torch = pytest.importorskip("torch", reason="torch is not installed")
mxt = pytest.importorskip("mxsafe.torch")
numba_engine = pytest.importorskip("mxsafe.codec.numba_engine")

DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
WAYS = ({"block": 16}, {"block": 4, "axis": 0}, {"block": (2, 3)}, {"rounding": "sr", "random": 5})


def drawn(*shape: int) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(11))


class Marked(torch.Tensor):
    """A subclass, whose operations may be its own."""


LAYOUTS: dict[str, Callable[[], Any]] = {
    "contiguous": lambda: drawn(6, 50),
    "transposed": lambda: drawn(50, 6).T,
    "permuted": lambda: drawn(3, 6, 7).permute(2, 0, 1),
    "channels last": lambda: drawn(2, 3, 5, 4).contiguous(memory_format=torch.channels_last),
    "every other": lambda: drawn(12, 100)[::2, ::2],
    "within": lambda: drawn(9, 70)[2:8, 11:61],
    "expanded": lambda: drawn(6, 1).expand(6, 50),
    "flipped": lambda: drawn(6, 50).flip(0),
    "negated": lambda: torch.complex(drawn(6, 50), drawn(6, 50)).conj().imag,
    "one negated": lambda: torch.complex(drawn(1, 1), drawn(1, 1)).conj().imag,
    "a parameter": lambda: torch.nn.Parameter(drawn(6, 50)),
    "of a graph": lambda: torch.nn.Parameter(drawn(6, 50)) * 2,
    "a subclass": lambda: drawn(6, 50).as_subclass(Marked),
    "no rows": lambda: drawn(0, 50),
    "no columns": lambda: drawn(6, 0),
}


@pytest.mark.parametrize("make", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("fmt", ["mxsf", "mxfp8_e4m3", "mxint8", "nvfp4"])
def test_layouts(fmt: str, make: Callable[[], Any]) -> None:
    for dtype in DTYPES:
        t = make().to(dtype)
        plain = t.detach().resolve_neg().clone(memory_format=torch.contiguous_format)
        plain = plain.as_subclass(torch.Tensor)
        for way in WAYS:
            wanted = mxt.quantize(plain, fmt, engine="torch", **way)
            q = mxt.quantize(t, fmt, **way)
            assert torch.equal(q.codes, wanted.codes)
            assert torch.equal(q.scales, wanted.scales)
            values = mxt.fake_quantize(plain, fmt, engine="torch", **way)
            fake = mxt.fake_quantize(t, fmt, **way)
            assert fake.dtype == dtype
            assert fake.requires_grad == t.requires_grad
            assert torch.equal(fake, values)
            assert torch.equal(q.dequantize(), values)


def test_negated_tensors_are_so() -> None:
    for name in ("negated", "one negated"):
        t = LAYOUTS[name]()
        assert t.is_neg()
        assert t.is_contiguous() == (name == "one negated")


@pytest.mark.parametrize("fmt", ["mxfp8_e4m3", "nvfp4"])
def test_codes_in_any_order_of_axes(fmt: str) -> None:
    for way in ({"block": 4, "axis": 1}, {"block": (2, 3)}, {"block": 5}):
        q = mxt.quantize(drawn(4, 7, 10), fmt, **way)
        for order in ((2, 0, 1), (1, 0, 2), (0, 2, 1)):
            back = np.argsort(order).tolist()
            codes = q.codes.permute(order).contiguous().permute(back)
            assert not codes.is_contiguous()
            scales = q.scales.repeat_interleave(2, -1)[..., ::2]
            other = mxt.QuantizedTensor(codes, scales, q.format, q.block, q.axis, q.tensor_scale)
            for dtype in DTYPES:
                assert torch.equal(other.dequantize(dtype), q.dequantize(dtype))


@pytest.mark.parametrize("kind", ["float64", "float32", "float16"])
def test_nothing_beside_the_results_is_written(kind: str) -> None:
    """The bytes before and behind what the kernels are to write to stay."""
    guard = 64
    rng = np.random.default_rng(12)
    compared = 0
    for name in ("mxsf", "mxint8", "nvfp4"):
        fmt = mx_format(name)
        for shape, lengths in (
            ((1,), (1,)),
            ((37,), (16,)),
            ((64,), (32,)),
            ((5, 48), (1, 16)),
            ((9, 7), (4, 1)),
            ((3, 9, 7), (1, 4, 2)),
            ((4, 3, 5, 2), (3, 1, 2, 1)),
            ((0, 16), (1, 16)),
        ):
            blocks = tuple(-(-size // length) for size, length in zip(shape, lengths, strict=True))
            x = rng.standard_normal(shape).astype(kind)
            codes, scales, values = (
                np.full(math.prod(sizes) * width + 2 * guard, 0xA5, np.uint8)
                for sizes, width in ((shape, 1), (blocks, 1), (shape, x.itemsize))
            )
            at = [part.ctypes.data + guard for part in (codes, scales, values)]
            key = (shape, lengths, kind, fmt, "rne", "nearest" if name == "nvfp4" else "floor")
            numba_engine.quantizer(*key)(x.ctypes.data, 0, at[1], at[0])
            numba_engine.quantizer(*key, fused=True)(x.ctypes.data, 0, 0, at[2])
            fused = values.copy()
            values[guard:-guard] = 0xA5
            numba_engine.dequantizer(shape, lengths, kind, fmt)(at[0], at[1], at[2])
            np.testing.assert_array_equal(values, fused)
            for part in (codes, scales, values):
                assert (part[:guard] == 0xA5).all()
                assert (part[-guard:] == 0xA5).all()
                compared += 2 * guard
    assert compared > 0


def test_modes_without_gradients() -> None:
    t, wanted = drawn(64), mxt.fake_quantize(drawn(64), engine="torch")
    leaf = t.clone().requires_grad_()
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            fake = mxt.fake_quantize(leaf)
            assert torch.equal(fake, wanted)
            assert not fake.requires_grad
            assert torch.equal(mxt.quantize(leaf).dequantize(), wanted)
    with torch.device("meta"):  # where new tensors go, but not these
        assert torch.equal(mxt.fake_quantize(t), wanted)
        assert torch.equal(mxt.quantize(t).dequantize(), wanted)


def test_what_is_no_memory_of_the_cpu() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        for t in (torch.empty(4, 64, device="meta"), mode.from_tensor(drawn(4, 64))):
            q = mxt.quantize(t)
            assert q.scales.shape == (4, 1)
            for values in (mxt.fake_quantize(t), q.dequantize()):
                assert values.device == t.device
                assert values.shape == t.shape
    with raises(ValueError, "engine must be 'torch' for a tensor on meta, not 'numba'"):
        mxt.quantize(drawn(64).to("meta"), engine="numba")
    with raises(
        ValueError,
        "engine must be 'torch' for a tensor whose numbers are not in memory, not 'numba'",
    ):
        mxt.quantize(drawn(64).as_subclass(Marked), engine="numba")
    freed = drawn(64)
    freed.untyped_storage().resize_(0)
    with raises(
        ValueError,
        "engine must be 'torch' for a tensor whose numbers are not in memory, not 'numba'",
    ):
        mxt.quantize(freed, engine="numba")


@pytest.mark.filterwarnings("ignore")  # of PyTorch's own decompositions
def test_transforms_of_functions() -> None:
    t, fixed = drawn(5, 64), drawn(64)
    wanted = torch.stack([mxt.fake_quantize(row, engine="torch") for row in t])
    constant = mxt.quantize(fixed)

    def one(row: Any) -> Any:
        return mxt.fake_quantize(row) + mxt.fake_quantize(fixed) + constant.dequantize()

    both = 2 * mxt.fake_quantize(fixed, engine="torch")
    assert torch.equal(torch.func.vmap(one)(t), wanted + both / 2 + both / 2)
    assert torch.equal(torch.func.vmap(lambda row: mxt.quantize(row).dequantize())(t), wanted)
    gradient = torch.func.grad(lambda row: one(row).sum())(t[0])
    assert torch.equal(gradient, torch.ones(64))
    _, tangent = torch.func.jvp(one, (t[0],), (fixed,))
    assert torch.equal(tangent, fixed)


def test_exported() -> None:
    class Faked(torch.nn.Module):
        def forward(self, t: Any) -> Any:
            return mxt.fake_quantize(t, "mxfp8_e4m3")

    t = drawn(4, 64)
    program = torch.export.export(Faked(), (t,))
    assert torch.equal(program.module()(t), mxt.fake_quantize(t, "mxfp8_e4m3"))
    assert not program.constants
    assert torch.equal(program.module()(3 * t), mxt.fake_quantize(3 * t, "mxfp8_e4m3"))


@pytest.mark.filterwarnings("ignore")  # PyTorch's own, of tracing
@pytest.mark.parametrize("engine", ["auto", "torch", "numba", "numpy"])
def test_traces_that_would_keep_numbers_are_refused(engine: Any) -> None:
    q = mxt.quantize(drawn(4, 64))
    for function in (
        lambda t: mxt.quantize(t, engine=engine).codes,
        lambda t: mxt.fake_quantize(t, engine=engine),
        lambda t: t + q.dequantize(),
    ):
        with raises(
            RuntimeError,
            "functions of mxsafe.torch must be traced by torch.export, not by torch.jit.trace",
        ):
            torch.jit.trace(function, drawn(4, 64))


@pytest.mark.parametrize("fmt", ["mxsf", "nvfp4"])
def test_other_default_devices(fmt: str) -> None:
    t = drawn(4, 64)
    wanted = mxt.fake_quantize(t, fmt)
    with torch.device("meta"):
        for engine in ("numba", "torch", "numpy"):
            q = mxt.quantize(t, fmt, engine=engine)
            back = mxt.QuantizedTensor.from_numpy(q.numpy())
            faked = mxt.fake_quantize(t, fmt, engine=engine)
            for values in (q.dequantize(), back.dequantize(), faked):
                assert torch.equal(values, wanted)


def test_equal_blocks_of_other_types_are_refused() -> None:
    """What is remembered of calls must not let in what only equals it."""
    t = drawn(4, 64)
    mxt.quantize(t, block=1, axis=1)
    mxt.quantize(t, block=(2, 1))
    message = "block must be a positive integer or a pair of positive integers, not "
    for block in (True, 1.0, (2, True), (2.0, 1)):
        with raises(ValueError, f"{message}{block!r}"):
            mxt.quantize(t, block=block)
    for axis in (True, 1.0):
        with raises(ValueError, f"axis must be an integer for 1-D blocks, not {axis!r}"):
            mxt.quantize(t, axis=axis)


@pytest.mark.parametrize("rounding", ["rne", "rna", "rtz"])
def test_quotients_beyond_every_format_saturate(rounding: str) -> None:
    x = torch.exp2(torch.arange(-20.0, 120.0))[:, None].expand(-1, 16) * 1.25
    given = {"tensor_scale": np.float32(1e-30), "rounding": rounding}
    found = mxt.quantize(x, "nvfp4", engine="torch", **given)
    wanted = mx.quantize(x.numpy(), "nvfp4", **given)
    assert np.array_equal(found.codes.numpy(), wanted.codes)
    assert np.array_equal(found.scales.numpy(), wanted.scales)


def test_what_cannot_be_hashed() -> None:
    t = drawn(4, 64)
    for call in (mxt.quantize, mxt.fake_quantize):
        with raises(TypeError, "format must be a name or an MXFormat, not list"):
            call(t, ["mxsf"])
        with raises(ValueError, "axis must be an integer for 1-D blocks, not [0]"):
            call(t, axis=[0])
        with raises(ValueError, "rounding must be one of rne, rna, rtz, sr, not ['rne']"):
            call(t, rounding=["rne"])
        with raises(ValueError, "scale_mode must be one of floor, ceil, even, rceil, not ['ceil']"):
            call(t, scale_mode=["ceil"])
    q = mxt.quantize(t, block=(2, 8))
    listed = mxt.QuantizedTensor(q.codes, q.scales, q.format, [2, 8], q.axis)
    assert torch.equal(listed.dequantize(), q.dequantize())


def test_codes_and_scales_of_other_kinds() -> None:
    q = mxt.quantize(drawn(4, 64))
    rest = (q.format, q.block, q.axis)
    for codes, scales, message in (
        (q.codes.float(), q.scales, "codes must be a tensor of uint8, not float32"),
        (q.codes, q.scales.char(), "scales must be a tensor of uint8, not int8"),
        (q.codes.numpy(), q.scales, "codes must be a tensor of uint8, not "),
    ):
        with pytest.raises(TypeError) as caught:
            mxt.QuantizedTensor(codes, scales, *rest).dequantize()
        assert str(caught.value).startswith(message)
    with raises(ValueError, "scales must be on cpu like codes, not meta"):
        mxt.QuantizedTensor(q.codes, q.scales.to("meta"), *rest).dequantize()
    with raises(
        ValueError,
        "scales must have shape (4, 1) for codes of shape (4, 64) in blocks of 64 along axis -1, "
        "not (3, 1)",
    ):
        mxt.QuantizedTensor(q.codes, q.scales[1:], *rest).dequantize()
    gone = q.scales.clone()
    gone.untyped_storage().resize_(0)
    with raises(
        ValueError,
        "codes and scales must have their numbers in memory, not Tensor of shape (4, 1) without "
        "any",
    ):
        mxt.QuantizedTensor(q.codes, gone, *rest).dequantize()
    shared = mxt.quantize(drawn(4, 64), "nvfp4")
    shared.scales[0, 0] = 0x80
    with raises(ValueError, "scales must be non-negative codes of float8_e4m3fn, not 0x80"):
        shared.dequantize()
