"""Models whose weights are held in formats, against contexts and `mxsafe.quantize`, bit for bit."""

import copy
import io
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mxsafe as mx
from verif.support.tests import raises
from verif.torch.held_models import OPTIONS, Network, network, tokens

torch = pytest.importorskip("torch", reason="torch is not installed")
mxt = pytest.importorskip("mxsafe.torch")
packing = pytest.importorskip("mxsafe.torch._packing")
nn = torch.nn


def as_context(model: Any, x: Any, name: Any, dtype: Any = None, **options: Any) -> Any:
    """The model in a context, its embedding quantised by hand."""
    model = copy.deepcopy(model)
    weights = options.get("weights", name)
    block = options.get("block")
    tile = block[::-1] if isinstance(block, tuple) else block
    values = mxt.fake_quantize(model.words.weight.detach(), weights, block=tile)
    model.words.weight = nn.Parameter(values)
    with mxt.microscaling(name, gradients=None, **options):
        return model(x)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_model_computes_as_in_a_context(options: dict[str, Any]) -> None:
    dtypes = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
    for dtype in dtypes if options is OPTIONS[0] else dtypes[:1]:
        model = network().to(dtype)
        held = copy.deepcopy(model)
        summary = mxt.quantize_(held, "mxsf", **options)
        assert len(summary.quantised) == 8
        with torch.no_grad():
            expected = as_context(model, tokens(), "mxsf", **options)
            assert torch.equal(held(tokens()), expected)
            assert expected.dtype == dtype
            assert not torch.equal(expected, model(tokens()))
            with mxt.microscaling("mxint8", block=32):  # the modules' own formats hold
                again = held(tokens())
            if options.get("activations", "") is not None:
                assert torch.equal(again, expected)


@pytest.mark.parametrize(
    ("fmt", "arithmetic"),
    [("mxsf", "array"), ("mxsf", "array_fp12"), ("mxsf", "array_window"), ("nvfp4", "array")],
)
def test_products_of_the_array(fmt: str, arithmetic: Any, tmp_path: Path) -> None:
    """Products of linear layers are `mxsafe.matmul` of codes, those of convolutions a context's."""
    torch.manual_seed(0)
    linear, x = nn.Linear(72, 10, bias=False), torch.randn(2, 3, 72)
    known = {"array": "exact", "array_fp12": "fp12", "array_window": "window"}[arithmetic]
    mxt.quantize_(linear, fmt, block=16, arithmetic=arithmetic)
    codes = mx.quantize(x.reshape(6, 72).numpy(), fmt, block=16)
    expected = mx.matmul(codes, linear.weight.tensor().numpy().T, arithmetic=known)
    with torch.no_grad():
        assert linear(x).numpy().tobytes() == expected.tobytes()
    convolution = nn.Conv2d(6, 4, (3, 2), stride=2, padding=1, groups=2)
    images = torch.randn(2, 6, 7, 5)
    with torch.no_grad(), mxt.microscaling(fmt, block=16, arithmetic=arithmetic):
        wanted = convolution(images)
    mxt.quantize_(convolution, fmt, block=16, arithmetic=arithmetic)
    with torch.no_grad():
        assert torch.equal(convolution(images), wanted)
        assert torch.equal(convolution(images[0]), convolution(images[:1])[0])
    path = tmp_path / "model.safetensors"
    mxt.save_model(path, convolution)
    fresh = nn.Conv2d(6, 4, (3, 2), stride=2, padding=1, groups=2)
    mxt.load_model(path, fresh)
    with torch.no_grad():
        assert torch.equal(fresh(images), wanted)
    assert f"arithmetic={arithmetic}" in repr(fresh)
    message = f"arithmetic must be 'float' or 'float64' for gradients, not {arithmetic!r}"
    with pytest.raises(RuntimeError, match=message):
        linear(x.requires_grad_())


