"""The manifest beside the generated Verilog, as tests read it: latencies, ports and layouts."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxsafe.formats import MX_FORMATS, FormatSet, MXFormat
from mxsafe.products import OperandFormats
from mxsafe.verilog.manifest import flat_fields, read_manifest
from mxsafe.verilog.parameters import fixed, fixed_name
from verif.support.recording import proved

GEN = Path(__file__).parents[2] / "gen"
"""The generated Verilog, as committed."""

Words = NDArray[np.uint8]
"""Values of a port over time: one row of little-endian bytes a cycle."""


@dataclass(frozen=True)
class Port:
    """A port of a module, and how its bits are numbers."""

    name: str
    direction: str
    width: int
    signed: bool
    fields: tuple[tuple[str, int, int], ...]

    def join(self, lanes: NDArray[np.integer[Any]]) -> Words:
        """Words from the values of all fields, shape (cycles, fields)."""
        bits = np.zeros((len(lanes), self.width), np.uint8)
        assert lanes.shape[1] == len(self.fields), f"{self.name} has {len(self.fields)} fields"
        for lane, (_, offset, width) in enumerate(self.fields):
            values = lanes[:, lane, None].astype(np.int64)
            bits[:, offset : offset + width] = values >> np.arange(width) & 1
        return np.packbits(bits, axis=1, bitorder="little")

    def words(self, values: NDArray[np.integer[Any]]) -> Words:
        """Words from one number a cycle."""
        bits = (values[:, None].astype(np.int64) >> np.arange(self.width) & 1).astype(np.uint8)
        return np.packbits(bits, axis=1, bitorder="little")

    def packed(self, values: NDArray[Any]) -> Words:
        """Words from words, from a number a cycle, or from the values of all fields."""
        if values.dtype == np.float32:
            values = np.ascontiguousarray(values).view(np.uint32)
        if values.dtype == np.uint8 and values.ndim > 1:
            return values
        return self.join(values) if values.ndim > 1 else self.words(values)

    def unpacked(self, words: Words, like: NDArray[Any]) -> NDArray[Any]:
        """Return what `packed` takes, in the form of another array."""
        if like.dtype == np.uint8 and like.ndim > 1:
            return words
        return self.split(words) if like.ndim > 1 else self.numbers(words)

    def split(self, words: Words) -> NDArray[np.int64]:
        """Values of all fields from words, shape (cycles, fields)."""
        bits = np.unpackbits(words, axis=1, count=self.width, bitorder="little")
        columns = [
            bits[:, offset : offset + width] @ (1 << np.arange(width, dtype=np.int64))
            for _, offset, width in self.fields
        ]
        return np.stack(columns, axis=1)

    def split_words(self, words: Words) -> dict[str, Words]:
        """Words of each field."""
        bits = np.unpackbits(words, axis=1, count=self.width, bitorder="little")
        return {
            name: np.packbits(bits[:, offset : offset + width], axis=1, bitorder="little")
            for name, offset, width in self.fields
        }

    def join_words(self, words: Mapping[str, Words]) -> Words:
        """Words from those of all fields."""
        fields = [
            np.unpackbits(words[name], axis=1, count=width, bitorder="little")
            for name, _, width in self.fields
        ]
        return np.packbits(np.concatenate(fields, axis=1), axis=1, bitorder="little")

    def numbers(self, words: Words) -> NDArray[Any]:
        """Numbers, one a cycle, from words; negative where the port is signed.

        They are of type int64, or Python's integers where a port is wider than that.
        """
        if self.width > 64:
            return np.array([self._number(bytes(word)) for word in words], object)
        bits = np.unpackbits(words, axis=1, count=self.width, bitorder="little")
        values = bits.astype(np.int64) @ (1 << np.arange(self.width, dtype=np.int64))
        if self.signed:
            values -= bits[:, -1].astype(np.int64) << self.width
        return np.asarray(values, np.int64)

    def _number(self, word: bytes) -> int:
        value = int.from_bytes(word, "little")
        return value - (value >> (self.width - 1) << self.width) if self.signed else value


@dataclass(frozen=True)
class Module:
    """A generated module.

    Attributes
    ----------
    name : str
        In Verilog.
    sources : tuple of Path
        Its file and those of all modules inside it.
    parameters : dict
        Fields of its configuration, and the numbers that follow from them.
    unit : str
        The name that its configuration gives it; nothing if it has none.
    given : dict of int
        Parameters that an instance of it has in Verilog.
    """

    name: str
    folder: Path
    sources: tuple[Path, ...]
    parameters: dict[str, Any]
    latency: int
    ports: dict[str, Port]
    unit: str = ""
    given: dict[str, int] = field(default_factory=dict)

    @property
    def instance(self) -> str:
        """Beginning of an instance: name and parameters."""
        values = ", ".join(f".{name}({value})" for name, value in self.given.items())
        return f"{self.name} #({values})" if values else self.name

    @property
    def text(self) -> str:
        """Its own Verilog, with its parameters."""
        return fixed(self.sources[0].read_text(), self.given)

    @property
    def digest(self) -> str:
        """It changes with the Verilog of a module, or of one inside it: 16 hexadecimal digits."""
        texts = hashlib.sha256()
        for source in self.sources:
            texts.update(source.read_bytes())
        return texts.hexdigest()[:16]

    @property
    def format(self) -> str:
        """Name of the format of its codes; of a unit with two operands, that of `a`."""
        formats = self.parameters.get("formats")
        spec = self.parameters["format"] if formats is None else formats["a"]
        return str(spec["name"])

    @property
    def operands(self) -> OperandFormats | None:
        """Formats of both operands; None of a unit without, or if one is not in the catalogue."""
        formats = self.parameters.get("formats")
        if formats is None:
            return None
        found = [_format(formats[side]) for side in ("a", "w")]
        return None if None in found else OperandFormats(*found)

    @property
    def inputs(self) -> list[str]:
        return [port.name for port in self.ports.values() if port.direction == "input"]


def _format(described: Mapping[str, Any]) -> MXFormat | FormatSet | None:
    """Return the format that a manifest describes, a set by the names of its members."""
    if "members" not in described:
        return MX_FORMATS.get(described["name"])
    members = tuple(MX_FORMATS[member["name"]] for member in described["members"])
    return FormatSet(name=described["name"], members=members)


def load(folder: Path) -> dict[str, Module]:
    """Every module of a manifest by the name of its unit; where that is a top too, the top.

    One with parameters is a module for each set of them that it has.
    """
    manifest = read_manifest(folder)
    entries = sorted(
        manifest["modules"].items(), key=lambda one: (one[1]["unit"], one[0] in manifest["tops"])
    )
    return {
        unit: _put_to_proof(
            Module(
                name=name,
                folder=folder,
                sources=tuple(proved([folder / source for source in entry["sources"]])),
                parameters=_configured(entry["parameters"], given) | entry["properties"],
                latency=entry["latency"],
                ports={
                    port["name"]: Port(
                        name=port["name"],
                        direction=port["direction"],
                        width=_width(port, given),
                        signed=port.get("signed", False),
                        fields=tuple(flat_fields(port.get("fields", []))),
                    )
                    for port in entry["ports"]
                },
                unit=unit,
                given=given,
            )
        )
        for name, entry in entries
        for unit, given in entry.get("instances", {entry["unit"]: {}}).items()
    }


def _configured(parameters: dict[str, Any], given: Mapping[str, int]) -> dict[str, Any]:
    """Fields of a configuration from parameters in Verilog, which are numbers."""
    own = {name: type(parameters[name])(given[name.upper()]) for name in parameters if given}
    return parameters | own


def _width(port: Mapping[str, Any], given: Mapping[str, int]) -> int:
    """Bits of a port, which may follow from parameters of an instance."""
    found = re.fullmatch(r"(\$clog2\()?(\w+)\)?", port.get("size", "")) if given else None
    if found is None:
        return int(port["width"])
    value = given[found[2]]
    return (value - 1).bit_length() if found[1] else value


def _put_to_proof(module: Module) -> Module:
    """A module with parameters, or that of ``MXSAFE_PROVED`` which is in its place without."""
    name = fixed_name(module.name, module.given)
    (file,) = proved([module.folder / f"{name}.v"])
    if not module.given or file.parent == module.folder:
        return module
    return replace(module, name=name, sources=(file,), given={})


@cache
def generated() -> dict[str, Module]:
    """Every module of ``gen/`` by unit, read once: most files of tests ask for some."""
    return load(GEN)


@cache
def named() -> dict[str, Module]:
    """Every module of ``gen/`` by its name in Verilog."""
    return {module.name: module for module in generated().values()}


def made_from(file: Path) -> str:
    """Full name of the Python module that generated a file, as its head says."""
    origin = re.search(r" from ([\w.]+); do not edit", file.read_text())
    assert origin is not None, f"{file.name} does not say what made it"
    return origin[1]


def mac_stimulus(
    module: Module,
    a: NDArray[np.uint8],
    w: NDArray[np.uint8],
    en: NDArray[np.int64],
    rst: NDArray[np.int64],
) -> dict[str, Words]:
    """Words for all inputs of a MAC, one row a cycle."""
    ports = module.ports
    return {
        "a": ports["a"].join(a),
        "w": ports["w"].join(w),
        "en": ports["en"].words(en),
        "rst": ports["rst"].words(rst),
    }
