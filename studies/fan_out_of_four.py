"""``python -m studies.fan_out_of_four``: how quick the cells are that areas and times are made of.

An inverter that drives four like it is the unit (FO4) in which delays of different libraries are
compared. OpenSTA times a chain of them: the mean of a rising and a falling edge in its middle,
without wires.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from mxsafe.synthesis.technologies import TECHNOLOGIES, StandardCells, SynthesisError

FO4_PS: Mapping[str, float] = {"nangate45": 25.8, "osu018": 99.2}
"""Results of `measure` by technology, typical corners, for pages."""
_INVERTERS = {"nangate45": ("INV_X1", "ZN"), "osu018": ("INVX1", "Y")}
"""The smallest inverters and their outputs; their inputs are ``A``."""
_LENGTH = 16
_SCRIPT = """\
read_liberty {library}
read_verilog chain.v
link_design chain
create_clock -name clock -period 10
set_input_delay 0 -clock clock a
set_output_delay 0 -clock clock y
report_checks -digits 6
"""


def chain(technology: str) -> str:
    """Verilog of inverters one after the other, each of which drives three others besides."""
    cell, output = _INVERTERS[technology]
    lines = ["module chain (input a, output y);"]
    net = "a"
    for number in range(_LENGTH):
        following = "y" if number == _LENGTH - 1 else f"net_{number}"
        if following.startswith("net"):
            lines.append(f"  wire {following};")
        lines.append(f"  {cell} inverter_{number} (.A({net}), .{output}({following}));")
        for load in range(3):
            open_ = f"open_{number}_{load}"
            lines.append(f"  wire {open_};")
            lines.append(f"  {cell} load_{number}_{load} (.A({following}), .{output}({open_}));")
        net = following
    return "\n".join([*lines, "endmodule", ""])


def measure(technology: str) -> float:
    """The delay of an inverter in the middle of the chain, ps.

    Raises
    ------
    SynthesisError
        If the library or OpenSTA is not installed, or OpenSTA reports no such path.
    """
    flow = TECHNOLOGIES[technology]
    assert isinstance(flow, StandardCells)
    flow.check()
    library = flow.library()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "chain.v").write_text(chain(technology))
        Path(folder, "chain.tcl").write_text(_SCRIPT.format(library=library))
        run = subprocess.run(
            ["sta", "-exit", "chain.tcl"], cwd=folder, capture_output=True, text=True, check=False
        )
    delays = {
        int(number): float(delay)
        for delay, number in re.findall(r"([\d.]+) +[\d.]+ [v^] inverter_(\d+)/", run.stdout)
    }
    if len(delays) != _LENGTH:
        raise SynthesisError(f"sta reported no path through the inverters:\n{run.stdout[-500:]}")
    middle = _LENGTH // 2
    return 1000 * (delays[middle] + delays[middle + 1]) / 2


if __name__ == "__main__":
    try:
        for name in FO4_PS:
            print(f"{name}: an inverter that drives four like it takes {measure(name):.1f} ps")
    except SynthesisError as error:
        sys.exit(f"fan_out_of_four: {error}")
