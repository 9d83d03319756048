"""Tensors of PyTorch against `mxsafe.quantize`, bit for bit, and gradients of `fake_quantize`."""

import io
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mxsafe as mx
from mxsafe.codec.elements import ROUNDINGS
from mxsafe.formats import BLOCK_FORMATS, MXFormat
from verif.codec.codec_cases import BLOCKINGS, DTYPES, OWN_FORMATS, hard_values, own_formats
from verif.support.tests import Tally, raises, some

torch = pytest.importorskip("torch", reason="torch is not installed")
mxt = pytest.importorskip("mxsafe.torch")
engines = pytest.importorskip("mxsafe.torch._engines")

ENGINES = ("torch", "numba")
every_format = pytest.mark.parametrize(
    "fmt", [*BLOCK_FORMATS.values(), *OWN_FORMATS], ids=lambda fmt: fmt.name
)


def tensor(x: np.ndarray) -> Any:
    """The same numbers as a tensor."""
    if x.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(np.ascontiguousarray(x).view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(x)


def modes(fmt: MXFormat) -> tuple[str, ...]:
    return ("nearest",) if fmt.tensor_scale else ("floor", "ceil", "even", "rceil")


def assert_same_bits(got: Any, expected: np.ndarray) -> int:
    """Equal in every bit, all NaN counting as one; returns how many."""
    array = got.detach().numpy()
    assert array.dtype == expected.dtype
    assert array.shape == expected.shape
    np.testing.assert_array_equal(array, expected)
    finite = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(array)[finite], np.signbit(expected)[finite])
    return array.size


def compare(
    x: np.ndarray, fmt: str | MXFormat, *engines: str, reference: Any = "numpy", **options: Any
) -> int:
    """Codes, scales and values of a tensor against the reference; returns how many elements."""
    t = tensor(x)
    expected = mx.quantize(x, fmt, engine=reference, **options)
    kind = np.float64 if x.dtype == np.float64 else np.float32
    values = mx.dequantize(expected, dtype=kind)
    wide = t if t.dtype == torch.float64 else t.float()
    for engine in engines:
        q = mxt.quantize(t, fmt, engine=engine, **options)
        np.testing.assert_array_equal(q.codes.numpy(), expected.codes)
        np.testing.assert_array_equal(q.scales.numpy(), expected.scales)
        assert (q.format, q.block, q.axis) == (expected.format, expected.block, expected.axis)
        if expected.tensor_scale is not None:
            assert q.tensor_scale.item() == expected.tensor_scale
        fake = mxt.fake_quantize(wide, fmt, engine=engine, **options)
        assert_same_bits(mxt.dequantize(q, dtype=wide.dtype), values)
        assert_same_bits(fake, values)
    return x.size * len(engines)


@every_format
@pytest.mark.parametrize("dtype", some(DTYPES), ids=lambda dtype: dtype.__name__)
def test_every_choice(fmt: MXFormat, dtype: type, tally: Tally) -> None:
    x = hard_values(dtype, seed=41)[:30]
    words = np.random.default_rng(42).integers(0, 1 << 32, x.shape, np.uint32)
    words[::4], words[1::4] = 0, np.iinfo(np.uint32).max
    compared = 0
    for blocking in BLOCKINGS:
        for rounding in ROUNDINGS:
            for mode in modes(fmt):
                options = {"rounding": rounding, "scale_mode": mode, **blocking}
                if rounding == "sr":
                    options["random"] = words
                compared += compare(x, fmt, *ENGINES, **options)
    assert compared > 0
    tally("torch", f"torch {fmt.name}", compared)


@pytest.mark.parametrize("dtype", DTYPES[2:], ids=lambda dtype: dtype.__name__)
def test_all_numbers_of_sixteen_bits(dtype: type, tally: Tally) -> None:
    """Each beside a maximum from its own size to far above it."""
    numbers = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        tops = numbers.astype(np.float32) * np.exp2(np.arange(0, 14, 6, dtype=np.float32))[:, None]
        x = np.stack([np.broadcast_to(numbers, tops.shape), tops.astype(dtype)], axis=-1)
    for name in ("mxsf", "nvfp4"):
        compared = compare(x, name, "torch", block=2)
        assert compared == 3 << 17
        tally("torch", f"torch {np.dtype(dtype).name}", compared)


