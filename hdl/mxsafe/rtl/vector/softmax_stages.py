"""Shared base of softmax's parts: the target places registers, the grade says widths.

Tested by `verif/rtl/vector/test_softmax.py`.
"""

from collections.abc import Mapping
from typing import ClassVar, Literal

from mxsafe.rtl.timing import Target
from mxsafe.rtl.unit import Configuration
from mxsafe.tables import Grade
from mxsafe.tables.softmax import WIDTHS, SoftmaxWidths
from mxsafe.validation import Alike


class SoftmaxRowsConfiguration(Configuration):
    """How rows come.

    Parameters
    ----------
    lanes : int
        Values in a beat.
    along : {"lanes", "beats"}
        Where rows run: a row is the lanes of its beats, one after the other; or each lane has a row
        of its own, a value a beat.
    sweeps : bool
        Along beats: whether rows can come in sweeps, see `mxsafe.rtl.vector.sweeps.SWEEP`.
    """

    lanes: Alike = 16
    along: Literal["lanes", "beats"] = "lanes"
    sweeps: bool = False


class SoftmaxPartConfiguration(Configuration):
    """A part of softmax.

    Parameters
    ----------
    grade : {"compact", "fine"}
        How exact it is, see `mxsafe.model.softmax`.
    target : {"asic", "fpga"}
        What it is built for, see `mxsafe.rtl.timing`: for an FPGA with more registers.
    """

    stages_for: ClassVar[Mapping[Target, tuple[str, ...]]]
    """Where registers stand, for each target."""

    grade: Grade = "compact"
    target: Target = "asic"

    @property
    def widths(self) -> SoftmaxWidths:
        """Widths of the grade."""
        return WIDTHS[self.grade]

    @property
    def stages(self) -> tuple[str, ...]:
        """Where registers stand."""
        return self.stages_for[self.target]

    @property
    def latency(self) -> int:
        """Enabled cycles from what comes in to what follows from it."""
        return len(self.stages)
