"""The manifest beside the Verilog: ports, layouts, parameters and latency of every module.

`SCHEMA` beside it says what stands where.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from amaranth.hdl import Shape
from amaranth.lib import data
from amaranth.lib.wiring import In

from mxsafe.rtl.unit import Unit
from mxsafe.validation import checked

MANIFEST = "manifest.json"
SCHEMA = "manifest.schema.json"

_STREAM = re.compile(r"([sm]_axis(?:_\w+)?)_(t(?:data|valid|ready|last|user))")
_AXI = re.compile(r"([sm]_axi)_((?:a[rw]|[rwb])\w+)")
_ATTRIBUTES = re.compile(
    r"^ +Attributes\n +-+\n(.*?)(?=^ +\w+\n +---|\Z)", re.MULTILINE | re.DOTALL
)
_ENTRY = re.compile(r"^    (\S.*)\n((?:     .*\n|\n)*)", re.MULTILINE)
_NAME = re.compile(r"(?:^|, )(\w+)(?=,| :|\.\.\.|$)")
_SIZE = re.compile(r"(?:input|output) \w+ \[(?P<size>\S+)-1:0\] (?P<name>\w+)")
"""The width of a port of a parametric module, as an expression of its parameters."""
_MORE = re.compile(r"\.\.\.(?: :|$)")
"""Ends the names of ports of which a docstring gives the first ones."""
_LINES = (("unit", "file", "latency"), ("summary",), ("sources",), ("parameters",), ("properties",))
"""Keys that stand together in a line of the manifest."""
KEYS = frozenset({name for names in _LINES for name in names} | {"ports"})
"""Keys of a module's entry; a parametric one has `INSTANCES` too."""
INSTANCES = "instances"


def _fields(shape: object) -> list[dict[str, Any]]:
    """Named fields of a packed port, lowest bit first; none for a plain number."""
    try:
        layout = data.Layout.cast(shape)
    except TypeError:
        return []
    if isinstance(layout, data.ArrayLayout):
        return [_field({}, 0, layout)]
    return [_field({"name": str(key)}, field.offset, field.shape) for key, field in layout]


def _field(named: dict[str, str], offset: int, shape: object) -> dict[str, Any]:
    """A field; of an array its element, and how many of them follow each other."""
    counts = []
    while isinstance(shape, data.ArrayLayout):
        counts.append(shape.length)
        shape = shape.elem_shape
    fields = _fields(shape)
    return {
        **named,
        "offset": offset,
        "width": Shape.cast(shape).width,
        **({"count": counts} if counts else {}),
        **({"fields": fields} if fields else {}),
    }


@checked
def flat_fields(
    fields: Sequence[Mapping[str, Any]], prefix: str = "", offset: int = 0
) -> Iterator[tuple[str, int, int]]:
    """Name, offset and width of every number that the fields of a port hold, lowest bit first.

    Numbers within fields have names such as ``codes.3.0``.

    Parameters
    ----------
    fields : sequence of Mapping
        Those of a port in the manifest.
    prefix : str
        What names begin with.
    offset : int
        Of bit 0 of the first field.
    """
    for field in fields:
        counts = field.get("count", [])
        for at, index in enumerate(product(*map(range, counts))):
            name = ".".join(map(str, [*([field["name"]] if "name" in field else []), *index]))
            start = offset + field["offset"] + at * field["width"]
            if "fields" in field:
                yield from flat_fields(field["fields"], f"{prefix}{name}.", start)
            else:
                yield f"{prefix}{name}", start, field["width"]


def _meanings(unit: Unit[Any]) -> dict[str, str]:
    """Return a unit's descriptions of its attributes, by name; ``...`` for those not named."""
    found = _ATTRIBUTES.search(f"{type(unit).__doc__}\n")
    meanings: dict[str, str] = {}
    for names, words in _ENTRY.findall(found[1] if found else ""):
        text = " ".join(words.split()).replace("`", "")
        for name in _NAME.findall(names):
            meanings[name] = text
            if _MORE.search(names):
                meanings.setdefault("..." if not name[-1].isdigit() else name[:-1] + "...", text)
    return meanings


