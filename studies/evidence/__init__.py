"""Whether the format holds up: the paper's tables on models and data that anyone can get."""

__all__ = ["PARTS"]

PARTS = {
    "direct-cast": "studies.evidence.direct_cast",
    "training": "studies.evidence.training",
    "tuning": "studies.evidence.tuning",
}
"""By name, modules whose ``runs(quick, seeds)`` are the runs of a part."""