@pytest.mark.parametrize("arithmetic", ["float", "float64"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_every_product_of_attention_is_that_of_a_context(dtype: Any, arithmetic: Any) -> None:
    """Values of NVFP4 are no numbers of float16, and their sums round in float32."""
    torch.manual_seed(0)
    model = nn.MultiheadAttention(48, 2, batch_first=True).to(dtype).eval()
    held, x = copy.deepcopy(model), torch.randn(3, 9, 48).to(dtype)
    mxt.quantize_(held, "nvfp4", arithmetic=arithmetic)
    with torch.no_grad():
        with mxt.microscaling("nvfp4", gradients=None, arithmetic=arithmetic):
            expected, chances = model(x, x, x)
        with mxt.microscaling("nvfp4", gradients=None):
            in_float = model(x, x, x)[0]
        y, own_chances = held(x, x, x)
    assert y.dtype == dtype
    assert torch.equal(y, expected)
    assert torch.equal(own_chances, chances)
    if (dtype, arithmetic) == (torch.float32, "float64"):
        assert not torch.equal(in_float, expected)


@pytest.mark.parametrize("block", [16, (8, 16)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sums_are_rounded_in_the_order_of_a_context(dtype: Any, block: Any) -> None:
    """Products of a row and of many, and of another layout, are not summed in one order."""
    for seed, rows in enumerate((1, 1, 3, 64)):
        torch.manual_seed(seed)
        model, x = nn.Linear(256, 1000).to(dtype), torch.randn(rows, 256).to(dtype)
        held = copy.deepcopy(model)
        mxt.quantize_(held, "nvfp4", block=block)
        with torch.no_grad(), mxt.microscaling("nvfp4", gradients=None, block=block):
            expected = model(x)
        assert torch.equal(held(x), expected)


def test_a_scale_of_the_tensor() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(48, 32), nn.ReLU(), nn.Linear(32, 8))
    held = copy.deepcopy(model)
    mxt.quantize_(held, "nvfp4")
    x = torch.randn(5, 48)
    with mxt.microscaling("nvfp4"):
        expected = model(x)
    assert torch.equal(held(x), expected)
    shared = held[0].weight.tensor_scale.clone()
    held.half()  # its dtype is not that of the module
    assert held[0].weight.tensor_scale.dtype == torch.float32
    assert torch.equal(held[0].weight.tensor_scale, shared)
    assert held[0].weight.dequantize().dtype == torch.float16


@pytest.mark.parametrize("name", ["mxsf", "mxfp6_e3m2", "mxfp4_e2m1", "nvfp4"])
def test_weights_hold_the_codes_of_the_reference(name: str) -> None:
    model = nn.Linear(100, 40)
    weight = model.weight.detach().numpy().copy()
    mxt.quantize_(model, name, block=16)
    expected = mx.quantize(weight, name, block=16)
    width = expected.format.width
    np.testing.assert_array_equal(model.weight.codes, mx.packing.pack_codes(expected.codes, width))
    np.testing.assert_array_equal(model.weight.scales, expected.scales)
    np.testing.assert_array_equal(model.weight.tensor().codes, expected.codes)
    np.testing.assert_array_equal(model.weight.dequantize(), mx.dequantize(expected))


@pytest.mark.parametrize("width", range(1, 9))
def test_packing_equals_that_of_numpy(width: int) -> None:
    rng = np.random.default_rng(width)
    for count in range(1, 20):
        codes = rng.integers(0, 1 << width, (3, count), np.uint8)
        data = packing.packed(torch.from_numpy(codes), width)
        np.testing.assert_array_equal(data, mx.packing.pack_codes(codes, width))
        np.testing.assert_array_equal(packing.unpacked(data, width, count), codes)


def test_the_memory_of_a_model_is_that_of_its_codes() -> None:
    for name, bits in (("mxsf", 8), ("mxfp6_e2m3", 6), ("mxfp4_e2m1", 4)):
        model = nn.Sequential(nn.Embedding(50, 128), nn.Linear(128, 256, bias=False))
        assert mxt.nbytes(model) == 4 * (50 + 256) * 128
        summary = mxt.quantize_(model, name, block=32)
        expected = (50 + 256) * 128 * bits // 8 + (50 + 256) * 4
        assert mxt.nbytes(model) == summary.after == expected
        assert sum(t.nbytes for t in model.state_dict().values() if t.ndim == 2) == expected


def test_a_weight_that_modules_share_is_held_once() -> None:
    model = nn.Sequential(nn.Embedding(50, 64), nn.Linear(64, 50, bias=False))
    model[1].weight = model[0].weight
    mxt.quantize_(model, "mxsf")
    assert model[0].weight is model[1].weight
    assert mxt.nbytes(model) == 50 * 65


@pytest.mark.parametrize("block", [16, (8, 4)])
def test_nothing_gives_nothing(block: Any) -> None:
    embedding, linear = nn.Embedding(10, 64), nn.Linear(64, 8)
    with torch.no_grad(), mxt.microscaling("mxsf", block=16, arithmetic="array"):
        assert linear(torch.zeros(0, 64)).shape == (0, 8)
        assert torch.matmul(torch.zeros(0, 3, 64), torch.zeros(0, 64, 2)).shape == (0, 3, 2)
    mxt.quantize_(embedding, "mxsf", block=block)
    for shape in ((0,), (2, 0), (0, 3)):
        values = embedding(torch.zeros(shape, dtype=torch.long))
        assert (values.shape, values.dtype) == ((*shape, 64), torch.float32)
    mxt.quantize_(linear, "mxsf", block=16, arithmetic="array")
    with torch.no_grad():
        assert linear(torch.zeros(0, 64)).shape == (0, 8)
        with raises(
            ValueError, "input must have 64 numbers along its last axis, not shape (2, 63)"
        ):
            linear(torch.zeros(2, 63))


@pytest.mark.filterwarnings("ignore:Sparse CS[RC] tensor support")
@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr", "sparse_csc"])
def test_sparse_weights_stay_as_they_are(layout: str, tmp_path: Path) -> None:
    pytest.importorskip("safetensors", reason="safetensors is not installed")
    model = nn.Sequential(nn.Linear(64, 8), nn.Linear(8, 8))
    sparse = torch.eye(8).to_sparse(layout=getattr(torch, layout))
    model[1].weight = nn.Parameter(sparse, requires_grad=False)
    summary = mxt.quantize_(model, "mxsf")
    assert [one.reason for one in summary.modules] == ["", f"weights that are {layout}"]
    held = 8 * 4 + 16 * 8 if layout == "sparse_coo" else 8 * 4 + 17 * 8
    assert summary.modules[1].after == held + 8 * 4
    assert mxt.nbytes(model) == summary.after == summary.modules[0].after + held + 8 * 4
    with raises(ValueError, f"model must have dense tensors to be saved, not 1.weight as {layout}"):
        mxt.save_model(tmp_path / "m.safetensors", model)


def test_gradients_pass_to_activations() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))
    mxt.quantize_(model, "mxsf", block=16)
    x = torch.randn(3, 16, requires_grad=True)
    model(x).sum().backward()
    with torch.no_grad():
        hidden = mxt.fake_quantize(x, block=16) @ model[0].weight.dequantize().t() + model[0].bias
        one = torch.ones(3, 4) @ model[2].weight.dequantize()
        expected = (one * (hidden > 0)) @ model[0].weight.dequantize()
    assert torch.equal(x.grad, expected)
    assert model[0].bias.grad is not None


def test_state_dicts_come_back_with_defaults() -> None:
    for options in OPTIONS:
        held = network()
        mxt.quantize_(held, "mxsf", **options)
        file = io.BytesIO()
        torch.save(held.state_dict(), file)
        file.seek(0)
        other = Network().eval()
        mxt.quantize_(other, "mxsf", **options)
        other.load_state_dict(torch.load(file))
        assert torch.equal(other(tokens()), held(tokens()))


def test_a_state_of_another_format_is_refused() -> None:
    a, b = nn.Linear(32, 4), nn.Linear(32, 4)
    mxt.quantize_(a, "mxsf", block=32)
    mxt.quantize_(b, "mxfp8_e4m3", block=32)
    with pytest.raises(
        ValueError, match=r"state must be of a module with .*mxsf.*, not with .*e4m3"
    ):
        a.load_state_dict(b.state_dict())
    with raises(ValueError, "state must be that of a quantised module, not 3"):
        a.set_extra_state(3)


@pytest.mark.parametrize("part", ["codes", "scales", "tensor_scale"])
def test_a_state_is_checked_before_any_module_changes(part: str) -> None:
    model = nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 32), nn.Linear(32, 4))
    mxt.quantize_(model, {"2": "nvfp4", "*": "mxsf"})
    before = {name: t.clone() for name, t in model.state_dict().items()}
    good = {name: torch.zeros_like(t) if "state" not in name else t for name, t in before.items()}
    key, dtype = f"2.weight.{part}", before[f"2.weight.{part}"].dtype
    other = torch.float64 if part == "tensor_scale" else torch.float32
    for bad, found in ((good[key].to(other), other), (3, 3)):
        with raises(TypeError, f"{key} must be a tensor of {dtype}, not {found}"):
            model.load_state_dict({**good, key: bad})
        with raises(TypeError, f"{key[2:]} must be a tensor of {dtype}, not {found}"):
            model[2].load_state_dict({**good, key[2:]: bad})
    a_copy = copy.deepcopy(model)
    mxfp8 = nn.Linear(32, 4)
    mxt.quantize_(mxfp8, "mxfp8_e4m3")
    with pytest.raises(ValueError, match="state must be of a module with"):
        a_copy.load_state_dict({**good, "2._extra_state": mxfp8.state_dict()["_extra_state"]})
    for one in (model, a_copy):
        assert all(torch.equal(t, before[name]) for name, t in one.state_dict().items())
    model.load_state_dict(good)
    assert not model[1].weight.codes.any()


