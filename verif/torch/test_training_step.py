"""Training steps: programs against the models of their operations, gradients against autograd."""

import copy
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import mxsafe.torch as mxt  # noqa: E402
from mxsafe.machine.compiler.places import CompileError  # noqa: E402
from mxsafe.machine.compiler.timing import predict  # noqa: E402
from mxsafe.machine.configuration import WINDOW_MACHINE, MachineConfiguration  # noqa: E402
from mxsafe.machine.graph import Graph  # noqa: E402
from mxsafe.machine.updates import Trained  # noqa: E402
from mxsafe.rtl.machine.times import times_of  # noqa: E402
from mxsafe.torch._training import optimiser_of  # noqa: E402
from studies import step_figures  # noqa: E402
from studies.step_figures import FIGURES, PICTURE, phases  # noqa: E402
from studies.timeline import drawn  # noqa: E402
from verif.machine.float64_graph import evaluate  # noqa: E402

nn, functional = torch.nn, torch.nn.functional


def assert_same(found: Any, wanted: Any) -> None:
    """Every bit."""
    np.testing.assert_array_equal(found.view(np.uint32), wanted.view(np.uint32))


class Vit(nn.Module):
    """A vision transformer with a class token: 5 tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, 32, 4, 4)
        self.token = nn.Parameter(0.1 * torch.randn(1, 1, 32))
        self.position = nn.Parameter(0.1 * torch.randn(1, 5, 32))
        self.block = nn.TransformerEncoderLayer(
            32, 2, 48, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.position
        logits: torch.Tensor = self.head(self.norm(self.block(x))[:, 0])
        return logits


class Gpt(nn.Module):
    """A language model with RMS norms, gates, causal attention of two heads: 8 tokens."""

    def __init__(self, tied: bool = False) -> None:
        super().__init__()
        self.table = nn.Embedding(20, 32, padding_idx=3)
        self.position = nn.Parameter(0.1 * torch.randn(8, 32))
        self.norms = nn.ModuleList(nn.RMSNorm(32, eps=1e-5) for _ in range(3))
        self.qkv, self.out = nn.Linear(32, 96, bias=False), nn.Linear(32, 32)
        self.up, self.gate, self.down = nn.Linear(32, 40), nn.Linear(32, 40), nn.Linear(40, 32)
        self.head = nn.Linear(32, 20, bias=False)
        if tied:
            self.head.weight = self.table.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.table(ids) + self.position
        q, k, v = self.qkv(self.norms[0](x)).unflatten(-1, (3, 2, 16)).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        y = self.norms[1](x)
        x = x + self.down(functional.silu(self.gate(y)) * self.up(y))
        logits: torch.Tensor = self.head(self.norms[2](x)).flatten(0, 1)
        return logits


class Scalars(nn.Module):
    """Functions and moves that no other model here has."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(24, 24) for _ in range(3))
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self.layers[0](x)) * self.scale
        y = torch.sigmoid(self.layers[1](x)) + torch.exp(0.1 * x) - torch.relu(x)
        z = y / (1 + x * x) + torch.rsqrt(1 + y * y)
        z = torch.cat([z[:, 8:], z[:, :8]], 1)
        out: torch.Tensor = self.layers[2](z / z.pow(2).mean(-1, keepdim=True).sqrt())
        return out


class Uneven(nn.Module):
    """Parameters of which a part is used, and elements that go to unlike numbers of places."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.positions = nn.Embedding(20, 16), nn.Embedding(11, 16)
        self.kinds = nn.Embedding(3, 16)
        self.temperature = nn.Parameter(torch.tensor(1.25))
        self.head = nn.Linear(16, 20)

    def forward(self, texts: torch.Tensor) -> torch.Tensor:
        kinds = self.kinds(torch.tensor([0, 0, 0, 1, 1, 1, 1, 1]))
        x = self.table(texts) + self.positions(torch.arange(8)) + kinds
        y = self.head(x[:, [0, 0, 1, 2, 3, 4, 4, 4]] * self.temperature)
        return (y * y.mean()).flatten(0, 1)


class Changing(nn.Module):
    """Counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(13, 6)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.layer(x) * self.calls


class Focal(nn.CrossEntropyLoss):
    """A loss of one's own."""


