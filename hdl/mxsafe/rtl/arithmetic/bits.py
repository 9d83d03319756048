"""Nets by name: with notes on them, small functions, registers, as units are made of them.

Tested by `verif/rtl/arithmetic/test_scaler.py`.
"""

import functools
import operator
from collections.abc import Iterable, Sequence

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value, ValueLike

NOTE = "mxsafe_note"
"""Attribute of a signal that holds its note."""


def noted(signal: Signal, text: str) -> Signal:
    """The signal, with a comment for readers of the Verilog.

    It stands before what drives the net, once a module however many nets have it; where a
    configuration has no such net, it has no such comment.

    Parameters
    ----------
    signal : Signal
        A net that keeps its name in the Verilog.
    text : str
        What is not obvious: a line without quotation marks and backslashes, which attributes would
        have to escape; one string literal, so that a test finds it.
    """
    if not text.isprintable() or not {'"', "\\"}.isdisjoint(text):
        raise ValueError(f"text must have no quotation mark, backslash or newline, not {text!r}")
    signal.attrs[NOTE] = text
    return signal


def named(module: Module, name: str, shape: Shape | int | None, value: ValueLike) -> Signal:
    """A signal of that name that carries `value`, so that the Verilog reads well.

    Parameters
    ----------
    module : amaranth.hdl.Module
    name : str
        What the value is.
    shape : Shape or int or None
        Shape of the signal; None for the shape of the value.
    value : ValueLike
        The value; an expression that is used more than once is written once.
    """
    signal = Signal(Value.cast(value).shape() if shape is None else shape, name=name)
    module.d.comb += signal.eq(value)
    return signal


def truncated(
    module: Module, name: str, width: int, value: Value, *, note: str | None = None
) -> Value:
    """The low bits of a sum; the signal of that name has its carry too, and a note if given.

    Amaranth gives every sum its full width. Where the carry is known to be 0 or is not wanted, a
    name for the low bits alone would leave the carry without one.
    """
    whole = named(module, name, None, value)
    return (whole if note is None else noted(whole, note))[:width]


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


def equals(value: Value, number: int) -> Value:
    """Whether `value` is that number; in the Verilog no vector stands where one bit should."""
    return value == number if number else ~value.any()


def gated_or(module: Module, name: str, choices: Iterable[tuple[Value, Value]]) -> Signal:
    """The value whose gate is set, of pairs ``(gate, value)``; 0 if none is.

    ``name_0``, ``name_1``... are the values behind their gates, ``name_to_1``, ``name_to_2``... the
    OR of these up to there.
    """
    terms = [
        named(module, f"{name}_{index}", len(value), Mux(gate, value.as_unsigned(), 0))
        for index, (gate, value) in enumerate(choices)
    ]
    result: Value = terms[0]
    for index, term in enumerate(terms[1:-1], start=1):
        result = named(module, f"{name}_to_{index}", None, result | term)
    return named(module, name, None, result | terms[-1] if len(terms) > 1 else result)


def any_of(values: Iterable[Value]) -> Value:
    """Bitwise OR of several values."""
    return functools.reduce(operator.or_, values)


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
    # An index bit that decides nothing, as the row's for a column's scale, needs no multiplexer.
    if len(low_values) == len(high_values) and all(
        left is right for left, right in zip(low_values, high_values, strict=True)
    ):
        return low
    high = chosen(m, f"{name}_high", index[: (len(high_values) - 1).bit_length()], high_values)
    return named(m, name, len(values[0]), Mux(index[half.bit_length() - 1], high, low))


def update(m: Module, register: Value, *choices: tuple[Value, ValueLike]) -> None:
    """Let a register take a value where that is wanted, the first one of several; else it stays.

    Parameters
    ----------
    m : amaranth.hdl.Module
    register : Value
    *choices : tuple of (Value, ValueLike)
        Whether a value is wanted, and it.
    """
    for number, (wanted, value) in enumerate(choices):
        with m.Elif(wanted) if number else m.If(wanted):
            m.d.sync += register.eq(value)


def delayed(
    m: Module, en: Value, name: str, value: Value, cycles: int, *, reset: bool = False
) -> Value:
    """`value` as it was so many enabled cycles ago, through registers ``name_1``, ``name_2``...

    Flags want a `reset`, data need none.
    """
    for cycle in range(cycles):
        value = kept(m, en, f"{name}_{cycle + 1}", value, reset=reset)
    return value


def kept(m: Module, en: Value, name: str, value: Value, *, reset: bool = False) -> Signal:
    """A register of that name: `value` as it was in the last cycle in which `en` was set."""
    register = Signal(len(value), name=name, reset_less=not reset)
    with m.If(en):
        m.d.sync += register.eq(value)
    return register
