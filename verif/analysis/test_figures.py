"""Pictures: well-formed, complete, the same on every run."""

import io
import math
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from mxsafe.analysis import figures
from mxsafe.analysis.errors import GapError, TensorError, draw_tensor, gap_error, tensor_error
from mxsafe.formats import MX_FORMATS, MXFormat
from verif.support.tests import raises


def texts(svg: bytes) -> list[str]:
    """Every text of a picture: matplotlib draws it as shapes and names it in a comment."""
    return re.findall(r"<!-- (.*?) -->", svg.decode())


def gap_errors() -> list[GapError]:
    return [gap_error(name, samples=64) for name in MX_FORMATS]


def tensor_errors() -> dict[str, list[TensorError]]:
    x = draw_tensor("normal", (16, 64))
    return {
        title: [tensor_error(t, name, block=64) for name in MX_FORMATS]
        for title, t in (("one tensor", x), ("another", x * x))
    }


def test_gap_picture() -> None:
    svg = figures.render(figures.draw_gap_errors(gap_errors()), ".svg")
    assert ElementTree.fromstring(svg).tag == "{http://www.w3.org/2000/svg}svg"
    words = texts(svg)
    assert all(words.count(name) == 2 for name in MX_FORMATS)  # its range and its line
    assert words.count("underflow to zero") == 6  # E5M2 loses no gap, E4M3 only one
    assert svg == figures.render(figures.draw_gap_errors(gap_errors()), ".svg")
    assert b"dc:date" not in svg


def test_tensor_picture() -> None:
    errors = tensor_errors()
    svg = figures.render(figures.draw_tensor_errors(errors), ".svg")
    ElementTree.fromstring(svg)
    words = texts(svg)
    assert set(errors) | set(MX_FORMATS) <= set(words)
    assert "1x64" not in words  # one block shape needs no legend
    assert svg == figures.render(figures.draw_tensor_errors(tensor_errors()), ".svg")
    tiles = [replace(error, block=(8, 8)) for error in errors["another"]]
    both = figures.draw_tensor_errors({"another": [*errors["another"], *tiles]})
    assert {"1x64", "8x8"} <= set(texts(figures.render(both, ".svg")))


def test_every_dot_is_where_its_number_is() -> None:
    errors = tensor_errors()
    drawn = figures.draw_tensor_errors(errors)
    panels = iter(drawn.axes)
    for row in errors.values():
        for measure in ("mse", "underflow_ratio"):
            (dots,) = next(panels).lines
            assert list(dots.get_xdata()) == [getattr(error, measure) for error in row]
            assert list(dots.get_ydata()) == list(range(len(row)))


def test_lines_stop_where_all_is_lost() -> None:
    error = gap_error("mxint8", samples=256)
    ranges, lines = figures.draw_gap_errors([error]).axes
    curve, hollow = lines.lines
    assert list(curve.get_xdata()) == list(range(9))
    assert list(curve.get_ydata()) == list(error.mean[:9])
    assert list(hollow.get_xdata()) == [8]
    assert hollow.get_markerfacecolor() == "white"
    (box,) = ranges.patches
    assert (box.get_x(), box.get_x() + box.get_width()) == pytest.approx((7.6, 19.4))


def test_files(tmp_path: Path) -> None:
    for name, start in (("a.svg", b"<?xml"), ("a.png", b"\x89PNG")):
        figures.save(figures.draw_gap_errors(gap_errors()[:2]), tmp_path / name)
        first = (tmp_path / name).read_bytes()
        assert first.startswith(start)
        figures.save(figures.draw_gap_errors(gap_errors()[:2]), tmp_path / name)
        assert (tmp_path / name).read_bytes() == first
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.png", "a.svg"]


def test_odd_numbers_are_drawn() -> None:
    exact = gap_error("mxsf", gaps=[0, 1], samples=1)  # powers of two: no error at all
    assert exact.mean == (0.0, 0.0)
    figures.render(figures.draw_gap_errors([exact]), ".svg")
    mine = MXFormat(name="mine", element=MX_FORMATS["mxint8"].element)
    words = texts(figures.render(figures.draw_gap_errors([gap_error(mine, gaps=[8])]), ".svg"))
    assert "mine" in words
    nothing = tensor_error(np.float32([1.0]))
    lost = tensor_error(np.float32([math.nan]))
    figures.render(figures.draw_tensor_errors({"exact": [nothing], "lost": [lost]}), ".svg")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: figures.draw_gap_errors([]), "errors must have ascending gaps, not ()"),
        (
            lambda: figures.draw_gap_errors([gap_error("mxsf", gaps=[2, 1])]),
            "errors must have ascending gaps, not (2, 1)",
        ),
        (
            lambda: figures.draw_gap_errors(
                [gap_error("mxsf", gaps=[1]), gap_error("mxint8", gaps=[2])]
            ),
            "errors must all have the gaps (1,), not (2,)",
        ),
        (
            lambda: figures.draw_tensor_errors({}),
            "errors must name a tensor and have an error for it, not be empty",
        ),
        (
            lambda: figures.draw_tensor_errors({"x": []}),
            "errors must name a tensor and have an error for it, not be empty",
        ),
        (
            lambda: figures.render(figures.new_figure(1, 1), ".pdf"),
            "suffix must be .svg or .png, not '.pdf'",
        ),
    ],
)
def test_bad_input(call, message: str) -> None:
    with raises(ValueError, message):
        call()


def test_png_has_the_size_asked_for() -> None:
    content = figures.render(figures.new_figure(2, 1), ".png")
    size = np.frombuffer(io.BytesIO(content).getvalue()[16:24], ">u4")
    assert size.tolist() == [300, 150]


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with raises(ModuleNotFoundError, "figures need matplotlib: pip install '.[figures]'"):
        figures.draw_gap_errors(gap_errors()[:1])


def test_imports_need_no_matplotlib() -> None:
    code = (
        "import sys, mxsafe.cli, mxsafe.analysis.figures, mxsafe.analysis.report; "
        "assert 'matplotlib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
