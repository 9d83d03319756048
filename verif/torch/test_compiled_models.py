"""The study of models of packages goes on where it was interrupted, and notes refusals."""

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
study = pytest.importorskip("studies.compiled_models")


def small(width: int) -> Any:
    return torch.nn.Linear(width, 5), (torch.randn(3, width),)


class Wave(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.sin(x)


def test_what_is_kept_is_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    models = {
        "one": ("torch", lambda: small(20)),
        "other": ("torch", lambda: (Wave(), (torch.randn(3, 4),))),
    }
    written: list[str] = []
    monkeypatch.setattr(study, "PAGE", tmp_path / "numbers.json")
    monkeypatch.setattr(study, "MODELS", models)
    monkeypatch.setattr(study.pages, "write", written.append)
    study.main([])
    numbers = json.loads((tmp_path / "numbers.json").read_text())
    one, other = numbers["one"], numbers["other"]
    assert one["same"]
    assert one["error_of_32"] < 1e-6 < one["error_64"] < 0.05
    assert (one["nodes"], other["nodes"]) == (1, 1)
    assert "the machine lacks the function" in other["refused"]
    monkeypatch.setattr(study, "measure", None)
    study.main([])
    assert written == ["compiled_models"] * 2
    assert "2/2 other" in capsys.readouterr().out
