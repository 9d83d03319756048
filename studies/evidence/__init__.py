"""Whether the format holds up: the paper's tables on models and data that anyone can get."""

PARTS = {
    "training": "studies.evidence.training",
    "direct-cast": "studies.evidence.direct_cast",
    "tuning": "studies.evidence.tuning",
}
"""By name, modules whose ``runs(quick, seeds)`` are the runs of a part.

Networks that are trained here are cast afterwards.
"""
