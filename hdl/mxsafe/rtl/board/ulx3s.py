"""The top of a ULX3S board with an LFE5U-85F: pins, clock, reset, and the machine."""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Annotated, Any

from amaranth.hdl import Cat, ClockDomain, Const, Instance, Module, Signal
from amaranth.lib.wiring import In, Member, Out

from mxsafe.machine.configuration import BOARD_MACHINE, MachineConfiguration
from mxsafe.rtl.arithmetic.bits import named, update
from mxsafe.rtl.board.serial_machine import SerialMachine
from mxsafe.rtl.machine.axi import BYTES_OF_PAGE
from mxsafe.rtl.unit import Configuration, Part, Ports, Unit, place
from mxsafe.validation import Long, require_integer, require_positive_integer, within

CRYSTAL_MHZ = 25
_LEAST_MHZ, _MOST_MHZ = 10, 200
_STEP_MHZ = 5
"""So that the clock is a ratio of small numbers times that of the crystal."""
_OSCILLATOR_MHZ = 600
"""In the middle of what the PLL's oscillator runs at, 400 to 800."""
PLL_ATTRIBUTES = {
    "ICP_CURRENT": "12",
    "LPF_RESISTOR": "8",
    "MFG_ENABLE_FILTEROPAMP": "1",
    "MFG_GMCREF_SEL": "2",
}
"""Of the PLL's loop: tools take them from attributes, which the Verilog does not have."""
_RESET_BITS = 4
_BLOCKS, _BLOCK_BYTES = 208, 2048
"""Block RAMs of the device, and bytes of each when bytes are written one by one."""
_MOST_BYTES = _BLOCKS * _BLOCK_BYTES
_MOST_BAUD = 3_000_000
_MOST_ERROR = Fraction(2, 100)
"""Of a bit's length; from the fall into the start bit, that of ten bits adds up."""


@dataclass(frozen=True)
class Pin:
    """A port of the board.

    Attributes
    ----------
    name : str
        As the board's schematic has it.
    sites : tuple of str
        Balls of the package, one for each bit from 0 on.
    direction : {"in", "out"}
    options : str
        What a file of constraints says of its buffer beside its voltage.
    meaning : str
    """

    name: str
    sites: tuple[str, ...]
    direction: str
    options: str
    meaning: str

    @property
    def member(self) -> Member:
        """The port as a member of a unit."""
        return (In if self.direction == "in" else Out)(len(self.sites))


PINS = (
    Pin("clk_25mhz", ("G2",), "in", "PULLMODE=NONE", "clock of 25 MHz"),
    Pin("ftdi_txd", ("M1",), "in", "PULLMODE=UP", "line from the host"),
    Pin("ftdi_rxd", ("L4",), "out", "PULLMODE=UP DRIVE=4", "line to the host"),
    Pin("fire1", ("R1",), "in", "PULLMODE=DOWN", "button FIRE1: a reset as long as it is down"),
    Pin(
        "led",
        ("B2", "C2", "C1", "D2", "D1", "E2", "E1", "H3"),
        "out",
        "PULLMODE=NONE DRIVE=4",
        "lights",
    ),
    Pin(
        "wifi_gpio0",
        ("L2",),
        "out",
        "PULLMODE=NONE DRIVE=4",
        "high, as designs for the board have it to keep it from rebooting",
    ),
)
"""All that the design uses of the board: its ports and its constraints."""


def pll_divisors(clock_mhz: int) -> dict[str, int]:
    """Divisors of an EHXPLLL whose feedback is its output.

    The output is that of the crystal, divided by ``CLKI_DIV`` and multiplied by ``CLKFB_DIV``; the
    oscillator runs at ``CLKOP_DIV`` times the output.

    Raises
    ------
    ValueError
        If `clock_mhz` is not a multiple of 5 from 10 to 200.
    """
    require_integer("clock_mhz", clock_mhz, _LEAST_MHZ, _MOST_MHZ)
    if clock_mhz % _STEP_MHZ:
        raise ValueError(f"clock_mhz must be a multiple of {_STEP_MHZ}, not {clock_mhz}")
    ratio = Fraction(clock_mhz, CRYSTAL_MHZ)
    return {
        "CLKI_DIV": ratio.denominator,
        "CLKFB_DIV": ratio.numerator,
        "CLKOP_DIV": _OSCILLATOR_MHZ // clock_mhz,
    }


