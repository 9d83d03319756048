"""Whole models in a format, against products put together by hand in float64 and by `mx.matmul`."""

import threading
import warnings
from typing import Any

import numpy as np
import pytest

import mxsafe as mx
from verif.support.tests import Tally, raises

torch = pytest.importorskip("torch", reason="torch is not installed")
mxt = pytest.importorskip("mxsafe.torch")
functions = pytest.importorskip("mxsafe.torch._functions")
functional = torch.nn.functional

A, W, G = "mxsf", "mxfp4_e2m1", "mxfp8_e5m2"
OWN = {"activations": A, "weights": W, "gradients": G}


def q(t: Any, name: str, axis: int, block: Any = 8) -> Any:
    """Values of a tensor in a format, by the reference, as float64."""
    x = t.detach().numpy()
    return torch.from_numpy(
        mx.dequantize(mx.quantize(x, name, block=block, axis=axis), dtype=np.float64)
    )


def drawn(*shape: int, seed: int = 0) -> Any:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=generator)


def equal(*pairs: tuple[Any, Any]) -> int:
    """Whether results equal those of float64, rounded to their dtype; returns how many."""
    compared = 0
    for got, expected in pairs:
        np.testing.assert_array_equal(got.detach().numpy(), expected.to(got.dtype).numpy())
        compared += got.numel()
    assert compared > 0
    return compared


def close(got: Any, expected: Any) -> int:
    """The same but for the order of float64's sums."""
    np.testing.assert_allclose(got.detach().numpy(), expected.detach().numpy(), 1e-12, 1e-12)
    return got.numel()


@pytest.mark.parametrize("block", [8, (4, 4)])
def test_mlp(block: Any, tally: Tally) -> None:
    """Two layers, forward and backward, each product from operands quantised by hand."""
    first, last = torch.nn.Linear(20, 12), torch.nn.Linear(12, 5, bias=False)
    x = drawn(3, 7, 20).requires_grad_()
    with mxt.microscaling(block=block, arithmetic="float64", **OWN):
        hidden = first(x)
        y = last(torch.relu(hidden))
    gradient = drawn(*y.shape)
    hidden.retain_grad()
    y.backward(gradient)
    rows, g = x.detach().reshape(21, 20), gradient.reshape(21, 5)
    h = (q(rows, A, 1, block) @ q(first.weight, W, 1, block).T).float() + first.bias
    act = torch.relu(h).detach()
    grad_h = (q(g, G, 1, block) @ q(last.weight, W, 0, block)).float() * (h > 0)
    compared = equal(
        (hidden.reshape(21, 12), h.detach()),
        (y.reshape(21, 5), q(act, A, 1, block) @ q(last.weight, W, 1, block).T),
        (last.weight.grad, q(g, G, 0, block).T @ q(act, A, 0, block)),
        (hidden.grad.reshape(21, 12), grad_h),
        (x.grad.reshape(21, 20), q(grad_h, G, 1, block) @ q(first.weight, W, 0, block)),
        (first.weight.grad, q(grad_h, G, 0, block).T @ q(rows, A, 0, block)),
    )
    tally("float64", "torch products", compared)


