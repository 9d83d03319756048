"""The board: its clock, its baud rate, its pins, and what is refused of them."""

from fractions import Fraction

from mxsafe.rtl.board.serial_machine import LIGHTS
from mxsafe.rtl.board.ulx3s import PINS, Ulx3s, Ulx3sConfiguration, pll_divisors
from verif.host.host_programs import SMALL
from verif.support.tests import refused

BALLS = {
    "clk_25mhz": "G2",
    "ftdi_txd": "M1",
    "ftdi_rxd": "L4",
    "fire1": "R1",
    "led": "B2 C2 C1 D2 D1 E2 E1 H3",
    "wifi_gpio0": "L2",
}
"""As the board's own file of constraints has them."""


def test_every_clock_is_exact() -> None:
    for mhz in range(10, 201, 5):
        divisors = pll_divisors(mhz)
        made = Fraction(25 * divisors["CLKFB_DIV"], divisors["CLKI_DIV"])
        assert made == mhz
        assert 400 <= mhz * divisors["CLKOP_DIV"] <= 800  # the PLL's oscillator
        assert 25 / divisors["CLKI_DIV"] >= 3.125  # its phase detector


def test_pins() -> None:
    assert {pin.name: " ".join(pin.sites) for pin in PINS} == BALLS
    ports = {name: len(signal) for name, _, signal in Ulx3s(machine=SMALL).port_signals()}
    assert ports == {pin.name: len(pin.sites) for pin in PINS}
    assert ports["led"] == len(LIGHTS)


test_boards_that_are_refused = refused(
    Ulx3sConfiguration,
    [
        ({"clock_mhz": 33}, "clock_mhz must be a multiple of 5, not 33"),
        ({"clock_mhz": 5}, "clock_mhz must be an integer from 10 to 200, not 5"),
        ({"baud": 100}, "baud must be an integer from 1200 to 3000000, not 100"),
        (
            {"baud": 3_000_000, "clock_mhz": 10},
            "baud must be within 2 % of 10 MHz divided by an integer of 4 or more, not 3000000",
        ),
        (
            {"baud": 3_000_000, "clock_mhz": 25},
            "baud must be within 2 % of 25 MHz divided by an integer of 4 or more, not 3000000",
        ),
        ({"patience_ms": 0}, "patience_ms must be an integer from 1 to 1000, not 0"),
        *(
            (
                {"memory_bytes": size},
                "memory_bytes must be a multiple of 4096 up to 425984, the device's 208 block RAMs "
                f"of 2048 bytes, not {size}",
            )
            for size in (100, 425_984 + 4096)
        ),
    ],
)


def test_the_most_memory() -> None:
    assert Ulx3sConfiguration(memory_bytes=425_984).inside.memory_bytes == 425_984
