"""Pages of ``docs/`` from templates beside this file, and from numbers that were measured.

``NAME.md.j2`` is a page in Markdown with names of values. ``values()`` in ``NAME.py`` makes them,
mostly of JSON in ``docs/``, and ``pictures()``, if the page has any, draws them. Without that file
they are those of ``docs/NAME.json``.
`python -m studies.pages` writes pages.
"""

import contextlib
import importlib
import io
import json
import math
import re
import textwrap
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import jinja2

from mxsafe.analysis.report import markdown
from mxsafe.atomic import write_atomically, write_together

DOCS = Path(__file__).parents[2] / "docs"
_TEMPLATES = Path(__file__).parent
NAMES = tuple(sorted(path.name.removesuffix(".md.j2") for path in _TEMPLATES.glob("*.md.j2")))
"""All pages."""
_PARAGRAPH = re.compile(r"^```(?s:.*?)^```$|[^\n]+(?:\n[^\n]+)*", re.MULTILINE)
_AS_IS = re.compile(r"[|#!]|```")
_NUMBER = r"\d+\. "
_ITEM = re.compile(f"- |{_NUMBER}")


def rendered(template: str, values: Mapping[str, Any]) -> str:
    """A page of a template and its values, in lines of up to 100 characters.

    Tables, headings, pictures and code stay as they are.

    Parameters
    ----------
    template : str
        Markdown with names of values. Filters are `thousands`, `fixed` and `percent` with a number
        of decimals, `form` with one of Python's format specifications, `log2`, `table` of rows of
        text (head first, and a number of columns of words), and `printed`, which runs a program.
    values : Mapping

    Raises
    ------
    jinja2.UndefinedError
        If the template has a name that has no value.
    """
    page = _ENVIRONMENT.from_string(template).render(values)
    return "\n\n".join(_wrapped(found[0]) for found in _PARAGRAPH.finditer(page)) + "\n"


def _wrapped(paragraph: str) -> str:
    if _AS_IS.match(paragraph):
        return paragraph
    found = _ITEM.match(paragraph)
    if found is None:
        items, indent = [paragraph], ""
    else:
        items = re.split(rf"\n(?={'- ' if found[0] == '- ' else _NUMBER})", paragraph)
        indent = " " * len(found[0])
    return "\n".join(
        textwrap.fill(
            " ".join(item.split()),
            100,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
        for item in items
    )


def _printed(program: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(program, "example", "exec"), {})
    return out.getvalue().rstrip()


class _Undefined(jinja2.StrictUndefined):
    """A name without a value, which is an error in every filter, too."""

    __slots__ = ()

    def __format__(self, specification: str) -> str:
        return str(self)


_ENVIRONMENT = jinja2.Environment(
    undefined=_Undefined,
    loader=jinja2.FileSystemLoader(_TEMPLATES),
    trim_blocks=True,
    lstrip_blocks=True,
    autoescape=False,
)
_ENVIRONMENT.filters.update(
    thousands=lambda value: f"{value:,}",
    fixed=lambda value, decimals=0: f"{value:,.{decimals}f}",
    percent=lambda value, decimals=1: f"{value:.{decimals}%}",
    form=format,
    log2=math.log2,
    table=lambda rows, labels=1: markdown(list(rows), labels=labels),
    printed=_printed,
)


def kept(name: str) -> Any:
    """The content of ``docs/NAME.json``."""
    return json.loads((DOCS / f"{name}.json").read_text())


def as_text(numbers: Any, depth: int = 2) -> str:
    """JSON that `kept` reads, with lines for items of lists and mappings down to a depth."""
    return _lines(numbers, depth, 1) + "\n"


def _lines(numbers: Any, depth: int, indent: int) -> str:
    if not depth or not numbers or not isinstance(numbers, list | Mapping):
        return json.dumps(numbers)
    if isinstance(numbers, Mapping):
        ends = "{}"
        items = [
            f"{json.dumps(name)}: {_lines(each, depth - 1, indent + 1)}"
            for name, each in numbers.items()
        ]
    else:
        ends = "[]"
        items = [_lines(each, depth - 1, indent + 1) for each in numbers]
    start = "\n" + " " * indent
    return ends[0] + start + f",{start}".join(items) + start[:-1] + ends[1]


def keep(path: Path, numbers: Any, *, indent: int = 1) -> None:
    """Write numbers as JSON that `kept` reads."""
    write_atomically(path, json.dumps(numbers, indent=indent) + "\n")


def complete(
    path: Path, names: Collection[str], measure: Callable[[str], Any], *, again: bool = False
) -> None:
    """Measure by name what a file of numbers lacks, or everything again, and keep each at once."""
    numbers = json.loads(path.read_text()) if path.exists() and not again else {}
    for at, name in enumerate(names, 1):
        print(f"{at}/{len(names)} {name}", end=" ", flush=True)
        if name not in numbers:
            numbers[name] = measure(name)
            keep(path, {one: numbers[one] for one in names if one in numbers})
        print(numbers[name], flush=True)


def _made(name: str, part: str, otherwise: Callable[[], Any]) -> Any:
    """Values or pictures of a page, by the function of its module, or by another without one."""
    has_module = (_TEMPLATES / f"{name}.py").exists()
    module = importlib.import_module(f"studies.pages.{name}") if has_module else None
    return getattr(module, part, otherwise)()


def text(name: str, values: Mapping[str, Any] | None = None) -> str:
    """A page as it is now, or of other values."""
    template = (_TEMPLATES / f"{name}.md.j2").read_text()
    if values is None:
        values = _made(name, "values", lambda: kept(name))
    return rendered(template, values)


def files(name: str) -> dict[str, bytes]:
    """A page and its pictures, by their names in ``docs/``."""
    return {f"{name}.md": text(name).encode(), **_made(name, "pictures", dict)}


def write(name: str) -> None:
    """Write a page and its pictures."""
    write_together(DOCS, files(name))
