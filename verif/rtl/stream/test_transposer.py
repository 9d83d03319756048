"""The transposer: every position, tiles back to back, stalls, short tiles, resets."""

import numpy as np
import pytest

from mxsafe.rtl.stream.transposer import Transposer
from verif.rtl.stream.transposer_checks import (
    check_rows,
    numbered_tiles,
    random_packets,
    transposer,
)
from verif.support.manifest import Module
from verif.support.tests import refused


def test_tiles_back_to_back(simulator: str, modules: dict[str, Module]) -> None:
    """A beat a cycle, each column `latency` cycles after the row in its place."""
    module = modules["transposer"]
    streamed = check_rows(simulator, module, numbered_tiles(module, 9))
    assert (np.diff(streamed.taken) == 1).all()
    assert (streamed.left - streamed.taken == module.latency).all()


def test_every_position(simulator: str, modules: dict[str, Module]) -> None:
    """One bit at a time in tiles of zeros."""
    module = modules["transposer"]
    rows = np.zeros((64 * 8, 8), np.int64)
    tile, element = np.arange(64), np.arange(64)
    rows[8 * tile + element // 8, element % 8] = 1 << tile % 8
    last = np.zeros(len(rows), np.bool_)
    last[-1] = True
    check_rows(simulator, module, (rows, last), stall_in=0.2, stall_out=0.2)


@pytest.mark.parametrize(("stall_in", "stall_out"), [(0.0, 0.0), (0.3, 0.1), (0.1, 0.3)])
def test_packets(
    simulator: str, stall_in: float, stall_out: float, modules: dict[str, Module]
) -> None:
    module = modules["transposer"]
    packets = {"icarus": 40, "verilator": 400}[simulator]
    moments = range(1, 4 * module.latency) if stall_in > stall_out else ()
    check_rows(
        simulator,
        module,
        random_packets(module, 1, packets),
        stall_in=stall_in,
        stall_out=stall_out,
        resets_after=moments,
    )


def test_a_packet_costs_a_tile_of_cycles(modules: dict[str, Module]) -> None:
    module = modules["transposer"]
    rows, last = random_packets(module, 5, 12)
    streamed = check_rows("icarus", module, (rows, last))
    lengths = np.diff(np.flatnonzero(last), prepend=-1)
    cycles = 8 * (-(-lengths // 8) + 1)
    firsts = streamed.taken[np.concatenate([[0], np.flatnonzero(last)[:-1] + 1])]
    assert np.diff(firsts).tolist() == cycles[:-1].tolist()


@pytest.mark.parametrize(("size", "element_bits"), [(4, 32), (3, 8), (1, 8), (4, 6)])
def test_other_sizes(size: int, element_bits: int) -> None:
    module = transposer(size=size, element_bits=element_bits)
    rows = random_packets(module, 3, 30)
    check_rows("icarus", module, rows, stall_in=0.2, stall_out=0.2)


test_configurations_that_cannot_work = refused(
    Transposer,
    [
        ({"size": 0}, "size must be a positive integer, not 0"),
        ({"element_bits": 1.5}, "element_bits must be a positive integer, not 1.5"),
        (
            {"size": 3, "element_bits": 6},
            "element_bits must make s_axis_tdata whole bytes, not 18 bits",
        ),
    ],
)
