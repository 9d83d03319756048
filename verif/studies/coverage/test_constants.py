"""Bits that Yosys finds constant: zeros that were shifted in, and none of what can change."""

import tempfile
from pathlib import Path

from studies.coverage.constants import constants
from verif.support.manifest import GEN
from verif.support.simulators import SCRATCH


def test_bits_of_the_encoder() -> None:
    """Two of its shifted significands have zeros above."""
    with tempfile.TemporaryDirectory(dir=SCRATCH, prefix="constants-") as folder:
        found = constants(Path(folder), "gen/mxsf_encoder.v")
    texts = (GEN / "mxsf_encoder.v").read_text().splitlines()
    named = {(texts[line - 1].split()[-1], bit) for _, line, bit in found}
    assert named == {("subnormal_1;", 3), ("subnormal_2;", 2), ("subnormal_2;", 3)}
    assert {module for module, _, _ in found} == {"mxsf_encoder"}
