"""Paths within a clock between pins: AXI4 and AXI4-Lite have none, streams none that they forbid.

AXI (Arm IHI 0022, "Handshake process") allows no path from inputs of an interface to its outputs.
AXI4-Stream (Arm IHI 0051) asks less: TVALID must not depend on its TREADY.
"""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from mxsafe.rtl.board.block_memory import BlockMemory
from mxsafe.rtl.board.serial_bridge import SerialBridge
from verif.rtl.port_paths import Design
from verif.support.generated import generated
from verif.support.manifest import Module
from verif.support.mutation import mutated
from verif.support.tests import Tally

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
            assert not path, f"{module.name} has a path within a clock: {' -> '.join(path)}"
    return len(names)


def test_published_axi(modules: dict[str, Module], tmp_path: Path, tally: Tally) -> None:
    chosen = [module for module in modules.values() if _interfaces(module)]
    design = Design.of(chosen, tmp_path)
    found = sum(_require_no_path(design, module) for module in chosen)
    assert found > 10
    tally("yosys", "interfaces of AXI without a path within a clock", found)


def test_axi_of_boards(tmp_path: Path, tally: Tally) -> None:
    memory = generated(BlockMemory(data_bits=64, memory_bytes=4096), tmp_path / "memory")
    bridge = generated(SerialBridge(memory_bytes=4096), tmp_path / "bridge")
    for number, module in enumerate((memory, bridge)):
        design = Design.of([module], tmp_path / f"design_{number}")
        assert _require_no_path(design, module) == 1
        tally("yosys", "interfaces of AXI without a path within a clock", 1)


def test_streams(modules: dict[str, Module], tmp_path: Path, tally: Tally) -> None:
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
    tally("yosys", "streams whose TVALID does not wait", len(ends))


def test_a_path_is_found_and_named(modules: dict[str, Module], tmp_path: Path) -> None:
    """Through registers that answer at once, deep in a machine; and one that may be."""
    module = modules["mxsf_accelerator_small"]
    wrong = mutated(
        module,
        "assign s_axi_rresp = 2'h0",
        "assign s_axi_rresp = {s_axi_arvalid, 1'h0}",
        tmp_path / "wrong",
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
