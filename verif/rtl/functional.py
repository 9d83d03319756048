"""Functional coverage: which classes of operands, blocks and descriptors the tests drive.

A *cross* is a set of bins, each a tuple of classes, one along each axis; `crosses` has all bins
that there are. The variable ``MXSAFE_FUNCTIONAL`` of the environment names a folder: then what is
driven into arrays, and which programs run on machines, is classified, and each process of a run of
pytest writes the bins that it has reached to a file there.
"""

import json
import os
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import pairwise, product
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe.formats import MX_FORMATS, OPERAND_FORMATS, FloatFormat, MXFormat
from mxsafe.machine.assembler import Instruction
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import DESCRIPTORS, QUEUES, Field
from mxsafe.model.schedule import Beats, Schedule
from verif.support.units import array_unit

VARIABLE = "MXSAFE_FUNCTIONAL"
Bin = tuple[str, ...]
SCALES = {"0": 0, "1 to 31": 1, "32 to 222": 32, "223 to 253": 223, "254": 254, "NaN": 255}
"""Classes of E8M0 scales, and the least code of each."""
_CHANGES = {
    "down by more than 47": -1000,
    "down by 25 to 47": -47,
    "down by 1 to 24": -24,
    "the same": 0,
    "up by 1 to 24": 1,
    "up by 25 to 47": 25,
    "up by more than 47": 48,
}
"""Classes of changes of a MAC's scale from block to block, and the least of each: a binary32 number
has 24 bits, so that of two numbers further apart one is gone, but for its rounding."""
_FROM_NAN, _TO_NAN = "from NaN", "to NaN"
_ONLY, _FIRST, _INNER, _LAST = "only", "first", "inner", "last"
_PLACES = (_ONLY, _FIRST, _INNER, _LAST)
_PAUSES = ("at the full rate", "with pauses")
_ARITHMETICS = ("fp12", "exact", "window")
_BITSETS = ("wait", "signal")
_BOUNDS = ("least", "between", "most")
_CODES, _BLOCKS, _SUMS, _BEATS = (
    "codes of a and w in a lane",
    "scales of a and w",
    "scale of a block beside the one before",
    "place of a beat in its block, and of that in its tile",
)
_FIELDS, _FAULTS = "fields of descriptors", "errors and what they are of"
_NONE = "no descriptor"
_ERRORS = {
    "opcode": (_NONE,),
    "address": tuple(DESCRIPTORS),
    "read": ("load",),
    "write": ("store",),
    "deadlock": tuple(DESCRIPTORS),
    "fetch": (_NONE,),
    "alignment": (_NONE,),
    "sweep": ("vector",),
}
"""By error the kinds of descriptors that it may be of; each may be malformed besides."""
_seen: set[tuple[str, Bin]] = set()


def _note(cross: str, bins: Iterable[Bin]) -> None:
    """Keep bins that were reached: those that are new go to the file of this process."""
    if VARIABLE not in os.environ:
        return
    found = {(cross, one) for one in bins} - _seen
    if not found:
        return
    _seen.update(found)
    folder = Path(os.environ[VARIABLE])
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{os.getpid()}.jsonl").open("a") as file:
        file.writelines(json.dumps([name, *one]) + "\n" for name, one in sorted(found))


def reached(folder: Path) -> dict[str, set[Bin]]:
    """Bins of each cross that processes have written under a folder."""
    found: dict[str, set[Bin]] = {name: set() for name in crosses()}
    for file in sorted(folder.rglob("*.jsonl")):
        for line in file.read_text().splitlines():
            name, *one = json.loads(line)
            found[name].add(tuple(one))
    return found


@cache
def classes(name: str) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Classes of a format's codes, and the one of each code."""
    element = MX_FORMATS[name].element
    codes = np.arange(1 << element.width)
    values = mx.decode(codes.astype(np.uint8), name).astype(np.float64)
    negative = (codes >> (element.width - 1)) == 1
    sizes = np.abs(values)
    finite = np.isfinite(values)
    least = np.min(sizes[finite & (sizes > 0)])
    normal = 2.0 ** (1 - element.fields.bias) if isinstance(element, FloatFormat) else least
    labels = []
    for size, below in zip(sizes.tolist(), negative.tolist(), strict=True):
        most = np.max(sizes[finite & (negative == below)])
        kind = (
            "NaN"
            if np.isnan(size)
            else "Inf"
            if np.isinf(size)
            else "0"
            if size == 0
            else "largest"
            if size == most
            else "least"
            if size == least
            else "small"
            if size < normal
            else "normal"
        )
        labels.append(f"{'-' if below else '+'}{kind}")
    names = tuple(sorted(set(labels)))
    return names, np.array([names.index(label) for label in labels])


def _present(codes: NDArray[np.uint8], name: str) -> NDArray[np.bool_]:
    """For each beat, lane and class whether a line of the array has a code of it."""
    names, of_code = classes(name)
    found = of_code[codes.astype(np.int64)]
    return (found[..., None] == np.arange(len(names))).any(axis=1)


def products(arithmetic: str, schedule: Schedule, *, pauses: bool) -> None:
    """Classify what an array gets for a product of block-scaled operands."""
    if VARIABLE not in os.environ:
        return
    names = tuple(operand.format.name for operand in schedule.operands.values())
    tiles = list(schedule)
    if names[0] == names[1]:
        label = classes(names[0])[0]
        for tile in tiles:
            a, w = (_present(codes, names[0]) for codes in (tile.a_codes, tile.w_codes))
            together = np.einsum("blx,bly->xy", a.astype(np.int64), w.astype(np.int64))
            pairs = zip(*np.nonzero(together), strict=True)
            _note(_CODES, ((arithmetic, names[0], label[x], label[y]) for x, y in pairs))
    for tile in tiles:
        _note(_BLOCKS, _scales(arithmetic, tile))
        _note(_SUMS, _changes(arithmetic, tile))
        _note(_BEATS, _places(arithmetic, tile, _PAUSES[pauses]))


