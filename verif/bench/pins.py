"""What pins carry."""

from typing import Any


def number(pin: Any) -> int:
    """What a pin carries; it must be known."""
    value = pin.value
    try:
        return int(value)
    except ValueError:
        raise AssertionError(f"{pin._name} is {value}") from None
