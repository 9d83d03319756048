"""Coverage of simulations in the generated Verilog, where a run of pytest asks for that.

The variable ``MXSAFE_COVERAGE`` of the environment names a folder. Designs on Verilator made of
modules as they stand in ``gen/`` are then built with its counters of lines and toggles, and each of
their simulations adds to the folder which places it has reached.
"""

import gzip
import hashlib
import json
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from mxsafe.atomic import write_atomically
from mxsafe.host.verilator import locked
from verif.support.manifest import named

COUNTERS = "coverage.dat"
"""Where a simulation writes its counters, in the folder it runs in."""
# A limit on the width of what is counted would leave the buses of the arrays out.
OPTIONS = ("--coverage-line", "--coverage-toggle", "--coverage-max-width", "1000000")
"""Options of Verilator for a design with counters."""
HEADER = """\
// Verilator's own function looks past the end of each word of a net of more than 64 bits, and so
// counts a bit that changes for those 32, 64, ... places above, too.
#define VL_COV_TOGGLE_CHG_ST_W beyond_words
#include "verilated_cov.h"
#undef VL_COV_TOGGLE_CHG_ST_W
static inline void VL_COV_TOGGLE_CHG_ST_W(
    const int width, uint32_t* covp, WDataInP now, WDataInP before) {
    for (int word = 0; word < VL_WORDS_I(width); ++word) {
        const int first = word * VL_EDATASIZE;
        const EData changed = now[word] ^ before[word];
        for (int bit = 0; changed && bit < VL_EDATASIZE && first + bit < width; ++bit) {
            *(covp + 2 * (first + bit) + ((now[word] >> bit) & 1)) += (changed >> bit) & 1;
        }
    }
}
"""
"""C++ for what counts."""
LEFT_OUT = 'coverage_off -file "{}" -lines {}\n'
"""For Verilator: words of memories, which are no nets, and many."""
VARIABLE = "MXSAFE_COVERAGE"

Point = tuple[str, str, int, int, str]
"""Unit, kind (``line``, ``branch`` or ``toggle``), line and column, and what is counted there."""
_MEMORY = re.compile(r"^  reg \[\S+:0\] \S+ +\[\S+\];")
_FIELD = re.compile("\x01([^\x02]+)\x02([^\x01]*)")


def is_asked() -> bool:
    """Whether what simulations reach is counted."""
    return VARIABLE in os.environ


def is_covered(simulator: str, sources: Iterable[Path]) -> bool:
    """Whether a design is to be built with counters: broken copies and other units are not."""
    if simulator != "verilator" or not is_asked():
        return False
    ours = {module.sources[0].name: module.sources[0] for module in named().values()}
    pairs = [(source, ours[source.name]) for source in sources if source.name in ours]
    return bool(pairs) and all(
        source == ours or source.read_bytes() == ours.read_bytes() for source, ours in pairs
    )


def left_out(sources: Iterable[Path]) -> str:
    """Lines for Verilator that leave out what does not count."""
    return "".join(
        LEFT_OUT.format(source.resolve(), line)
        for source in sources
        for line, text in enumerate(source.read_text().splitlines(), start=1)
        if _MEMORY.match(text)
    )


def _counters(text: str) -> dict[Point, bool]:
    """Points of modules in ``gen/`` that were reached in any instance."""
    found: dict[Point, bool] = {}
    for line in text.splitlines():
        if not line.startswith("C '"):
            continue
        key, count = line[3:].rsplit("' ", 1)
        fields = dict(_FIELD.findall(key))
        kind, _, page = fields["page"].removeprefix("v_").partition("/")
        module = page.partition("__")[0]  # behind it Verilator numbers sets of parameters
        # Where a module is compiled by itself, Verilator puts one of its own in its place.
        if Path(fields["f"]).name != f"{module}.v" or module not in named():
            continue
        point = (named()[module].unit, kind, int(fields["l"]), int(fields["n"]), fields["o"])
        found[point] = found.get(point, False) or int(count) > 0
    return found


def keep(top: str, sources: Sequence[Path], run: Path) -> None:
    """Add what a simulation has reached to what others of the same design have."""
    counted = _counters((run / COUNTERS).read_text())
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    folder = Path(os.environ[VARIABLE]) / f"{top[:60]}-{digest.hexdigest()[:12]}"
    with locked(folder):
        kept = folder / "reached.json.gz"
        found = _read(kept) if kept.exists() else {}
        for point, is_reached in counted.items():
            found[point] = found.get(point, False) or is_reached
        rows = [[*point, int(is_reached)] for point, is_reached in found.items()]
        text = gzip.compress(json.dumps(rows).encode(), 1)
        write_atomically(kept, text)


def _read(file: Path) -> dict[Point, bool]:
    rows = json.loads(gzip.decompress(file.read_bytes()))
    return {
        (module, kind, line, column, what): bool(n) for module, kind, line, column, what, n in rows
    }


def reached(folder: Path) -> dict[Point, bool]:
    """All points of all designs under a folder, and whether a simulation has reached them."""
    found: dict[Point, bool] = {}
    for file in sorted(folder.rglob("reached.json.gz")):
        for point, is_reached in _read(file).items():
            found[point] = found.get(point, False) or is_reached
    return found
