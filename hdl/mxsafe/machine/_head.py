"""What the head of a file of a compiled network has: names of its fields, and what each must be."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.validation import settled, shown

_TOP: Mapping[str, Any] = {
    "descriptors": int,
    "file": int,
    "machine": dict,
    "parts": list,
    "values": list,
    "outputs": tuple[tuple[str, int], ...],
    "kept": tuple[str, ...],
    "text": str,
}
_VALUE: Mapping[str, Any] = {
    "op": str,
    "shape": tuple[int, ...],
    "inputs": tuple[int, ...],
    "name": str,
    "detail": str,
    "parameter": float,
    "dtype": str,
    "host": bool,
}
_PART: Mapping[str, Any] = {
    "feeds": tuple[int, ...],
    "kept": tuple[tuple[int, int], ...],
    "codes": list,
    "outputs": tuple[tuple[str, tuple[int, ...]], ...],
    "labels": tuple[str, ...],
}
_CODES: Mapping[str, Any] = {
    "start": int,
    "name": str,
    "columns": int,
    "block": int | tuple[int, int],
    "codes": int,
    "scales": int,
}


def told_fields() -> list[str]:
    """Fields of a `MachineConfiguration` that a file tells: no program depends on the others."""
    return [f.name for f in dataclasses.fields(MachineConfiguration) if f.name != "counts"]


def settled_head(head: Any, versions: Mapping[str, int]) -> dict[str, Any]:
    """The head of a file with lists as tuples.

    Parameters
    ----------
    head : object
        What JSON has.
    versions : Mapping of str to int
        What fields of the versions must be.

    Raises
    ------
    TypeError, ValueError
        If a field is missing or not as it must be; the message names it.
    """
    top = _settled("head", _TOP, head)
    for name, version in versions.items():
        if top[name] != version:
            raise ValueError(f"must have version {version} of {name}, not {top[name]}")
    fields: dict[str, Any] = dict.fromkeys(told_fields(), Any)
    fields |= dict.fromkeys(("format_a", "format_w"), str)  # the default ones have names too
    _settled("head.machine", fields, top["machine"])
    values = [
        _settled(f"head.values[{at}]", _VALUE, entry) for at, entry in enumerate(top["values"])
    ]
    for at, value in enumerate(values):
        _require_numbers(f"head.values[{at}].inputs", value["inputs"], at)
    _require_numbers("head.outputs", [number for _, number in top["outputs"]], len(values))
    parts = []
    for at, entry in enumerate(top["parts"]):
        where = f"head.parts[{at}]"
        part = _settled(where, _PART, entry)
        _require_numbers(f"{where}.feeds", part["feeds"], len(values))
        _require_numbers(f"{where}.kept", [n for n, _ in part["kept"]], len(part["feeds"]))
        _require_numbers(f"{where}.kept", [n for _, n in part["kept"]], len(part["outputs"]))
        codes = [
            _settled(f"{where}.codes[{number}]", _CODES, one)
            for number, one in enumerate(part["codes"])
        ]
        parts.append({**part, "codes": codes})
    return {**top, "values": values, "parts": parts}


def _settled(where: str, kinds: Mapping[str, Any], entry: Any) -> dict[str, Any]:
    """A part of the head that has these fields, and no others."""
    if not isinstance(entry, dict) or set(entry) != set(kinds):
        given = sorted(entry) if isinstance(entry, dict) else entry
        raise ValueError(f"{where} must have the fields {', '.join(kinds)}, not {shown(given)}")
    return {name: settled(f"{where}.{name}", kind, entry[name]) for name, kind in kinds.items()}


def _require_numbers(where: str, numbers: Any, count: int) -> None:
    """Refuse numbers of what is not there."""
    for number in numbers:
        if not 0 <= number < count:
            raise ValueError(f"{where} must lie in 0..{count - 1}, not {number}")


def array_of(arrays: Mapping[str, NDArray[Any]], name: str, kind: type) -> NDArray[Any]:
    """An array of a file.

    Raises
    ------
    ValueError
        If it is missing or of another dtype.
    """
    if name not in arrays:
        raise ValueError(f"must have the array {name}")
    if arrays[name].dtype != np.dtype(kind):
        raise ValueError(f"array {name} must be of {np.dtype(kind)}, not {arrays[name].dtype}")
    return arrays[name]
