"""The study of a language model on the machine goes on where it was interrupted."""

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("gguf", reason="gguf is not installed")
pytest.importorskip("tokenizers", reason="tokenizers is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
study = pytest.importorskip("studies.language_machine")
from studies.evidence import smollm2  # noqa: E402

SIZES = {"layers": 1, "width": 64, "inner": 96, "heads": (4, 2), "words": 50}


def small() -> Any:
    torch.manual_seed(0)
    return smollm2.Llama(**SIZES, epsilon=1e-5, base=1e4).eval()


def test_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = small()
    monkeypatch.setattr(study.smollm2, "load", lambda: given)
    sizes = {**SIZES, "epsilon": 1e-5, "base": 1e4}
    monkeypatch.setattr(study.smollm2, "sizes", lambda: sizes)
    texts = [torch.randint(0, 50, (1, 9)) for _ in range(3)]
    monkeypatch.setattr(study.language, "texts", lambda documents, tokens: texts[:documents])
    monkeypatch.setattr(study.language, "require", lambda: None)
    monkeypatch.setattr(study, "PAGE", tmp_path / "numbers.json")
    written: list[str] = []
    monkeypatch.setattr(study.pages, "write", written.append)
    for count in (2, 3):
        monkeypatch.setattr(study, "TEXTS", count)
        study.main([])
        numbers = json.loads((tmp_path / "numbers.json").read_text())
        assert len(numbers["texts"]) == count
        assert numbers["program"]["same"]
        assert all(0.99 < one["cosine"] < 1 for one in numbers["texts"])
    said = capsys.readouterr().out
    assert said.count("1/2") == said.count("2/2") == said.count("3/3") == 1
    assert said.count("'descriptors'") == 1
    assert written == ["language_model"] * 2
    # Halves of a head are rotated in one, neighbours in the other.
    with torch.inference_mode():
        logits = study.model()(texts[0]).logits
        torch.testing.assert_close(logits, given(texts[0]), rtol=1e-5, atol=1e-5)
