"""Both ends of a serial line: bytes, breaks, glitches, clocks that are not quite alike, resets."""

import numpy as np
import pytest
from numpy.typing import NDArray

from mxsafe.rtl.board.uart_receiver import UartReceiver
from mxsafe.rtl.board.uart_transmitter import UartTransmitter
from verif.support.checkers import assert_same
from verif.support.manifest import Module
from verif.support.simulators import run_lockstep
from verif.support.tests import Volume, raises, some
from verif.support.units import generated

Levels = NDArray[np.int64]
BROKEN = "broken"
"""Expected value of a byte without its stop bit."""


def line_levels(byte: int, bit: float, *, stop: int = 1) -> Levels:
    """Levels of a byte with bits of so many cycles."""
    bits = [0, *(byte >> place & 1 for place in range(8)), stop]
    ends = np.round(np.arange(1, 11) * bit).astype(int)
    return np.repeat(bits, np.diff(ends, prepend=0))


def random_line(seed: int, divisor: int, count: int) -> tuple[Levels, list[int | str]]:
    """A line with bytes, breaks and glitches, and what is expected of a receiver."""
    rng = np.random.default_rng(seed)
    parts = [np.ones(3 * divisor, int)]
    expected: list[int | str] = []
    for number in range(count):
        kind = rng.choice(["byte", "byte", "byte", "broken", "break", "glitch"])
        byte = [0x00, 0xFF, 0x55, 0xAA][number] if number < 4 else int(rng.integers(0, 256))
        bit = divisor * (1 + rng.choice([-0.02, 0, 0.02]))
        rest = np.ones(int(rng.choice([0, 1, 3 * divisor])), int)
        if kind == "glitch":
            # Over before the middle of the bit, where it is looked at again.
            parts += [np.ones(divisor, int), np.zeros(max(divisor // 2 - 1, 1), int)]
            rest = np.ones(2 * divisor, int)
        elif kind == "break":
            parts.append(np.zeros(int(rng.integers(11, 40)) * divisor, int))
            expected.append(BROKEN)
            rest = np.ones(2 * divisor, int)
        elif kind == "broken":
            parts.append(line_levels(byte, divisor, stop=0))
            expected.append(BROKEN)
            rest = np.ones(2 * divisor, int)
        else:
            parts.append(line_levels(byte, bit))
            expected.append(byte)
        parts.append(rest)
    return np.concatenate([*parts, np.ones(12 * divisor, int)]), expected


def check_receiver(simulator: str, module: Module, count: int) -> None:
    """Bytes come as they were sent, and nothing else."""
    divisor = module.parameters["divisor"]
    levels, expected = random_line(divisor, divisor, count)
    single = np.concatenate([np.ones(3 * divisor, int), line_levels(0xC5, divisor)])
    levels = np.concatenate([single, levels])
    expected = [0xC5, *expected]
    reset = np.zeros(len(levels), int)
    reset[:4] = 1
    ports = module.ports
    stimulus = {"line": levels, "rst": reset}
    log = run_lockstep(simulator, module, stimulus, unsettled=5)
    found = {name: ports[name].numbers(log[name]) for name in ("valid", "data", "error")}
    events = np.flatnonzero(found["valid"] | found["error"])
    got = [int(found["data"][at]) if found["valid"][at] else BROKEN for at in events]
    assert_same("bytes", got, expected)
    assert not (found["valid"] & found["error"]).any(), "a byte is valid and broken"
    assert events[0] - 3 * divisor == module.latency, f"latency is {events[0] - 3 * divisor}"


def check_transmitter(simulator: str, module: Module, clocks: int) -> None:
    """The line in every cycle, of random bytes and a reset among them; returns their number."""
    divisor, ports = module.parameters["divisor"], module.ports
    rng = np.random.default_rng(divisor)
    valid = (rng.random(clocks) < 0.5).astype(int)
    valid[clocks // 2 :] = 1  # byte after byte
    data, reset = rng.integers(0, 256, clocks), np.zeros(clocks, int)
    reset[:3] = 1
    reset[clocks // 3] = 1
    columns = {"valid": valid, "data": data, "rst": reset}
    log = run_lockstep(simulator, module, columns, unsettled=2)
    ready, line = (ports[name].numbers(log[name]) for name in ("ready", "line"))
    expected, free = np.ones(clocks + 11 * divisor, int), 0
    for clock in range(3, clocks):
        if reset[clock]:
            expected[clock + 1 :] = 1
            free = clock + 1
            continue
        assert ready[clock] == (clock >= free), f"ready is {ready[clock]} in cycle {clock}"
        if valid[clock] and ready[clock]:
            first = clock + module.latency
            expected[first : first + 10 * divisor] = line_levels(int(data[clock]), divisor)
            free = first + 10 * divisor
    wrong = np.flatnonzero(line[3:] != expected[3:clocks])
    assert not len(wrong), f"the line is wrong in cycle {3 + int(wrong[0])}"


DIVISORS = [50, 4, 5, 217]


@pytest.mark.parametrize("divisor", some(DIVISORS))
def test_receiver(divisor: int, simulator: str, volume: Volume) -> None:
    module = generated(UartReceiver(divisor=divisor))
    check_receiver(simulator, module, volume(30, 1000))


@pytest.mark.parametrize("divisor", some(DIVISORS))
def test_transmitter(divisor: int, simulator: str, volume: Volume) -> None:
    module = generated(UartTransmitter(divisor=divisor))
    clocks = volume(5_000, 200_000)
    check_transmitter(simulator, module, clocks)


@pytest.mark.parametrize("divisor", [3, 65_537, 4.5])
def test_divisors_that_are_refused(divisor: int) -> None:
    for unit in (UartReceiver, UartTransmitter):
        with raises(ValueError, f"divisor must be an integer from 4 to 65536, not {divisor}"):
            unit(divisor=divisor)
