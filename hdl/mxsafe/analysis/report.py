"""Errors of formats as tables and files: text, Markdown, JSON and pictures."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mxsafe.analysis.errors import GapError, TensorError, block_name
from mxsafe.atomic import write_together
from mxsafe.validation import about, checked, shown

Rows = Sequence[Sequence[str]]


@checked
def aligned(rows: Rows, *, labels: int = 1) -> str:
    """Rows as text in columns, the first `labels` of them to the left and the others to the right.

    Parameters
    ----------
    rows : sequence of sequence of str
        Cells, all rows of the same length.
    labels : int
        Columns that are words.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if place < labels else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


@checked
def markdown(rows: Rows, *, labels: int = 1) -> str:
    """Rows as a Markdown table; the first row is the head, the first `labels` columns are words."""
    if not rows:
        raise ValueError("rows must have a head, not be empty")
    head, *body = ["| " + " | ".join(row) + " |" for row in rows]
    rule = "|" + "".join("---|" if place < labels else "--:|" for place in range(len(rows[0])))
    return "\n".join([head, rule, *body])


@checked
def tensor_rows(errors: Mapping[str, Sequence[TensorError]]) -> list[tuple[str, ...]]:
    """A table of tensor errors, head first; its first three columns are words.

    Parameters
    ----------
    errors : mapping of str to sequence of TensorError
        Errors of each tensor, by title.
    """
    head = (
        "tensor",
        "format",
        "block",
        "MSE",
        "relative error",
        "SQNR, dB",
        "underflow",
        "saturated",
        "mean gap",
        "NaN blocks",
    )
    return [
        head,
        *(
            (
                title,
                error.format,
                block_name(error.block),
                f"{error.mse:.2e}",
                f"{error.relative_error:.3%}",
                f"{error.sqnr_db:.1f}",
                f"{error.underflow_ratio:.3%}",
                f"{error.saturated_ratio:.3%}",
                f"{error.mean_gap:.2f}",
                str(error.nan_blocks),
            )
            for title, row in errors.items()
            for error in row
        ),
    ]


@checked
def gap_rows(errors: Sequence[GapError]) -> list[tuple[str, ...]]:
    """A table of mean relative errors, head first: a row a gap, a column a format.

    Parameters
    ----------
    errors : sequence of GapError
        One a format, all for the same gaps. A gap of which every element becomes zero reads
        ``zero``.
    """
    gaps = errors[0].gaps if errors else ()
    return [
        ("gap", *(error.format for error in errors)),
        *(
            (
                str(gap),
                *(
                    "zero" if error.underflow[place] == 1.0 else f"{error.mean[place]:.3%}"
                    for error in errors
                ),
            )
            for place, gap in enumerate(gaps)
        ),
    ]


def _json_value(value: Any) -> Any:
    """A value as JSON has it, which knows neither NaN nor Inf: null stands for both."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {name: _json_value(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(item) for item in value]
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"settings must have values that JSON has, not {shown(value)}")


@checked
def write_report(
    folder: Path,
    *,
    gaps: Sequence[GapError],
    tensors: Mapping[str, Sequence[TensorError]],
    settings: Mapping[str, object],
) -> list[str]:
    """Write errors to a folder: all files or none.

    Parameters
    ----------
    folder : Path
        Folder, created if need be.
    gaps : sequence of GapError
        One a format, for ``gap.svg``.
    tensors : mapping of str to sequence of TensorError
        Errors by title, for ``tensors.svg``; without any there is no such file.
    settings : mapping
        What the errors were made with, for ``errors.json``.

    Returns
    -------
    list of str
        Names of the files: ``errors.json`` with every digit (null is NaN or Inf), ``errors.md``
        with the tables, and the pictures.

    Raises
    ------
    TypeError
        If JSON has no such value as one of `settings`.
    ModuleNotFoundError
        If matplotlib is not installed.
    OSError
        If a file cannot be written.
    """
    from mxsafe.analysis import figures

    record = {
        "settings": dict(settings),
        "gaps": [asdict(error) for error in gaps],
        "tensors": {title: [asdict(error) for error in row] for title, row in tensors.items()},
    }
    tables = ["# Errors by exponent gap", markdown(gap_rows(gaps)), "![](gap.svg)"]
    with about(errors="gaps"):
        pictures = {"gap.svg": figures.draw_gap_errors(gaps)}
    if tensors:
        tables += ["# Errors of tensors", markdown(tensor_rows(tensors), labels=3)]
        tables += ["![](tensors.svg)"]
        pictures["tensors.svg"] = figures.draw_tensor_errors(tensors)
    files = {
        "errors.json": (json.dumps(_json_value(record), indent=1, allow_nan=False) + "\n").encode(),
        "errors.md": ("\n\n".join(tables) + "\n").encode(),
    }
    files |= {name: figures.render(figure, ".svg") for name, figure in pictures.items()}
    write_together(folder, files)
    return list(files)
