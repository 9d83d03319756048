"""Ways into PyTorch: each gives the bits of the plain run, or is refused, or is warned of."""

import re
import threading
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
mxt = pytest.importorskip("mxsafe.torch")
functional = torch.nn.functional

PAGE = Path(__file__).parents[2] / "docs" / "pytorch.md"

Case = Callable[[], list[tuple[Any, Any]]]


def context(**options: Any) -> Any:
    return mxt.microscaling("mxsf", block=8, weights="mxfp4_e2m1", **options)


def drawn(*shape: int, seed: int = 0) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


def network() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(16, 24), torch.nn.GELU(), torch.nn.LayerNorm(24), torch.nn.Linear(24, 4)
    )


def convolutions() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Conv2d(4, 4, 3), torch.nn.Flatten(), torch.nn.Linear(64, 5))


def gradients(model: Any, x: Any, run: Any = None, later: bool = False) -> list[Any]:
    """Results and all gradients of a step, whose backward pass may run after the context."""
    model.zero_grad()
    x = x.clone().requires_grad_()
    with context():
        y = (run or model)(x)
        if not later:
            y.square().sum().backward()
    if later:
        y.square().sum().backward()
    return [y.detach(), x.grad, *(p.grad.clone() for p in model.parameters())]


def step_of(run: Callable[[Any], Any], later: bool = False) -> list[tuple[Any, Any]]:
    """A step of a model that is run in another way beside that of the model itself."""
    model, x = network(), drawn(5, 16)
    assert not torch.equal(context()(model)(x), model(x))
    return list(zip(gradients(model, x, run(model), later), gradients(model, x), strict=True))


def checkpointed(**options: Any) -> Callable[[Any], Any]:
    return lambda model: lambda x: torch.utils.checkpoint.checkpoint(model, x, **options)


def nested(model: Any) -> Any:
    def run(x: Any) -> Any:
        inner = lambda x: checkpointed(use_reentrant=False)(model[:2])(x)  # noqa: E731
        return model[2:](torch.utils.checkpoint.checkpoint(inner, x, use_reentrant=True))

    return run


def checkpoint_cases() -> list[tuple[Any, Any]]:
    pairs = []
    for reentrant in (True, False):
        for later in (True, False):
            pairs += step_of(checkpointed(use_reentrant=reentrant), later)
    return pairs + step_of(nested) + step_of(nested, later=True)