@pytest.mark.parametrize("engine", ENGINES)
def test_shapes_and_layouts(engine: str, tally: Tally) -> None:
    rng = np.random.default_rng(43)
    compared = 0
    for shape in ((0,), (1,), (70,), (0, 5), (5, 0), (3, 1, 33), (2, 3, 4, 17), (2, 0, 3, 4)):
        x = rng.standard_normal(shape).astype(np.float32)
        compared += compare(x, "mxsf", engine, block=16)
        if x.ndim > 1:
            compared += compare(x, "mxsf", engine, block=4, axis=1)
            compared += compare(x, "mxsf", engine, block=(2, 5))
    x = rng.standard_normal((40, 50, 3)).astype(np.float32)
    for view in (x.T, x[::2, ::-1], x.transpose(1, 0, 2), x[:, 3]):
        q = mxt.quantize(tensor(x).permute(2, 1, 0), "mxsf", block=8, axis=0, engine=engine)
        np.testing.assert_array_equal(q.codes, mx.quantize(x.T, "mxsf", block=8, axis=0).codes)
        compared += compare(view.copy(), "mxfp4_e2m1", engine, block=7, axis=0)
    narrow = tensor(x)[:, 3:40:5].transpose(0, 1)
    assert not narrow.is_contiguous()
    values = mx.dequantize(mx.quantize(narrow.numpy(), "mxint8", block=(4, 2)))
    compared += assert_same_bits(
        mxt.fake_quantize(narrow, "mxint8", block=(4, 2), engine=engine), values
    )
    assert compared > 10_000
    tally(engine, "torch shapes", compared)


@pytest.mark.parametrize("name", ["mxsf", "mxint8"])
def test_tiles_of_axes_that_lie_apart(name: str, tally: Tally) -> None:
    """Those of convolutions: batch and channels of each group, at each place."""
    rng = np.random.default_rng(44)
    compared = 0
    for shape in ((9, 1, 11, 3, 5), (8, 3, 10, 2, 2), (10, 4, 1, 3, 3), (3, 2, 17, 1, 1)):
        x = (rng.standard_normal(shape) * np.exp2(rng.integers(-20, 20, shape))).astype(np.float32)
        x[0, 0, 0, 0, 0] = np.nan
        for ends in ((0, 2), (2, 0), (1, 2), (0, 4), (3, 1)):
            view = tensor(x).movedim(ends, (-2, -1))
            q = mx.quantize(np.ascontiguousarray(view.numpy()), name, block=(8, 4))
            fake = mxt.fake_quantize(view, name, block=(8, 4), engine="numba")
            compared += assert_same_bits(fake, mx.dequantize(q))
            assert fake.movedim((-2, -1), ends).is_contiguous()
    assert compared > 10_000
    tally("numba", "torch tiles apart", compared)


def test_large_tensors_in_parts(tally: Tally) -> None:
    """In parts of every engine, also those that Numba's threads share."""
    rng = np.random.default_rng(44)
    x = rng.standard_normal((600, 1100)).astype(np.float32)
    engines = (*ENGINES, "auto")
    for name in ("mxsf", "nvfp4"):
        for options in ({}, {"block": (8, 8)}, {"block": 7, "axis": 0}):
            compared = compare(x, name, *engines, reference="numba", **options)
            tally("torch", "torch parts", compared)
    for engine in engines:
        seeded = mxt.quantize(tensor(x), rounding="sr", random=5, engine=engine)
        np.testing.assert_array_equal(seeded.codes, mx.quantize(x, rounding="sr", random=5).codes)


def test_formats_of_ones_own(tally: Tally) -> None:
    x = hard_values(np.float32, seed=45)[:32]
    compared = reference = 0
    for fmt in own_formats(40):
        for rounding in ("rne", "rna"):
            compared += compare(x, fmt, "auto", block=8, rounding=rounding)
        try:
            mxt.quantize(tensor(x), fmt, engine="torch")
        except ValueError:
            reference += 1
    assert compared > 0
    assert reference > 0
    tally("torch", "torch own formats", compared)


