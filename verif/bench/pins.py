"""Values of pins."""

from typing import Any

from cocotb.handle import LogicObject
from cocotb.types import Logic

_LEVELS = Logic(0), Logic(1)
"""Made once: cocotb would make one of a number in every write."""


def number(pin: Any) -> int:
    """Return the value of a pin, which must be known."""
    value = pin.value
    try:
        return int(value)
    except ValueError:
        raise AssertionError(f"{pin._name} is {value}") from None


class Input:
    """A pin that is written when it changes: writes take most of the time of many benches."""

    def __init__(self, pin: Any) -> None:
        self._pin = pin
        self._is_bit = isinstance(pin, LogicObject)
        self._value: int | None = None

    def write(self, value: int) -> None:
        if value != self._value:
            self._value = value
            self._pin.value = _LEVELS[value] if self._is_bit else value