def test_modules_move_and_show_their_format() -> None:
    model = network()
    mxt.quantize_(model, {"layer.linear1": "nvfp4", "*": "mxsf"})
    text = repr(model)
    assert "(weight): QuantizedWeight(nvfp4, 96 x 48, block=16, 2,596 bytes)" in text
    assert "activations=mxsf in blocks of 64" in text
    assert isinstance(model.last, nn.Linear)
    far = copy.deepcopy(model).to("meta", torch.bfloat16)
    weight = far.layer.linear1.weight
    assert (weight.device.type, weight.scales.device.type) == ("meta", "meta")
    assert weight.tensor_scale.device.type == "meta"
    assert (weight.dtype, weight.codes.dtype) == (torch.bfloat16, torch.uint8)
    with raises(TypeError, "weight must be a tensor for linear: take dequantize() of it"):
        nn.functional.linear(torch.ones(2, 48), model.words.weight)


def test_recipes_by_name_and_the_summary() -> None:
    class Own(nn.Linear):
        pass

    model = nn.ModuleDict(
        {
            "a": nn.Linear(32, 32),
            "b": nn.Linear(32, 32),
            "c": nn.Linear(32, 32),
            "d": nn.Linear(32, 32),
            "own": Own(32, 32),
            "norm": nn.LayerNorm(32),
            "short": nn.Embedding(4, 32, max_norm=1.0),
        }
    )
    recipe = {"a": {"weights": "mxfp4_e2m1", "activations": "mxsf"}, "b": None, "[cson]*": "mxint8"}
    summary = mxt.quantize_(model, recipe, filter=["?", lambda name, module: name == "short"])
    assert {one.name: one.reason for one in summary.modules} == {
        "a": "",
        "b": "no format of weights",
        "c": "",
        "d": "no pattern fits",
        "own": "a class of its own, not Linear itself",
        "norm": "of no kind that is quantised",
        "short": "max_norm changes its weights",
    }
    assert [(one.weights, one.activations) for one in summary.quantised] == [
        ("mxfp4_e2m1", "mxsf"),
        ("mxint8", "mxint8"),
    ]
    assert (summary.quantised[0].before, summary.quantised[0].after) == (4224, 672)
    assert "2 of 7 modules quantised" in str(summary)
    assert "<td>max_norm changes its weights</td>" in summary._repr_html_()
    again = mxt.quantize_(model, "mxsf", filter="[ad]")
    reasons = {one.name: one.reason for one in again.modules}
    assert (reasons["a"], reasons["c"], reasons["d"]) == (
        "already quantised",
        "already quantised",
        "",
    )


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((3,), {}, TypeError, "model must be a torch.nn.Module, not int"),
        ((nn.Linear(4, 4), {"x*": "mxsf"}), {}, ValueError,
         "format must have patterns that fit modules, not 'x*'"),
        ((nn.Linear(4, 4), {3: "mxsf"}), {}, TypeError,
         "format must be a mapping of names, not of 3"),
        ((nn.Linear(4, 4), {"*": {"weight": "mxsf"}}), {}, ValueError,
         "format must have weights and activations for '*', not 'weight'"),
        ((nn.Linear(4, 4), {"*": "mxsf"}), {"weights": "mxint8"}, TypeError,
         "weights and activations must be left out beside a mapping of formats"),
        ((nn.Linear(4, 4),), {"filter": "x"}, ValueError,
         "filter must name modules of the model, not 'x'"),
        ((nn.Linear(4, 4),), {"filter": 3}, TypeError,
         "filter must be names or callables, not 3"),
        ((nn.Linear(4, 4),), {"filter": [3]}, TypeError,
         "filter must be names or callables, not 3"),
        ((nn.Linear(4, 4),), {"block": 0}, ValueError,
         "block must be a positive integer or a pair of positive integers, not 0"),
        ((nn.Linear(4, 4, device="meta"),), {}, ValueError,
         "model must have its weights in memory, not a module on meta"),
        ((nn.Linear(4, 4),), {"arithmetic": "exact"}, ValueError,
         "arithmetic must be one of float, float64, array, array_fp12, array_window, not 'exact'"),
        ((nn.Linear(4, 4),), {"arithmetic": "array", "activations": None}, ValueError,
         "activations must have a format for arithmetic 'array', not None"),
        ((nn.Linear(4, 4),), {"arithmetic": "array", "weights": "mxfp8_e4m3"}, ValueError,
         "block must be one length, or one square tile, of activations and weights for arithmetic "
         "'array', not 64 and 32"),
        ((nn.MultiheadAttention(4, 2),), {"arithmetic": "array"}, ValueError,
         "arithmetic must be 'float' or 'float64' for MultiheadAttention, not 'array'"),
        ((nn.LazyLinear(4),), {}, ValueError,
         "model must have all its parameters, not a lazy module's weight"),
    ],
)  # fmt: skip
def test_bad_input(arguments: Any, options: Any, error: Any, message: str) -> None:
    with raises(error, message):
        mxt.quantize_(*arguments, **options)