def test_scales_of_tensors() -> None:
    x = np.random.default_rng(46).standard_normal((8, 64)).astype(np.float32)
    for scale in (np.float32(0.002), 1.0, np.float32(1e-45), np.float32(3e38)):
        assert compare(x, "nvfp4", *ENGINES, tensor_scale=scale) > 0
    for extreme in (np.zeros((2, 3)), np.full((2, 3), np.nan), np.full((2, 3), 1e-45)):
        assert compare(extreme.astype(np.float32), "nvfp4", *ENGINES) > 0


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_narrow_results_are_those_of_float32_rounded(dtype: Any, engine: str) -> None:
    """All numbers of the dtype, in blocks and strides of several kinds."""
    bits = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int16)
    for t in (bits.view(dtype).reshape(256, 256), bits.view(dtype).reshape(256, 256).T[::2]):
        for name in ("mxsf", "mxfp8_e5m2", "mxint8", "nvfp4"):
            wide = mxt.fake_quantize(t.float(), name, block=(2, 4), engine=engine)
            narrow = mxt.fake_quantize(t, name, block=(2, 4), engine=engine)
            assert narrow.dtype == dtype
            torch.testing.assert_close(narrow, wide.to(dtype), rtol=0, atol=0, equal_nan=True)
            q = mxt.quantize(t, name, block=(2, 4))
            torch.testing.assert_close(
                mxt.dequantize(q, dtype=dtype), wide.to(dtype), rtol=0, atol=0, equal_nan=True
            )
            assert wide.isfinite().sum() > t.numel() / 2


