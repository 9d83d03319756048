"""Quantised models in files: the same bits again, and clear errors of files that are others."""

import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mxsafe as mx
from verif.support.tests import raises
from verif.torch.held_models import OPTIONS, Network, network, tokens

torch = pytest.importorskip("torch", reason="torch is not installed")
mxt = pytest.importorskip("mxsafe.torch")
safetensors = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")
nn = torch.nn

PROGRAM = """
import sys, torch, mxsafe.torch as mxt
from verif.torch.held_models import Network, tokens
model = Network().eval()
mxt.load_model(sys.argv[1], model)
torch.save(model(tokens()), sys.argv[2])
"""


def test_a_new_process_gives_the_same_numbers(tmp_path: Path) -> None:
    model = network()
    mxt.quantize_(model, {"layer.linear1": "nvfp4", "wide": "mxfp4_e2m1", "*": "mxsf"}, block=16)
    mxt.save_model(tmp_path / "m.safetensors", model)
    arguments = [str(tmp_path / "m.safetensors"), str(tmp_path / "y.pt")]
    subprocess.run([sys.executable, "-c", PROGRAM, *arguments], check=True)
    assert torch.equal(torch.load(tmp_path / "y.pt"), model(tokens()))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_models_come_back(options: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    model = network()
    mxt.quantize_(model, "mxsf", **options)
    mxt.save_model(path, model)
    other = Network().eval()
    mxt.load_model(path, other)
    assert repr(other) == repr(model)
    assert torch.equal(other(tokens()), model(tokens()))
    with torch.device("meta"):
        empty = Network().eval()
    mxt.load_model(path, empty)
    assert torch.equal(empty(tokens()), model(tokens()))
    q = mx.load_all(path)["last.weight"]  # as NumPy's, too
    np.testing.assert_array_equal(mx.dequantize(q), model.last.weight.dequantize())


def test_weights_that_are_shared_are_written_once(tmp_path: Path) -> None:
    def tied() -> Any:
        model = nn.Sequential(nn.Embedding(50, 64), nn.Linear(64, 50), nn.Linear(50, 50))
        model.append(nn.LayerNorm(50))
        model[1].weight = model[0].weight
        model[3].bias = model[2].bias
        return model

    path = tmp_path / "tied.safetensors"
    model = tied().bfloat16()
    mxt.quantize_(model, "nvfp4", filter="[01]")
    mxt.save_model(path, model)
    assert path.stat().st_size < 50 * 64 // 2 + 50 * 4 + 2 * (50 * 50 + 3 * 50) + 2048
    other = tied().bfloat16()
    mxt.load_model(path, other)
    assert other[0].weight is other[1].weight
    ids = torch.arange(50)
    assert torch.equal(other(ids), model(ids))


def saved(tmp_path: Path) -> tuple[Path, Any]:
    model = nn.Sequential(nn.Linear(32, 8), nn.LayerNorm(8))
    mxt.quantize_(model, "mxsf", block=32)
    mxt.save_model(tmp_path / "m.safetensors", model)
    return tmp_path / "m.safetensors", model


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda: nn.Sequential(nn.Linear(32, 9), nn.LayerNorm(9)),
         "model must have 0.weight of shape (8, 32) for {path}, not (9, 32)"),
        (lambda: nn.Sequential(nn.Linear(32, 8, bias=False), nn.LayerNorm(8)),
         "model must have 0.bias of shape (8,) for {path}, not none"),
        (lambda: nn.Sequential(nn.Linear(32, 8), nn.LayerNorm(8), nn.Linear(8, 1)),
         "model must have 2.bias of shape none for {path}, not (1,)"),
        (lambda: nn.LayerNorm(8), "model must have a module '0' to quantise for {path}, not none"),
        (lambda: nn.Sequential(nn.LayerNorm(8)),
         "model must have a module '0' to quantise for {path}, not a LayerNorm"),
    ],
)  # fmt: skip
def test_a_model_that_is_another_is_refused(other: Any, message: str, tmp_path: Path) -> None:
    path, _ = saved(tmp_path)
    model = other()
    before = repr(model)
    with raises(ValueError, message.format(path=path)):
        mxt.load_model(path, model)
    assert repr(model) == before


