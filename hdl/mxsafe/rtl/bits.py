"""Small combinational functions that more than one unit is made of."""

from amaranth.hdl import Cat, Const, Module, Shape, Signal, Value, ValueLike

__all__ = ["cleared", "leading_one", "named", "ones_below_leading", "select"]


def named(module: Module, name: str, shape: Shape | int, value: ValueLike) -> Signal:
    """A signal of that name and shape that carries `value`, so that the Verilog reads well."""
    signal = Signal(shape, name=name)
    module.d.comb += signal.eq(value)
    return signal


def ones_below_leading(module: Module, name: str, value: Value) -> Signal:
    """Thermometer code of the leading one: bit ``i`` is set when any bit at or above ``i`` is.

    A parallel-prefix OR of logarithmic depth; ``name_1``, ``name_2``, ``name_4``... are its steps.
    """
    width = len(value)
    reach = value
    distance = 1
    while distance < width:
        reach = named(module, f"{name}_{distance}", width, reach | (reach >> distance))
        distance *= 2
    return named(module, name, width, reach)


def cleared(value: Value, mask: Value) -> Value:
    """The low bits of `value` that are set in `mask` made 0; the bits above `mask` stay."""
    return value & ~Cat(mask, Const(0, len(value) - len(mask)))


def leading_one(thermometer: Value) -> Value:
    """One-hot position of the leading one, from its thermometer code."""
    return thermometer & ~(thermometer >> 1)


def select(one_hot: Value, choices: Value) -> Value:
    """The bit of `choices` at the position of the one in `one_hot`; 0 if there is none."""
    return (one_hot & choices).any()