def _scales(arithmetic: str, tile: Beats) -> set[Bin]:
    labels, starts = list(SCALES), np.array(list(SCALES.values()))
    a, w = (
        np.searchsorted(starts, scales[tile.block_last], side="right") - 1
        for scales in (tile.a_scales, tile.w_scales)
    )
    return {
        (arithmetic, labels[x], labels[y])
        for rows, columns in zip(a.tolist(), w.tolist(), strict=True)
        for x, y in product(set(rows), set(columns))
    }


def _changes(arithmetic: str, tile: Beats) -> set[Bin]:
    a, w = (scales[tile.block_last].astype(np.int64) for scales in (tile.a_scales, tile.w_scales))
    sums = a[:, :, None] + w[:, None, :]
    nan = (a == SCALES["NaN"])[:, :, None] | (w == SCALES["NaN"])[:, None, :]
    by = np.diff(sums, axis=0)
    labels, starts = list(_CHANGES), np.array(list(_CHANGES.values()))
    known = ~nan[1:] & ~nan[:-1]
    kinds = np.searchsorted(starts, by, side="right") - 1
    # What is not below 1 and not above -1 is 0.
    found = {(arithmetic, labels[kind]) for kind in np.unique(kinds[known]).tolist()}
    found |= {(arithmetic, _FROM_NAN)} if (nan[:-1] & ~nan[1:]).any() else set()
    return found | ({(arithmetic, _TO_NAN)} if (~nan[:-1] & nan[1:]).any() else set())


def _place(at: int, count: int) -> str:
    if count == 1:
        return _ONLY
    return _FIRST if at == 0 else _LAST if at == count - 1 else _INNER


def _places(arithmetic: str, tile: Beats, pauses: str) -> set[Bin]:
    ends = [-1, *np.flatnonzero(tile.block_last).tolist()]
    blocks = [last - before for before, last in pairwise(ends)]
    return {
        (arithmetic, _place(beat, count), _place(number, len(blocks)), pauses)
        for number, count in enumerate(blocks)
        for beat in {0, count // 2, count - 1}
    }


def descriptors(done: Iterable[Instruction], configuration: MachineConfiguration) -> None:
    """Classify descriptors that a machine or an engine of it has run without an error."""
    for one in done:
        for field in _fields(one.kind):
            labels = _of_field(field, one[field.name], configuration)
            _note(_FIELDS, ((one.kind, field.name, label) for label in labels))


def _fields(kind: str) -> list[Field]:
    """Fields of a descriptor that may have several values, behind the one that says its kind."""
    return [field for field in DESCRIPTORS[kind].fields[1:] if (field.least, field.most) != (0, 0)]


def _of_field(field: Field, value: int, configuration: MachineConfiguration) -> list[str]:
    """Classes of a field's value."""
    if field.enumeration is not None:
        return [field.name_of(value)]
    if field.name in _BITSETS:
        return [queue for bit, queue in enumerate(QUEUES) if value >> bit & 1] or ["none"]
    least, most = field.bounds(configuration)
    most = most // field.step(configuration) * field.step(configuration)
    return [_BOUNDS[0] if value == least else _BOUNDS[2] if value == most else _BOUNDS[1]]


def fault(error: str, data: bytes) -> None:
    """Classify an error that a machine tells, and the descriptor that it is of."""
    kind = _NONE if _ERRORS.get(error) == (_NONE,) else Instruction.decoded(data).kind
    _note(_FAULTS, [(error, kind)])


def _formats(arithmetic: str) -> list[str]:
    """Names of the formats whose products an array can make."""
    found = []
    for name, fmt in MX_FORMATS.items():
        if OPERAND_FORMATS.get(name) == fmt and _is_made(arithmetic, fmt):
            found.append(name)
    return found


def _is_made(arithmetic: str, fmt: MXFormat) -> bool:
    try:
        array_unit(arithmetic, fmt)
    except ValueError:
        return False
    return True


def _values(field: Field) -> list[str]:
    """Classes of a field's values, of some machine."""
    if field.enumeration is not None:
        return list(field.enumeration.members)
    if field.name in _BITSETS:
        return ["none", *QUEUES]
    return [_BOUNDS[0], _BOUNDS[2]] if field.width == 1 else list(_BOUNDS)


@cache
def crosses() -> Mapping[str, frozenset[Bin]]:
    """All bins of each cross."""
    codes: list[Bin] = []
    for arithmetic in _ARITHMETICS:
        for name in _formats(arithmetic):
            labels = classes(name)[0]
            codes += [(arithmetic, name, *pair) for pair in product(labels, repeat=2)]
    fields = [
        (kind, field.name, value)
        for kind in DESCRIPTORS
        for field in _fields(kind)
        for value in _values(field)
        # A descriptor neither waits for its own queue nor signals to it.
        if not (field.name in _BITSETS and value == kind)
    ]
    faults = [("malformed", kind) for kind in DESCRIPTORS]
    faults += [(error, kind) for error, kinds in _ERRORS.items() for kind in kinds]
    return MappingProxyType(
        {
            _CODES: frozenset(codes),
            _BLOCKS: frozenset(product(_ARITHMETICS, SCALES, SCALES)),
            _SUMS: frozenset(product(_ARITHMETICS, [*_CHANGES, _FROM_NAN, _TO_NAN])),
            _BEATS: frozenset(product(_ARITHMETICS, _PLACES, _PLACES, _PAUSES)),
            _FIELDS: frozenset(fields),
            _FAULTS: frozenset(faults),
        }
    )