def test_a_refused_model_is_as_it_was() -> None:
    model = nn.ModuleDict({"a": nn.Linear(8, 8), "b": nn.Linear(8, 8, device="meta")})
    with raises(ValueError, "model must have its weights in memory, not b on meta"):
        mxt.quantize_(model)
    assert type(model["a"]) is nn.Linear
    generator = torch.Generator()
    with pytest.raises(ValueError, match="activations must not be rounded by 'sr' in modules"):
        mxt.quantize_(model, mxt.Quantiser(rounding="sr", random=generator))


def narrow(model: Any, x: Any) -> Any:
    """Weights were quantised before autocast; all else is in bfloat16."""
    return copy.deepcopy(model).bfloat16()(x.bfloat16())


def rows_of_jacobian(model: Any, x: Any) -> Any:
    rows = torch.eye(5 * 12).reshape(-1, 5, 12)
    return torch.stack([torch.func.vjp(model, x)[1](row)[0] for row in rows])


def compiled(model: Any, x: Any) -> Any:
    return torch.compile(model, backend="aot_eager", fullgraph=True)(x)


def checkpointed(model: Any, x: Any) -> Any:
    return torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False)


def plain(model: Any, x: Any) -> Any:
    return model(x)


def each(model: Any, x: Any) -> Any:
    return torch.stack([model(one[None])[0] for one in x])


