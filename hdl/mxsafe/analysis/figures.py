"""Pictures of errors, as SVG or PNG. They need matplotlib: the extra ``figures``.

A picture is the same, byte for byte, whenever the same numbers are drawn by the same matplotlib.
"""

import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mxsafe.analysis.errors import GapError, TensorError, block_name
from mxsafe.atomic import write_atomically
from mxsafe.validation import about, checked, shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_METADATA: Mapping[str, dict[str, None]] = {"svg": {"Date": None}, "png": {"Software": None}}

# Okabe and Ito's colours, which colour-blind readers tell apart, each with a marker of its own.
_STYLES = {
    "mxsf": ("#0072b2", "o"),
    "mxfp8_e2m5": ("#e69f00", "s"),
    "mxfp8_e4m3": ("#009e73", "^"),
    "mxfp8_e5m2": ("#cc79a7", "v"),
    "mxfp6_e3m2": ("#56b4e9", "D"),
    "mxfp6_e2m3": ("#8c6bb1", "P"),
    "mxfp4_e2m1": ("#666666", "X"),
    "mxint8": ("#d55e00", "*"),
    "nvfp4": ("#8c510a", "p"),
}
_OTHER_STYLE = ("#000000", "h")
_BLOCK_STYLES = (("#0072b2", "o"), ("#d55e00", "D"), ("#009e73", "s"), ("#cc79a7", "^"))


