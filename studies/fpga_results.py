"""``python -m studies.fpga_results synthesis.json peers.json``: keeps figures of FPGAs.

Puts what ``mxsafe synth --case '*for FPGAs' --out`` and `studies.fpga_peers` wrote into
``docs/fpga.json``, where others' units stay whose sources were not there.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from studies.pages import DOCS, keep


def merged(
    synthesis: Mapping[str, Any], peers: Sequence[Mapping[str, Any]], earlier: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the new ``docs/fpga.json``: peers that were not measured again stay."""
    measured = {peer["name"] for peer in peers}
    kept = [peer for peer in earlier.get("peers", []) if peer["name"] not in measured]
    return {**synthesis, "peers": [*peers, *kept]}


def main(arguments: Sequence[str]) -> None:
    """Write ``docs/fpga.json``."""
    path = DOCS / "fpga.json"
    synthesis, peers = (json.loads(Path(name).read_text()) for name in arguments)
    earlier = json.loads(path.read_text()) if path.exists() else {}
    keep(path, merged(synthesis, peers, earlier), indent=2)


if __name__ == "__main__":
    main(sys.argv[1:])
