"""The runs of direct casts: weights and activations of trained models in each format."""

from studies.evidence.runs import Run

__all__ = ["runs"]


def runs(*, quick: bool, seeds: int) -> list[Run]:
    """Plan every model in every configuration; one format and few samples if `quick`."""
    return []