@checked
def new_figure(
    width: float, height: float, *, layout: Literal["constrained", "tight"] = "constrained"
) -> "Figure":
    """An empty figure.

    Parameters
    ----------
    width, height : float
        Size in inches.
    layout : {"constrained", "tight"}
        How matplotlib places what is in it.

    Raises
    ------
    ModuleNotFoundError
        If matplotlib is not installed; the message names the extra.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise ModuleNotFoundError("figures need matplotlib: pip install '.[figures]'") from None
    for name, inches in (("width", width), ("height", height)):
        if not 0 < inches <= _MOST_INCHES:
            raise ValueError(f"{name} must be a number up to {_MOST_INCHES}, not {shown(inches)}")
    return Figure(figsize=(width, height), layout=layout)


@checked
def render(figure: "Figure", suffix: str) -> bytes:
    """A figure as the bytes of a file, without a date and with the same names on every run.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        The figure.
    suffix : {".svg", ".png"}
        Kind of file.

    Raises
    ------
    ValueError
        If `suffix` is another.
    """
    if not hasattr(figure, "savefig"):
        raise TypeError(f"figure must be a Figure of matplotlib, not {shown(figure)}")
    kind = suffix.removeprefix(".").lower()
    if kind not in _METADATA:
        raise ValueError(f"suffix must be .svg or .png, not {shown(suffix)}")
    import matplotlib

    file = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "mxsafe"}):
        figure.savefig(file, format=kind, dpi=150, metadata=_METADATA[kind])
    return file.getvalue()


@checked
def save(figure: "Figure", path: Path) -> None:
    """Write a figure to an ``.svg`` or ``.png`` file, whole or not at all.

    Raises
    ------
    ValueError
        If the suffix of `path` is another.
    OSError
        If the file cannot be written.
    """
    with about(suffix="path: suffix"):
        content = render(figure, path.suffix)
    write_atomically(path, content)


_MOST_INCHES = 100


def _plain(axes: Any) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.set_axisbelow(True)


def _lost(error: GapError) -> list[bool]:
    """Flags of gaps, most of whose elements become zero."""
    return [share > 0.5 for share in error.underflow]


def _first_lost(error: GapError) -> int:
    """Place of the first gap that is lost, or the number of gaps."""
    lost = _lost(error)
    return lost.index(True) if True in lost else len(lost)


@checked
def draw_gap_errors(errors: Sequence[GapError]) -> "Figure":
    """Draw mean relative errors against the exponent gap, and where each format underflows.

    Parameters
    ----------
    errors : sequence of GapError
        One a format, all for the same gaps in ascending order.

    Returns
    -------
    matplotlib.figure.Figure
        Above, the gaps that each format can represent, and in dashed boxes those it loses; the
        names there are in the colours of the lines below. Source: MX-SAFE, Fig. 3 (right).

    Raises
    ------
    ValueError
        If there is nothing to draw, or the gaps differ.
    """
    gaps = errors[0].gaps if errors else ()
    if not gaps or list(gaps) != sorted(set(gaps)):
        raise ValueError(f"errors must have ascending gaps, not {gaps}")
    for error in errors:
        if error.gaps != gaps:
            raise ValueError(f"errors must all have the gaps {gaps}, not {error.gaps}")
    ordered = sorted(errors, key=_first_lost, reverse=True)
    figure = new_figure(9.0, 4.4 + 0.26 * len(errors))
    ranges, lines = figure.subplots(
        2, 1, sharex=True, gridspec_kw={"height_ratios": (0.26 * len(errors), 3.6)}
    )
    _draw_ranges(ranges, ordered)
    _draw_lines(lines, ordered)
    return figure


def _draw_ranges(axes: Any, errors: Sequence[GapError]) -> None:
    from matplotlib.patches import Rectangle

    gaps = errors[0].gaps
    for row, error in enumerate(errors):
        colour, marker = _STYLES.get(error.format, _OTHER_STYLE)
        first = _first_lost(error)
        kept, lost = gaps[:first], gaps[first:]
        axes.plot(kept, [row] * len(kept), color=colour, linewidth=2.5, marker=marker, markersize=6)
        if lost:
            axes.add_patch(
                Rectangle(
                    (lost[0] - 0.4, row - 0.33),
                    lost[-1] - lost[0] + 0.8,
                    0.66,
                    fill=False,
                    edgecolor=colour,
                    linestyle=(0, (3, 2)),
                    linewidth=1.1,
                )
            )
            if lost[-1] - lost[0] >= 3:
                axes.text(
                    (lost[0] + lost[-1]) / 2,
                    row,
                    "underflow to zero",
                    ha="center",
                    va="center",
                    fontsize=8,
                    color="#555555",
                )
    axes.set_yticks(range(len(errors)), [error.format for error in errors])
    for label, error in zip(axes.get_yticklabels(), errors, strict=True):
        label.set_color(_STYLES.get(error.format, _OTHER_STYLE)[0])
        label.set_fontweight("bold")
    axes.set_ylim(len(errors) - 0.4, -0.6)
    axes.tick_params(axis="both", length=0, labelbottom=False)
    for side in ("top", "right", "bottom", "left"):
        axes.spines[side].set_visible(False)


def _draw_lines(axes: Any, errors: Sequence[GapError]) -> None:
    gaps = errors[0].gaps
    for rank, error in enumerate(errors):
        colour, marker = _STYLES.get(error.format, _OTHER_STYLE)
        first = _first_lost(error)
        mean = [value if value > 0.0 else math.nan for value in error.mean]  # no log of 0
        # Where lines coincide, the lower ones show as borders of those above.
        weight = 1.0 - rank / len(errors)
        axes.plot(
            gaps[: first + 1],
            mean[: first + 1],
            color=colour,
            linewidth=1.2 + 2.8 * weight,
            marker=marker,
            markersize=(6.5 if marker == "*" else 4.5) + 2.5 * weight,
            markevery=slice(0, first),
            zorder=3,
        )
        at = min(first, len(gaps) - 1)
        if first < len(gaps):
            axes.plot(
                gaps[first],
                mean[first],
                marker=marker,
                markersize=8,
                markerfacecolor="white",
                markeredgecolor=colour,
                markeredgewidth=1.5,
                zorder=4,
            )
            # Names of lines that end at the same gap stand side by side.
            aside = sum(_first_lost(other) == first for other in errors[:rank])
            place = {
                "xytext": (-17 * aside, 8),
                "rotation": 40,
                "rotation_mode": "anchor",
                "va": "bottom",
            }
        else:
            place = {"xytext": (8, 0), "va": "center"}
        axes.annotate(
            error.format,
            (gaps[at], mean[at]),
            textcoords="offset points",
            ha="left",
            fontsize=9,
            color=colour,
            **place,
        )
    if any(value > 0.0 for error in errors for value in error.mean):
        axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
    axes.set_xticks(gaps)
    axes.set_xlim(gaps[0] - 0.5, gaps[-1] + 0.5)
    axes.set_xlabel("exponent gap: binades below the largest magnitude of the block")
    axes.set_ylabel("mean relative error")
    axes.grid(alpha=0.3)
    _plain(axes)


@checked
def draw_tensor_errors(errors: Mapping[str, Sequence[TensorError]]) -> "Figure":
    """Draw the mean squared error and the underflow ratio of tensors in formats.

    Parameters
    ----------
    errors : mapping of str to sequence of TensorError
        For each tensor, by title, one error a format, or several with different blocks.

    Returns
    -------
    matplotlib.figure.Figure
        A row of two panels a tensor, in them a row of dots a format, a marker a block shape.

    Raises
    ------
    ValueError
        If there is nothing to draw.
    """
    if not errors or not all(errors.values()):
        raise ValueError("errors must name a tensor and have an error for it, not be empty")
    formats = list(dict.fromkeys(error.format for row in errors.values() for error in row))
    blocks = list(dict.fromkeys(error.block for row in errors.values() for error in row))
    height = 0.9 + 0.26 * len(formats)
    figure = new_figure(9.0, height * len(errors) + 0.5)
    panels = figure.subplots(len(errors), 2, squeeze=False)
    for (left, right), (title, row) in zip(panels, errors.items(), strict=True):
        _draw_dots(left, formats, blocks, row, "mse")
        _draw_dots(right, formats, blocks, row, "underflow_ratio")
        right.tick_params(labelleft=False)
        left.set_title(title, loc="left", fontsize=10, fontweight="bold")
    panels[-1][0].set_xlabel("mean squared error")
    panels[-1][1].set_xlabel("underflow: share of non-zero elements that become zero")
    if len(blocks) > 1:
        handles, labels = panels[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper right", ncols=len(blocks), frameon=False)
    return figure


def _draw_dots(
    axes: Any,
    formats: Sequence[str],
    blocks: Sequence[int | tuple[int, int]],
    errors: Sequence[TensorError],
    measure: str,
) -> None:
    logarithmic = measure == "mse"
    positive = [v for e in errors if math.isfinite(v := getattr(e, measure)) and v > 0.0]
    for index, block in enumerate(blocks):
        offset = (index - (len(blocks) - 1) / 2) * 0.3
        points = [
            (getattr(error, measure), formats.index(error.format) + offset)
            for error in errors
            if error.block == block and math.isfinite(getattr(error, measure))
        ]
        if logarithmic:
            points = [(value, place) for value, place in points if value > 0.0]
        colour, marker = _BLOCK_STYLES[index % len(_BLOCK_STYLES)]
        axes.plot(
            [value for value, _ in points],
            [place for _, place in points],
            linestyle="",
            marker=marker,
            markersize=6,
            color=colour,
            markerfacecolor=colour if index == 0 else "white",
            markeredgewidth=1.4,
            label=block_name(block),
            zorder=3,
        )
    if logarithmic and positive:
        axes.set_xscale("log")
        axes.set_xlim(min(positive) / 2, max(positive) * 2)
    elif not logarithmic:
        axes.xaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
        axes.locator_params(axis="x", nbins=6)
        top = max([*positive, 0.01])
        axes.set_xlim(-0.03 * top, 1.1 * top)
    axes.set_yticks(range(len(formats)), formats)
    axes.set_ylim(len(formats) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", alpha=0.3)
    axes.hlines(range(len(formats)), 0, 1, transform=axes.get_yaxis_transform(), color="#eeeeee")
    _plain(axes)
    axes.spines["left"].set_visible(False)