def test_sixteen_bits_are_not_widened_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call of the compiled code gets a part of the tensor as it is."""
    from mxsafe.codec import numba_engine

    seen: list[tuple[int, str]] = []
    quantizer = numba_engine.quantizer

    def watched(shape: tuple[int, ...], lengths: tuple[int, ...], kind: str, *rest: Any) -> Any:
        call = quantizer(shape, lengths, kind, *rest)

        def run(*addresses: int) -> None:
            seen.append((math.prod(shape), kind))
            call(*addresses)

        return run

    monkeypatch.setattr(numba_engine, "quantizer", watched)
    for dtype in (torch.bfloat16, torch.float16):
        seen.clear()
        t = torch.ones(1 << 10, 1 << 10, dtype=dtype)
        assert torch.equal(mxt.fake_quantize(t, engine="numba"), t)
        assert sum(size for size, _ in seen) == t.numel()
        assert len(seen) > 1
        assert {kind for _, kind in seen} == {str(dtype).removeprefix("torch.")}


def test_auto_takes_the_compiled_code_for_every_format() -> None:
    t = torch.ones(1 << 9, 1 << 9)
    for fmt in BLOCK_FORMATS.values():
        assert engines.choose_engine("auto", fmt, t, torch.uint8)[0] == "numba"


def test_narrow_dtypes_are_rounded_once_more() -> None:
    x = torch.tensor([65504.0, 1.0], dtype=torch.float16)
    assert mxt.fake_quantize(x).tolist() == [64512.0, 0.0]
    assert mxt.fake_quantize(x, "mxfp4_e2m1").tolist() == [49152.0, 0.0]
    assert mxt.fake_quantize(x, scale_mode="ceil").tolist() == [np.inf, 0.0]  # 65536
    tiny = torch.tensor([2.0**-133], dtype=torch.bfloat16)
    assert mxt.fake_quantize(tiny).item() == 2.0**-133


def test_random_words() -> None:
    x = torch.full((1000,), 1.01)
    generator = torch.Generator().manual_seed(7)
    a = mxt.fake_quantize(x, rounding="sr", random=generator)
    b = mxt.fake_quantize(x, rounding="sr", random=generator)
    assert set(a.tolist()) == {1.0, 1.03125}
    assert not torch.equal(a, b)
    words = torch.from_numpy(np.random.default_rng(1).integers(0, 1 << 32, 1000, np.uint32))
    drawn = mxt.quantize(x, rounding="sr", random=words)
    given = mx.quantize(x.numpy(), rounding="sr", random=words.numpy())
    np.testing.assert_array_equal(drawn.codes, given.codes)


def test_gradients_pass_straight_through() -> None:
    t = torch.tensor([[1.0, 1.99, -1.99, 0.1], [np.nan, 1.0, 2.0, 3.0]], requires_grad=True)
    weight = torch.arange(8.0).reshape(2, 4) + 1
    for clipped, expected in (
        ("pass", weight),
        ("zero", weight * torch.tensor([[1.0, 0.0, 0.0, 1.0], [0.0] * 4])),
    ):
        for options in ({"engine": "torch"}, {"engine": "numba"}, {}):
            (grad,) = torch.autograd.grad(
                (mxt.fake_quantize(t, block=4, clipped=clipped, **options) * weight)[0].sum()
                + (mxt.fake_quantize(t, block=4, clipped=clipped, **options) * weight)[1].sum(),
                t,
            )
            assert torch.equal(grad, expected)
    value = mxt.fake_quantize(t, "nvfp4", block=4, clipped="zero")
    assert value.requires_grad
    assert not mxt.quantize(t).codes.requires_grad
    with torch.no_grad():
        assert not mxt.fake_quantize(t).requires_grad


@pytest.mark.filterwarnings("ignore")  # of the compiler itself
@pytest.mark.parametrize("fmt", some(("mxsf", "mxint8", "nvfp4"), 3))
def test_under_a_compiler(fmt: str) -> None:
    x = hard_values(np.float32, seed=47)
    compiled = torch.compile(
        lambda t: mxt.fake_quantize(t, fmt, block=8), backend="aot_eager", fullgraph=fmt != "nvfp4"
    )
    assert assert_same_bits(compiled(tensor(x)), mx.dequantize(mx.quantize(x, fmt, block=8))) > 0


def test_quantised_tensors() -> None:
    x = torch.randn(16, 24, generator=torch.Generator().manual_seed(1))
    q = mxt.quantize(x, block=(8, 4))
    assert repr(q) == (
        "QuantizedTensor(format='mxsf', shape=(16, 24), block=(8, 4), axis=(-2, -1), nbytes=396)"
    )
    assert repr(q).startswith(repr(q.numpy()).removesuffix(")"))
    assert q.T.block == (4, 8)
    assert torch.equal(mxt.dequantize(q.T), mxt.dequantize(q).T)
    assert mxt.quantize(x, block=8).T.axis == -2
    assert mxt.dequantize(q, dtype=torch.bfloat16).dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda t: mxt.quantize([1.0]), TypeError, "t must be a torch.Tensor, not list"),
        (
            lambda t: mxt.quantize(t.int()),
            TypeError,
            "t must have dtype float64, float32, float16, bfloat16, not int32",
        ),
        (lambda t: mxt.quantize(t[0, 0]), ValueError, "t must have rank 1 or more, not 0"),
        (
            lambda t: mxt.quantize(t, axis=2),
            ValueError,
            "axis must lie in -2..1 for rank 2, not 2",
        ),
        (
            lambda t: mxt.quantize(t, block=0),
            ValueError,
            "block must be a positive integer or a pair of positive integers, not 0",
        ),
        (
            lambda t: mxt.quantize(t, engine="jax"),
            ValueError,
            "engine must be one of auto, torch, numba, numpy, not 'jax'",
        ),
        (
            lambda t: mxt.fake_quantize(t, clipped="half"),
            ValueError,
            "clipped must be one of pass, zero, not 'half'",
        ),
        (
            lambda t: mxt.quantize(t, rounding="sr"),
            TypeError,
            "random must be a generator of NumPy or PyTorch, a seed, or an array or tensor of "
            "uint32 for rounding 'sr', not None",
        ),
        (
            lambda t: mxt.fake_quantize(t, random="junk"),
            TypeError,
            "random must be a generator of NumPy or PyTorch, a seed, or an array or tensor of "
            "uint32 for rounding 'sr', not 'junk'",
        ),
        (
            lambda t: mxt.quantize(t.to_sparse()),
            TypeError,
            "t must be a dense tensor, not torch.sparse_coo",
        ),
        (
            lambda t: mxt.quantize(t, rounding="sr", random=t),
            TypeError,
            "random must have dtype uint32, not float32",
        ),
        (
            lambda t: mxt.quantize(t, tensor_scale=1.0),
            ValueError,
            "tensor_scale must be None for mxsf, not 1.0",
        ),
        (
            lambda t: mxt.dequantize(mx.quantize(t.numpy())),
            TypeError,
            "q must be a QuantizedTensor of mxsafe.torch, not mxsafe.codec.blocks.QuantizedTensor",
        ),
        (
            lambda t: mxt.dequantize(mxt.quantize(t), dtype=torch.int8),
            TypeError,
            "dtype must be float64, float32, float16, bfloat16, not torch.int8",
        ),
        (lambda t: mxt.quantize(t[0]).T, ValueError, "T needs a tensor of rank 2, not 1"),
    ],
)
def test_bad_input(call: Any, error: type[Exception], message: str) -> None:
    with raises(error, message):
        call(torch.ones(2, 3))


def run_python(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.strip()


def held(fmt: str) -> Any:
    """A tensor in a format among others, as a checkpoint has them."""
    t = torch.randn(8, 64, generator=torch.Generator().manual_seed(3))
    state = {"weight": mxt.quantize(t, fmt), "bias": t[0]}
    return [state, {"tiles": (mxt.quantize(t, fmt, block=(2, 4)), {"recipe": mxt.Quantiser(fmt)})}]


@pytest.mark.parametrize("fmt", BLOCK_FORMATS)
def test_torch_loads_what_it_saved(fmt: str) -> None:
    file = io.BytesIO()
    torch.save(held(fmt), file)
    file.seek(0)
    state, rest = torch.load(file)
    tiles, recipe = rest["tiles"]
    assert recipe == {"recipe": mxt.Quantiser(fmt)}
    wanted_state, wanted_rest = held(fmt)
    assert torch.equal(state["bias"], wanted_state["bias"])
    for q, wanted in ((state["weight"], wanted_state["weight"]), (tiles, wanted_rest["tiles"][0])):
        assert torch.equal(q.codes, wanted.codes)
        assert torch.equal(q.scales, wanted.scales)
        assert (q.format, q.block, q.axis) == (wanted.format, wanted.block, wanted.axis)
        assert torch.equal(mxt.dequantize(q), mxt.dequantize(wanted))


def test_a_fresh_process_loads_it(tmp_path: Path) -> None:
    own = MXFormat(name="own", element=BLOCK_FORMATS["mxfp4_e2m1"].element, block=8)
    torch.save(mxt.quantize(torch.ones(2, 16), own), tmp_path / "q.pt")
    program = (
        "import sys, torch, mxsafe.torch as mxt; "
        "print(mxt.dequantize(torch.load(sys.argv[1])).sum().item())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "q.pt")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "32.0\n"


def test_functions_of_the_codec_take_tensors_of_pytorch(tmp_path: Path) -> None:
    for name in ("mxsf", "nvfp4"):
        q = mxt.quantize(torch.randn(64, 64), name)
        for given in (q, {"tensor": q}):
            mx.save(tmp_path / "q.npz", given)
            loaded = mx.load(tmp_path / "q.npz")
            np.testing.assert_array_equal(loaded.codes, q.codes.numpy())
            assert loaded.tensor_scale == q.numpy().tensor_scale
        np.testing.assert_array_equal(mx.dequantize(q), mxt.dequantize(q).numpy())
        np.testing.assert_array_equal(mx.packing.to_bytes(q), mx.packing.to_bytes(q.numpy()))
        product = mx.matmul(q.numpy(), q.T.numpy())
        np.testing.assert_array_equal(mx.matmul(q, q.T), product)


def tiny_results(inputs: list[Any]) -> list[bytes]:
    """Codes, scales and values of very small numbers by every engine, as bytes."""
    found = []
    for t in inputs:
        for fmt in ("mxsf", "mxfp8_e4m3", "mxint8", "nvfp4"):
            for engine in ("auto", *ENGINES, "numpy"):
                rounding = "rne" if engine == "numba" else "sr"
                options = {"engine": engine, "rounding": rounding, "random": 3}
                q = mxt.quantize(t, fmt, **options)
                values = (mxt.dequantize(q, dtype=t.dtype), mxt.fake_quantize(t, fmt, **options))
                found += [q.codes.numpy().tobytes(), q.scales.numpy().tobytes()]
                found += [value.view(torch.uint8).numpy().tobytes() for value in values]
            plain = mx.quantize(inputs[0].numpy(), fmt)
            found += [plain.codes.tobytes(), mx.dequantize(plain).tobytes()]
    return [*found, mx.e8m0.decode([0, 1, 255]).tobytes()]


def test_subnormal_numbers_count_where_pytorch_flushes_them() -> None:
    x = torch.from_numpy(np.random.default_rng(51).standard_normal((8, 64)))
    # Among the subnormal numbers of each dtype, or beside them.
    inputs = [(x * 1e-38).float(), (x * 1e-38).bfloat16(), (x * 1e-7).half(), x * 1e-309]
    expected = tiny_results(inputs)
    assert torch.set_flush_denormal(True)
    try:
        got = tiny_results(inputs)
        assert sys.float_info.min * 0.5 == 0.0  # the flag is left as it was
    finally:
        torch.set_flush_denormal(False)
    assert len(expected) > 200
    assert got == expected
    assert any(np.frombuffer(values, np.uint8).any() for values in expected)


def test_threads_that_flush_subnormal_numbers(tmp_path: Path) -> None:
    """PyTorch starts its threads with the flag that is set then, and they keep it."""
    program = """
