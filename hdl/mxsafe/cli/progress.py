"""Progress of work on stderr."""

import sys
import time
from contextlib import suppress
from types import TracebackType

_WIDTH = 78


def note(line: str) -> None:
    """Say a line on stderr; work does not stop where nobody reads it."""
    with suppress(BrokenPipeError):
        print(line, file=sys.stderr, flush=True)


class CycleLine:
    """Shows the cycles of a program that runs, on stderr if that is a terminal: a context.

    Parameters
    ----------
    label : str
        What runs.
    expected : int, optional
        Cycles that it will take, about.
    """

    def __init__(self, label: str, expected: int | None = None) -> None:
        self._label, self._expected = label, expected
        self._shows = sys.stderr.isatty()
        self._start = time.monotonic()

    def __enter__(self) -> "CycleLine":
        return self

    def __call__(self, cycles: int) -> None:
        """Show that so many cycles have passed."""
        rate = cycles / max(time.monotonic() - self._start, 1e-3)
        share = "" if self._expected is None else f" of about {self._expected:,}"
        self._show(f"{self._label}: {cycles:,} cycles{share}, {rate:,.0f} a second")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._show("")
        if self._shows:
            print(end="\r", file=sys.stderr, flush=True)

    def _show(self, text: str) -> None:
        if self._shows:
            print(f"\r{text[:_WIDTH]:{_WIDTH}}", end="", file=sys.stderr, flush=True)
