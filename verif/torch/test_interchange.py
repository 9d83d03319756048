"""State dicts of other libraries: what they hold is read and written, bit for bit."""

import importlib
import warnings
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import mxsafe as mx
from verif.support.tests import Tally, raises

torch = pytest.importorskip("torch", reason="torch is not installed")
mxt = pytest.importorskip("mxsafe.torch")

CT, GPT, AO = "compressed-tensors", "gpt-oss", "torchao"


def library(name: str) -> ModuleType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return importlib.import_module(name)
        except ImportError as error:
            pytest.skip(f"{name.partition('.')[0]} is not installed: {error}")


def drawn(*shape: int) -> Any:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))
    return x * torch.exp2(torch.arange(shape[0]) - 5.0).reshape(-1, *(1,) * (len(shape) - 1))


@pytest.mark.parametrize(
    ("layout", "name"),
    [
        (CT, "mxfp4_e2m1"),
        (CT, "nvfp4"),
        (CT, "mxfp8_e4m3"),
        (GPT, "mxfp4_e2m1"),
    ],
)
def test_what_is_written_is_read_again(layout: str, name: str) -> None:
    q = mxt.quantize(drawn(12, 128), name)
    other = torch.ones(3)
    state = mxt.to_state({"a.weight": q, "a.bias": other}, layout)
    again = mxt.from_state(state, layout)
    assert set(again) == {"a.weight", "a.bias"}
    assert again["a.bias"] is other
    assert torch.equal(again["a.weight"].codes, q.codes)
    assert torch.equal(again["a.weight"].scales, q.scales)
    assert all(isinstance(t, torch.Tensor) for t in state.values())


def test_blocks_of_gpt_oss_equal_those_of_transformers(tally: Tally) -> None:
    theirs = library("transformers.integrations.mxfp4")
    rng = np.random.default_rng(3)
    blocks = torch.from_numpy(rng.integers(0, 256, (2, 6, 5, 16), np.uint8))
    scales = torch.from_numpy(rng.integers(1, 254, (2, 6, 5), np.uint8))
    state = {"w_blocks": blocks, "w_scales": scales}
    q = mxt.from_state(state, GPT)["w"]
    values = theirs._convert_moe_packed_tensors(blocks, scales, dtype=torch.float32)
    # Theirs is the transpose, for products from the left.
    values = values.transpose(1, 2) if values.shape != q.shape else values
    assert torch.equal(q.dequantize(), values)
    written = mxt.to_state({"w": q}, GPT)
    assert all(torch.equal(written[key], t) for key, t in state.items())
    old = {"w.blocks": blocks, "w.scales": scales}
    assert torch.equal(mxt.from_state(old, GPT)["w"].codes, q.codes)
    tally("transformers", "gpt-oss", values.numel())


def compressor(kind: str) -> Any:
    theirs = library("compressed_tensors.compressors.base")
    return theirs.BaseCompressor.get_value_from_registry(kind)


def scheme(**weights: Any) -> Any:
    theirs = library("compressed_tensors.quantization")
    arguments = theirs.QuantizationArgs(type="float", symmetric=True, **weights)
    return theirs.QuantizationScheme(targets=["Linear"], weights=arguments)


@pytest.mark.parametrize(
    ("name", "compressed", "keys"),
    [
        ("mxfp4_e2m1", "mxfp4-pack-quantized", {"weight_packed", "weight_scale"}),
        ("mxfp8_e4m3", "mxfp8-quantized", {"weight", "weight_scale"}),
    ],
)
def test_mx_formats_equal_compressed_tensors(
    name: str, compressed: str, keys: set[str], tally: Tally
) -> None:
    kind = compressor(compressed)
    x = drawn(16, 256).bfloat16()
    ours = mxt.quantize(x, name)
    bits = ours.format.width
    args = scheme(num_bits=bits, strategy="group", group_size=32, scale_dtype=torch.uint8)
    scale = torch.exp2(ours.scales.float() - 127).bfloat16()
    theirs = kind.compress({"weight": x, "weight_scale": scale}, args)
    state = mxt.to_state({"weight": ours}, CT)
    assert set(state) == keys
    for key in state:
        assert torch.equal(state[key].view(torch.uint8), theirs[key].view(torch.uint8))
    q = mxt.from_state(theirs, CT)["weight"]
    values = kind.decompress(theirs, args)["weight"]
    assert torch.equal(q.dequantize(torch.bfloat16), values.bfloat16())
    tally("compressed-tensors", name[:5], values.numel())


