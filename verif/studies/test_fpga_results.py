"""Figures of FPGAs that are kept."""

from studies.fpga_results import merged


def test_others_that_were_not_measured_again_stay() -> None:
    old, new = {"name": "a", "products": 1}, {"name": "b", "products": 2}
    earlier = {"results": [1], "peers": [old, {"name": "b", "products": 3}]}
    assert merged({"results": [2]}, [new], earlier) == {"results": [2], "peers": [new, old]}