CONVOLUTIONS = [
    ((torch.nn.Conv1d, 1), {"kernel_size": 3, "padding": 1}),
    ((torch.nn.Conv2d, 2), {"kernel_size": 3, "stride": 2, "padding": 1, "groups": 2}),
    ((torch.nn.Conv2d, 2), {"kernel_size": (3, 2), "padding": (2, 1), "dilation": (2, 1)}),
    ((torch.nn.Conv2d, 2), {"kernel_size": (4, 3), "padding": "same"}),
    ((torch.nn.Conv2d, 2), {"kernel_size": 1, "stride": 3}),
]


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
@pytest.mark.parametrize(("kind", "options"), CONVOLUTIONS)
def test_convolutions(kind: Any, options: dict[str, Any], tally: Tally) -> None:
    make, rank = kind
    layer = make(12, 8, bias=True, **options)
    groups = options.get("groups", 1)
    x = drawn(5, 12, *(9, 7)[:rank]).requires_grad_()
    with mxt.microscaling(block=4, arithmetic="float64", **OWN):
        y = layer(x)
    gradient = drawn(*y.shape)
    y.backward(gradient)

    def by_hand(axis_x: int, axis_w: int, axis_g: int) -> list[Any]:
        """PyTorch's own gradients in float64, with operands quantised along the axes given."""
        parts = []
        for t, name, axis in ((x, A, axis_x), (layer.weight, W, axis_w), (gradient, G, axis_g)):
            values = [
                q(part, name, axis, 4) for part in t.chunk(groups, int(t is not layer.weight))
            ]
            parts.append(torch.cat(values, int(t is not layer.weight)).requires_grad_())
        qx, qw, qg = parts
        result = layer._conv_forward(qx, qw, None)
        return [result, *torch.autograd.grad(result, (qx, qw), qg)]

    channels = [t.detach() for t in by_hand(1, 1, 1)]
    compared = equal((y, channels[0].float() + layer.bias.detach().reshape(-1, *(1,) * rank)))
    for got, expected in ((x.grad, by_hand(1, 0, 1)[1]), (layer.weight.grad, by_hand(0, 1, 0)[2])):
        np.testing.assert_allclose(got.numpy(), expected.float().numpy(), 1e-6, 1e-6)
        compared += got.numel()
    tally("float64", "torch convolutions", compared)


@pytest.mark.parametrize("arithmetic", ["array", "array_fp12"])
def test_products_of_the_array(arithmetic: Any, tally: Tally) -> None:
    """Bit for bit those of `mx.matmul`, forward and backward."""
    name: Any = {"array": "exact", "array_fp12": "fp12"}[arithmetic]
    compared = 0
    for block in (8, (4, 4)):
        a, b = drawn(2, 9, 20).requires_grad_(), drawn(2, 20, 11).requires_grad_()
        with mxt.microscaling(A, block=block, gradients=G, arithmetic=arithmetic):
            y = a @ b
        g = drawn(*y.shape)
        y.backward(g)

        def product(left: Any, right: Any, formats: tuple[str, str], block: Any = block) -> Any:
            qa = mx.quantize(left.detach().numpy(), formats[0], block=block)
            qb = mx.quantize(right.detach().numpy(), formats[1], block=block, axis=0)
            return torch.from_numpy(mx.matmul(qa, qb, arithmetic=name))

        for i in range(2):
            compared += equal(
                (y[i], product(a[i], b[i], (A, A))),
                (a.grad[i], product(g[i], b[i].T, (G, A))),
                (b.grad[i], product(a[i].T, g[i], (A, G))),
            )
    tally(arithmetic, "torch products", compared)


@pytest.mark.parametrize(("kind", "options"), CONVOLUTIONS[1:])
@pytest.mark.parametrize("block", [4, (2, 2)])
def test_convolutions_of_the_array(
    kind: Any, options: dict[str, Any], block: Any, tally: Tally
) -> None:
    """Sums of a few terms are exact in any order: the array's equal those of float64."""
    layer = kind[0](4, 6, bias=False, **options)
    x = torch.sign(drawn(3, 4, 6, 5))
    with torch.no_grad():
        layer.weight.sign_()
    results = []
    for arithmetic in ("float64", "array"):
        layer.zero_grad()
        images = x.clone().requires_grad_()
        with mxt.microscaling("mxfp8_e4m3", block=block, arithmetic=arithmetic):
            y = layer(images)
        y.backward(torch.sign(drawn(*y.shape)))
        results.append((y, images.grad, layer.weight.grad.clone()))
    compared = 0
    for ours, array in zip(*results, strict=True):
        compared += equal((ours, array.detach()))
    assert compared > 0
    tally("array", "torch convolutions", compared)