def _perceptron() -> Any:
    return nn.Sequential(nn.Linear(13, 20), nn.GELU(), nn.LayerNorm(20), nn.Linear(20, 6))


def _images(count: int = 3) -> tuple[Any, ...]:
    return torch.randn(count, 1, 8, 8), torch.randint(0, 10, (count,))


def _texts() -> tuple[Any, ...]:
    return torch.randint(0, 20, (2, 8)), torch.randint(0, 20, (16,))


def _rows() -> tuple[Any, ...]:
    return torch.randn(11, 13), torch.randint(0, 6, (11,))


def _numbers() -> tuple[Any, ...]:
    return torch.randn(9, 24), torch.randn(9, 24)


def _sgd(parameters: Any) -> Any:
    return torch.optim.SGD(parameters, lr=0.25)


def _momentum(parameters: Any) -> Any:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.5, weight_decay=0.125, nesterov=True)


def _adamw(parameters: Any) -> Any:
    return torch.optim.AdamW(parameters, lr=0.01, weight_decay=0.25)


def _adam(parameters: Any) -> Any:
    return torch.optim.Adam(parameters, lr=0.01, weight_decay=0.25)


CASES: dict[str, tuple[Callable[[], Any], Callable[[], Any], Any, Any, dict[str, Any]]] = {
    "perceptron": (_perceptron, _rows, nn.CrossEntropyLoss(), _sgd, {}),
    "vit": (Vit, _images, nn.CrossEntropyLoss(label_smoothing=0.1), _adamw, {"parts": 3}),
    "vits": (Vit, lambda: _images(5), nn.CrossEntropyLoss(), _adamw, {"parts": 5}),
    "gpt": (Gpt, _texts, nn.CrossEntropyLoss(), _momentum, {}),
    "tied": (lambda: Gpt(tied=True), _texts, nn.CrossEntropyLoss(), _sgd, {"parts": 2}),
    "uneven": (Uneven, _texts, nn.CrossEntropyLoss(), _sgd, {}),
    "scalars": (Scalars, _numbers, nn.MSELoss(), _adam, {"format": "mxfp8_e4m3"}),
}


def _made(case: str, **more: Any) -> tuple[Any, Any, Any, Any]:
    """Model, step, what it takes, and the loss."""
    torch.manual_seed(7)
    make, draw, loss, optimise, options = CASES[case]
    model, given = make(), draw()
    options = {**options, **more}
    step = mxt.compile_step(model, loss, optimise(model.parameters()), given, **options)
    return model, step, given, loss


@pytest.mark.parametrize("case", CASES)
def test_program_equals_models_in_every_bit(case: str) -> None:
    """Two steps: output, weights and moments."""
    _, step, given, _ = _made(case)
    _, other, _, _ = _made(case, engine="model")
    compared = 0
    for _ in range(2):
        assert step(*given) == other(*given)
        assert_same(step.output, other.output)
        for name, array in step.state.items():
            assert_same(array, other.state[name])
            compared += array.size
    assert compared > 800


@pytest.mark.parametrize("case", CASES)
def test_gradients_without_rounding_are_those_of_autograd(case: str) -> None:
    """The graph in float64 against PyTorch in float64: what a step of SGD at rate 1 changes."""
    torch.manual_seed(7)
    make, draw, loss, _, options = CASES[case]
    model, given = make(), draw()
    optimiser = torch.optim.SGD(model.parameters(), lr=1.0)
    step = mxt.compile_step(model, loss, optimiser, given, **options)
    names = {value.name: value.shape for value in step.graph.values if value.op == "input"}
    wide = copy.deepcopy(model).double()
    x, target = (one.double() if one.dtype == torch.float32 else one for one in given)
    loss(wide(x), target).backward()
    known = {name: array.astype(np.float64) for name, array in step.inputs(*given).items()}
    found = evaluate(step.graph, {name: known[name] for name in names})
    compared = 0
    for name, parameter in wide.named_parameters():
        gradient = parameter.grad.numpy()
        change = (step.state[name].astype(np.float64) - found[name]).reshape(gradient.shape)
        size = max(float(np.abs(gradient).max()), 1e-3)
        assert np.abs(change - gradient).max() < 1e-5 * size, name
        compared += gradient.size
    assert compared > 400


