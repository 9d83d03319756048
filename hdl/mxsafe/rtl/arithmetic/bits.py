"""Small combinational functions that more than one unit is made of."""

from collections.abc import Iterable, Sequence

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value, ValueLike

__all__ = ["chosen", "cleared", "gated_or", "leading_one", "named", "ones_below_leading", "select"]


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


def gated_or(choices: Iterable[tuple[Value, Value]]) -> Value:
    """The value whose gate is set, of pairs ``(gate, value)``; 0 if none is."""
    result: Value = Const(0, 1)
    for gate, value in choices:
        result = result | Mux(gate, value.as_unsigned(), 0)
    return result


def leading_one(thermometer: Value) -> Value:
    """One-hot position of the leading one, from its thermometer code."""
    return thermometer & ~(thermometer >> 1)


def select(one_hot: Value, choices: Value) -> Value:
    """The bit of `choices` at the position of the one in `one_hot`; 0 if there is none."""
    return (one_hot & choices).any()


def chosen(m: Module, name: str, index: Value, values: Sequence[Value]) -> Value:
    """The value at an index, through a tree of multiplexers; none where both sides are the same."""
    if all(value is values[0] for value in values):
        return values[0]
    half = 1 << ((len(values) - 1).bit_length() - 1)
    low_values, high_values = values[:half], values[half:]
    low = chosen(m, f"{name}_low", index[: half.bit_length() - 1], low_values)
    if len(low_values) == len(high_values) and all(
        left is right for left, right in zip(low_values, high_values, strict=True)
    ):
        return low
    high = chosen(m, f"{name}_high", index[: (len(high_values) - 1).bit_length()], high_values)
    return named(m, name, len(values[0]), Mux(index[half.bit_length() - 1], high, low))
