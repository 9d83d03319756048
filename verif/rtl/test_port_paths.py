"""Paths within a cycle between pins: AXI4 and AXI4-Lite have none, streams none that they forbid.

AXI (Arm IHI 0022, "Handshake process") allows no path from inputs of an interface to its outputs.
AXI4-Stream (Arm IHI 0051) asks less: TVALID must not depend on its TREADY.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from mxsafe.rtl.board.block_memory import BlockMemory
from mxsafe.rtl.board.serial_bridge import SerialBridge
from mxsafe.verilog.parameters import without_parameters
from verif.support.manifest import Module
from verif.support.proof import run_yosys
from verif.support.units import generated, mutated

_Bit = int
_Instance = tuple[str, ...]
_REGISTERS = (
    "$dff",
    "$dffe",
    "$sdff",
    "$sdffe",
    "$sdffce",
    "$memwr",
    "$memwr_v2",
    "$scopeinfo",
    "$check",
)
"""Cells with which a path ends."""
_BITWISE = ("$not", "$pos", "$and", "$or", "$xor", "$xnor", "$mux", "$pmux", "$bwmux")
"""Cells that decide each bit of their result by the same bits of their operands."""
_COMMON = "S"
"""Input of such a cell that decides all bits."""
_BETWEEN = {
    *("$add", "$sub", "$mul", "$neg", "$shl", "$shr", "$sshl", "$sshr", "$shift", "$shiftx"),
    *(
        "$eq",
        "$ne",
        "$eqx",
        "$nex",
        "$lt",
        "$le",
        "$gt",
        "$ge",
        "$memrd",
        "$memrd_v2",
        "$bmux",
        "$demux",
    ),
    *("$reduce_and", "$reduce_or", "$reduce_xor", "$reduce_xnor", "$reduce_bool"),
    *("$logic_not", "$logic_and", "$logic_or", "$div", "$mod", "$tribuf"),
}
"""Cells all of whose inputs are taken to decide all of their outputs."""

Ports = Callable[[str], bool]
"""Which ports, by name."""


@dataclass(frozen=True)
class Net:
    """A bit in an instance.

    Attributes
    ----------
    instance : tuple of str
        Names of instances from the top down.
    bit : int
        Its number in the module there.
    """

    instance: _Instance
    bit: _Bit


class _Text:
    """A module as Yosys shows it, by bits."""

    def __init__(self, text: Mapping[str, Any]) -> None:
        self.ports: dict[str, list[Any]] = {n: p["bits"] for n, p in text["ports"].items()}
        self.directions = {name: port["direction"] for name, port in text["ports"].items()}
        self.cells: dict[str, Any] = text["cells"]
        self._names = text["netnames"]

    @cached_property
    def names(self) -> dict[_Bit, str]:
        """Names of bits: those that were given, of ports first."""
        named: dict[_Bit, str] = {}
        shown = {n: one["bits"] for n, one in self._names.items() if not one["hide_name"]}
        for name, bits in (*self.ports.items(), *shown.items()):
            for place, bit in enumerate(bits):
                if isinstance(bit, int):
                    named.setdefault(bit, f"{name}[{place}]" if len(bits) > 1 else name)
        return named

    @cached_property
    def users(self) -> dict[_Bit, list[tuple[str, str, int]]]:
        """For each bit the inputs of cells that it goes to: cell, port, place."""
        users: dict[_Bit, list[tuple[str, str, int]]] = defaultdict(list)
        for name, cell in self.cells.items():
            directions = cell.get("port_directions", {})
            for port, bits in cell["connections"].items():
                if directions.get(port) != "output":
                    for place, bit in enumerate(bits):
                        users[bit].append((name, port, place))
        return users

    @cached_property
    def outputs(self) -> dict[_Bit, list[tuple[str, int]]]:
        """For each bit the output ports of the module that it is."""
        outputs: dict[_Bit, list[tuple[str, int]]] = defaultdict(list)
        for name, bits in self.ports.items():
            if self.directions[name] == "output":
                for place, bit in enumerate(bits):
                    outputs[bit].append((name, place))
        return outputs


class Design:
    """Modules of Verilog, and paths through them."""

    def __init__(self, sources: Iterable[Path], folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        texts = without_parameters({source.stem: source.read_text() for source in sources})
        for name, text in texts.items():
            (folder / f"{name}.v").write_text(text)
        names = " ".join(f"{name}.v" for name in texts)
        run_yosys(folder, f"read_verilog {names}; proc; write_json design.json")
        modules = json.loads((folder / "design.json").read_text())["modules"]
        self._modules = {name: _Text(text) for name, text in modules.items()}

    @classmethod
    def of(cls, modules: Sequence[Module], folder: Path) -> "Design":
        """The design of some modules and all inside them."""
        sources = {source.name: source for module in modules for source in module.sources}
        return cls(sources.values(), folder)

    def path(self, top: str, inputs: Ports, outputs: Ports) -> list[str]:
        """A path from one of the inputs to one of the outputs by the names on it; empty if none."""
        module = self._modules[top]
        before: dict[Net, Net | None] = {}
        for name, bits in module.ports.items():
            if module.directions[name] == "input" and inputs(name):
                before |= {Net((), bit): None for bit in bits if isinstance(bit, int)}
        assert before, f"{top} has none of the inputs"
        assert any(map(outputs, (n for n, d in module.directions.items() if d == "output")))
        pending = list(before)
        for net in pending:  # grows on the way
            if not net.instance:
                ends = [name for name, _ in module.outputs.get(net.bit, ()) if outputs(name)]
                if ends:
                    return [*self._names(top, net, before), ends[0]]
            for following in self._after(top, net):
                if following not in before:
                    before[following] = net
                    pending.append(following)
        return []

    def _text(self, top: str, instance: _Instance) -> _Text:
        module = self._modules[top]
        for name in instance:
            module = self._modules[module.cells[name]["type"]]
        return module

    def _after(self, top: str, net: Net) -> Iterator[Net]:
        """Where a bit leads to at once."""
        module = self._text(top, net.instance)
        for name, port, place in module.users.get(net.bit, ()):
            cell = module.cells[name]
            if (kind := cell["type"]) in self._modules:
                bit = self._modules[kind].ports[port][place]
                if isinstance(bit, int):
                    yield Net((*net.instance, name), bit)
                continue
            for bit in _decided(cell, port, place):
                yield Net(net.instance, bit)
        if net.instance:
            *above, name = net.instance
            cell = self._text(top, tuple(above)).cells[name]
            for port, place in module.outputs.get(net.bit, ()):
                if bits := cell["connections"].get(port):
                    yield Net(tuple(above), bits[place])

    def _names(self, top: str, last: Net, before: Mapping[Net, Net | None]) -> list[str]:
        names: list[str] = []
        net: Net | None = last
        while net is not None:
            name = self._text(top, net.instance).names.get(net.bit)
            if name:
                names.append(".".join((*net.instance, name)))
            net = before[net]
        return names[::-1]


def _decided(cell: Mapping[str, Any], port: str, place: int) -> list[_Bit]:
    """Bits that a bit of an input of a cell decides."""
    kind, connections = cell["type"], cell["connections"]
    if kind in _REGISTERS:
        return []
    outputs = [n for n, d in cell["port_directions"].items() if d == "output"]
    bits: list[_Bit] = [bit for name in outputs for bit in connections[name]]
    if kind in _BITWISE:
        # An operand of one bit may have been made longer; of `$pmux` there are several of B.
        single = len(connections[port]) == 1 < len(bits)
        return bits if port == _COMMON or single else bits[place % len(bits) :][:1]
    assert kind in _BETWEEN, f"cell {kind} must be known"
    return bits


pytestmark = pytest.mark.yosys

_AXI = re.compile(r"(\w*)_(aw|ar)valid")


def _of(interface: str) -> Callable[[str], bool]:
    """Pins of an interface of AXI4 or AXI4-Lite."""
    channels = re.compile(rf"{interface}_(aw|ar|w|r|b)[a-z]+")
    return lambda name: channels.fullmatch(name) is not None


def _interfaces(module: Module) -> list[str]:
    return sorted({found[1] for name in module.ports if (found := _AXI.fullmatch(name))})


def _require_no_path(design: Design, module: Module) -> int:
    """No input of an interface leads to an output of any; how many interfaces there are."""
    names = _interfaces(module)
    for one in names:
        for other in names:
            path = design.path(module.name, _of(one), _of(other))
            assert not path, f"{module.name} has a path within a cycle: {' -> '.join(path)}"
    return len(names)


def test_published_axi(modules: dict[str, Module], tmp_path: Path) -> None:
    chosen = [module for module in modules.values() if _interfaces(module)]
    design = Design.of(chosen, tmp_path)
    found = sum(_require_no_path(design, module) for module in chosen)
    assert found > 10


def test_axi_of_boards(tmp_path: Path) -> None:
    memory = generated(BlockMemory(data_bits=64, memory_bytes=4096))
    bridge = generated(SerialBridge(memory_bytes=4096))
    for number, module in enumerate((memory, bridge)):
        design = Design.of([module], tmp_path / f"design_{number}")
        assert _require_no_path(design, module) == 1


def test_streams(modules: dict[str, Module], tmp_path: Path) -> None:
    """In front of all that leaves a unit, whatever it waits for behind its inputs."""
    ends = [
        (module, name.removesuffix("_tready"))
        for module in modules.values()
        for name, port in module.ports.items()
        if name.endswith("_tready") and port.direction == "input"
    ]
    assert ends
    design = Design.of([module for module, _ in ends], tmp_path)
    for module, stream in ends:
        ready, valid = f"{stream}_tready", f"{stream}_tvalid"
        path = design.path(module.name, ready.__eq__, valid.__eq__)
        assert not path, f"{module.name}: {valid} waits for {ready}: {' -> '.join(path)}"


def test_a_path_is_found_and_named(modules: dict[str, Module], tmp_path: Path) -> None:
    """Through registers that answer at once, deep in a machine; and one that may be."""
    module = modules["mxsf_accelerator_small"]
    wrong = mutated(
        module, "assign s_axi_rresp = 2'h0", "assign s_axi_rresp = {s_axi_arvalid, 1'h0}"
    )
    design = Design(wrong.sources, tmp_path / "design")
    with pytest.raises(
        AssertionError, match=r"s_axi_arvalid -> registers\.s_axi_arvalid -> .*rresp"
    ):
        _require_no_path(design, module)
    reader = modules["axi_reader"]
    path = Design.of([reader], tmp_path / "reader").path(
        reader.name, "words_ready".__eq__, "m_axi_rready".__eq__
    )
    assert path[0] == "words_ready", path
    assert path[-1] == "m_axi_rready", path
