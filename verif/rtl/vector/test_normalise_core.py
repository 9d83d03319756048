"""The core of normalisation: what can be built. The unit around it is tested with it inside."""

from mxsafe.rtl.vector.normalise_core import NormaliseCore
from verif.support.tests import refused

test_configurations_that_cannot_work = refused(
    NormaliseCore,
    [
        ({"lanes": 12}, "lanes must be a power of two, not 12"),
        ({"centre": False, "optional": True}, "centre must be set with optional"),
        ({"depth": 0}, "depth must be a power of two, not 0"),
        ({"along": "rows"}, "along must be one of lanes, beats, not 'rows'"),
        ({"dividers": 2}, "dividers must divide the 1 rows side by side, not 2"),
        (
            {"along": "beats", "dividers": 3},
            "dividers must divide the 16 rows side by side, not 3",
        ),
        ({"dividers": 0}, "dividers must be a positive integer, not 0"),
        ({"lanes": 32}, "depth must be at most 256 for rows of 8192 values, not 512"),
    ],
)
