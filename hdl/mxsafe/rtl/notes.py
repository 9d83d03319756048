"""Notes on nets: comments of the generated Verilog that are written where the step is.

Tested by `verif/verilog/test_notes.py`.
"""

from amaranth.hdl import Signal

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
