"""Damaged files of models, and state dicts whose parts do not belong together: a clear error."""

import copy
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from verif.bad_input.files import Reader, damaged, read
from verif.support.tests import Volume

torch = pytest.importorskip("torch", reason="torch is not installed")
mxt = pytest.importorskip("mxsafe.torch")

LAYOUTS = {
    "compressed-tensors": ("mxfp4_e2m1", "nvfp4", "mxfp8_e4m3"),
    "gpt-oss": ("mxfp4_e2m1",),
    "torchao": ("mxfp8_e4m3", "nvfp4"),
}


def model() -> Any:
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(64, 4), torch.nn.LayerNorm(4))


def test_files_of_models(tmp_path: Path, volume: Volume) -> None:
    held, path = model(), tmp_path / "whole.safetensors"
    mxt.quantize_(held, "mxsf", block=64)
    mxt.save_model(path, held)
    reader = Reader(
        "bad.safetensors",
        lambda folder: path.read_bytes(),
        lambda file: mxt.load_model(file, model()),
    )
    good = reader.content(tmp_path)
    assert read(reader, tmp_path, good).kind == "result"
    answers = [
        read(reader, tmp_path, content)
        for content in damaged(good, np.random.default_rng(1), volume(200, 5000))
    ]
    assert not [answer.words for answer in answers if answer.kind == "fault"]
    assert sum(answer.kind == "ValueError" for answer in answers) > len(answers) // 2


def wrong(tensor: Any, random: np.random.Generator) -> Iterator[Any]:
    """Objects that may stand in the place of a tensor."""
    yield from (None, 3, "text", [1.0], torch.tensor(float("nan")), torch.zeros(0))
    if type(tensor) is not torch.Tensor:  # one of torchao, of which parts are exchanged
        for part in ("qdata", "scale", "per_tensor_scale"):
            if torch.is_tensor(own := getattr(tensor, part, None)):
                for bad in wrong(own, random):
                    damaged = copy.copy(tensor)
                    setattr(damaged, part, bad)
                    yield damaged
        return
    yield from (tensor.float(), tensor.to(torch.int64), tensor.double())
    yield from (tensor.flatten(), tensor.unsqueeze(0))
    if tensor.ndim:
        yield from (tensor[..., :-1], tensor[:0], tensor[0])
    if tensor.dtype == torch.uint8:
        yield torch.from_numpy(random.integers(0, 256, tuple(tensor.shape), np.uint8))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_states_of_other_libraries(layout: str) -> None:
    random, refused = np.random.default_rng(1), 0
    for name in LAYOUTS[layout]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if layout == "torchao":
                pytest.importorskip("torchao", reason="torchao is not installed")
            whole = mxt.to_state({"w": mxt.quantize(torch.randn(4, 64), name)}, layout)
        assert set(mxt.from_state(whole, layout)) == {"w"}
        for key in whole:
            missing = {other: part for other, part in whole.items() if other != key}
            states = [missing, *({**whole, key: bad} for bad in wrong(whole[key], random))]
            for state in states:
                try:
                    found = mxt.from_state(state, layout)
                except (TypeError, ValueError) as error:
                    refused += 1
                    assert "\n" not in str(error)
                    assert any(part in str(error) for part in (key, "w", "state")), error
                else:
                    assert found.keys() <= {"w", *state}
    assert refused > 10