def test_nvfp4_equals_compressed_tensors(tally: Tally) -> None:
    kind = compressor("nvfp4-pack-quantized")
    args = scheme(num_bits=4, strategy="tensor_group", group_size=16)
    x = torch.randn(16, 256, generator=torch.Generator().manual_seed(1))
    for shared in (2.0**-9, 0.0123):  # a reciprocal is exact, and is not
        ours = mxt.quantize(x, "nvfp4", tensor_scale=np.float32(shared))
        inverse = torch.tensor([1 / shared], dtype=torch.float32)
        scale = ours.scales.view(torch.float8_e4m3fn).float()
        given = {"weight": x, "weight_scale": scale, "weight_global_scale": inverse}
        theirs = kind.compress(given, args)
        state = mxt.to_state({"weight": ours}, CT)
        assert set(state) == {"weight_packed", "weight_scale", "weight_global_scale"}
        assert torch.equal(state["weight_scale"], theirs["weight_scale"].to(torch.float8_e4m3fn))
        q = mxt.from_state(theirs, CT)["weight"]
        values = kind.decompress(theirs, args)["weight"]
        wanted = q.dequantize(torch.bfloat16)
        if shared == 2.0**-9:
            assert torch.equal(state["weight_packed"], theirs["weight_packed"])
            assert torch.equal(wanted, values)
        else:  # they round the product of both scales to bfloat16
            torch.testing.assert_close(wanted, values, rtol=2**-7, atol=0)
        tally("compressed-tensors", "nvfp4", values.numel())


@pytest.mark.parametrize("name", ["mxfp8_e4m3", "mxfp8_e5m2", "mxfp4_e2m1", "nvfp4"])
def test_tensors_of_torchao(name: str, tally: Tally) -> None:
    mx_tensor = library("torchao.prototype.mx_formats.mx_tensor")
    nvfp4 = library("torchao.prototype.mx_formats.nvfp4_tensor")
    x = drawn(16, 256).bfloat16()
    if name == "nvfp4":
        shared = nvfp4.per_tensor_amax_to_scale(x.abs().max())
        theirs = nvfp4.NVFP4Tensor.to_nvfp4(x, per_tensor_scale=shared)
    else:
        dtypes = {"mxfp8_e4m3": "float8_e4m3fn", "mxfp8_e5m2": "float8_e5m2"}
        dtype = getattr(torch, dtypes.get(name, "float4_e2m1fn_x2"))
        theirs = mx_tensor.MXTensor.to_mx(x, dtype, 32)
    q = mxt.from_state({"w": theirs}, AO)["w"]
    assert (q.format.name, q.dtype) == (name, torch.bfloat16)
    values = theirs.dequantize(torch.float32)
    if name == "nvfp4":  # they round the product of both scales to float32 first
        torch.testing.assert_close(q.dequantize(torch.float32), values, rtol=2**-23, atol=0)
        swizzled = nvfp4.NVFP4Tensor.to_nvfp4(x, is_swizzled_scales=True)
        with raises(ValueError, "w must have scales in the order of blocks, not swizzled"):
            mxt.from_state({"w": swizzled}, AO)
    else:
        assert torch.equal(q.dequantize(torch.float32), values)
        assert torch.equal(q.codes, mxt.quantize(x, name).codes)
    written = mxt.to_state({"w": q}, AO)["w"]
    assert torch.equal(written.qdata.view(torch.uint8), theirs.qdata.view(torch.uint8))
    assert torch.equal(written.scale.view(torch.uint8), theirs.scale.view(torch.uint8))
    assert torch.equal(written.dequantize(torch.float32), values)
    tally("torchao", f"state {name}", values.numel())