def test_step_on_another_machine_has_the_same_bits() -> None:
    """Sizes of buffers change nothing."""
    machine = MachineConfiguration(a_beats=256, w_beats=256, out_beats=128, bank_beats=64)
    _, step, given, _ = _made("gpt")
    _, other, _, _ = _made("gpt", machine=machine)
    assert step.report() != other.report()
    assert step(*given) == other(*given)
    for name, array in step.state.items():
        assert_same(array, other.state[name])


@pytest.mark.parametrize("arithmetic", ["window", "bf16"])
@pytest.mark.parametrize("case", CASES)
def test_other_arithmetics_have_the_bits_of_the_models(case: str, arithmetic: str) -> None:
    """Sums in windows, and bfloat16 without scales, of forward and of backward passes."""
    kind = {"arithmetic": arithmetic}
    if arithmetic == "bf16":
        kind["format"] = "bf16"
    _, step, given, _ = _made(case, **kind)
    _, other, _, _ = _made(case, **kind, engine="model")
    assert step.compiled.parts[0].program.configuration.arithmetic == arithmetic
    assert step(*given) == other(*given)
    assert_same(step.output, other.output)
    for name, array in step.state.items():
        assert_same(array, other.state[name])


def test_report_has_the_times_of_its_machine() -> None:
    machine = MachineConfiguration(target="fpga")
    _, step, _, _ = _made("gpt", machine=machine, engine="model")
    (part,) = step.compiled.parts
    cycles = predict(part.program, times_of(machine)).cycles
    assert f" {cycles} cycles predicted, " in step.report()


def test_nothing_is_computed_again_in_bfloat16() -> None:
    """Rows that are the k of a product may begin anywhere; the products are those of tiles."""
    beats = set()
    for arithmetic in ("exact", "bf16"):
        _, step, _, _ = _made("vit", arithmetic=arithmetic, engine="model")
        beats.add(predict(step.compiled.parts[0].program).array_busy)
    assert len(beats) == 1


@pytest.mark.parametrize(("rows", "features"), [(8, 4200), (4200, 8)])
def test_windows_of_more_values_than_an_output_has(rows: int, features: int) -> None:
    """Sums over features, and over rows of a batch: a part of 4,096 values and another one.

    They are refused by name where buffers do not hold a strip of a part.
    """
    made = []
    small = MachineConfiguration(arithmetic="window", a_beats=256, w_beats=256)
    for machine, engine in (
        (WINDOW_MACHINE, "interpreter"),
        (WINDOW_MACHINE, "model"),
        (small, "model"),
    ):
        torch.manual_seed(7)
        model = nn.Linear(features, 8)
        given = torch.randn(rows, features), torch.randint(0, 8, (rows,))
        loss, optimizer = nn.CrossEntropyLoss(), _sgd(model.parameters())
        step = mxt.compile_step(model, loss, optimizer, given, machine=machine, engine=engine)
        made.append((step(*given), step))
    (found, own), (wanted, other), (_, refused) = made
    assert found == wanted
    for name, array in own.state.items():
        assert_same(array, other.state[name])
    with pytest.raises(CompileError, match="k must be at most 1024 with arithmetic window, of"):
        _ = refused.compiled


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize(
    ("loss", "target", "message"),
    [
        (nn.CrossEntropyLoss(), torch.zeros(9, dtype=torch.int64), "12 integers, not int64 of "),
        (nn.CrossEntropyLoss(), torch.zeros(12, 1, dtype=torch.int64), "12 integers, not int64 of"),
        (nn.CrossEntropyLoss(), torch.full((12,), -1), "from 0 to 5, not -1$"),
        (nn.CrossEntropyLoss(), torch.zeros(12, 6), "have rows of probabilities, .* is 1, not 0$"),
        (nn.CrossEntropyLoss(), torch.full((12, 6), torch.nan), "have rows of prob.*, not nan$"),
        (nn.CrossEntropyLoss(), torch.zeros(12, 5), r"have shape \(12, 6\), not \(12, 5\)$"),
        (
            nn.MSELoss(),
            torch.zeros(12, 1),
            r"float32 of shape \(12, 6\), not float32 of shape \(12, 1",
        ),
        (nn.MSELoss(), torch.zeros(12, 6).double(), r"float32 of shape \(12, 6\), not float64"),
    ],
)
def test_a_target_that_no_step_would_take_is_refused(
    parts: int, loss: Any, target: Any, message: str
) -> None:
    """Before anything is compiled, whatever runs the steps."""
    model = _perceptron()
    with pytest.raises(ValueError, match=f"^the target of examples must (be )?{message}"):
        mxt.compile_step(
            model,
            loss,
            _sgd(model.parameters()),
            (torch.randn(12, 13), target),
            parts=parts,
            engine="model",
        )


