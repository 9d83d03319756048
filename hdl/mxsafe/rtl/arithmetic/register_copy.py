"""A register that has equals, each near what it drives."""

from typing import Annotated

from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.arithmetic.bits import noted, update
from mxsafe.rtl.unit import Configuration, Ports, Unit
from mxsafe.validation import limited, require_positive_integer


class RegisterCopyConfiguration(Configuration):
    """A `RegisterCopy`.

    Parameters
    ----------
    bits : int
        Bits of the register.
    """

    bits: Annotated[int, limited(require_positive_integer, 1 << 20)] = 1

    latency = 1
    """Enabled cycles from `value` to `copy`."""


class RegisterCopy(Unit[RegisterCopyConfiguration]):
    """A register without a reset, in a module of its own.

    Synthesis makes one of equal registers in a module, which then has to drive all over a device
    what each of them would drive near itself. It has to be told to keep these modules apart.

    Attributes
    ----------
    en : In(1)
        Clock enable.
    value : In
        What the register takes.
    copy : Out
        The same, one enabled cycle later.
    """

    synthesised_once = True

    def ports(self) -> Ports:
        bits = self.config.bits
        return {"en": In(1), "value": In(bits), "copy": Out(bits)}

    def fill(self, m: Module, platform: object) -> None:
        register = Signal(self.config.bits, name="register", reset_less=True)
        noted(
            register, "One of several equal registers, each near what it drives: keep them apart."
        )
        update(m, register, (self.en, self.value))
        m.d.comb += self.copy.eq(register)