PARTS = {"packed": torch.zeros(4, 32, dtype=torch.uint8), "blocks": torch.zeros(4, 2, 16).byte()}
SCALES = torch.zeros(4, 2, dtype=torch.uint8)


@pytest.mark.parametrize(
    ("state", "layout", "message"),
    [
        ({"w": SCALES}, CT, "state must have quantised tensors of compressed-tensors, not none"),
        ({"w_packed": PARTS["packed"]}, CT, "state must have w_scale beside w_packed, not none"),
        ({"w_packed": PARTS["packed"], "w_scale": SCALES[:3]}, CT,
         "w: scales must have shape (4, 2) for codes of shape (4, 64) in blocks of 32 along axis "
         "-1, not (3, 2)"),
        ({"w_blocks": PARTS["blocks"]}, GPT, "state must have w_scales beside w_blocks, not none"),
        ({"w.blocks": PARTS["packed"], "w.scales": SCALES}, GPT,
         "w.blocks must have 16 bytes a block, not shape (4, 32)"),
        ({"w_packed": PARTS["packed"], "w_scale": SCALES.repeat(1, 2),
          "w_global_scale": torch.zeros(1)}, CT,
         "w: tensor_scale must be a positive finite float that float32 holds exactly for nvfp4, "
         "not np.float32(inf)"),
    ],
)  # fmt: skip
def test_states_that_are_refused(state: Any, layout: str, message: str) -> None:
    with raises(ValueError, message):
        mxt.from_state(state, layout)


def test_what_a_layout_cannot_say_is_not_written() -> None:
    tiny = mxt.quantize(torch.full((1, 16), 1e-44), "nvfp4")
    shared = tiny.tensor_scale.item()
    with raises(
        ValueError,
        "tensor_scale of w must have a reciprocal in float32 for compressed-tensors, not be "
        f"{shared}",
    ):
        mxt.to_state({"w": tiny}, CT)
    q, other = mxt.quantize(drawn(4, 64), "mxfp4_e2m1"), torch.ones(3)
    for tensors, name in (({"w": q, "w_scale": other}, "w_scale"),
                          ({"w_scale": other, "w": q}, "w")):  # fmt: skip
        with raises(
            ValueError, f"tensors must not have 'w_scale' twice, a part of {name!r} among them"
        ):
            mxt.to_state(tensors, CT)


@pytest.mark.parametrize("key", ["w_packed", "w_scale"])
@pytest.mark.parametrize(
    ("change", "words"),
    [(lambda t: t.to("meta"), "on the device meta"), (lambda t: t.to_sparse(), "torch.sparse_coo")],
)
def test_parts_without_memory_are_refused(key: str, change: Any, words: str) -> None:
    state = {"w_packed": PARTS["packed"], "w_scale": SCALES}
    with raises(TypeError, f"w must have codes and scales in memory, dense, not {words}"):
        mxt.from_state(state | {key: change(state[key])}, CT)


def test_bad_input() -> None:
    with raises(TypeError, "w must have codes and scales of bytes, not torch.float32"):
        mxt.from_state({"w_packed": PARTS["packed"], "w_scale": SCALES.float()}, CT)
    with pytest.raises(ValueError, match="layout must be one of"):
        mxt.from_state({}, "gguf")
    q = mxt.quantize(drawn(4, 64), "mxsf")
    with pytest.raises(ValueError, match=r"format of w must be .*for gpt-oss"):
        mxt.to_state({"w": q}, GPT)
    q = mxt.quantize(drawn(4, 40), "mxfp4_e2m1")
    with raises(
        ValueError,
        "w must be in whole blocks of 32 along the last axis for gpt-oss, not in 32 along -1 of "
        "shape (4, 40)",
    ):
        mxt.to_state({"w": q}, GPT)
    assert mx.dequantize(q).shape == (4, 40)
