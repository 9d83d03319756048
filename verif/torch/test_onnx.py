"""ONNX models as programs: the bits of the same model by torch.export, and near onnxruntime."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
onnx = pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxscript", reason="onnxscript is not installed")

import mxsafe.onnx  # noqa: E402
import mxsafe.torch as mxt  # noqa: E402
from mxsafe.machine.compiler.places import CompileError  # noqa: E402
from verif.cli.command import run_in  # noqa: E402
from verif.torch.small_models import (  # noqa: E402
    Mixer,
    Parts,
    bert,
    encoder,
    gpt2,
    ids,
    llama,
    perceptron,
    vit,
)

nn = torch.nn


def to_onnx(model: Any, *examples: Any, opset: int = 23) -> Any:
    """A model as PyTorch exports it."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        made = torch.onnx.export(
            model.eval(), examples, dynamo=True, opset_version=opset, verbose=False
        )
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
    return made.model_proto


def arrays(found: Any) -> list[np.ndarray]:
    return [*found] if isinstance(found, tuple) else [found]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("opset", [23, 18])
@pytest.mark.parametrize(
    ("make", "example", "same"),
    [
        (perceptron, lambda: torch.randn(20, 48), True),
        (encoder, lambda: torch.randn(2, 11, 64), True),
        (Mixer, lambda: torch.randn(1, 3, 16, 16), False),  # silu is x * sigmoid(x)
        (bert, ids, True),
        (llama, ids, False),  # rms_norm, and silu
        (gpt2, ids, True),
        (vit, lambda: torch.randn(2, 3, 32, 32), True),
    ],
    ids=["perceptron", "encoder", "mixer", "bert", "llama", "gpt2", "vit"],
)
def test_models(make: Any, example: Any, same: bool, opset: int) -> None:
    """Equal graphs have equal bits; other ones are as near to float32, twice, as those are."""
    torch.manual_seed(0)
    model, x = make().eval(), example()
    proto = to_onnx(model, x, opset=opset)
    found = arrays(mxsafe.onnx.compile(proto)(x.numpy()))
    wanted = arrays(mxt.compile(model, (x,))(x.numpy()))
    exact = floats(proto, x.numpy())
    for one, other, right in zip(found, wanted, exact, strict=True):
        if same and (opset == 23 or make is perceptron):  # opset 18 has no attention
            assert one.tobytes() == other.tobytes()
        largest = np.abs(other - right).max()
        assert 0 < np.abs(one - right).max() <= 2 * largest + 2.0**-20


def floats(proto: Any, x: np.ndarray) -> list[np.ndarray]:
    """Outputs of onnxruntime, or of ONNX's own reference where it is not installed."""
    try:
        import onnxruntime
    except ImportError:
        from onnx.reference import ReferenceEvaluator

        return list(ReferenceEvaluator(proto).run(None, {proto.graph.input[0].name: x}))
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    return list(session.run(None, {proto.graph.input[0].name: x}))


@pytest.mark.filterwarnings("ignore")
def test_modules_of_the_host() -> None:
    """By their names in PyTorch, or those of nodes."""
    torch.manual_seed(0)
    model, x = Parts().eval(), torch.randn(2, 11, 64)
    keep = ["wave", "encoder.layers.1.self_attn"]
    made = mxsafe.onnx.compile(to_onnx(model, x), keep=keep)
    assert len(made.parts) == 3
    assert made(x.numpy()).tobytes() == mxt.compile(model, (x,), keep=keep)(x.numpy()).tobytes()
    proto = onnx.parser.parse_model(NODES.replace("y) => (float[2, 3] z)", "y) => (float[2, 3] a)"))
    proto.graph.input.pop()
    del proto.graph.node[1:]
    proto.graph.node[0].name = "wave"
    with pytest.raises(ValueError, match="something that the machine computes, not the host"):
        mxsafe.onnx.compile(proto, keep=["wave"])


NODES = """
<ir_version: 10, opset_import: ["" : 20]>
refused (float[2, 3] x, int64[2] ids, float[2, n] y) => (float[2, 3] z)
{
    a = Sin (x)
    b = CumSum (x, axis)
    c = Add (a, b)
    d = Erf (x)
    r = Relu (x)
    e = Gather (r, ids)
    z = Add (c, d)
}
"""


def test_all_reasons_at_once() -> None:
    proto = onnx.parser.parse_model(NODES.replace("axis", "ids"))
    for at, node in enumerate(proto.graph.node):
        node.name = f"node_{at}"
    with pytest.raises(CompileError) as caught:
        mxsafe.onnx.compile(proto)
    assert str(caught.value).splitlines() == [
        "5 nodes cannot be compiled:",
        "  y: input: shape must be fixed, not [2, 'n']",
        "  node_0: Sin: the machine lacks the function; the host computes it in a module that keep "
        "names",
        "  node_1: CumSum: running sums must be of integers, inclusive and forward",
        "  node_3: Erf: erf must be a part of GELU, x * (1 + erf(x / sqrt(2))) / 2",
        "  node_5: Gather: the host computes this, of inputs and constants, or in a module that "
        "keep names",
    ]


def test_older_operators() -> None:
    proto = onnx.parser.parse_model(NODES.replace('"" : 20', '"" : 12').replace("axis", "ids"))
    with pytest.raises(CompileError, match="opset must be at least 13, not 12"):
        mxsafe.onnx.compile(proto)