class Ulx3sConfiguration(Configuration):
    """A `Ulx3s`.

    Parameters
    ----------
    machine : MachineConfiguration
        Sizes of the machine.
    memory_bytes : int
        Bytes of its memory, a multiple of 4,096 up to 425,984: all block RAM of the device.
    clock_mhz : int
        Its clock: a multiple of 5 from 10 to 200.
    baud : int
        Bits a second on the line, up to 3,000,000, within 2 % of the clock divided by an integer of
        4 or more.
    patience_ms : int
        Milliseconds without a byte after which a request is given up, 1 to 1,000.
    """

    machine: MachineConfiguration = field(default_factory=lambda: BOARD_MACHINE)
    memory_bytes: Long = 1 << 14
    clock_mhz: int = 80
    baud: Annotated[int, within(1200, _MOST_BAUD)] = 1_000_000
    patience_ms: Annotated[int, within(1, 1000)] = 100

    def __post_init__(self) -> None:
        pll_divisors(self.clock_mhz)
        size = require_positive_integer("memory_bytes", self.memory_bytes)
        if size % BYTES_OF_PAGE or size > _MOST_BYTES:
            raise ValueError(
                f"memory_bytes must be a multiple of {BYTES_OF_PAGE} up to {_MOST_BYTES}, the "
                f"device's {_BLOCKS} block RAMs of {_BLOCK_BYTES} bytes, not {size}"
            )
        exact = Fraction(self.hertz, self.baud)
        divisor = round(exact)
        if divisor < 4 or abs(1 - divisor / exact) > _MOST_ERROR:
            raise ValueError(
                f"baud must be within 2 % of {self.clock_mhz} MHz divided by an integer of 4 or "
                f"more, not {self.baud}"
            )
        _ = self.inside  # which checks the rest

    @property
    def hertz(self) -> int:
        """Cycles a second."""
        return self.clock_mhz * 1_000_000

    inside = Part(
        SerialMachine,
        divisor=lambda c: round(Fraction(c.hertz, c.baud)),
        patience=lambda c: c.hertz * c.patience_ms // 1000,
    )

    @property
    def differences(self) -> list[str]:
        """Nothing: a folder holds one board."""
        return []

    @property
    def parameters(self) -> dict[str, Any]:
        """All fields, the sizes of the machine among them."""
        own = {
            name: getattr(self, name)
            for name in ("memory_bytes", "clock_mhz", "baud", "patience_ms")
        }
        return {**self.inside.parameters, **own}

    @property
    def latency(self) -> int:
        """Latency of the machine inside."""
        return self.inside.latency

    clocked = False
    """It makes its clock itself."""


class Ulx3s(Unit[Ulx3sConfiguration]):
    """The machine on a ULX3S.

    The clock comes from a PLL. The reset lasts for some cycles after the PLL has locked, and as
    long as the button is down.

    Attributes
    ----------
    clk_25mhz, ftdi_txd, ftdi_rxd, ... : In or Out
        What `PINS` says.
    """

    def ports(self) -> Ports:
        return {pin.name: pin.member for pin in PINS}

    def fill(self, m: Module, platform: object) -> None:
        domain = ClockDomain("sync")
        m.domains += domain
        locked = self._make_clock(m, domain.clk)
        waits = named(m, "waits", 1, ~locked | self.fire1)
        # Neither the PLL nor a button knows of the clock.
        held = Signal(2, name="waits_held", reset_less=True)
        # Registers of the FPGA begin with 0, and so does the reset.
        since = Signal(_RESET_BITS, name="clocks_since", reset_less=True)
        m.d.sync += held.eq(Cat(waits, held[0]))
        update(m, since, (held[1], 0), (~since.all(), since + 1))
        # From a register of its own, for it reaches nearly all others.
        reset = Signal(name="is_reset", init=1, reset_less=True)
        m.d.sync += reset.eq(~since.all())
        inside = place(m, platform, "serial_machine", SerialMachine(self.config.inside))
        m.d.comb += [
            domain.rst.eq(reset),
            inside.from_host.eq(self.ftdi_txd),
            self.ftdi_rxd.eq(inside.to_host),
            self.led.eq(inside.lights),
            self.wifi_gpio0.eq(1),
        ]

    def _make_clock(self, m: Module, clock: Signal) -> Signal:
        """Make the clock; return whether it is steady."""
        locked = Signal(name="is_locked")
        divisors = pll_divisors(self.config.clock_mhz)
        m.submodules.pll = Instance(
            "EHXPLLL",
            *(("p", name, value) for name, value in divisors.items()),
            p_FEEDBK_PATH="CLKOP",
            p_CLKOP_ENABLE="ENABLED",
            # The output falls in with the input.
            p_CLKOP_CPHASE=divisors["CLKOP_DIV"] // 2 - 1,
            p_CLKOP_FPHASE=0,
            p_PLLRST_ENA="DISABLED",
            p_INTFB_WAKE="DISABLED",
            p_STDBY_ENABLE="DISABLED",
            p_DPHASE_SOURCE="DISABLED",
            p_OUTDIVIDER_MUXA="DIVA",
            p_OUTDIVIDER_MUXB="DIVB",
            p_OUTDIVIDER_MUXC="DIVC",
            p_OUTDIVIDER_MUXD="DIVD",
            i_CLKI=self.clk_25mhz,
            i_CLKFB=clock,
            i_RST=Const(0),
            i_STDBY=Const(0),
            i_PHASESEL0=Const(0),
            i_PHASESEL1=Const(0),
            i_PHASEDIR=Const(1),
            i_PHASESTEP=Const(1),
            i_PHASELOADREG=Const(1),
            i_PLLWAKESYNC=Const(0),
            i_ENCLKOP=Const(0),
            o_CLKOP=clock,
            o_LOCK=locked,
        )
        return locked
