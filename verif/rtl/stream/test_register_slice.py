"""Registers in the way of a stream: what goes in comes out, and nothing goes through at once."""

import random

import pytest
from amaranth.sim import Simulator

from mxsafe.rtl.stream.register_slice import RegisterSlice

_CLOCKS = 400


def _run(
    unit: RegisterSlice, offers: float, takes: float, seed: int = 1
) -> tuple[list[int], list[int], list[int]]:
    """Beats that went in, beats that came out, and the clocks in which they went in."""
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
    # The first one in the clock behind the reset.
    assert times == list(range(1, _CLOCKS, clocks))


def test_a_configuration_that_cannot_work() -> None:
    with pytest.raises(ValueError, match=r"^bits must be a positive integer, not 0$"):
        RegisterSlice(bits=0)