@pytest.mark.parametrize(
    ("classes", "machine"),
    [
        (300, MachineConfiguration(bank_beats=64)),
        pytest.param(5000, MachineConfiguration(), marks=pytest.mark.full),
    ],
    ids=["300", "5000"],
)
def test_more_classes_than_the_vector_buffer_holds(
    classes: int, machine: MachineConfiguration
) -> None:
    """Rows of a norm, its gradient and the loss come in pieces."""
    made = []
    for engine in ("interpreter", "model"):
        torch.manual_seed(7)
        model = nn.Sequential(nn.Linear(13, classes), nn.LayerNorm(classes))
        given = torch.randn(11, 13), torch.randint(0, classes, (11,))
        loss, optimizer = nn.CrossEntropyLoss(), _sgd(model.parameters())
        step = mxt.compile_step(model, loss, optimizer, given, machine=machine, engine=engine)
        made.append((step(*given), step.state))
    (loss_found, found), (loss_wanted, wanted) = made
    assert loss_found == loss_wanted
    for name, array in found.items():
        assert_same(array, wanted[name])


@pytest.mark.parametrize("optimise", [_sgd, _momentum, _adamw, _adam])
def test_steps_follow_those_of_pytorch(optimise: Any) -> None:
    """Within the rounding of formats; a learning rate that changes between steps, too."""
    torch.manual_seed(7)
    model, given = _perceptron(), _rows()
    own = copy.deepcopy(model)
    loss = nn.CrossEntropyLoss()
    optimiser = optimise(own.parameters())
    step = mxt.compile_step(own, loss, optimiser, given, engine="model")
    reference = optimise(model.parameters())
    for at in range(6):
        for one in (optimiser, reference):
            one.param_groups[0]["lr"] *= 0.5 if at == 3 else 1.0
        found = step(*given)
        reference.zero_grad()
        wanted = loss(model(given[0]), given[1])
        wanted.backward()
        reference.step()
        assert found == pytest.approx(wanted.item(), abs=0.02)
    step.write_back()
    for mine, other in zip(own.parameters(), model.parameters(), strict=True):
        assert (mine - other).abs().max().item() < 0.05


@pytest.mark.parametrize("optimise", [_sgd, _momentum, _adamw, _adam])
def test_updates_are_those_of_pytorch(optimise: Any) -> None:
    """Without rounding but that of rates: five updates of a matrix, rates changing, in float64."""
    rng = np.random.default_rng(2)
    weight = torch.nn.Parameter(torch.from_numpy(rng.standard_normal((3, 4))))
    reference = optimise([weight])
    own = optimiser_of(reference, reference.param_groups[0])
    g = Graph()
    values = [g.input(name, (3, 4)) for name in ("weight", "gradient", *own.moments)]
    rates = {name: g.input(name, (1,)) for name in own.rates(0.1, 1)}
    new, kept = own.update(g, Trained(values[0], values[1], values[2:], rates))
    for name, value in zip(("weight", *own.moments), (new, *kept), strict=True):
        g.output(name, value)
    state = {name: np.zeros((3, 4)) for name in own.moments}
    state["weight"] = weight.detach().numpy().copy()
    for step in range(1, 6):
        reference.param_groups[0]["lr"] *= 0.75
        gradient = rng.standard_normal((3, 4))
        weight.grad = torch.from_numpy(gradient.copy())
        reference.step()
        numbers = own.rates(reference.param_groups[0]["lr"], step)
        given = {name: np.full(1, number, np.float64) for name, number in numbers.items()}
        state = evaluate(g, {**state, **given, "gradient": gradient})
        np.testing.assert_allclose(state["weight"], weight.detach().numpy(), rtol=0, atol=1e-6)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("optimise", [_sgd, _momentum, _adamw, _adam])
