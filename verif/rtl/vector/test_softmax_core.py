"""The core of softmax: its latencies and parameters. Its results are those of `Softmax`."""

from mxsafe.rtl.vector.softmax_core import SoftmaxCore
from verif.support.tests import refused


def test_pauses() -> None:
    """Each of several rows takes a cycle more before a pass, and all of them one more.

    Sums of lanes take two cycles more than one value a row.
    """
    (setup, finish), (setups, finishes) = (
        SoftmaxCore(along=along).config.pauses for along in ("lanes", "beats")
    )
    assert (setups - setup, finishes - finish) == (16 + 1, 15 + 1 - 2)
    assert SoftmaxCore(along="beats", lanes=4).config.pauses == (setups - 12, finishes - 12)


test_configurations_that_cannot_work = refused(
    SoftmaxCore,
    [
        ({"lanes": -1}, "lanes must be a positive integer, not -1"),
        ({"along": None}, "along must be one of lanes, beats, not None"),
    ],
)
