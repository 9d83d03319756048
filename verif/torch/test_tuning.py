"""Fine-tuning, of a small network with random weights."""

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("gguf", reason="gguf is not installed")
tuning = pytest.importorskip("studies.evidence.tuning")


def llama() -> Any:
    torch.manual_seed(4)
    return tuning.smollm2.Llama(
        layers=2, width=32, inner=64, heads=(4, 2), words=40, epsilon=1e-5, base=1e4
    )


def tuned(fmt: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(tuning, "RATE", 1e-3)
    text = torch.arange(17) % 5
    return tuning.tuned(llama(), fmt, [text] * 8, [text, (text + 3) % 40])


@pytest.mark.parametrize("fmt", ["float32", "mxsf"])
def test_it_learns_what_it_sees(fmt: str, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = tuned(fmt, monkeypatch)
    assert len(numbers["loss"]) == 8
    assert numbers["loss"][-1] < numbers["loss"][0] - 0.05
    assert len(numbers["before"]) == len(numbers["after"]) == 2
    assert numbers["after"][0] < numbers["before"][0] - 0.05
    assert ("layers" in numbers) == (fmt == "float32")


def test_formats_start_alike_and_part(monkeypatch: pytest.MonkeyPatch) -> None:
    float32, mxsf = (tuned(fmt, monkeypatch) for fmt in ("float32", "mxsf"))
    assert float32["before"][0] == pytest.approx(mxsf["before"][0], rel=0.01)
    assert float32["loss"] != mxsf["loss"]
    assert tuned("mxsf", monkeypatch) == mxsf


def test_runs() -> None:
    assert tuning.runs(quick=True, seeds=3) == []
    names = [run.name for run in tuning.runs(quick=False, seeds=2)]
    assert names[:2] == ["tuning/float32/0", "tuning/mxint8/0"]
    assert len(names) == 10
