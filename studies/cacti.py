"""``python -m studies.cacti CACTI``: energies of memories by node, width and size.

CACTI is the folder of CACTI 7 (github.com/HewlettPackard/cacti), built with ``make``. Of its
``cache.cfg`` a plain memory is made, with a port to read and a port to write, as the hardware's
are. The figures go to ``hdl/mxsafe/machine/energies/sram.json``.
"""

import argparse
import json
import re
import subprocess
import tempfile
from pathlib import Path

from mxsafe.atomic import write_atomically
from mxsafe.machine.energy_tables import SRAM_FILE
from studies.prose import as_help

_NODES = (65, 45, 28)
_WIDTHS = (8, 16, 32, 64)
_SIZES = tuple(1 << bits for bits in range(10, 20))
_LEAST_DEPTH = 32
"""CACTI finds no memory of fewer words."""
_FOUND = {
    "read": r"Total dynamic read energy per access \(nJ\): *([0-9.e+-]+)",
    "write": r"Total dynamic write energy per access \(nJ\): *([0-9.e+-]+)",
    "leakage": r"Total leakage power of a bank \(mW\): *([0-9.e+-]+)",
}


def _configuration(base: str, values: dict[str, object]) -> str:
    for name, value in values.items():
        base, count = re.subn(rf"(?m)^-{re.escape(name)}.*$", f"-{name} {value}", base)
        if count != 1:
            raise ValueError(f"cache.cfg must have {name} once, not {count} times")
    return base


def measured(cacti: Path, node: int, width: int, size: int) -> list[float]:
    """Node, width, size; pJ of a read and of a write; mW of leakage."""
    values = {
        "size (bytes)": size,
        "block size (bytes)": width,
        "associativity": 1,
        "read-write port": 0,
        "exclusive read port": 1,
        "exclusive write port": 1,
        "technology (u)": node / 1000,
        "output/input bus width": 8 * width,
        "cache type": '"ram"',
        "Add ECC": '"false"',
    }
    with tempfile.NamedTemporaryFile("w", suffix=".cfg") as file:
        file.write(_configuration((cacti / "cache.cfg").read_text(), values))
        file.flush()
        words = ["./cacti", "-infile", file.name]
        text = subprocess.run(words, cwd=cacti, check=True, capture_output=True, text=True).stdout
    found = {}
    for name, pattern in _FOUND.items():
        match = re.search(pattern, text)
        if match is None:
            raise ValueError(f"CACTI must tell {name} of {size} bytes, {width} wide, {node} nm")
        found[name] = float(match[1])
    energies = [round(1000 * found[name], 4) for name in ("read", "write")]
    return [node, width, size, *energies, round(found["leakage"], 4)]


def main() -> None:
    """Measure all memories, and write the table with what it says of itself."""
    parser = argparse.ArgumentParser(description=as_help(__doc__))
    parser.add_argument("cacti", type=Path)
    cacti = parser.parse_args().cacti.resolve()
    table = json.loads(SRAM_FILE.read_text())
    del table["rows"]
    rows = [
        json.dumps(measured(cacti, node, width, size))
        for node in _NODES
        for width in _WIDTHS
        for size in _SIZES
        if size // width >= _LEAST_DEPTH
    ]
    text = json.dumps(table, indent=1)[:-2] + ',\n "rows": [\n  ' + ",\n  ".join(rows) + "\n ]\n}\n"
    write_atomically(SRAM_FILE, text)


if __name__ == "__main__":
    main()
