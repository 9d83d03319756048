"""Numbers rounded to bfloat16: every upper half with lower halves that decide, and random ones."""

import numpy as np
from numpy.typing import NDArray

from mxsafe.machine.layout import narrowed
from mxsafe.rtl.stream.number_rounder import NumberRounder
from verif.support.checkers import assert_equal
from verif.support.manifest import Module
from verif.support.simulators import run_lockstep
from verif.support.tests import refused
from verif.support.units import generated

_LOWER = (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)
"""Lower halves: nothing, least, just below a tie, a tie, just above it, most."""
_WIDTH = 16


def words(every: int) -> NDArray[np.uint32]:
    """Every so many upper halves, with zeros, subnormals, Inf and NaN, and each lower half."""
    edges = np.array([0, 1, 0x7F, 0x80, 0xFF, 0x7F7F, 0x7F80, 0x7F81, 0x7FBF, 0x7FC0, 0x7FFF])
    upper = np.concatenate([edges, edges | 0x8000, np.arange(0, 1 << 16, every)])
    all_ = (upper[:, None] << 16 | np.array(_LOWER)).reshape(-1)
    random = np.random.default_rng(1).integers(0, 1 << 32, 4096 + -len(all_) % _WIDTH)
    return np.concatenate([all_, random]).astype(np.uint32)


def check_rounding(simulator: str, module: Module, every: int) -> None:
    """Codes are those of the model, and the handshake goes through."""
    numbers = words(every).reshape(-1, _WIDTH)
    rng = np.random.default_rng(2)
    flags = {
        name: rng.integers(0, 2, len(numbers))
        for name in ("s_axis_tvalid", "s_axis_tlast", "m_axis_tready")
    }
    stimulus = {"s_axis_tdata": module.ports["s_axis_tdata"].join(numbers), **flags}
    log = run_lockstep(simulator, module, stimulus)
    codes = log["m_axis_tdata"].view("<u2")
    assert_equal("codes", codes, narrowed(numbers))
    for ours, theirs in (
        ("m_axis_tvalid", "s_axis_tvalid"),
        ("m_axis_tlast", "s_axis_tlast"),
        ("s_axis_tready", "m_axis_tready"),
    ):
        assert_equal(ours, log[ours][:, 0].astype(np.int64), flags[theirs])


def test_every_upper_half(simulator: str) -> None:
    module = generated(NumberRounder())
    assert module.latency == 0
    check_rounding(simulator, module, {"icarus": 61, "verilator": 1}[simulator])


test_configurations_that_cannot_work = refused(
    NumberRounder, [({"width": 0}, "width must be a positive integer, not 0")]
)
