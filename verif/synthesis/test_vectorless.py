"""Vectorless energy: what is supposed of nets costs what a record of the same would."""

from dataclasses import replace

import numpy as np
import pytest

from mxsafe.synthesis.gates import read_instances
from mxsafe.synthesis.liberty import LibertyError, read_cells
from mxsafe.synthesis.switching import Changes, Circuit, sum_energies
from mxsafe.synthesis.vectorless import ACTIVITIES, vectorless_energies
from verif.support.tests import raises
from verif.synthesis.cells import LIBRARY, NETLIST

INSTANCES = read_instances(NETLIST)
CELLS = read_cells(LIBRARY, ["NAND2_X1", "DFF_X1", "CLKGATE_X1"])
CIRCUIT = Circuit(
    instances=INSTANCES,
    cells=CELLS,
    slews={"_1_/A1": (0.5, 0.5), "_1_/A2": (0.0, 0.0), "_4_/CK": (0.25, 0.25)},
    outputs=["y"],
    load=4.0,
)
PERIOD = 2.0
LEAKAGE = 140.0 * PERIOD * 1e-6


def energies(activities: tuple[float, ...], *, gates_open: bool) -> list[float]:
    return vectorless_energies(CIRCUIT, activities, gates_open=gates_open, period=PERIOD)


def test_energies_by_hand() -> None:
    """A NAND before a register behind a clock gate, at one change in five cycles."""
    # The NAND rises and falls once in ten cycles each, and drives 1 fF.
    logic = 0.1 * (3.2 + 3.0) / 2 + 0.1 * (0.5 + 0.0) / 2 + 0.2 * 0.5 * 1.0 * 1.21
    # Q rises once in ten. When CK falls, D is still what Q has become in four of five cycles.
    for gates_open, share in ((False, 0.5), (True, 1.0)):
        register = 0.1 * 5.0 + share * 0.8 / 2 * (2.5 + 7.0)
        clocks = (share * 2.0 + 3.0) * 1.21
        (found,) = energies((0.2,), gates_open=gates_open)
        assert found == pytest.approx((logic + register + clocks) / 1000 + LEAKAGE)


@pytest.mark.parametrize("gates_open", [False, True])
def test_a_record_of_such_changes_costs_as_much(gates_open: bool) -> None:
    cycles = 40_000
    rng = np.random.default_rng(1)
    for activity, expected in zip(
        ACTIVITIES, energies(ACTIVITIES, gates_open=gates_open), strict=True
    ):
        opens = np.full(cycles, True) if gates_open else rng.random(cycles) < 0.5
        held, given = np.zeros(cycles + 1, bool), np.zeros(cycles + 1, bool)
        for cycle, open_ in enumerate(opens):
            held[cycle + 1] = given[cycle] if open_ else held[cycle]
            # Behind a gate, D may change back before it is stored, which Q then does not see.
            given[cycle + 1] = given[cycle] ^ (rng.random() < activity)
        later = given[1:]
        stored = held[1:]
        values = [(given[:-1], later), (np.zeros(cycles, bool), opens), (held[:-1], stored)]
        found = Changes(
            [("_1_", "ZN"), ("_2_", "GCK"), ("_4_", "Q")],
            rises=np.stack([later & ~given[:-1], opens, stored & ~held[:-1]], axis=1).astype(int),
            falls=np.stack([given[:-1] & ~later, opens, held[:-1] & ~stored], axis=1).astype(int),
            before_rise=np.stack([before for before, _ in values], axis=1),
            before_fall=np.stack([after for _, after in values], axis=1),
        )
        sums = sum_energies(CIRCUIT, found, {"a": np.zeros((cycles + 1, 2), bool)})
        total = sum(float((part.internal + part.switching).mean()) for part in sums.values())
        assert total / 1000 + LEAKAGE == pytest.approx(expected, rel=0.02)


def test_what_cannot_be_supposed_is_refused() -> None:
    with raises(ValueError, "activity must be from 0 to 0.5, not 0.6"):
        energies((0.1, 0.6), gates_open=False)
    pins = CELLS["DFF_X1"].pins
    scan = replace(CELLS["DFF_X1"], pins={**pins, "SI": pins["D"]})
    with raises(LibertyError, "DFF_X1 must have one input beside its clock, not ['D', 'SI']"):
        circuit = replace(CIRCUIT, cells={**CELLS, "DFF_X1": scan})
        vectorless_energies(circuit, gates_open=False, period=PERIOD)
