"""Both ends of a serial line: bytes, breaks, glitches, clocks that are not quite alike, resets."""

from pathlib import Path

import pytest

from mxsafe.rtl.board.uart_receiver import UartReceiver
from mxsafe.rtl.board.uart_transmitter import UartTransmitter
from verif.rtl.board.line_checks import check_receiver, check_transmitter
from verif.support.generated import generated
from verif.support.tests import Tally, Volume, some

DIVISORS = [50, 4, 5, 217]


@pytest.mark.parametrize("divisor", some(DIVISORS))
def test_receiver(
    divisor: int, simulator: str, tmp_path: Path, tally: Tally, volume: Volume
) -> None:
    module = generated(UartReceiver(divisor=divisor), tmp_path)
    tally(simulator, "bytes received", check_receiver(simulator, module, volume(30, 1000)))


@pytest.mark.parametrize("divisor", some(DIVISORS))
def test_transmitter(
    divisor: int, simulator: str, tmp_path: Path, tally: Tally, volume: Volume
) -> None:
    module = generated(UartTransmitter(divisor=divisor), tmp_path)
    clocks = volume(5_000, 200_000)
    tally(simulator, "bytes sent", check_transmitter(simulator, module, clocks))


@pytest.mark.parametrize("divisor", [3, 65_537, 4.5])
def test_divisors_that_are_refused(divisor: int) -> None:
    for unit in (UartReceiver, UartTransmitter):
        with pytest.raises(ValueError) as error:
            unit(divisor=divisor)
        assert str(error.value) == f"divisor must be an integer from 4 to 65536, not {divisor}"