def test_transformer_layer(tally: Tally) -> None:
    """A layer in float64 against attention and perceptron by hand."""
    layer = torch.nn.TransformerEncoderLayer(
        16, 2, 24, dropout=0.0, batch_first=True, dtype=torch.float64
    )
    x = drawn(2, 5, 16).double()
    for mode in (layer.train(), layer.eval()):
        with torch.no_grad(), mxt.microscaling(A, block=8, weights=W):
            y = mode(x)

        def linear(t: Any, module: Any, rows: slice = slice(None)) -> Any:
            weight = getattr(module, "in_proj_weight", None)
            weight, bias = (
                (module.weight, module.bias) if weight is None else (weight, module.in_proj_bias)
            )
            return q(t, A, -1) @ q(weight[rows], W, -1).T + bias[rows].detach()

        attention = layer.self_attn
        heads = [
            linear(x, attention, slice(16 * i, 16 * i + 16)).reshape(2, 5, 2, 8).transpose(1, 2)
            for i in range(3)
        ]
        scores = q(heads[0], A, -1) @ q(heads[1], A, -1).transpose(-1, -2) / np.sqrt(8)
        mixed = q(torch.softmax(scores, -1), A, -1) @ q(heads[2], A, -2)
        mixed = linear(mixed.transpose(1, 2).reshape(2, 5, 16), attention.out_proj)
        middle = layer.norm1(x + mixed)
        expected = layer.norm2(
            middle + linear(torch.relu(linear(middle, layer.linear1)), layer.linear2)
        )
        tally("float64", "torch transformer", close(y, expected))


def test_every_function_is_seen() -> None:
    a, b, c, v = drawn(3, 4), drawn(4, 5), drawn(3, 5), drawn(4)
    x, y = drawn(2, 3, 4), drawn(2, 4, 5)
    qa, qb = q(a, A, 1).float(), q(b, A, 0).float()
    flat = qa @ qb
    batch = torch.stack([q(x[i], A, 1) @ q(y[i], A, 0) for i in range(2)]).float()
    cases: list[tuple[Any, Any]] = [
        (lambda: a @ b, flat),
        (lambda: a.matmul(b), flat),
        (lambda: torch.mm(a, mat2=b), flat),
        (lambda: torch.linalg.matmul(a, b), flat),
        (lambda: a.mv(v), qa @ q(v, A, 0).float()),
        (lambda: torch.dot(v, v), q(v, A, 0).float() @ q(v, A, 0).float()),
        (lambda: torch.addmm(c, a, b, beta=2, alpha=3), 2 * c + 3 * flat),
        (lambda: c.addmm(a, b, beta=0), flat),
        (lambda: torch.bmm(x, y), batch),
        (lambda: torch.baddbmm(c, batch1=x, batch2=y), c + batch),
        (lambda: torch.addbmm(c, x, y), c + batch.sum(0)),
        (lambda: torch.addmv(drawn(3), a, v), drawn(3) + qa @ q(v, A, 0).float()),
        (lambda: torch.einsum("bij,bjk->bik", x, y), batch),
        (lambda: torch.einsum("...ij,...jk", [x, y]), batch),
        (lambda: torch.einsum("ij,jk->ki", a, b), flat.T),
        (lambda: functional.linear(a, b.T), flat),
    ]
    for call, expected in cases:
        with mxt.microscaling(block=8):
            got = call()
        assert got.shape == expected.shape
        np.testing.assert_allclose(got, expected, 1e-5, 1e-5)
        assert not np.allclose(got, call(), 1e-5, 1e-5)
    with mxt.microscaling():
        integers = torch.arange(6).reshape(2, 3)
        assert (integers @ integers.T).tolist() == [[5, 14], [14, 50]]


def test_sums_of_einstein_in_floating_point() -> None:
    """With no format they equal PyTorch's."""
    for equation, *shapes in (
        ("ij,jk,kl", (2, 3), (3, 4), (4, 5)),
        ("...ij,jk->...ik", (2, 3, 4), (4, 5)),
        ("i,j->ij", (3,), (4,)),
        ("ij,ij->", (3, 4), (3, 4)),
        ("ij,kj->j", (3, 4), (5, 4)),
        ("bij,bij->b", (2, 3, 4), (1, 3, 4)),
        ("ba...,a...->b...", (2, 3, 4, 5), (3, 4, 5)),
    ):
        operands = [drawn(*shape).double() for shape in shapes]
        with mxt.microscaling(None):
            result = torch.einsum(equation, *operands)
        assert close(result, torch.einsum(equation, *operands)) > 0