def _meaning(name: str, meanings: Mapping[str, str]) -> str:
    """Return the description of a port, or of the interface that it belongs to."""
    parts = name.split("_")
    for end in range(len(parts), 0, -1):
        known = "_".join(parts[:end])
        for each in (known, f"{known.rstrip('0123456789')}..."):
            if each in meanings and (each == known or known[-1].isdigit()):
                return meanings[each]
    return meanings.get("...", "")


def _role(name: str, names: Sequence[str]) -> dict[str, str]:
    """Signal of a bus that a port is, from its name."""
    if name in ("clk", "rst"):
        return {"role": {"clk": "clock", "rst": "synchronous reset, active high"}[name]}
    if found := _STREAM.fullmatch(name):
        return {"bus": found[1], "role": f"AXI4-Stream {found[2].upper()}"}
    if found := _AXI.fullmatch(name):
        is_full = {f"{found[1]}_arlen", f"{found[1]}_awlen"} & set(names)
        return {"bus": found[1], "role": f"AXI4{'' if is_full else '-Lite'} {found[2].upper()}"}
    return {}


def _ports(unit: Unit[Any]) -> list[dict[str, Any]]:
    clocks = ("clk", "rst") if unit.config.clocked else ()
    sizes = {port["name"]: port["size"] for port in _SIZE.finditer(unit.template)}
    ports: list[dict[str, Any]] = [
        {"name": name, "direction": "input", "width": 1} for name in clocks
    ]
    for name, member, _ in unit.port_signals():
        shape, fields = Shape.cast(member.shape), _fields(member.shape)
        ports.append(
            {
                "name": name,
                "direction": "input" if member.flow == In else "output",
                "width": shape.width,
                **({"size": sizes[name]} if name in sizes else {}),
                **({"signed": True} if shape.signed else {}),
                **({"fields": fields} if fields else {}),
            }
        )
    names, meanings = [port["name"] for port in ports], _meanings(unit)
    for port in ports:
        port |= _role(port["name"], names)
        if meaning := _meaning(port["name"], meanings):
            port["meaning"] = meaning
    return ports


@checked
def summary(unit: Unit[Any]) -> str:
    """Return the summary of a unit: the first sentence of its docstring."""
    words = " ".join((type(unit).__doc__ or "").split())
    return words.split(".")[0].replace("`", "") + "."


@checked
def manifest_entry(unit: Unit[Any], files: Sequence[str]) -> dict[str, Any]:
    """Return the manifest's entry of a module.

    `unit` is the name that its configuration gives it, with all that is not at its default;
    `parameters` are the fields of the configuration, `properties` numbers that follow from them.
    Those of a parametric unit are the defaults of the Verilog's parameters, which are called the
    same in capitals; `size` is the width of a port that follows from them.

    Parameters
    ----------
    unit : Unit
        The unit.
    files : sequence of str
        Its file and those of the modules that it needs, at any depth.

    Raises
    ------
    ValueError
        If there is no file.
    """
    if not files:
        raise ValueError("files must begin with that of the module, not be empty")
    return {
        "unit": unit.module_name,
        "file": files[0],
        "latency": unit.latency,
        "summary": summary(unit),
        "sources": list(files),
        "parameters": unit.config.parameters,
        "properties": dict(unit.config.properties),
        "ports": _ports(unit),
    }


@checked
def manifest_text(manifest: Mapping[str, Any]) -> str:
    """A manifest as it is written: a port a line."""
    head = {"$schema": SCHEMA, **manifest}
    modules = head.pop("modules")
    lines = [f" {json.dumps(name)}: {json.dumps(value)},\n" for name, value in head.items()]
    texts = ",\n".join(f"  {json.dumps(name)}: {_entry_text(modules[name])}" for name in modules)
    return "{\n" + "".join(lines) + ' "modules": {\n' + texts + "\n }\n}\n"


def _entry_text(entry: Mapping[str, Any]) -> str:
    lines = [
        ", ".join(f'"{name}": {json.dumps(entry[name])}' for name in names)
        for names in (*_LINES, *([(INSTANCES,)] if INSTANCES in entry else []))
    ]
    ports = ",\n".join(f"    {json.dumps(port)}" for port in entry["ports"])
    return "{\n" + "".join(f"   {line},\n" for line in lines) + f'   "ports": [\n{ports}\n   ]}}'


@checked
def schema_text() -> str:
    """The JSON Schema of manifests."""
    return Path(__file__).with_name(SCHEMA).read_text()


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