WAYS: dict[str, tuple[Any, Any]] = {
    "compile": (compiled, plain),
    "export": (lambda model, x: torch.export.export(model, (x,)).module()(x), plain),
    "vmap": (lambda model, x: torch.vmap(lambda one: model(one[None])[0])(x), each),
    "jacrev": (lambda model, x: torch.func.jacrev(model)(x).flatten(0, 1), rows_of_jacobian),
    "functional_call": (
        lambda model, x: torch.func.functional_call(model, dict(model.named_parameters()), (x,)),
        plain,
    ),
    "checkpoint": (checkpointed, plain),
    "inference_mode": (lambda model, x: torch.inference_mode()(model)(x), plain),
    "autocast": (lambda model, x: torch.autocast("cpu", torch.bfloat16)(model)(x), narrow),
}


@pytest.mark.filterwarnings("ignore")  # of compilers
@pytest.mark.parametrize(("way", "by_hand"), WAYS.values(), ids=WAYS)
def test_ways_into_pytorch(way: Any, by_hand: Any) -> None:
    with suppress(ImportError):  # it is loaded for large tensors, and then serves small ones too
        import_module("mxsafe.codec.numba_engine")
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(32, 16), nn.ReLU(), nn.Unflatten(1, (1, 4, 4)), nn.Conv2d(1, 3, 3), nn.Flatten()
    )
    mxt.quantize_(model, {"0": "mxfp4_e2m1", "*": "mxsf"}, block=16)
    x = torch.randn(5, 32)
    got, expected = way(model, x), by_hand(model, x)
    assert got.dtype == expected.dtype
    assert torch.equal(got, expected)
