"""Results of synthesis in ``docs/synthesis.json``, and the paper's figures beside them."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from mxsafe.synthesis.power import usual_netlist
from studies.pages import kept

Result = Mapping[str, Any]
Synthesis = Mapping[str, Any]
"""Result of `mxsafe.synthesis.run.synthesise`."""

_PAPER_MACS = 256
PAPER_NS = 2.0
"""Clock period of the paper's core (section VI-A: 500 MHz)."""
PAPER_GE = 1_784_575 / _PAPER_MACS / 1.44
"""Gate equivalents for each MAC of the paper's core: Table IV, um2 over MACs over a 65 nm NAND2."""
PAPER_PJ = 308.845 * PAPER_NS / _PAPER_MACS
"""Energy for each MAC of the paper's core, pJ: Table IV, mW times ns over MACs."""
PAPER_VECTOR: Mapping[str, tuple[float, float]] = {
    "activation": (7.6, 2.61),
    "softmax": (126.0, 24.12),
    "normalisation": (26.6, 24.21),
}
"""The paper's vector units: thousands of gate equivalents, and mW at 500 MHz (Table IV)."""


@cache
def load(name: str = "synthesis") -> Synthesis:
    """Results that are kept in ``docs/``, by the name of their file."""
    return kept(name)


def find(
    synthesis: Synthesis, configuration: str, technology: str = "nangate45", format: str = "mxsf"
) -> Result:
    """The result of a standard configuration on a technology.

    Parameters
    ----------
    synthesis : Mapping
    configuration : str
        Its name, see `mxsafe.synthesis.cases.STANDARD`.
    technology : str
        Name of the technology.
    format : str
        Name of the element format.

    Raises
    ------
    LookupError
        If there is none.
    """
    for result in synthesis["results"]:
        found = (result["configuration"], result["technology"], result["format"])
        if found == (configuration, technology, format):
            return result
    raise LookupError(f"synthesis must have {configuration} for {format} on {technology}")


def usual_numbers(result: Result) -> Mapping[str, Any]:
    """Numbers of the netlist whose energy is given: the smallest that runs at 500 MHz, if any."""
    numbers: Mapping[str, Any] = result["numbers"]
    return numbers[usual_netlist(numbers)]