def test_attention_with_masks() -> None:
    """With no format it equals PyTorch's."""
    query, key, value = drawn(2, 4, 5, 8), drawn(2, 2, 7, 8), drawn(2, 2, 7, 6)
    query, key, value = query.double(), key.double(), value.double()
    bools = drawn(5, 7) > 0
    bools[2] = False
    for options in (
        {"enable_gqa": True, "scale": 0.3},
        {"enable_gqa": True, "is_causal": True},
        {"enable_gqa": True, "attn_mask": bools},
        {"enable_gqa": True, "attn_mask": drawn(5, 7).double()},
    ):
        with mxt.microscaling(None):
            result = functional.scaled_dot_product_attention(query, key, value, **options)
        expected = functional.scaled_dot_product_attention(query, key, value, **options)
        assert close(result, expected) > 0


def test_contexts_nest_and_modules_are_left_out() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Linear(16, 16))
    x = drawn(4, 16)
    plain = model(x)
    with mxt.microscaling() as outer:
        quantised = model(x)
        with mxt.microscaling("mxfp4_e2m1"):
            inner = model(x)
            with outer:  # the same object again
                assert torch.equal(model(x), quantised)
            assert torch.equal(model(x), inner)
        with mxt.microscaling(enabled=False):
            assert torch.equal(model(x), plain)
        assert torch.equal(model(x), quantised)
        assert not torch.equal(inner, quantised)
    assert torch.equal(model(x), plain)
    assert torch.equal(mxt.microscaling()(model)(x), quantised)  # a decorator
    last = mxt.named_modules(model, "1")
    with mxt.microscaling(exclude=last):
        assert torch.equal(model(x), model[1](mxt.microscaling()(model[0])(x)))
        with pytest.raises(RuntimeError):
            model[1](drawn(4, 5))
        assert not torch.equal(model[0](x), plain)
    assert mxt.named_modules(model, lambda name, module: name == "1") == last
    with mxt.microscaling(exclude=mxt.named_modules(model, "?")):
        assert torch.equal(model(x), plain)
    assert not model[1]._forward_hooks


def test_threads_and_backward_passes_elsewhere() -> None:
    layer, x = torch.nn.Linear(16, 16), drawn(4, 16)
    plain, found = layer(x), []
    with mxt.microscaling():
        thread = threading.Thread(target=lambda: found.append(layer(x)))
        thread.start()
        thread.join()
        y = layer(x)
        y.sum().backward()
        inside = layer.weight.grad.clone()
    assert torch.equal(found[0], plain)
    layer.zero_grad()
    with mxt.microscaling():
        y = layer(x)
    thread = threading.Thread(target=lambda: y.sum().backward())
    thread.start()
    thread.join()
    assert torch.equal(layer.weight.grad, inside)
    assert torch.equal(inside, (q(torch.ones(4, 16), A, 0, 64).T @ q(x, A, 0, 64)).float())


def test_narrow_dtypes_and_autocast() -> None:
    x = drawn(4, 64)
    for dtype in (torch.float16, torch.bfloat16):
        layer = torch.nn.Linear(64, 8, dtype=dtype)
        with mxt.microscaling():
            y = layer(x.to(dtype))
        y.sum().backward()
        assert y.dtype == layer.weight.grad.dtype == dtype
    layer = torch.nn.Linear(64, 8)
    with torch.autocast("cpu", torch.bfloat16), mxt.microscaling():
        y = layer(x)
    y.sum().backward()
    assert layer.weight.grad.dtype == torch.float32


@pytest.mark.filterwarnings("ignore")  # of the compiler itself
def test_under_a_compiler() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    x = drawn(4, 16)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    gradients = []
    for run in (model, compiled):
        model.zero_grad()
        with mxt.microscaling(block=8):
            y = run(x)
        y.square().sum().backward()
        gradients.append([y.detach(), *(p.grad.clone() for p in model.parameters())])
    for ours, theirs in zip(*gradients, strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-5, 1e-5)
    assert not torch.equal(model(x), y)
    with mxt.microscaling(exclude=mxt.named_modules(model, "2")):
        y, left_out = torch.compile(model, backend="aot_eager")(x), model(x)
    np.testing.assert_allclose(y.detach(), left_out.detach(), 1e-5, 1e-5)


