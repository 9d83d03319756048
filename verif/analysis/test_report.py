"""Tables and files of errors."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from mxsafe.analysis import figures
from mxsafe.analysis.errors import block_name, gap_error, tensor_error
from mxsafe.analysis.report import aligned, gap_rows, markdown, tensor_rows, write_report

GAPS = [gap_error(name, gaps=[0, 7, 8], samples=256) for name in ("mxsf", "mxint8")]
TENSORS = {
    "x": [tensor_error(np.float32([1.0, -0.3, 0.004, 0.0001]), "mxsf", block=4)],
    "lost": [tensor_error(np.float32([[math.nan, 1.0], [1.0, 1.0]]), "mxint8", block=(2, 2))],
}


def test_tensor_table() -> None:
    assert aligned(tensor_rows(TENSORS), labels=3).splitlines() == [
        "tensor  format  block       MSE  relative error  SQNR, dB  underflow  saturated  mean gap"
        "  NaN blocks",
        "x       mxsf    1x4    2.45e-06          0.300%      50.5    25.000%     0.000%      6.00"
        "           0",
        "lost    mxint8  2x2         nan            nan%       nan     0.000%     0.000%      0.00"
        "           1",
    ]


def test_gap_table() -> None:
    assert markdown(gap_rows(GAPS), labels=0).splitlines() == [
        "| gap | mxsf | mxint8 |",
        "|--:|--:|--:|",
        "| 0 | 0.551% | 0.272% |",
        "| 7 | 4.326% | 38.825% |",
        "| 8 | 4.326% | zero |",
    ]
    assert markdown([("a", "b")]).splitlines() == ["| a | b |", "|---|--:|"]


def test_block_names() -> None:
    assert (block_name(64), block_name((8, 4))) == ("1x64", "8x4")


def test_files(tmp_path: Path) -> None:
    settings = {"rounding": "rne"}
    names = write_report(tmp_path / "out", gaps=GAPS, tensors=TENSORS, settings=settings)
    assert names == ["errors.json", "errors.md", "gap.svg", "tensors.svg"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == names
    record = json.loads((tmp_path / "out" / "errors.json").read_text())
    assert record["settings"] == settings
    assert record["gaps"][1]["mean"] == list(GAPS[1].mean)
    assert record["tensors"]["x"][0]["mse"] == TENSORS["x"][0].mse
    assert record["tensors"]["lost"][0]["mse"] is None
    assert record["tensors"]["lost"][0]["block"] == [2, 2]
    page = (tmp_path / "out" / "errors.md").read_text()
    assert markdown(gap_rows(GAPS)[1:], labels=0).splitlines()[0] in page
    assert markdown(tensor_rows(TENSORS), labels=3) in page
    before = {name: (tmp_path / "out" / name).read_bytes() for name in names}
    write_report(tmp_path / "out", gaps=GAPS, tensors=TENSORS, settings=settings)
    assert before == {name: (tmp_path / "out" / name).read_bytes() for name in names}
    assert write_report(tmp_path / "gaps", gaps=GAPS, tensors={}, settings={}) == names[:3]


def test_settings_that_json_has_not(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="settings must have values that JSON has, not b'x'"):
        write_report(tmp_path / "new", gaps=GAPS, tensors={}, settings={"of": [b"x"]})
    assert not (tmp_path / "new").exists()


def test_all_files_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tensors.svg").mkdir()
    with pytest.raises(OSError, match=r"tensors\.svg is not a regular file$"):
        write_report(tmp_path, gaps=GAPS, tensors=TENSORS, settings={})
    assert [path.name for path in tmp_path.iterdir()] == ["tensors.svg"]
    (tmp_path / "tensors.svg").rmdir()

    def fail(*arguments: object) -> bytes:
        raise ModuleNotFoundError("no matplotlib")

    monkeypatch.setattr(figures, "render", fail)
    with pytest.raises(ModuleNotFoundError):
        write_report(tmp_path / "new", gaps=GAPS, tensors=TENSORS, settings={})
    assert not list(tmp_path.iterdir())