def test_damaged_and_foreign_files_are_refused(tmp_path: Path) -> None:
    path, _ = saved(tmp_path)
    fresh = nn.Sequential(nn.Linear(32, 8), nn.LayerNorm(8))
    data = path.read_bytes()
    bad = tmp_path / "bad.safetensors"
    refused = 0
    for cut in range(0, len(data) - 1, 37):
        bad.write_bytes(data[:cut])
        with pytest.raises(ValueError, match="does not hold a model of save_model"):
            mxt.load_model(bad, fresh)
        refused += 1
    assert refused > 10
    tensors = safetensors.load_file(path)
    with safetensors.safe_open(path, framework="pt") as file:
        texts = file.metadata()
    about, of_model = (json.loads(texts[key]) for key in ("mxsafe", "mxsafe.model"))
    damaged: list[tuple[Any, Any, str]] = [
        ({"0.weight": {**about["0.weight"], "format": "mxfp9"}}, of_model, "format must be one of"),
        ({"0.weight": {**about["0.weight"], "block": 16}}, of_model, "scales must have shape"),
        ({"0.weight": {}}, of_model, "it has no 'format'"),
        ([], of_model, "its texts are no mappings"),
        (about, {"same": {}}, "it has no 'activations'"),
        (about, {**of_model, "same": {"x": "y"}}, "it has no 'y'"),
        (about, {**of_model, "activations": {"0": {"format": "mxsf"}}}, "it has no 'block'"),
    ]
    for one, other, words in damaged:
        new = {"mxsafe": json.dumps(one), "mxsafe.model": json.dumps(other)}
        safetensors.save_file(tensors, bad, metadata=new)
        with pytest.raises(ValueError, match=f"does not hold a model of save_model: {words}"):
            mxt.load_model(bad, fresh)
    safetensors.save_file(tensors, bad)
    with pytest.raises(ValueError, match="it has no 'mxsafe'"):
        mxt.load_model(bad, fresh)
    assert type(fresh[0]) is nn.Linear


def damaged(path: Path, tensors: Any = (), **about: Any) -> Path:
    """A file with other tensors, and other words about its weight."""
    with safetensors.safe_open(path, framework="pt") as file:
        texts = file.metadata()
    words = json.loads(texts["mxsafe"])
    words["0.weight"] |= about
    texts["mxsafe"] = json.dumps(words)
    bad = path.with_name("bad.safetensors")
    safetensors.save_file(safetensors.load_file(path) | dict(tensors), bad, metadata=texts)
    return bad


@pytest.mark.parametrize(
    ("tensors", "about", "words"),
    [
        ({}, {"shape": []}, "shape must have an axis, not ()"),
        ({}, {"axis": 0}, "axis must be the last of block 16, not 0"),
        ({"0.weight.codes": torch.zeros(8, 16, dtype=torch.int64)}, {},
         "codes must be of uint8, not torch.int64"),
        ({"0.weight.tensor_scale": torch.ones(2)}, {},
         "tensor_scale must be one number of float32, not torch.float32 of shape (2,)"),
        ({"0.weight.tensor_scale": torch.tensor(1)}, {},
         "tensor_scale must be one number of float32, not torch.int64 of shape ()"),
    ],
)  # fmt: skip
def test_parts_of_a_weight_belong_together(
    tensors: Any, about: Any, words: str, tmp_path: Path
) -> None:
    model = nn.Sequential(nn.Linear(32, 8))
    mxt.quantize_(model, "nvfp4")
    mxt.save_model(tmp_path / "m.safetensors", model)
    bad = damaged(tmp_path / "m.safetensors", tensors, **about)
    with raises(ValueError, f"{bad} does not hold a model of save_model: {words}"):
        mxt.load_model(bad, nn.Sequential(nn.Linear(32, 8)))


