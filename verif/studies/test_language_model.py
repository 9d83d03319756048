"""The study of a language model goes on where it was interrupted."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("gguf", reason="gguf is not installed")
pytest.importorskip("tokenizers", reason="tokenizers is not installed")
study = pytest.importorskip("studies.language_model")


def test_what_is_kept_is_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured: list[str] = []
    written: list[str] = []
    stopped: list[str] = []

    def measure(name: str) -> dict[str, Any]:
        if name == "mxint8" and not stopped:
            stopped.append(name)
            raise KeyboardInterrupt
        measured.append(name)
        return {"perplexity": len(measured)}

    monkeypatch.setattr(study, "PAGE", tmp_path / "numbers.json")
    monkeypatch.setattr(study, "measure", measure)
    monkeypatch.setattr(study.language, "require", lambda: None)
    monkeypatch.setattr(study.pages, "write", written.append)
    with pytest.raises(KeyboardInterrupt):
        study.main([])
    assert measured == ["float32", "mxsf", "mxfp8_e2m5", "mxfp8_e4m3"]
    assert not written
    study.main([])
    assert measured == list(study.FORMATS)
    assert written == ["language_model"]
    assert list(json.loads((tmp_path / "numbers.json").read_text())) == list(study.FORMATS)
    assert "6/6 mxfp4_e2m1" in capsys.readouterr().out
    study.main(["--again"])
    assert len(measured) == 2 * len(study.FORMATS)
