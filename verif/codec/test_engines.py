"""The compiled engine against the reference, bit for bit; and parts, threads and memory."""

import sys
import tracemalloc
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mxsafe as mx
from mxsafe.codec import _engines, _parts
from mxsafe.codec.elements import ROUNDINGS
from mxsafe.formats import MX_FORMATS, FloatFields, FloatFormat, MXFormat, ScaleFormat
from verif.codec.codec_cases import BLOCKINGS, DTYPES, OWN_FORMATS, hard_values, own_formats
from verif.support.tests import Tally, Volume, raises, some

BOTH_ORDERS = [np.dtype(dtype).newbyteorder(order) for dtype in DTYPES for order in "<>"]
every_format = pytest.mark.parametrize(
    "fmt", [*MX_FORMATS.values(), *OWN_FORMATS], ids=lambda fmt: fmt.name
)


def same(a: mx.QuantizedTensor, b: mx.QuantizedTensor) -> bool:
    return bool((a.codes == b.codes).all() and (a.scales == b.scales).all())


@every_format
@pytest.mark.parametrize("dtype", some(DTYPES, every=len(DTYPES)), ids=lambda dtype: dtype.__name__)
def test_both_engines_give_the_same_bits(
    fmt: MXFormat, dtype: type, tally: Tally, volume: Volume
) -> None:
    """Every rounding; in the default run fewer, because code is compiled for each.

    For floats two, another one by `test_formats_of_ones_own`; for integers one.
    """
    x = hard_values(dtype, seed=31)
    words = np.random.default_rng(32).integers(0, 1 << 32, x.shape, np.uint32)
    words[::4], words[1::4] = 0, np.iinfo(np.uint32).max
    compared = 0
    few = ("rne", "sr") if isinstance(fmt.element, FloatFormat) else ("rne",)
    roundings = (few, ROUNDINGS)[volume(0, 1, 1)]
    for blocking in BLOCKINGS:
        for rounding in roundings:
            for mode in ("floor", "ceil", "even", "rceil"):
                options: dict[str, Any] = {"rounding": rounding, "scale_mode": mode, **blocking}
                if rounding == "sr":
                    options["random"] = words
                reference = mx.quantize(x, fmt, engine="numpy", **options)
                assert same(mx.quantize(x, fmt, engine="numba", **options), reference), options
                compared += x.size
        for result in (np.float32, np.float64):
            expected = mx.dequantize(reference, dtype=result, engine="numpy")
            values = mx.dequantize(reference, dtype=result, engine="numba")
            np.testing.assert_array_equal(values.view(np.uint8), expected.view(np.uint8))
    assert compared > 0
    tally("numba", "codec", compared)


@every_format
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["float16", "bfloat16"])
def test_every_half_and_bfloat16_in_a_block(fmt: MXFormat, dtype: type, tally: Tally) -> None:
    """Each of the 65,536 inputs beside block maxima from its own size to far above it."""
    values = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    for top in (0.0, 2.0**-14, 0.75, 1.0, 1.96875, 1.999, 2.0**4, 2.0**11, 2.0**14):
        with np.errstate(invalid="ignore"):
            x = np.stack([values, np.full_like(values, top)], axis=1)
        reference = mx.quantize(x, fmt, block=2, engine="numpy")
        assert same(mx.quantize(x, fmt, block=2, engine="numba"), reference)
        tally("numba", "codec", values.size)


@pytest.mark.parametrize("shape", [(3, 5, 64), (64,), (2, 3, 4, 5), (0, 8), (8, 0), (7, 1)])
@pytest.mark.parametrize("axis", [0, -1])
def test_shapes_and_layouts(shape: tuple[int, ...], axis: int) -> None:
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    for view in (x, np.asfortranarray(x), x[..., ::-1], np.repeat(x, 2, axis=0)[::2]):
        words = np.random.default_rng(2).integers(0, 1 << 32, shape, np.uint32)
        options: dict[str, Any] = {"block": 3, "axis": axis, "rounding": "sr", "random": words}
        reference = mx.quantize(view, engine="numpy", **options)
        q = mx.quantize(view, engine="numba", **options)
        assert same(q, reference)
        if len(shape) == 2:
            transposed = mx.dequantize(reference.T, engine="numpy")
            np.testing.assert_array_equal(mx.dequantize(q.T, engine="numba"), transposed)
        np.testing.assert_array_equal(
            mx.dequantize(q, engine="numba"), mx.dequantize(reference, engine="numpy")
        )


