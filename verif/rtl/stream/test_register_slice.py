"""Registers in the way of a stream: what goes in comes out, and nothing goes through at once."""

import random

import numpy as np
import pytest
from amaranth.sim import Simulator

from mxsafe.rtl.stream.register_slice import RegisterSlice
from verif.support.checkers import assert_equal
from verif.support.farm import published_farm, run_farm
from verif.support.simulators import SIMULATORS
from verif.support.units import random_words

_CLOCKS = 400


def _run(
    unit: RegisterSlice, offers: float, takes: float, seed: int = 1
) -> tuple[list[int], list[int], list[int]]:
    """Beats that went in, beats that came out, and the cycles in which they went in."""
    chance = random.Random(seed)
    went, came, clocks = [], [], []

    async def bench(context: object) -> None:
        valid, beat = False, 0
        for clock in range(_CLOCKS):
            valid = valid or chance.random() < offers
            context.set(unit.source.valid, valid)
            context.set(unit.source.payload, beat if valid else 0)
            # What leaves and what is free is known before anybody says that it is taken.
            told = []
            for ready in (0, 1, int(chance.random() < takes)):
                context.set(unit.sink.ready, ready)
                ports = unit.source.ready, unit.sink.valid, unit.sink.payload
                told.append(tuple(context.get(port) for port in ports))
            assert len(set(told)) == 1
            free, there, shown = told[-1]
            if there and ready:
                came.append(shown)
            taken = bool(valid and free)
            if taken:
                went.append(beat)
                clocks.append(clock)
            await context.tick()
            if taken:
                valid, beat = False, beat + 1
        assert went
        assert came

    simulator = Simulator(unit)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run()
    return went, came, clocks


@pytest.mark.parametrize("halved", [False, True])
@pytest.mark.parametrize(("offers", "takes"), [(1.0, 1.0), (0.5, 0.9), (0.9, 0.5), (1.0, 0.3)])
def test_all_beats_come_out_in_order(halved: bool, offers: float, takes: float) -> None:
    went, came, _ = _run(RegisterSlice(bits=16, halved=halved), offers, takes)
    assert came == went[: len(came)]
    # What is missing is held.
    assert len(went) - len(came) <= (1 if halved else 2)


@pytest.mark.parametrize(("halved", "clocks"), [(False, 1), (True, 2)])
def test_how_fast_beats_go_through(halved: bool, clocks: int) -> None:
    _, _, times = _run(RegisterSlice(bits=16, halved=halved), 1.0, 1.0)
    # The first one in the cycle behind the reset.
    assert times == list(range(1, _CLOCKS, clocks))


def _queue(
    halved: bool, valid: np.ndarray, ready: np.ndarray, rst: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Whether it takes and gives in each cycle, and the cycle in which what it shows was offered.

    As long as it gives nothing it shows what was offered last.
    """
    held: list[int] = []
    takes, shown = False, 0
    told = []
    for clock in range(valid.size):
        told.append((takes, bool(held), shown))
        stays = bool(held) and not ready[clock]
        came = bool(takes and valid[clock])
        if held and not stays:
            held.pop(0)
        if came:
            held.append(clock)
        if not stays and (not halved or not told[-1][1]):
            shown = held[0] if held else clock
        takes = len(held) < (1 if halved else 2) and not rst[clock]
        if halved and told[-1][1]:
            takes = not stays and not rst[clock]
        if rst[clock]:
            held = []
    gives = [np.array(column) for column in zip(*told, strict=True)]
    return gives[0], gives[1], gives[2]


@pytest.mark.both_simulators
@pytest.mark.parametrize("simulator", SIMULATORS)
@pytest.mark.parametrize("halved", [False, True])
def test_published_ones_hold_beats_in_order(halved: bool, simulator: str) -> None:
    """Beats, stalls and resets at random, all widths at once."""
    name = "halved_slices" if halved else "whole_slices"
    farm = published_farm(name, RegisterSlice, lambda module: module.parameters["halved"] == halved)
    rng = np.random.default_rng(5)
    valid, ready = rng.random(_CLOCKS) < 0.6, rng.random(_CLOCKS) < 0.6
    rst = rng.random(_CLOCKS) < 0.02
    given = {}
    for key, module in farm.modules.items():
        given[f"{key}.source_payload"] = random_words(rng, module.parameters["bits"], _CLOCKS)
        given[f"{key}.source_valid"] = valid[:, None].astype(np.uint8)
        given[f"{key}.sink_ready"] = ready[:, None].astype(np.uint8)
    logs = run_farm(
        simulator, farm, given, np.ones(_CLOCKS, np.int64), rst.astype(np.int64), unsettled=1
    )
    takes, gives, shown = _queue(halved, valid, ready, rst)
    assert (takes & valid).sum() > 100
    for key in farm.modules:
        log = logs[key]
        assert_equal(f"{key} takes", log["source_ready"][:, 0], takes.astype(np.uint8))
        assert_equal(f"{key} gives", log["sink_valid"][:, 0], gives.astype(np.uint8))
        offered = given[f"{key}.source_payload"]
        assert_equal(key, log["sink_payload"][1:], offered[shown[1:]])


def test_a_configuration_that_cannot_work() -> None:
    with pytest.raises(ValueError, match=r"^bits must be a positive integer, not 0$"):
        RegisterSlice(bits=0)
