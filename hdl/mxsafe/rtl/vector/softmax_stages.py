"""Shared base of softmax's parts: only the target can be chosen, and it places registers.

Tested by `verif/rtl/vector/test_softmax.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from mxsafe.rtl.arithmetic.target import Target
from mxsafe.rtl.configuration import Configuration

__all__ = ["SoftmaxPartConfiguration"]


@dataclass(frozen=True, kw_only=True)
class SoftmaxPartConfiguration(Configuration):
    """A part of softmax.

    Parameters
    ----------
    target : {"asic", "fpga"}
        What it is built for, see `mxsafe.rtl.arithmetic.target`: for an FPGA with more registers.

    Raises
    ------
    ValueError
        If there is no such target.
    """

    stages_for: ClassVar[Mapping[Target, tuple[str, ...]]]
    """Where registers stand, for each target."""

    target: Target = "asic"

    @property
    def stages(self) -> tuple[str, ...]:
        """Where registers stand."""
        return self.stages_for[self.target]

    @property
    def latency(self) -> int:
        """Enabled cycles from what comes in to what follows from it."""
        return len(self.stages)