def test_schedulers_see_steps(optimise: Any) -> None:
    """Without a warning; parameters and the optimiser's state stay, whatever the gradients."""
    model, given = _perceptron(), _rows()
    before = copy.deepcopy(model.state_dict())
    optimiser = optimise(model.parameters())
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimiser, 0.5)
    rate = optimiser.param_groups[0]["lr"]
    step = mxt.compile_step(model, nn.CrossEntropyLoss(), optimiser, given, engine="model")
    for at in range(1, 3):
        step(*given)
        schedule.step()
        assert optimiser.param_groups[0]["lr"] == rate * 0.5**at
    model(given[0]).sum().backward()
    step(*given)
    assert not optimiser.state
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name])


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("momentum", 0.25, r"be Sgd\(.*in all but lr, not Sgd\(momentum=0.25"),
        *(("lr", rate, "have a finite lr of float32, not ") for rate in (math.nan, math.inf, 1e39)),
    ],
)
def test_only_rates_change_after_compiling(name: str, value: float, message: str) -> None:
    """And stay finite."""
    model, given = _perceptron(), _rows()
    optimiser = _momentum(model.parameters())
    step = mxt.compile_step(model, nn.CrossEntropyLoss(), optimiser, given, engine="model")
    optimiser.param_groups[0][name] = value
    with pytest.raises(ValueError, match=f"^optimizer must {message}"):
        step(*given)
    assert step.steps == 0


def test_what_pytorch_does_not_train_stays() -> None:
    """Parameters without a gradient, and rows of padding."""
    torch.manual_seed(7)
    model, given = Gpt(), _texts()
    given[0][0, :3] = 3
    model.up.weight.requires_grad_(False)
    step = mxt.compile_step(
        model, nn.CrossEntropyLoss(), _sgd(model.parameters()), given, engine="model"
    )
    assert "up.weight" not in step.state
    before = step.state["table.weight"].copy()
    step(*given)
    assert_same(step.state["table.weight"][3], before[3])
    assert (step.state["table.weight"] != before).any()


def test_a_cut_gradient_is_refused() -> None:
    class Cut(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(13, 6)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.layer(x)
            return y + y.detach()

    model, given = Cut(), _rows()
    with pytest.raises(ValueError, match="gradients cannot be cut in a training step"):
        mxt.compile_step(model, nn.CrossEntropyLoss(), _sgd(model.parameters()), given)


def test_state_is_saved_and_resumed(tmp_path: Any) -> None:
    """Four steps are two, saved, and two more."""
    _, whole, given, _ = _made("perceptron", engine="model")
    for _ in range(4):
        whole(*given)
    _, first, _, _ = _made("perceptron", engine="model")
    for _ in range(2):
        first(*given)
    torch.save(first.state_dict(), tmp_path / "state.pt")
    _, second, _, _ = _made("perceptron", engine="model")
    second.load_state_dict(torch.load(tmp_path / "state.pt"))
    for _ in range(2):
        second(*given)
    assert second.steps == 4
    for name, array in whole.state.items():
        assert_same(second.state[name], array)


@pytest.mark.parametrize(
    ("first", "back"), [(False, False), (False, True), (True, True)], ids=["in", "both", "out"]
)
def test_parts_are_of_samples(first: bool, back: bool) -> None:
    """A model whose first axis, of input or output, is that of tokens is refused."""

    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=first)

        def forward(self, x: Any) -> Any:
            y = self.layer(x)
            return (y.transpose(0, 1) if back else y).flatten(0, 1)

    model, given = Tokens(), (torch.randn(4, 8, 16), torch.randint(0, 16, (32,)))
    loss, optimizer = nn.CrossEntropyLoss(), _sgd(model.parameters())
    with pytest.raises(
        ValueError, match=r"^parts must be 1 for a model that does not take each sam"
    ):
        mxt.compile_step(model, loss, optimizer, given, parts=4, engine="model")
    mxt.compile_step(model, loss, optimizer, given, engine="model")


