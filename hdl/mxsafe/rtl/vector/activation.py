"""Activation functions on binary32 numbers, between the array and the converter. Combinational."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from amaranth.hdl import Const, Module, Mux, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Member, Out

from mxsafe.rtl.arithmetic.bits import named
from mxsafe.rtl.configuration import Configuration
from mxsafe.rtl.unit import Unit
from mxsafe.validation import require_positive_integer

__all__ = ["ACTIVATIONS", "Activation", "ActivationConfiguration"]

_EXPONENT = slice(23, 31)
_MANTISSA = slice(0, 23)


def _relu(m: Module, lane: int, word: Value) -> Value:
    """Negative numbers, -0 and -Inf to +0; NaN of either sign stays what it is."""
    special = named(m, f"has_top_exponent_{lane}", 1, word[_EXPONENT].all())
    some = named(m, f"has_mantissa_{lane}", 1, word[_MANTISSA].any())
    nan = named(m, f"is_nan_{lane}", 1, special & some)
    negative = named(m, f"is_negative_{lane}", 1, word[-1] & ~nan)
    return Mux(negative, Const(0, 32), word)


ACTIVATIONS: Mapping[str, Callable[[Module, int, Value], Value]] = MappingProxyType({"relu": _relu})
"""By name what makes the result of a lane from its word. Add a function to have another."""


@dataclass(frozen=True, kw_only=True)
class ActivationConfiguration(Configuration):
    """An `Activation`.

    Parameters
    ----------
    function : str
        One of `ACTIVATIONS`.
    width : int
        Numbers in a beat.

    Raises
    ------
    ValueError
        If there is no such function, or `width` is not a positive integer.
    """

    unnamed = frozenset({"function"})

    function: str = "relu"
    width: int = 16

    def __post_init__(self) -> None:
        if self.function not in ACTIVATIONS:
            raise ValueError(
                f"function must be one of {', '.join(ACTIVATIONS)}, not {self.function!r}"
            )
        self._set(width=require_positive_integer("width", self.width))

    @property
    def base(self) -> str:
        """Name of the module in its usual configuration."""
        return self.function


class Activation(Unit[ActivationConfiguration]):
    """An activation function on every number of a beat. Combinational.

    ``relu``: what has a sign bit, -0 and -Inf included, becomes +0, except NaN; everything
    else keeps its bits. So a NaN of either sign makes a NaN block.

    Attributes
    ----------
    values : In(array of 32)
        Binary32 numbers.
    results : Out(array of 32)
    """

    def ports(self) -> Mapping[str, Member]:
        """Numbers and results."""
        numbers = data.ArrayLayout(32, self.config.width)
        return {"values": In(numbers), "results": Out(numbers)}

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for lane in range(self.config.width):
            result = ACTIVATIONS[self.config.function](m, lane, self.values[lane])
            m.d.comb += self.results[lane].eq(result)
        return m
