"""Activation functions on binary32 numbers, between the array and the converter. Combinational."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from amaranth.hdl import Const, Module, Mux, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.arithmetic.bits import named
from mxsafe.rtl.unit import Unit
from mxsafe.validation import require_positive_integer

__all__ = ["ACTIVATIONS", "Activation"]

_EXPONENT = slice(23, 31)
_MANTISSA = slice(0, 23)


def _relu(m: Module, lane: int, word: Value) -> Value:
    """Negative numbers, -0 and -Inf to +0; NaN of either sign stays what it is."""
    nan = named(m, f"is_nan_{lane}", 1, word[_EXPONENT].all() & word[_MANTISSA].any())
    return Mux(word[-1] & ~nan, Const(0, 32), word)


ACTIVATIONS: Mapping[str, Callable[[Module, int, Value], Value]] = MappingProxyType({"relu": _relu})
"""By name what makes the result of a lane from its word. Add a function to have another."""


class Activation(Unit):
    """An activation function on every number of a beat. Combinational.

    Parameters
    ----------
    function : str
        One of `ACTIVATIONS`. ``relu``: what has a sign bit, -0 and -Inf included, becomes +0,
        except NaN; everything else keeps its bits. So a NaN of either sign makes a NaN block.
    width : int
        Numbers in a beat.

    Attributes
    ----------
    values : In(array of 32)
        Binary32 numbers.
    results : Out(array of 32)

    Raises
    ------
    ValueError
        If there is no such function, or `width` is not a positive integer.
    """

    def __init__(self, *, function: str = "relu", width: int = 16) -> None:
        if function not in ACTIVATIONS:
            raise ValueError(f"function must be one of {', '.join(ACTIVATIONS)}, not {function!r}")
        self.width = require_positive_integer("width", width)
        self.function = function
        super().__init__(
            {
                "values": In(data.ArrayLayout(32, self.width)),
                "results": Out(data.ArrayLayout(32, self.width)),
            },
            module_name=f"{function}_{width}",
            parameters={"function": function, "width": width},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for lane in range(self.width):
            result = ACTIVATIONS[self.function](m, lane, self.values[lane])
            m.d.comb += self.results[lane].eq(result)
        return m
