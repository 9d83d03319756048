"""Groups of numbers."""

import pytest

from mxsafe.machine.compiler.units import cut, groups


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((8, 3), [range(2), range(2, 5), range(5, 8)]),
        ((3, 0), [range(1), range(1, 2), range(2, 3)]),
        ((2, 5, 4), [range(4, 6)]),
        ((0, 4), []),
    ],
)
def test_groups(arguments: tuple[int, ...], expected: list[range]) -> None:
    assert groups(*arguments) == expected


def test_cut() -> None:
    assert cut(8, 3) == [range(3), range(3, 6), range(6, 8)]
    assert cut(0, 3) == []