def test_buffers_that_change_are_refused() -> None:
    """And are as they were then."""
    model, given = Changing(), _rows()
    message = "calls.*a parameter or buffer is changed, and a program keeps it"
    with pytest.raises(CompileError, match=message):
        mxt.compile_step(model, nn.CrossEntropyLoss(), _sgd(model.parameters()), given)
    with pytest.raises(CompileError, match=message):
        mxt.compile(model, given[:1])
    assert model.calls.item() == 0


def test_parameters_that_come_later_are_refused() -> None:
    model, given = _perceptron(), _rows()
    optimizer = _sgd(model[0].parameters())
    step = mxt.compile_step(model, nn.CrossEntropyLoss(), optimizer, given, engine="model")
    optimizer.add_param_group({"params": list(model[3].parameters())})
    with pytest.raises(
        ValueError, match=r"^optimizer must have the parameters that it had when it"
    ):
        step(*given)


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("name", ["x", "target", "output"])
def test_parameters_may_have_any_name(name: str, parts: int) -> None:
    """That of an input of the model, too, or one that the step uses itself."""

    class Named(nn.Module):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name
            self.register_parameter(name, nn.Parameter(torch.eye(13, 6)))

        def forward(self, x: Any) -> Any:
            return x @ getattr(self, self.name)

    given = torch.randn(12, 13), torch.randint(0, 6, (12,))
    made = []
    for model in (Named(name), Named("other")):
        step = mxt.compile_step(
            model, nn.CrossEntropyLoss(), _sgd(model.parameters()), given, parts=parts
        )
        losses = [step(*given) for _ in range(2)]
        made.append((losses, step.state[model.name]))
    (losses, found), (losses_wanted, wanted) = made
    assert losses == losses_wanted
    assert_same(found, wanted)


def test_what_is_refused_is_named() -> None:
    """Bad input, each with its parameter."""
    model, given = _perceptron(), _rows()
    loss, sgd = nn.CrossEntropyLoss(), _sgd(model.parameters())
    step = mxt.compile_step(model, loss, sgd, given)
    kept = step.state_dict()["state"]
    frozen, halved = _perceptron().requires_grad_(False), _perceptron().half()
    refused: list[tuple[Callable[[], Any], str]] = [
        (lambda: mxt.compile_step(model, nn.L1Loss(), sgd, given), "loss must be CrossEntropyLoss"),
        (
            lambda: mxt.compile_step(model, nn.CrossEntropyLoss(reduction="sum"), sgd, given),
            "loss must have reduction mean, not 'sum'",
        ),
        (
            lambda: mxt.compile_step(model, loss, torch.optim.Adagrad(model.parameters()), given),
            "optimizer must be SGD, Adam or AdamW, not Adagrad",
        ),
        (
            lambda: mxt.compile_step(model, loss, _sgd(nn.Linear(2, 2).parameters()), given),
            "optimizer must have parameters of the model alone",
        ),
        (
            lambda: mxt.compile_step(model, loss, sgd, given, parts=2),
            r"examples\[0\] must have a first axis that 2 parts divide, not shape \(11, 13\)",
        ),
        (
            lambda: mxt.compile_step(model, loss, sgd, (given[0].numpy(), given[1])),
            r"examples\[0\] must be a tensor of float32, integers or booleans, not ndarray",
        ),
        (
            lambda: mxt.compile_step(model, loss, sgd, (given[0].double(), given[1])),
            r"examples\[0\] must be a tensor of float32, integers or booleans, not float64 of ",
        ),
        (
            lambda: mxt.compile_step(model, loss, sgd, given[0]),
            "examples must be a sequence, not Tensor",
        ),
        (
            lambda: mxt.compile_step(frozen, loss, _sgd(frozen.parameters()), given),
            "optimizer must have a parameter with requires_grad that the model uses, and has none",
        ),
        (lambda: step(given[0]), r"inputs must be 1 \(input\) and a target, not 1 in all"),
        (lambda: step(), r"inputs must be 1 \(input\) and a target, not 0 in all"),
        (
            lambda: step(given[0].bfloat16(), given[1]),
            "input must be a dense tensor of .* bfloat16",
        ),
        (lambda: step(given[0].to("meta"), given[1]), "input must be a dense .*, not float32 meta"),
        (lambda: step(given[0].to_sparse(), given[1]), "input must be .*, not float32 sparse_coo"),
        (
            lambda: mxt.compile_step(halved, loss, _sgd(halved.parameters()), given),
            r"0.weight must be of float32, not float16 of shape \(20, 13\)",
        ),
        (lambda: mxt.compile_step(model, Focal(), sgd, given), "loss must be .*, not Focal"),
        (lambda: step(given[0], given[1] + 6), "target must be from 0 to 5, not (6|7|8|9|10|11)$"),
        (lambda: mxt.compile_step(model, loss, sgd, ()), r"examples must be inputs and a target, "),
        (lambda: step(given[0][:5], given[1]), r"input must have shape \(11, 13\), not \(5, 13\)"),
        (lambda: step.load_state_dict({"steps": 1}), "given must be a mapping with steps and st"),
        (lambda: step.load_state_dict(3), "given must be a mapping with steps and state, not 3"),
        (
            lambda: step.load_state_dict({"steps": -1, "state": kept}),
            "steps must be an integer from 0 to [0-9]+, not -1",
        ),
        (
            lambda: step.load_state_dict({"steps": 1, "state": 2}),
            "state must be a mapping of names to tensors, not 2",
        ),
        (
            lambda: step.load_state_dict({"steps": 1, "state": {**kept, 5: 5, "b": 5}}),
            "state must have the names of this step, which differ in 5, b",
        ),
        (
            lambda: step.load_state_dict({"steps": 1, "state": dict.fromkeys(kept, 5)}),
            r"0.weight must be a float32 tensor of shape \(.*\), not 5",
        ),
    ]
    for call, message in refused:
        with pytest.raises((ValueError, TypeError), match=message):
            call()
    assert step.steps == 0


