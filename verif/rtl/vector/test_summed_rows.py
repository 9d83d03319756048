"""Rows with sums: what can be built. The backward passes are tested with it inside."""

from typing import Any

import pytest

from mxsafe.rtl.vector.summed_rows import SummedRows


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"lanes": 12}, "lanes must be a power of two, not 12"),
        ({"along": "rows"}, "along must be one of lanes, beats, not 'rows'"),
        ({"depth": 1}, "depth must be 2 or more, not 1"),
        ({"summary_bits": -1}, "summary_bits must be a non-negative integer, not -1"),
    ],
)
def test_configurations_that_cannot_work(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:
        SummedRows(**parameters)
    assert str(error.value) == message


def test_short_rows_are_counted_in() -> None:
    """With more partial sums than beats a row takes longer, and fewer gates are needed without."""
    usual, more = SummedRows().config, SummedRows(partials=8).config
    assert usual.latency < more.latency
    assert SummedRows(along="beats").config.products.lanes == 1