@pytest.mark.parametrize("engine", ["numpy", "numba"])
@pytest.mark.parametrize("blocking", [*BLOCKINGS, {"block": 4, "axis": 1}])
def test_cutting_a_tensor_into_parts_changes_nothing(
    engine: Any, blocking: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.random.default_rng(2).standard_normal((9, 11, 13)).astype(np.float32)
    options: dict[str, Any] = {"rounding": "sr", "engine": engine, **blocking}
    words = np.random.default_rng(5).integers(0, 1 << 32, x.shape, np.uint32)
    whole = mx.quantize(x, random=words, **options)
    for part in (1, 20, 200):
        monkeypatch.setattr(f"mxsafe.codec.{engine}_engine.PART", part)
        assert same(mx.quantize(x, random=words, **options), whole)
        assert same(mx.quantize(x, random=5, **options), whole)  # the words of a seed, in C order
        np.testing.assert_array_equal(
            mx.dequantize(whole, engine=engine), mx.dequantize(whole, engine="numpy")
        )


@pytest.mark.parametrize("dtype", BOTH_ORDERS, ids=lambda dtype: f"{dtype.byteorder}{dtype.name}")
def test_byte_orders(dtype: np.dtype) -> None:
    x = np.array([[1.0, -2.5, 3.0, 0.1], [1e4, 1e-4, -7.0, 0.0]])
    reference = mx.quantize(x.astype(dtype.newbyteorder("=")), block=4, engine="numpy")
    swapped = x.astype(dtype.newbyteorder("=")).astype(dtype)
    large = x * 1e200 if dtype.name == "float64" else x
    for engine in ("numpy", "numba"):
        assert same(mx.quantize(swapped, block=4, engine=engine), reference)
        wide = mx.quantize(large.astype(dtype), block=4, engine=engine)
        assert same(wide, mx.quantize(large.astype(dtype.newbyteorder("=")), block=4))


def test_formats_of_ones_own(tally: Tally) -> None:
    compared = refused = 0
    x = hard_values(np.float32, seed=8)
    for fmt in own_formats(60):
        try:
            q = mx.quantize(x, fmt, block=8, engine="numba")
        except ValueError:
            refused += 1
            continue
        for mode in ("floor", "rceil"):
            for rounding in ("rne", "rna"):
                options: dict[str, Any] = {"block": 8, "scale_mode": mode, "rounding": rounding}
                q = mx.quantize(x, fmt, engine="numba", **options)
                assert same(q, mx.quantize(x, fmt, engine="numpy", **options)), fmt
                compared += x.size
        np.testing.assert_array_equal(
            mx.dequantize(q, engine="numba"), mx.dequantize(q, engine="numpy")
        )
    assert compared > 0
    assert refused > 0
    tally("numba", "codec", compared)


def test_formats_that_the_compiled_code_leaves_to_the_reference() -> None:
    no_mantissa = FloatFields(exponent_bits=3, mantissa_bits=0, bias=3)
    e2m5 = FloatFields(exponent_bits=2, mantissa_bits=5, bias=3)
    gap = FloatFields(exponent_bits=3, mantissa_bits=2, bias=12)
    far = FloatFields(exponent_bits=4, mantissa_bits=3, bias=200)
    elements = (
        FloatFormat(name="e3m0", fields=no_mantissa),
        FloatFormat(name="gap", fields=e2m5, sub=gap),
        FloatFormat(name="far", fields=far),
    )
    coarse = ScaleFormat(name="e5m0", width=5, bias=15, nan_code=31)
    formats = (
        *(MXFormat(name=element.name, element=element) for element in elements),
        MXFormat(name="coarse", element=MX_FORMATS["mxsf"].element, scale=coarse),
    )
    for fmt in formats:
        with raises(
            ValueError,
            f"engine must be 'numpy' for {fmt.name}, whose binades or scales the compiled code "
            "cannot do",
        ):
            mx.quantize(np.ones(4), fmt, engine="numba")
        assert _engines.choose_engine("auto", fmt, 1 << 30).__name__.endswith("numpy_engine")


def test_a_full_cache_folder_is_no_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    from mxsafe.codec import numba_engine

    calls = []

    def njit(signature: Any, *, cache: bool = False, **_: Any) -> Any:
        def compile(function: Any) -> Any:
            calls.append(cache)
            if cache:
                raise OSError(28, "No space left on device")
            return function

        return compile

    monkeypatch.setattr(numba_engine.numba, "njit", njit)
    function = numba_engine._jit()(lambda: None)
    function()
    function()
    assert calls == [True, False]


def test_parts_cover_a_tensor_once_along_block_boundaries() -> None:
    for shape, lengths in [
        ((5, 7, 9), (1, 3, 2)),
        ((30, 4), (7, 1)),
        ((1, 100), (1, 8)),
        ((0, 3), (1, 3)),
    ]:
        for in_order in (False, True):
            order = np.full(shape, -1)
            for index, region in enumerate(_parts.parts(shape, lengths, 24, in_order=in_order)):
                assert (order[region] == -1).all()
                order[region] = index
                assert all(part.start % n == 0 for part, n in zip(region, lengths, strict=True))
            assert (order >= 0).all()
            if in_order:
                assert (np.diff(order.reshape(-1)) >= 0).all()
            elif order.size:
                assert np.bincount(order.reshape(-1)).max() <= 24


@pytest.mark.parametrize("engine", ["numpy", "numba"])
def test_memory_does_not_grow_with_the_tensor(engine: Any, volume: Volume) -> None:
    def extra(rows: int, **options: Any) -> int:
        """Bytes beside the results at the worst moment."""
        x = np.ones((rows, 1024), np.float32)
        mx.quantize(x, engine=engine, **options)  # compiles
        tracemalloc.start()
        q = mx.quantize(x, engine=engine, **options)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        tracemalloc.start()
        values = mx.dequantize(q, engine=engine)
        _, again = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return max(peak - q.codes.nbytes - q.scales.nbytes, again - values.nbytes)

    kinds = ({}, {"block": (8, 8)}, {"rounding": "sr", "random": 1, "block": (8, 8)})
    for options in kinds[:: volume(2, 1)]:
        small, large = extra(2048, **options), extra(8192, **options)
        assert large < 1.1 * small + 100_000


def test_small_tensors_and_machines_without_numba_use_the_reference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from mxsafe.codec import numba_engine, numpy_engine

    fmt = MX_FORMATS["mxsf"]
    loaded, unloaded = _engines.WORTH_CALLING, _engines.WORTH_COMPILING
    assert _engines.choose_engine("auto", fmt, loaded - 1) is numpy_engine
    assert _engines.choose_engine("auto", fmt, loaded) is numba_engine
    monkeypatch.delitem(sys.modules, "mxsafe.codec.numba_engine")
    monkeypatch.delattr("mxsafe.codec.numba_engine")
    assert _engines.choose_engine("auto", fmt, unloaded - 1) is numpy_engine
    monkeypatch.setitem(sys.modules, "numba", None)
    assert _engines.choose_engine("auto", fmt, unloaded) is numpy_engine
    with pytest.raises(
        ImportError, match=r"^engine 'numba' needs the extra fast, pip install '.\[fast\]': "
    ):
        mx.quantize(np.ones(4), engine="numba")


def test_engine_is_checked() -> None:
    with pytest.raises(ValueError, match=r"^engine must be one of auto, numpy, numba, not 'gpu'$"):
        mx.quantize(np.ones(4), engine="gpu")


@pytest.mark.parametrize("engine", ["numpy", "numba"])
@pytest.mark.parametrize("blocking", [{"block": 4}, {"block": 4, "axis": 0}, {"block": (4, 4)}])
def test_codes_with_bits_above_their_width(engine: Any, blocking: dict[str, Any]) -> None:
    """The arrays of a tensor can be written to after it was made."""
    for name, width, code in (("mxfp4_e2m1", 4, 255), ("mxfp4_e2m1", 4, 16), ("mxfp6_e3m2", 6, 64)):
        q = mx.quantize(np.ones((8, 8)), name, **blocking)
        for tensor in (q, q.T):
            q.codes[:] = 1
            q.codes[3, 4] = code
            with raises(ValueError, f"codes must have the {width} bits of {name}, not {code:#x}"):
                mx.dequantize(tensor, engine=engine)
        q.codes[:] = 1
        assert np.isfinite(mx.dequantize(q, engine=engine)).all()


def test_the_compiled_table_has_every_byte() -> None:
    """Whoever calls the part alone reads nothing beyond the table either."""
    from mxsafe.codec import numba_engine

    for dtype in (np.float32, np.float64):
        codes = np.arange(256, dtype=np.uint8).reshape(1, 256)
        values = np.empty(codes.shape, dtype)
        scales = np.full((1, 1), 127, np.uint8)
        fmt = MX_FORMATS["mxfp4_e2m1"]
        numba_engine.dequantize_part(codes, scales, fmt, (1, 256), values)
        assert values[0, :8].tolist() == [0, 0.5, 1, 1.5, 2, 3, 4, 6]
        assert np.isnan(values[0, 16:]).all()