@pytest.fixture
def unsaid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Warnings that earlier tests saw come again."""
    monkeypatch.setattr(functions, "_WARNED", set())


def left_out() -> list[tuple[str, Any]]:
    """Products that stay in floating point, and what the warning calls them."""
    a, b, c = drawn(3, 4), drawn(4, 5), drawn(3, 5)
    x, y, v = drawn(2, 3, 4), drawn(2, 4, 5), drawn(4)
    cell = torch.nn.GRU(4, 4)
    sparse, square = a.to_sparse(), drawn(3, 3)
    return [
        ("gru", lambda: cell(drawn(3, 4))),
        ("addmm_", lambda: c.clone().addmm_(a, b)),
        ("addmv_", lambda: drawn(3).addmv_(a, v)),
        ("addbmm_", lambda: c.clone().addbmm_(x, y)),
        ("baddbmm_", lambda: drawn(2, 3, 5).baddbmm_(x, y)),
        ("addmv_", lambda: torch.addmv_(drawn(3), a, v)),
        ("inner", lambda: v.inner(v)),
        ("vdot", lambda: v.vdot(v)),
        ("linalg.multi_dot", lambda: torch.linalg.multi_dot([a, b])),
        ("linalg.vecdot", lambda: torch.linalg.vecdot(a, a)),
        ("matrix_power", lambda: square.matrix_power(3)),
        ("sparse.mm", lambda: torch.sparse.mm(sparse, b)),
        ("products of torch.sparse_coo tensors", lambda: sparse @ b),
        ("products of torch.complex64 tensors", lambda: a.cfloat() @ b.cfloat()),
        (
            "einsum with an index twice in a term",
            lambda: torch.einsum("ii,ij->j", square, a),
        ),
    ]


@pytest.mark.usefixtures("unsaid")
@pytest.mark.parametrize("case", left_out(), ids=lambda case: case[0])
def test_what_is_left_in_floating_point_is_said_once(case: Any) -> None:
    name, call = case
    expected = call()
    with mxt.microscaling("mxfp4_e2m1"):
        with pytest.warns(UserWarning, match=f"microscaling leaves {name} in floating") as caught:
            got = call()
        assert len(caught) == 1
        assert caught[0].filename == __file__  # the user's line, below PyTorch's modules
        with warnings.catch_warnings(action="error"):
            call()
    assert torch.equal(*(t[0] if name == "gru" else t for t in (got, expected)))


@pytest.mark.usefixtures("unsaid")
def test_what_a_context_sees_is_not_warned_of() -> None:
    a, v = drawn(3, 4), drawn(4)
    with mxt.microscaling(), warnings.catch_warnings(action="error"):
        quantised = a @ v
        for call in (torch.matmul, torch.mv):
            assert torch.equal(call(a, v, out=None), quantised)
        assert torch.equal(torch.addmv(drawn(3), a, v, beta=0, out=None), quantised)
        integers = torch.arange(6).reshape(2, 3)
        assert (integers @ integers.T).tolist() == [[5, 14], [14, 50]]


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        ("mm", [(2, 3, 4), (4, 5)]),
        ("mm", [(3, 4), (4,)]),
        ("mv", [(3, 4), (4, 5)]),
        ("dot", [(3, 4), (4, 3)]),
        ("bmm", [(3, 4), (4, 5)]),
        ("bmm", [(1, 3, 4), (2, 4, 5)]),
        ("addmm", [(3, 5), (2, 3, 4), (4, 5)]),
        ("addmv", [(3, 5), (3, 4), (4, 5)]),
        ("addbmm", [(3, 5), (3, 4), (4, 5)]),
        ("baddbmm", [(3, 5), (3, 4), (2, 4, 5)]),
        ("addmm", [(2, 3, 5), (3, 4), (4, 5)]),
    ],
)
def test_wrong_ranks_are_refused_as_by_pytorch(function: str, shapes: Any) -> None:
    operands = [drawn(*shape) for shape in shapes]
    with pytest.raises((RuntimeError, IndexError)) as expected:
        getattr(torch, function)(*operands)
    with mxt.microscaling(), pytest.raises(expected.type):
        getattr(torch, function)(*operands)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: mxt.microscaling("junk"),
            ValueError,
            "format must be one of mxsf, mxfp8_e2m5, mxfp8_e4m3, mxfp8_e5m2, "
            "mxfp6_e3m2, mxfp6_e2m3, mxfp4_e2m1, mxint8, nvfp4, not 'junk'",
        ),
        (
            lambda: mxt.microscaling(None, weights="mxsf", block=0),
            ValueError,
            "block must be a positive integer or a pair of positive integers, not 0",
        ),
        (
            lambda: mxt.microscaling(activations="format"),
            ValueError,
            "activations: format must be one of mxsf, mxfp8_e2m5, mxfp8_e4m3, mxfp8_e5m2, "
            "mxfp6_e3m2, mxfp6_e2m3, mxfp4_e2m1, mxint8, nvfp4, not 'format'",
        ),
        (
            lambda: mxt.microscaling(arithmetic="exact"),
            ValueError,
            "arithmetic must be one of float, float64, array, array_fp12, array_window, "
            "not 'exact'",
        ),
        (
            lambda: mxt.microscaling(gradients=None, arithmetic="array"),
            ValueError,
            "gradients must have a format for arithmetic 'array', not None",
        ),
        (
            lambda: mxt.microscaling(weights="mxfp4_e2m1", arithmetic="array"),
            ValueError,
            "block must be one length, or one square tile, of activations, weights and gradients "
            "for arithmetic 'array', not 64, 32, 64",
        ),
        (
            lambda: mxt.microscaling(exclude="fc"),
            TypeError,
            "exclude must be modules, not str",
        ),
        (
            lambda: mxt.microscaling(exclude=5),
            TypeError,
            "exclude must be an iterable of modules, not 5",
        ),
        (
            lambda: mxt.microscaling(exclude=None),
            TypeError,
            "exclude must be an iterable of modules, not None",
        ),
        (lambda: mxt.microscaling(enabled=1), TypeError, "enabled must be True or False, not 1"),
        (
            lambda: mxt.Quantiser(rounding="sr"),
            TypeError,
            "random must be a generator of NumPy or PyTorch for rounding 'sr', not None",
        ),
        (
            lambda: mxt.Quantiser(random="junk"),
            TypeError,
            "random must be a generator of NumPy or PyTorch for rounding 'sr', not 'junk'",
        ),
        (
            lambda: mxt.named_modules(torch.nn.Linear(1, 1), "fc"),
            ValueError,
            "which must name modules of the model, not 'fc'",
        ),
        (
            lambda: mxt.named_modules(torch.nn.Linear(1, 1), 0),
            TypeError,
            "which must be names or callables, not 0",
        ),
        (
            lambda: mxt.named_modules("x", "0"),
            TypeError,
            "model must be a torch.nn.Module, not str",
        ),
        (
            lambda: mxt.microscaling()(functional.conv2d)(
                drawn(1, 2, 5, 5), drawn(3, 2, 2, 2), padding="bogus"
            ),
            ValueError,
            "padding must be 'same', 'valid' or numbers, not 'bogus'",
        ),
        (
            lambda: mxt.microscaling()(torch.einsum)("ij,jk->iz", drawn(2, 3), drawn(3, 4)),
            ValueError,
            "equation must have indices of its terms, each once, behind ->, not 'iz'",
        ),
        (
            lambda: mxt.microscaling()(torch.einsum)("ij,jk->ii", drawn(2, 3), drawn(3, 4)),
            ValueError,
            "equation must have indices of its terms, each once, behind ->, not 'ii'",
        ),
        (
            lambda: mxt.microscaling()(lambda: drawn(2, 3) @ drawn(4, 5))(),
            ValueError,
            "b must have the 3 rows that a has columns, not 4",
        ),
    ],
)
def test_bad_input(make: Any, error: type[Exception], message: str) -> None:
    with raises(error, message):
        make()


def test_a_product_that_is_quantised_along_the_wrong_axis_is_found(
    monkeypatch: pytest.MonkeyPatch, tally: Tally
) -> None:
    """The comparison with products by hand can fail."""
    values = mxt.Quantiser.values
    monkeypatch.setattr(mxt.Quantiser, "values", lambda self, t, axis: values(self, t, -1))
    with pytest.raises(AssertionError):
        test_mlp(8, tally)