def own_contexts(reentrant: bool) -> list[tuple[Any, Any]]:
    """A context within the function, and one module that is left out."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(16, 16) for _ in range(3)))
    x, pairs = drawn(5, 16), []

    def run(x: Any, through: Any) -> Any:
        with context(exclude=[model[2]]):

            def part(x: Any) -> Any:
                with mxt.microscaling("mxfp8_e4m3", block=8):
                    x = model[0](x)
                return model[1:](x)

            return through(part, x)

    for through in (
        lambda part, x: part(x),
        lambda part, x: torch.utils.checkpoint.checkpoint(part, x, use_reentrant=reentrant),
    ):
        model.zero_grad()
        inputs = x.clone().requires_grad_()
        run(inputs, through).square().sum().backward()
        pairs.append([inputs.grad, *(p.grad.clone() for p in model.parameters())])
    return list(zip(*pairs, strict=True))


def left_out_around(reentrant: bool) -> list[tuple[Any, Any]]:
    """A checkpoint within a module that is left out."""

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = network()

        def forward(self, x: Any) -> Any:
            return torch.utils.checkpoint.checkpoint(self.inner, x, use_reentrant=reentrant)

    block, x = Block(), drawn(5, 16)
    results = []
    for run in (block, block.inner):
        block.zero_grad()
        inputs = x.clone().requires_grad_()
        with context(exclude=[block]):
            y = run(inputs) if run is block else None
        y = run(inputs) if y is None else y
        y.square().sum().backward()
        results.append([inputs.grad, *(p.grad.clone() for p in block.parameters())])
    return list(zip(*results, strict=True))


def autocast() -> list[tuple[Any, Any]]:
    """As with operands that are cast by hand."""
    a, b, c, v, x, y = (drawn(*s) for s in ((3, 4), (4, 5), (3, 5), (4,), (2, 3, 4), (2, 4, 5)))
    images, filters, heads = drawn(2, 4, 6, 6), drawn(4, 4, 3, 3), drawn(2, 2, 5, 8)
    calls: list[Callable[[Any], Any]] = [
        lambda f: f(a) @ f(b),
        lambda f: f(b).__rmatmul__(f(a)),
        lambda f: torch.mm(f(a), f(b)),
        lambda f: f(a).mv(f(v)),
        lambda f: torch.dot(f(v), f(v)),
        lambda f: torch.addmm(f(c), f(a), f(b)),
        lambda f: torch.addmv(f(drawn(3)), f(a), f(v)),
        lambda f: torch.bmm(f(x), f(y)),
        lambda f: torch.baddbmm(f(c), f(x), f(y)),
        lambda f: torch.addbmm(f(c), f(x), f(y)),
        lambda f: torch.einsum("ij,jk,kl", f(a), f(b), f(drawn(5, 2))),
        lambda f: torch.einsum("i,j->ij", f(v), f(v)),
        lambda f: functional.linear(f(a), f(b.T), f(drawn(5))),
        lambda f: functional.conv2d(f(images), f(filters), f(drawn(4))),
        lambda f: functional.scaled_dot_product_attention(*(f(heads),) * 3, f(drawn(5, 5))),
        lambda f: torch.ops.aten.mm(f(a), f(b)),
        lambda f: f(a) @ torch.nn.Parameter(f(b)),  # in the format of weights
    ]
    cast = lambda: torch.autocast("cpu", torch.bfloat16)  # noqa: E731
    pairs = []
    for call in calls:
        with cast():
            plain = call(lambda t: t)
            with mxt.microscaling(None):
                unquantised = call(lambda t: t)
            with context():
                inside = call(lambda t: t)
        with context():
            narrow = (lambda t: t.bfloat16()) if plain.dtype == torch.bfloat16 else lambda t: t
            by_hand = call(narrow)
            with cast():
                outside = call(lambda t: t)
        assert plain.dtype == unquantised.dtype == inside.dtype == outside.dtype
        assert not torch.equal(inside, plain)
        torch.testing.assert_close(unquantised, plain, rtol=0.02, atol=0.02)
        pairs += [(inside, outside), (inside, by_hand)]
    return pairs


def autocast_gradients() -> list[tuple[Any, Any]]:
    """Products of a backward pass are as ever, within autocast too."""
    model, x = torch.nn.Linear(16, 8), drawn(4, 16)
    results = []
    for within in (True, False):
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16), context():
            y = model(x)
            if within:
                y.sum().backward()
        if not within:
            y.sum().backward()
        assert y.dtype == torch.bfloat16
        assert model.weight.grad.dtype == torch.float32
        results.append(model.weight.grad.clone())
    return [(results[0], results[1])]


def functional_gradients() -> list[tuple[Any, Any]]:
    pairs: list[tuple[Any, Any]] = []
    layers = torch.nn.Linear(16, 24), torch.nn.ReLU(), torch.nn.Linear(24, 4)
    perceptron = torch.nn.Sequential(*layers)
    for model, x in ((perceptron, drawn(5, 16)), (convolutions(), drawn(3, 4, 6, 6))):
        parameters = dict(model.named_parameters())

        def loss(parameters: Any, x: Any, model: Any = model) -> Any:
            return torch.func.functional_call(model, parameters, (x,)).square().sum()

        expected = gradients(model, x)[2:]
        samples = [gradients(model, t[None])[2:] for t in x]
        with context():
            got = torch.func.grad(loss)(parameters, x)
            _, pullback = torch.func.vjp(loss, parameters, x)
            pulled = pullback(torch.ones(()))[0]
            each = torch.vmap(torch.func.grad(loss), (None, 0))(parameters, x[:, None])
        pairs += zip(got.values(), expected, strict=True)
        pairs += zip(pulled.values(), expected, strict=True)
        for i, sample in enumerate(samples):
            pairs += zip((t[i] for t in each.values()), sample, strict=True)
    return pairs


def jacobians() -> list[tuple[Any, Any]]:
    model, x = torch.nn.Linear(16, 3), drawn(16)
    with context():
        backwards = torch.func.jacrev(model)(x)
        forwards = torch.func.jacfwd(model)(x)
        rows = []
        for i in range(3):
            inputs = x.clone().requires_grad_()
            rows.append(torch.autograd.grad(model(inputs)[i], inputs)[0])
        columns = [torch.func.jvp(model, (x,), (unit,))[1] for unit in torch.eye(16)]
        curved = torch.func.hessian(lambda t: model(t).square().sum())(x)
    assert curved.shape == (16, 16)
    return [(backwards, torch.stack(rows)), (forwards, torch.stack(columns, 1))]


def parameters_of_transforms() -> list[tuple[Any, Any]]:
    """An operand of ``@`` is a weight within a transform too."""
    weight, x = torch.nn.Parameter(drawn(16, 4)), drawn(3, 16)
    with context():
        got = torch.func.grad(lambda w: (x @ w).square().sum())(weight)
        (x @ weight).square().sum().backward()
    return [(got, weight.grad)]


def compiled(run: Any, *arguments: Any) -> Any:
    torch.compiler.reset()
    return torch.compile(run, backend="aot_eager")(*arguments)


def compiled_model() -> list[tuple[Any, Any]]:
    pairs = step_of(lambda model: lambda x: compiled(model, x))
    model, images = convolutions(), drawn(2, 4, 6, 6)
    with context():
        pairs.append((compiled(model, images), model(images)))
    with context(exclude=[model[0]]):
        pairs.append((compiled(model, images), model(images)))
    return pairs


def compiled_checkpoint() -> list[tuple[Any, Any]]:
    return step_of(
        lambda model: lambda x: compiled(checkpointed(use_reentrant=False)(model), x), later=True
    )


def compiled_whole(operator: str) -> None:
    x = drawn(5, 16)
    run = {
        "tag_activation_checkpoint": checkpointed(use_reentrant=False)(network()),
        "cond": lambda x: torch.cond(x.sum() > 0, lambda x: x @ x.T, lambda x: x @ -x.T, (x,)),
    }[operator]
    torch.compiler.reset()
    torch.compile(run, backend="aot_eager", fullgraph=True)(x)


def flexible() -> None:
    from torch.nn.attention.flex_attention import flex_attention

    flex_attention(*(drawn(1, 2, 16, 8),) * 3)


def exported() -> list[tuple[Any, Any]]:
    model, images = convolutions(), drawn(2, 4, 6, 6)
    with context():
        expected = model(images)
        within = torch.export.export(model, (images,))
    before = torch.export.export(model, (images,))
    lowered = before.run_decompositions()
    graph = torch.fx.symbolic_trace(model)
    assert not torch.equal(before.module()(images), expected)
    pairs = [(within.module()(images), expected)]
    with context():
        pairs += [(run(images), expected) for run in (before.module(), lowered.module(), graph)]
    return pairs


def operators() -> list[tuple[Any, Any]]:
    a, b, images, filters = drawn(3, 4), drawn(4, 5), drawn(2, 4, 6, 6), drawn(4, 4, 3, 3)
    aten, rest = torch.ops.aten, ([1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    with context():
        return [
            (aten.mm.default(a, b), a @ b),
            (aten.matmul(a, b), a @ b),
            (aten.addmm.default(drawn(5), a, b), torch.addmm(drawn(5), a, b)),
            (aten.linear.default(a, b.T), functional.linear(a, b.T)),
            (aten.einsum("ij,jk", [a, b]), torch.einsum("ij,jk", a, b)),
            (
                aten.convolution.default(images, filters, None, *rest),
                functional.conv2d(images, filters),
            ),
            (torch.convolution(images, filters, None, *rest), functional.conv2d(images, filters)),
        ]


def without_gradients() -> list[tuple[Any, Any]]:
    """PyTorch's own fast paths of attention are not taken."""
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(16, 2, 24, batch_first=True)
    model, x = (
        torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval(),
        drawn(2, 5, 16),
    )
    attention = torch.nn.MultiheadAttention(16, 2, batch_first=True).eval()
    with context():
        expected = model(x), attention(x, x, x)[0]
        with torch.no_grad():
            pairs = [(model(x), expected[0]), (attention(x, x, x)[0], expected[1])]
        with torch.inference_mode():
            pairs += [(model(x), expected[0]), (attention(x, x, x)[0], expected[1])]
    assert not torch.equal(model(x), expected[0])
    return pairs


