"""A call with bad input, within bounds of time and memory, and what came of it."""

import re
import resource
import signal
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

from mxsafe.rtl.unit import Configuration, Unit
from verif.bad_input.examples import good_arguments
from verif.bad_input.interface import Target

ANSWERS = ("result", "TypeError", "ValueError", "documented", "fault")
"""A result; the two errors of bad input; an error of files or packages; anything else."""

_SECONDS = 10
_BYTES = 3 << 30
_DOCUMENTED = (ImportError, OSError)
_OWNER = r"(?:(?:\w+ )?\w+: )?"
"""Subject of an error about a specification or a line: ``MXFormat mxsf: block must be ...``."""


@dataclass(frozen=True)
class Answer:
    """Outcome of a call.

    Attributes
    ----------
    kind : str
        One of `ANSWERS`.
    words : str
        The error, if there was one.
    """

    kind: str
    words: str = ""


class _TooLongError(Exception):
    pass


@contextmanager
def bounded() -> Iterator[None]:
    """Stop what takes too long, and refuse it too much memory."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise _TooLongError(f"it took more than {_SECONDS} CPU seconds")

    before = signal.signal(signal.SIGVTALRM, stop)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_used() + _BYTES, hard))
    signal.setitimer(signal.ITIMER_VIRTUAL, _SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _used() -> int:
    pages = Path("/proc/self/statm").read_text().split()[0]
    return int(pages) * resource.getpagesize()


def answer(target: Target, bad: Mapping[str, Any]) -> Answer:
    """Return the outcome of a call with some bad arguments; good ones stand for the others."""
    arguments = {**good_arguments(target), **bad}
    try:
        with bounded(), warnings.catch_warnings():
            warnings.simplefilter("error")
            made = target.call(**arguments)
            if isinstance(made, Configuration):
                _use(made)
    except (TypeError, ValueError) as error:
        text = str(error)
        if _begins_with_a_name(text, target, arguments):
            return Answer("TypeError" if isinstance(error, TypeError) else "ValueError", text)
        return Answer("fault", f"{type(error).__name__}: {text}")
    except _DOCUMENTED as error:
        return Answer("documented", f"{type(error).__name__}: {error}")
    except Exception as error:
        return Answer("fault", f"{type(error).__name__}: {error}")
    return Answer("result")


def _use(made: Configuration) -> None:
    """Read all that a configuration says of itself, and make its unit: nothing may fail later."""
    _ = made.module_name, made.latency, made.clocked, made.parameters, made.properties
    made_unit = _units()[type(made)](made)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of parts that are not simulated
        made_unit.elaborate(None)


@cache
def _units() -> Mapping[type[Configuration], type[Unit[Any]]]:
    """Return the unit of each configuration."""
    found: dict[type[Configuration], type[Unit[Any]]] = {}
    waiting: list[type[Unit[Any]]] = [Unit]
    while waiting:
        for unit in waiting.pop().__subclasses__():
            waiting.append(unit)
            if "_configuration" in unit.__dict__:
                found[unit.configuration()] = unit
    return found


def _begins_with_a_name(text: str, target: Target, arguments: Mapping[str, Any]) -> bool:
    """Whether an error is about a parameter, or about what one gives a name to."""
    given = [value for value in arguments.values() if isinstance(value, str) and value]
    names = [*target.parameters, *given, *_INSIDE.get(target.name, ())]
    return re.match(rf"{_OWNER}({'|'.join(map(re.escape, names))})(?!\w)", text) is not None


_INSIDE = {
    "mxsafe.analysis.errors.error_of_slabs": ("x",),
    "mxsafe.machine.assembler.Assembler.load": ("scales",),
    "mxsafe.machine.assembler.Assembler.vector": ("results", "a row"),
    "mxsafe.machine.assembler.assemble_text": ("kind",),
    "mxsafe.machine.program.Program": ("program",),
}
"""Types of slabs, a descriptor, a text or the bytes of a program, or of their parts."""
