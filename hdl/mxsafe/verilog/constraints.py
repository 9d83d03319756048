"""Timing constraints of a module, in SDC, which flows for chips and Vivado read."""

from mxsafe.validation import checked

SUFFIX = ".sdc"
VARIABLE = "period"
"""Variable of Tcl that has the period in ns; a flow that wants another one sets it before."""
_USUAL = 2.0
"""The paper's clock, 500 MHz."""


@checked
def constraints(top: str, *, clocked: bool) -> str:
    """Constraints of a module, without anything of a library.

    Inputs arrive with the edge of the clock and outputs are wanted at the next one, so that a path
    from or to a port has a whole cycle; a module without registers has a clock that no port
    carries. Reset is an input like others: it is synchronous.

    Parameters
    ----------
    top : str
        The module's name.
    clocked : bool
        Whether it has the port ``clk``.

    Returns
    -------
    str
        To be run as Tcl after the design has been linked. Times are in ns.
    """
    port = " [get_ports clk]" if clocked else ""
    return f"""\
# Constraints of {top}. Times are in ns; what drives inputs and loads outputs is the flow's.
if {{![info exists {VARIABLE}]}} {{ set {VARIABLE} {_USUAL} }}
create_clock -name clk -period ${VARIABLE}{port}
set_input_delay 0 -clock clk [all_inputs]
set_output_delay 0 -clock clk [all_outputs]
"""
