"""The manifest beside the Verilog: ports, layouts, parameters and latency of every module."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from amaranth.hdl import Shape
from amaranth.lib import data
from amaranth.lib.wiring import In

from mxsafe.rtl.unit import Unit
from mxsafe.validation import checked

__all__ = ["MANIFEST", "manifest_entry", "read_manifest"]

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
def manifest_entry(unit: Unit[Any], inside: Iterable[str]) -> dict[str, Any]:
    """What the manifest says of a module.

    `parameters` are the fields of its configuration, `properties` numbers that follow from them.

    Parameters
    ----------
    unit : Unit
        The unit.
    inside : iterable of str
        Names of the modules it needs, at any depth.
    """
    return {
        "file": f"{unit.module_name}.v",
        "sources": [f"{name}.v" for name in (unit.module_name, *inside)],
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
