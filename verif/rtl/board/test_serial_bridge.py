"""The bridge against a model of its frames: commands, garbage, wrong checksums, silence, resets."""

import pytest

from mxsafe.rtl.board.serial_bridge import SerialBridge
from verif.rtl.board.bridge_checks import MEMORY_WORDS, PATIENCE, check_bridge
from verif.support.manifest import Module
from verif.support.simulators import lint
from verif.support.tests import Volume, refused
from verif.support.units import generated


def bridge() -> Module:
    return generated(SerialBridge(memory_bytes=4 * MEMORY_WORDS, patience=PATIENCE))


@pytest.mark.one_simulator("verilator")
def test_bridge(simulator: str, volume: Volume) -> None:
    module = bridge()
    statuses = check_bridge(simulator, module, volume(60, 600))
    assert set(statuses) == set(range(5))


def test_lint() -> None:
    module = bridge()
    assert lint(module) == ""


test_bridges_that_are_refused = refused(
    SerialBridge,
    [
        ({"memory_bytes": 4}, "memory_bytes must be an integer from 8 to 4294967296, not 4"),
        ({"memory_bytes": 10}, "memory_bytes must be a multiple of 4, not 10"),
        ({"patience": 1}, "patience must be an integer from 2 to 4294967296, not 1"),
    ],
)
