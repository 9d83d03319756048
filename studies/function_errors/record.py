"""Record of the proofs and their tables: a state to go on from, and the published results."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mxsafe import tables
from mxsafe.atomic import write_atomically
from mxsafe.tables import activation
from studies import pages
from studies.function_errors.errors import BOUNDS, Worst
from studies.function_errors.lanes import lanes_of, sweeps_of
from studies.function_errors.models import MODELS, function_of, grade_of
from studies.function_errors.sweep import FIELDS, Found
from verif.support.manifest import Module

RESULTS = pages.DOCS / "function_errors.json"
"""The published results."""
_TABLES: Mapping[str, tuple[str, ...]] = {
    "exp": ("exp2",),
    "sigmoid": ("exp2", "reciprocal"),
    "reciprocal": ("reciprocal",),
    "rsqrt": ("rsqrt",),
}
_SAMPLES = 1 << 16


def _parameters(name: str) -> list[Any]:
    """Return the parameters of a function's tables."""
    function, grade = function_of(name), grade_of(name)
    if function in activation.FUNCTIONS:
        table = tables.load(f"activation_{grade}")
        own = [number for number, place in enumerate(table.places) if place.function == function]
        forms = [repr(form) for form in activation.FORMS.items()]
        return [repr(activation.FUNCTIONS[function]), *forms, astuple(table.only(own))[1:8]]
    return [astuple(tables.load(f"{each}_{grade}"))[1:8] for each in _TABLES.get(function, ())]


def fingerprint(name: str) -> str:
    """A number that changes with what is proved of a function, as 16 hexadecimal digits.

    That is the bound, the function's part of the tables, and results of the model at all bfloat16
    numbers and as many others. So a change of the model shows too, unless all of these results are
    as before.
    """
    count = np.arange(_SAMPLES, dtype=np.uint32)
    words = np.concatenate([count << np.uint32(16), count * np.uint32(65521) + np.uint32(1)])
    results = MODELS[name](words.view(np.float32)).view(np.uint32).astype("<u4")
    known = json.dumps([name, BOUNDS.get(name, 0.0), _parameters(name)])
    return hashlib.sha256(known.encode() + results.tobytes()).hexdigest()[:16]


@dataclass(frozen=True)
class State:
    """Exponent fields that are done of each function, and what was found there.

    Attributes
    ----------
    path : Path
        File that holds it. It is replaced as a whole.
    done : dict of str to set of int
    found : dict of str to Found
    fingerprints : Mapping
        Of the functions as they are now.
    stale : list of str
        Functions of the file which have changed since then, or their lanes: that is left out.
    """

    path: Path
    done: dict[str, set[int]]
    found: dict[str, Found]
    fingerprints: Mapping[str, str]
    stale: list[str] = field(default_factory=list)

    @classmethod
    def load(cls, path: Path, names: Iterable[str]) -> "State":
        """Return the file's state of these functions as they are now; empty where there is no file.

        Raises
        ------
        ValueError
            If the file holds something else.
        """
        state = cls(path, {}, {}, {name: fingerprint(name) for name in names})
        if not path.exists():
            return state
        try:
            for name, each in json.loads(path.read_text()).items():
                known = {"fingerprint": state.fingerprints.get(name), "lanes": _lanes(name)}
                if known != {key: each[key] for key in known}:
                    state.stale.append(name)
                    continue
                state.done[name], state.found[name] = set(map(int, each["fields"])), _found(each)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"state must be a file of this program, not {path}") from error
        return state

    def add(self, name: str, exponent: int, found: Found) -> None:
        """Note an exponent field that is done."""
        self.done.setdefault(name, set()).add(exponent)
        self.found[name] = self.found[name] + found if name in self.found else found

    def forget(self, names: Iterable[str]) -> None:
        """Leave out what there is of these functions."""
        for name in names:
            self.done.pop(name, None)
            self.found.pop(name, None)

    def complete(self, name: str) -> bool:
        """Whether all arguments of a function are done."""
        every = self.done.get(name, set()) == set(range(FIELDS))
        return every and self.found[name].arguments == 1 << 32

    def write(self) -> None:
        """Write the file; without anything to go on from there is none."""
        if not self.found:
            self.path.unlink(missing_ok=True)
            return
        content = {
            name: {
                **entry(name, found, self.fingerprints[name]),
                "references": found.references,
                "fields": sorted(self.done[name]),
            }
            for name, found in self.found.items()
        }
        write_atomically(self.path, pages.as_text(content, 1))


def _found(each: Mapping[str, Any]) -> Found:
    worst = Worst(float(each["error"]), int(each["argument"], 16))
    return Found(worst, int(each["arguments"]), int(each["references"]), float(each["seconds"]))


def _lanes(name: str) -> dict[str, str]:
    """Lanes of a function as they are now, and digests of their Verilog."""
    return {lane.unit: lane.digest for lane in lanes_of(name)}


def entry(name: str, found: Found, of: str) -> dict[str, Any]:
    """Return the published entry of a function.

    Parameters
    ----------
    name : str
    found : Found
    of : str
        Its fingerprint.
    """
    return {
        "fingerprint": of,
        "bound": BOUNDS.get(name, 0.0),
        "error": found.worst.error,
        "argument": f"0x{found.worst.word:08x}",
        "arguments": found.arguments,
        "lanes": _lanes(name),
        "seconds": round(found.seconds, 1),
    }


def published(path: Path = RESULTS) -> dict[str, dict[str, Any]]:
    """Entries of the published results by function; none where there is no file.

    Raises
    ------
    ValueError
        If the file holds something else.
    """
    if not path.exists():
        return {}
    try:
        return {name: dict(each) for name, each in json.loads(path.read_text()).items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"results must be a file of this program, not {path}") from error


def exhausted(lane: Module) -> int:
    """Arguments of all functions of a lane in the published sweeps; 0 if one is without it.

    A lane counts as it is now.
    """
    entries = [published().get(name, {}) for name in sweeps_of(lane)]
    swept = all(entry.get("lanes", {}).get(lane.unit) == lane.digest for entry in entries)
    return sum(entry["arguments"] for entry in entries) if swept else 0


def write_published(entries: Mapping[str, Mapping[str, Any]], path: Path = RESULTS) -> None:
    """Put entries into the published results, beside those of other functions."""
    merged = {**published(path), **entries}
    known = {name: merged[name] for name in MODELS if name in merged}
    write_atomically(path, pages.as_text(known, 1))