@pytest.mark.parametrize("dtype", [torch.int32, torch.bool, torch.complex64, torch.float64])
def test_a_bias_of_another_dtype_is_refused(dtype: Any, tmp_path: Path) -> None:
    path, _ = saved(tmp_path)
    bad, fresh = damaged(path, {"0.bias": torch.ones(8).to(dtype)}), nn.Linear(32, 8)
    model = nn.Sequential(fresh, nn.LayerNorm(8))
    name = str(dtype).removeprefix("torch.")
    with raises(ValueError, f"model must have 0.bias of {name} for {bad}, not float32"):
        mxt.load_model(bad, model)
    assert type(fresh) is nn.Linear


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize(
    ("name", "other"), [("float32", torch.float16), ("bfloat16", torch.float32)]
)
def test_a_model_of_another_dtype_is_refused(
    name: str, other: Any, device: str, tmp_path: Path
) -> None:
    """It would compute other numbers: a bias of 1e6 is Inf in float16."""
    path = tmp_path / "m.safetensors"
    for bias in (True, False):
        model = nn.Linear(32, 8, bias=bias).to(getattr(torch, name))
        mxt.quantize_(model, "mxsf", block=32)
        mxt.save_model(path, model)
        fresh = nn.Linear(32, 8, bias=bias, device=device, dtype=other)
        found = str(other).removeprefix("torch.")
        with raises(ValueError, f"model must have weight of {name} for {path}, not {found}"):
            mxt.load_model(path, fresh)
        assert type(fresh) is nn.Linear


class Stateful(nn.Module):
    """A module with a state that is neither a parameter nor a buffer."""

    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state = state

    def get_extra_state(self) -> Any:
        return self.state

    def set_extra_state(self, state: Any) -> None:
        self.state = state


class Forgetful(nn.Module):
    def get_extra_state(self) -> Any:
        return torch.ones(2)


def test_states_of_modules_are_kept_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"

    def made(module: Any) -> Any:
        return nn.Sequential(nn.Linear(32, 8), module)

    model = made(Stateful(torch.tensor([3.0, 1.0])))
    mxt.quantize_(model, "mxsf")
    mxt.save_model(path, model)
    for start in (torch.zeros(2), torch.zeros(5), None):
        fresh = made(Stateful(start))
        mxt.load_model(path, fresh)
        assert torch.equal(fresh[1].state, model[1].state)
    with raises(ValueError, f"model must have 1._extra_state of shape (2,) for {path}, not none"):
        mxt.load_model(path, made(nn.ReLU()))
    for module, message in (
        (Stateful({"gain": 3}), "tensors to be saved, not {'gain': 3} as 1._extra_state"),
        (
            Forgetful(),
            "a set_extra_state to be saved beside 1._extra_state, not a Forgetful without",
        ),
    ):
        model = made(module)
        mxt.quantize_(model, "mxsf")
        with raises(ValueError, f"model must have {message}"):
            mxt.save_model(tmp_path / "none.safetensors", model)


def test_bad_input(tmp_path: Path) -> None:
    _, model = saved(tmp_path)
    with raises(ValueError, "path must end in .safetensors, not 'm.pt'"):
        mxt.save_model(tmp_path / "m.pt", model)
    with raises(ValueError, "model must have quantised modules, not none: see quantize_"):
        mxt.save_model(tmp_path / "x.safetensors", nn.Linear(2, 2))
    with pytest.raises(FileNotFoundError):
        mxt.load_model(tmp_path / "none.safetensors", model)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["m.safetensors"]


def test_a_model_of_transformers(tmp_path: Path) -> None:
    """The page's example: embedding and last layer share a matrix, attention is a function."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformers = pytest.importorskip("transformers", reason="transformers is not installed")
        config = transformers.LlamaConfig(
            vocab_size=100,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=1,
            num_attention_heads=4,
            num_key_value_heads=2,
            tie_word_embeddings=True,
        )
        model, fresh, plain = (
            transformers.AutoModelForCausalLM.from_config(config).eval() for _ in range(3)
        )
    plain.load_state_dict(model.state_dict())
    ids = torch.randint(0, 100, (1, 12), generator=torch.Generator().manual_seed(0))
    summary = mxt.quantize_(model, "mxsf", block=32)
    assert {one.kind for one in summary.left} == {"LlamaRMSNorm"}
    mxt.save_model(tmp_path / "model.safetensors", model)
    mxt.load_model(tmp_path / "model.safetensors", fresh)
    embedding = plain.get_input_embeddings()
    values = mxt.fake_quantize(embedding.weight.detach(), "mxsf", block=32)
    plain.set_input_embeddings(nn.Embedding.from_pretrained(values))
    with torch.no_grad(), mxt.microscaling("mxsf", block=32):
        logits = model(ids).logits
        assert torch.equal(fresh(ids).logits, logits)
        assert torch.equal(plain(ids).logits, logits)