def test_phases_of_a_step() -> None:
    """Kernels of forward pass, of backward pass, and those that make the next weights."""
    step = _made("perceptron", engine="model")[1]
    kinds = phases(step.graph)
    found = {label: kinds.of(label) for label in step.compiled.parts[0].labels}
    named = {name: kind for label, kind in found.items() for name in label.split(", ")}
    forward, backward, update = kinds.colours
    assert {named[name] for name in ("input", "linear", "gelu", "layer_norm", "softmax_26")} == {
        forward
    }
    gradients = {name: kind for name, kind in named.items() if name.startswith("gradient of")}
    assert {kind for name, kind in gradients.items() if name[12].isdigit()} == {update}
    assert set(gradients.values()) == {backward, update}


def test_page_and_picture_have_the_figures_of_a_block() -> None:
    """Cycles and busy share of a block of DeiT-Tiny in the text, and its step on the queues."""
    step, _ = step_figures.made("block", "model")
    drawn_now = drawn(step.compiled, phases(step.graph))
    assert PICTURE.read_text() == drawn_now, "run `python -m studies.step_figures block`"
    found = re.search(r"(\d+) cycles predicted, array busy ([\d.]+)%", step.report())
    assert found
    page = " ".join((Path(__file__).parents[2] / "docs" / "training_step.md").read_text().split())
    assert f"takes {int(found[1]) / 1e6:.2f} M cycles by the prediction" in page
    assert f"busy in {float(found[2]):.0f} % of them" in page
    assert f"| thousands of cycles, not {int(found[1]) / 1e3:.0f} |" in page
    kept = json.loads(FIGURES.read_text())
    assert kept["block"]["cycles"] == int(found[1])
    verilog = kept["block"]["verilog"]
    assert f"simulated Verilog takes {verilog['cycles'] / 1e6:.2f} M cycles" in page
    assert f"in {verilog['array_busy'] / verilog['cycles']:.0%} of those".replace("%", " %") in page
    assert abs(verilog["cycles"] / kept["block"]["cycles"] - 1) < 0.1
    for words in ("words_read", "words_written"):
        assert verilog[words] == kept["block"][words]
    whole = kept["whole"]
    assert f"{whole['descriptors']:,} descriptors and {whole['cycles'] / 1e6:.1f} M cycles" in page
    assert f"The array is busy in {100 * whole['busy']:.0f} % of the cycles." in page