import numpy as np, torch
torch.set_num_threads(2)
torch.set_flush_denormal(True)
(torch.zeros(1 << 20) * 2).sum()
torch.set_flush_denormal(False)
import mxsafe as mx, mxsafe.torch as mxt
from mxsafe.torch import _engines
_engines.is_compiled = lambda fmt: False
x = (np.random.default_rng(52).standard_normal((256, 256)) * 1e-38).astype(np.float32)
t = torch.from_numpy(x)
q = mxt.quantize(t, "mxfp8_e4m3")
wanted = mx.quantize(x, "mxfp8_e4m3", engine="numpy")
assert (q.codes.numpy() == wanted.codes).all() and wanted.codes.any()
values = mx.dequantize(wanted, engine="numpy")
assert (mxt.dequantize(q).numpy().view(np.int32) == values.view(np.int32)).all()
assert (mxt.fake_quantize(t, "mxfp8_e4m3").numpy().view(np.int32) == values.view(np.int32)).all()
try:
    mxt.quantize(t, "mxfp8_e4m3", engine="torch")
except ValueError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == (
        "engine must be 'numba' or 'numpy' where threads of PyTorch flush subnormal numbers to "
        "zero, not 'torch'\n"
    )


def test_without_pytorch_the_codec_refuses_to_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.float32([1.0, 2.0])
    q = mx.quantize(x)
    torch.set_flush_denormal(True)
    try:
        with monkeypatch.context() as patch:
            patch.delitem(sys.modules, "torch")
            for call in (
                lambda: mx.quantize(x),
                lambda: mx.dequantize(q),
                lambda: mx.encode(x, "mxsf"),
            ):
                with pytest.raises(
                    RuntimeError, match=r"^subnormal numbers must count in this thr"
                ):
                    call()
    finally:
        torch.set_flush_denormal(False)
    assert mx.quantize(x).codes.any()


def test_torch_is_imported_only_where_used() -> None:
    assert run_python("import sys, mxsafe; print('torch' in sys.modules)") == "False"
    absent = (
        "import sys; sys.modules['torch'] = None\n"
        "try: import mxsafe.torch\n"
        "except ImportError as error: print(error)"
    )
    assert run_python(absent).startswith(
        "mxsafe.torch needs the extra torch, pip install '.[torch]': "
    )


def test_a_broken_quantiser_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison with the reference can fail."""
    arithmetic = pytest.importorskip("mxsafe.torch._arithmetic")
    x = hard_values(np.float32, seed=48)[:8]
    assert compare(x, "mxfp8_e4m3", "torch", scale_mode="rceil") > 0
    monkeypatch.setattr(arithmetic, "_carry", lambda fmt, mode, bits: 1 << bits)
    with pytest.raises(AssertionError):
        compare(x, "mxfp8_e4m3", "torch", scale_mode="rceil")