OPERATORS = """
<ir_version: 10, opset_import: ["" : 20]>
operators (float[2, 6, 4] x, int64[2, 6] ids, bool[2, 6] shown) => (float y, int64 k, float m)
<float[4, 6] w = {%s}, int64[1] one = {1}, float minus = {-2.0},
 int64 nine = {9}, int64[1] two = {2}, float half = {0.5}, float[10, 4] t = {%s},
 float unit = {1.0}, float[1] root = {0.70710678}, int64 axis = {1}>
{
    product = MatMul (x, w)
    turned = Transpose <perm = [0, 2, 1]> (x)
    first, second = Split <axis = 1, num_outputs = 2> (product)
    joined = Concat <axis = 1> (second, first)
    less = Less (ids, nine)
    both = And (less, shown)
    seen = Unsqueeze (both, one)
    chosen = Where (seen, joined, minus)
    count = CumSum (ids, axis)
    few = Where (less, ids, nine)
    rows = Gather (t, few)
    sums = ReduceSum (rows, two)
    scaled = Mul (product, root)
    erf = Erf (scaled)
    more = Add (unit, erf)
    part = Mul (product, half)
    gelu = Mul (part, more)
    mean = ReduceMean <keepdims = 0> (turned, one)
    floats = Cast <to = 1> (both)
    weighted = Mul (sums, floats3)
    floats3 = Unsqueeze (floats, two)
    root0 = Sqrt (more0)
    squared = Mul (product, product)
    more0 = Add (squared, unit)
    inverse = Reciprocal (root0)
    ratio = Div (gelu, root0)
    y0 = Add (ratio, chosen)
    y1 = Softmax <axis = 1> (y0)
    y = Add (y1, inverse)
    k = Add (count, nine)
    m0 = Flatten (weighted)
    m1 = Sigmoid (m0)
    m = Sub (m1, mean0)
    mean0 = ReduceMean (mean, one)
}
"""


def test_operators() -> None:
    """Near ONNX's own reference, each rounded as the machine does; integers are equal."""
    from onnx.reference import ReferenceEvaluator

    rng = np.random.default_rng(0)
    numbers = [", ".join(f"{x:.6f}" for x in rng.standard_normal(size)) for size in (24, 40)]
    text = OPERATORS % tuple(numbers)
    lines = text.splitlines()
    start = lines.index("{") + 1
    body = sorted_lines(lines[start : lines.index("}", start)])
    proto = onnx.parser.parse_model("\n".join([*lines[:start], *body, "}"]))
    given = {
        "x": rng.standard_normal((2, 6, 4)).astype("f4"),
        "ids": rng.integers(0, 10, (2, 6)),
        "shown": rng.integers(0, 2, (2, 6)) > 0,
    }
    y, k, m = mxsafe.onnx.compile(proto)(*given.values())
    wanted = ReferenceEvaluator(proto).run(None, given)
    assert np.array_equal(k, wanted[1])
    assert np.abs(y - wanted[0]).max() < 2.0**-5
    assert np.abs(m - wanted[2]).max() < 2.0**-7


def sorted_lines(lines: list[str]) -> list[str]:
    """Nodes after those that they need."""
    known, left, done = set(), [*lines], []
    results = {name.strip() for line in lines for name in line.split("=", 1)[0].split(",")}
    while left:
        for line in left:
            target, _, rest = line.partition("=")
            inputs = rest.rpartition("(")[2].strip(" )").split(", ")
            if not (set(inputs) & results) - known:
                done.append(line)
                left.remove(line)
                known |= {name.strip() for name in target.split(",")}
                break
        else:
            raise AssertionError(left)
    return done


@pytest.mark.filterwarnings("ignore")
def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(0)
    model, x = perceptron().eval(), torch.randn(20, 48)
    onnx.save(to_onnx(model, x), tmp_path / "model.onnx")
    np.save(tmp_path / "x.npy", x.numpy())
    assert run_in(tmp_path, "compile", "model.onnx", "--out", "model.mxprog") == 0
    capsys.readouterr()
    words = ["compile", "model.onnx", "--out", "window.mxprog", "--arithmetic", "window"]
    assert run_in(tmp_path, *words) == 0
    wanted = mxt.compile(model, (x,), arithmetic="window")
    report = capsys.readouterr().out
    assert report.splitlines()[-1] == wanted.report().splitlines()[-1]
    assert run_in(tmp_path, "run", "model.mxprog", "--input", "x.npy", "--out", "y.npy") == 0
    assert np.array_equal(np.load(tmp_path / "y.npy"), mxt.compile(model, (x,))(x.numpy()))
    (tmp_path / "other.onnx").write_bytes(b"nothing of that kind")
    capsys.readouterr()
    for file, more, message in (
        ("other.onnx", (), "must be an ONNX model"),
        ("model.onnx", ("--keep", "head"), "keep must name modules that compute something, 0, "),
        ("model.pt", (), "MODEL must end in .pt2 or .onnx, not 'model.pt'"),
    ):
        assert run_in(tmp_path, "compile", file, "--out", "o.mxprog", *more) > 0
        assert message in capsys.readouterr().err
