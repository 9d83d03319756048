"""Operations that `torch.compile` must leave alone; to say so imports the compiler."""

from __future__ import annotations

from typing import Any

import torch

from mxsafe.torch import quantising


@torch.compiler.disable
def values(t: torch.Tensor, task: Any, words: torch.Tensor | None, given: Any) -> torch.Tensor:
    """As `quantising.values_by_operations`, and the compiler steps aside.

    Inductor 2.13 makes code for the CPU from formats with a scale of the tensor that reads beyond
    ragged blocks.
    """
    return quantising.values_by_operations(t, task, words, given)