def second_order() -> list[tuple[Any, Any]]:
    """A gradient of a gradient is made of products in the format too."""
    weight, x, u = drawn(16, 4).requires_grad_(), drawn(3, 16).requires_grad_(), drawn(3, 16)
    with mxt.microscaling("mxsf", block=8):
        y = x @ weight
        (first,) = torch.autograd.grad(y, x, drawn(3, 4), create_graph=True)
        (second,) = torch.autograd.grad(first, weight, u)
        expected = torch.autograd.grad(weight.mT.matmul(u.mT), weight, drawn(3, 4).mT)[0]
    return [(second, expected)]


class Squares(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x @ x.T

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (x,) = ctx.saved_tensors
        return (gradients[0] + gradients[0].T) @ x


def own_function() -> list[tuple[Any, Any]]:
    x, g = drawn(3, 16).requires_grad_(), drawn(3, 3)
    with context():
        y = Squares.apply(x)
        expected = x @ x.T
        y.backward(g)
    return [(y, expected), (x.grad, (g + g.T) @ x)]


def other_threads() -> list[tuple[Any, Any]]:
    model, x = network(), drawn(5, 16)
    found: list[Any] = []

    def compute() -> None:
        # PyTorch rounds sums in a thread of its own otherwise than in the first one.
        thread = threading.Thread(target=lambda: found.append(model(x)))
        thread.start()
        thread.join()

    with context():
        compute()
    compute()
    return [(found[0], found[1])]


def scripted_functions() -> list[tuple[Any, Any]]:
    function = scripted(lambda a, b: a @ b, drawn(3, 4), drawn(4, 5))
    with context():
        got = function(drawn(3, 4), drawn(4, 5))
    return [(got, drawn(3, 4) @ drawn(4, 5))]


def scripted(function: Any, *examples: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's own, that it is old
        return torch.jit.trace(function, examples)


class Parallel(torch.nn.DataParallel):
    """On several devices, but for its forward pass."""

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self.device_ids = [0, 1]

    def forward(self, x: Any) -> Any:
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.append(self.module(x)))
        thread.start()
        thread.join()
        return found[0]


def quantised_layer() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's own, that it is old
        return torch.ao.nn.quantized.dynamic.Linear(4, 5)


def in_floating_point() -> dict[str, Callable[[], Any]]:
    """Return the functions that stay in floating point, by the names that their warnings have."""
    a, b, c, v = drawn(3, 4), drawn(4, 5), drawn(3, 5), drawn(4)
    x, y = drawn(2, 3, 4), drawn(2, 4, 5)
    heads, signal, taps, square = drawn(1, 2, 5, 8), drawn(1, 2, 5), drawn(2, 3, 2), drawn(3, 3)
    torch.manual_seed(0)
    linear, lstm, cell = torch.nn.Linear(4, 5), torch.nn.LSTM(4, 4), torch.nn.GRUCell(4, 4)
    traced, parallel, quantised = scripted(linear, a), Parallel(linear), quantised_layer()
    return {
        "modules of torch.jit": lambda: torch.nn.Sequential(traced)(a),
        "the threads of DataParallel": lambda: parallel(a),
        "products with out": lambda: torch.mm(a, b, out=torch.empty(3, 5)),
        "addmm_": lambda: c.clone().addmm_(a, b),
        "addmv_": lambda: drawn(3).addmv_(a, v),
        "addbmm_": lambda: c.clone().addbmm_(x, y),
        "baddbmm_": lambda: drawn(2, 3, 5).baddbmm_(x, y),
        "lstm": lambda: lstm(a)[0],
        "gru_cell": lambda: cell(a),
        "conv_transpose1d": lambda: functional.conv_transpose1d(signal, taps),
        "convolution, if transposed,": lambda: torch.convolution(
            signal, taps, None, [1], [0], [1], True, [0], 1
        ),
        "bilinear": lambda: functional.bilinear(a, a, drawn(2, 4, 4)),
        "tensordot": lambda: torch.tensordot(a, b, 1),
        "inner": lambda: torch.inner(v, v),
        "vdot": lambda: torch.vdot(v, v),
        "chain_matmul": lambda: torch.chain_matmul(a, b),
        "linalg.multi_dot": lambda: torch.linalg.multi_dot([a, b]),
        "linalg.vecdot": lambda: torch.linalg.vecdot(a, a),
        "matrix_power": lambda: torch.matrix_power(square, 3),
        "matrix_exp": lambda: torch.matrix_exp(square),
        "cdist": lambda: torch.cdist(a, a),
        "cov": lambda: torch.cov(a),
        "corrcoef": lambda: torch.corrcoef(a),
        "affine_grid": lambda: functional.affine_grid(drawn(1, 2, 3), [1, 1, 4, 4], False),
        "conv_tbc": lambda: torch.conv_tbc(drawn(5, 2, 4), drawn(3, 4, 4), drawn(4)),
        "linear_cross_entropy": lambda: functional.linear_cross_entropy(
            a, drawn(5, 4), torch.tensor([0, 1, 2])
        ),
        "grouped_mm": lambda: functional.grouped_mm(*(drawn(2, 16, 16).bfloat16(),) * 2),
        "embedding_bag with per_sample_weights": lambda: functional.embedding_bag(
            torch.tensor([[0, 2]]), a, per_sample_weights=drawn(1, 2), mode="sum"
        ),
        "addmm_activation": lambda: torch.ops.aten._addmm_activation(drawn(5), a, b),
        "scaled_dot_product_attention_math": lambda: (
            torch.ops.aten._scaled_dot_product_attention_math(heads, heads, heads)[0]
        ),
        "scaled_dot_product_flash_attention_for_cpu": lambda: (
            torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(heads, heads, heads)[0]
        ),
        "convolution_backward": lambda: torch.nn.grad.conv2d_input(
            (2, 4, 6, 6), drawn(4, 4, 3, 3), drawn(2, 4, 4, 4)
        ),
        "sparse.mm": lambda: torch.sparse.mm(a.to_sparse(), b),
        "products of torch.sparse_coo tensors": lambda: a.to_sparse() @ b,
        "products of torch.complex64 tensors": lambda: a.cfloat() @ b.cfloat(),
        "einsum with an index twice in a term": lambda: torch.einsum("ii,ij->j", square, a),
        "quantized linear_dynamic": lambda: quantised(a),
        "NumPy's functions of tensors": lambda: np.matmul(a, b),
    }


def fake_tensors() -> list[tuple[Any, Any]]:
    """Shapes and types alone, of large tensors, too."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    model, x = network(), drawn(5, 16)
    found = []
    for mode in (FakeTensorMode(allow_non_fake_inputs=True), nullcontext()):
        with mode, context():
            y = model(x)
            values = [mxt.fake_quantize(torch.ones(600, 600), name) for name in ("mxsf", "nvfp4")]
        found.append([torch.tensor([*t.shape, t.element_size()]) for t in (y, *values)])
    return list(zip(*found, strict=True))


WORKS: dict[str, Case] = {
    "`torch.utils.checkpoint`, both variants": checkpoint_cases,
    "`torch.autocast`, inside or outside": autocast,
    "`torch.func`: `grad`, `vjp`, `vmap`, `functional_call`": functional_gradients,
    "`torch.func`: `jacrev`, `jacfwd`, `jvp`, `hessian`": jacobians,
    "gradients of gradients": second_order,
    "`torch.compile`": compiled_model,
    "`torch.compile` of a checkpoint": compiled_checkpoint,
    "`torch.export`, `torch.fx`": exported,
    "`torch.ops.aten`, `torch.convolution`": operators,
    "`no_grad`, `inference_mode`, attention in `eval`": without_gradients,
    "fake tensors": fake_tensors,
}
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "`torch.compile(fullgraph=True)` of a checkpoint": (
        lambda: compiled_whole("tag_activation_checkpoint"),
        "microscaling does not see the products within tag_activation_checkpoint",
    ),
    "`torch.cond` and other operators that take functions": (
        lambda: compiled_whole("cond"),
        "microscaling does not see the products within cond",
    ),
    "`flex_attention`": (
        flexible,
        "microscaling does not see the products within flex_attention",
    ),
    "nested tensors": (
        lambda: torch.nn.Linear(4, 5)(torch.nested.nested_tensor([drawn(2, 4), drawn(3, 4)])),
        "",
    ),
}
UNSEEN: dict[str, Case] = {
    "`backward` of an `autograd.Function` of your own": own_function,
    "other threads": other_threads,
    "functions of `torch.jit`": scripted_functions,
}
WARNED = "warned of by name"


def same(pairs: list[tuple[Any, Any]]) -> None:
    compared = 0
    for got, expected in pairs:
        assert got.dtype == expected.dtype
        assert torch.equal(got, expected)
        compared += got.numel()
    assert compared > 0


@pytest.fixture(autouse=True)
def unsaid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Warnings that earlier tests saw come again."""
    monkeypatch.setattr("mxsafe.torch._functions._WARNED", set())


@pytest.mark.filterwarnings("ignore")  # of PyTorch's own
@pytest.mark.parametrize("row", [*WORKS, *UNSEEN])
def test_equal_in_every_bit(row: str) -> None:
    same((WORKS | UNSEEN)[row]())


@pytest.mark.filterwarnings("ignore")  # of PyTorch's own
@pytest.mark.parametrize("row", REFUSED)
def test_refused(row: str) -> None:
    call, message = REFUSED[row]
    with context(), pytest.raises(RuntimeError, match=message):
        call()


@pytest.mark.filterwarnings("ignore:torch.chain_matmul", "ignore:__array_wrap__ must accept")
@pytest.mark.parametrize("name", in_floating_point())
def test_warned_of(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    call = in_floating_point()[name]
    torch.manual_seed(0)
    expected = call()
    torch.manual_seed(0)
    with context(), pytest.warns(UserWarning, match=f"microscaling leaves {name} in floating"):
        got = call()
    same([(torch.as_tensor(got), torch.as_tensor(expected))])
    with context(enabled=False), warnings.catch_warnings(action="error"):
        monkeypatch.setattr("mxsafe.torch._functions._WARNED", set())
        warnings.filterwarnings("ignore", "torch.chain_matmul|__array_wrap__ must accept")
        call()


def test_the_page_has_every_row() -> None:
    lines = PAGE.read_text().splitlines()
    start = lines.index("| way into PyTorch | within a context |")
    rows = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        way, result = (cell.strip() for cell in line.strip("|").split(" | ", 1))
        rows[way] = result
    warned = [result for result in rows.values() if result.startswith(WARNED)]
    for kind, begins in ((WORKS, "equal"), (REFUSED, "refused"), (UNSEEN, "float")):
        assert [way for way, result in rows.items() if result.startswith(begins)] == list(kind)
    assert len(rows) == len(WORKS) + len(REFUSED) + len(UNSEEN) + len(warned)
    assert set(re.findall("`([^`]*)`", " ".join(warned))) == set(in_floating_point())


def test_sums_of_rows_are_no_products() -> None:
    rows, words = torch.tensor([[0, 2]]), drawn(3, 4)
    with context(), warnings.catch_warnings(action="error"):
        got = (
            functional.embedding_bag(rows, words),
            torch.nn.EmbeddingBag(3, 4, _weight=words)(rows),
        )
    same([(one, functional.embedding_bag(rows, words)) for one in got])


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("case", [own_contexts, left_out_around])
def test_checkpoints_keep_contexts_apart(case: Any, reentrant: bool) -> None:
    same(case(reentrant))


def test_gradients_within_autocast() -> None:
    same(autocast_gradients())


def test_parameters_stay_weights_within_transforms() -> None:
    same(parameters_of_transforms())


@pytest.mark.parametrize("determinism", ["default", "none"])
def test_checkpoints_that_compute_again_without_the_context_are_refused(
    monkeypatch: pytest.MonkeyPatch, determinism: str
) -> None:
    """If PyTorch hides what runs again, saved tensors still tell."""
    monkeypatch.setattr("mxsafe.torch._checkpoints.running", lambda: [])
    model, x = torch.nn.Linear(16, 4), drawn(5, 16)
    with context():
        y = torch.utils.checkpoint.checkpoint(
            model, x, use_reentrant=False, determinism_check=determinism
        )
    with pytest.raises(RuntimeError) as caught:
        y.sum().backward()
    said = [str(caught.value), *getattr(caught.value, "__notes__", [])]
    assert any("must be in the context of its forward pass" in text for text in said)
    other = mxt.microscaling("mxfp8_e4m3", block=8)
    with context():
        y = torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False)
    with pytest.raises(RuntimeError), other:
        torch.autograd.backward(y.sum())


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
def test_tangents_of_products_are_quantised_as_gradients() -> None:
    """The terms of the product rule, put together by hand."""
    recipe = {"activations": "mxsf", "weights": "mxfp4_e2m1", "gradients": "mxfp8_e5m2"}
    x, w, dx, dw = drawn(3, 16), drawn(4, 16), drawn(3, 16, seed=1), drawn(4, 16, seed=2)

    def q(t: Any, kind: str) -> Any:
        return mxt.fake_quantize(t, recipe[kind], block=8).double()

    expected = q(dx, "gradients") @ q(w, "weights").T, q(x, "activations") @ q(dw, "gradients").T
    with mxt.microscaling(block=8, arithmetic="float64", **recipe):
        results, tangents = torch.func.jvp(functional.linear, (x, w), (dx, dw))
        plain = functional.linear(x, w)
    assert torch.equal(results, plain)
    assert torch.equal(tangents, expected[0].float() + expected[1].float())
    for block in (8, (4, 4)):
        images, filters = drawn(2, 4, 6, 6), drawn(4, 4, 3, 3)
        with mxt.microscaling(block=block, gradients=None):
            _, tangent = torch.func.jvp(
                functional.conv2d, (images, filters), (images, torch.zeros_like(filters))
            )
            plain = functional.conv2d(images, filters)
        assert tangent.shape == plain.shape
        assert tangent.norm() / plain.norm() == pytest.approx(1, abs=0.1)
