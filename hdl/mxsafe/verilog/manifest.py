"""The manifest beside the Verilog: ports, layouts, parameters and latency of every module."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from amaranth.hdl import Shape
from amaranth.lib import data
from amaranth.lib.wiring import In

from mxsafe.rtl.unit import Unit
from mxsafe.validation import checked

__all__ = ["MANIFEST", "manifest_entry", "read_manifest", "summary"]

MANIFEST = "manifest.json"


def _fields(shape: object, prefix: str = "", offset: int = 0) -> list[dict[str, Any]]:
    """Named fields of a packed port, lowest bit first; none for a plain number.

    Fields within fields have names such as ``codes.3.0``.
    """
    try:
        layout = data.Layout.cast(shape)
    except TypeError:
        return []
    fields: list[dict[str, Any]] = []
    for key, field in layout:
        name, start = f"{prefix}{key}", offset + field.offset
        inner = _fields(field.shape, f"{name}.", start)
        fields += inner or [{"name": name, "offset": start, "width": field.width}]
    return fields


def _ports(unit: Unit[Any]) -> list[dict[str, Any]]:
    ports: list[dict[str, Any]] = []
    if unit.config.clocked:
        ports += [
            {"name": name, "direction": "input", "width": 1, "signed": False, "fields": []}
            for name in ("clk", "rst")
        ]
    for name, member, _ in unit.port_signals():
        shape = Shape.cast(member.shape)
        ports.append(
            {
                "name": name,
                "direction": "input" if member.flow == In else "output",
                "width": shape.width,
                "signed": shape.signed,
                "fields": _fields(member.shape),
            }
        )
    return ports


@checked
def summary(unit: Unit[Any]) -> str:
    """What a unit is, in a sentence: the first one of its docstring."""
    words = " ".join((type(unit).__doc__ or "").split())
    return words.split(".")[0].replace("`", "") + "."


@checked
def manifest_entry(unit: Unit[Any], files: Sequence[str]) -> dict[str, Any]:
    """What the manifest says of a module.

    `unit` is the name that its configuration gives it, with all that is not as usual; `parameters`
    are the fields of the configuration, `properties` numbers that follow from them.

    Parameters
    ----------
    unit : Unit
        The unit.
    files : sequence of str
        Its file and those of the modules that it needs, at any depth.
    """
    return {
        "unit": unit.module_name,
        "summary": summary(unit),
        "file": files[0],
        "sources": list(files),
        "parameters": unit.config.parameters,
        "properties": dict(unit.config.properties),
        "latency": unit.latency,
        "ports": _ports(unit),
    }


@checked
def read_manifest(out: Path) -> dict[str, Any]:
    """The manifest in a folder; empty if there is none that can be read."""
    try:
        manifest = json.loads((out / MANIFEST).read_text())
    except (OSError, RecursionError, ValueError):
        return {}
    if not isinstance(manifest, dict):
        return {}
    modules, tops = manifest.get("modules"), manifest.get("tops", [])
    if not isinstance(modules, dict) or not all(isinstance(e, dict) for e in modules.values()):
        return {}
    if not isinstance(tops, list) or not all(isinstance(top, str) for top in tops):
        return {}
    return manifest
