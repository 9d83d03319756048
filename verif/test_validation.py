"""What the checks of parameters take, what they make of it, and what they say of the rest."""

import numpy as np
import pytest

from mxsafe.validation import (
    require_count,
    require_identifier,
    require_integer,
    require_positive_integer,
    require_power_of_two,
)

INTEGERS = (4, np.int64(4), np.uint8(4), np.array(4))
NO_INTEGERS = (True, np.True_, 4.0, np.float32(4), "4", None, [4])


@pytest.mark.parametrize("value", INTEGERS, ids=repr)
def test_every_integer_becomes_one_of_python(value: object) -> None:
    for number in (
        require_integer("rows", value, 4, 4),
        require_positive_integer("rows", value),
        require_power_of_two("rows", value),
    ):
        assert type(number) is int
        assert number == 4


@pytest.mark.parametrize("value", [*NO_INTEGERS, -5, 3, np.int8(-5)], ids=repr)
def test_integers_within_bounds(value: object) -> None:
    assert require_integer("stages", -4, -4, 2) == -4
    assert require_integer("stages", 0, -4, 2) == 0
    with pytest.raises(ValueError) as error:
        require_integer("stages", value, -4, 2)
    assert str(error.value) == f"stages must be an integer from -4 to 2, not {value!r}"


@pytest.mark.parametrize("value", [*NO_INTEGERS, 0, -2, np.int8(-5)], ids=repr)
def test_positive_integers_and_powers_of_two(value: object) -> None:
    with pytest.raises(ValueError) as error:
        require_positive_integer("lanes", value)
    assert str(error.value) == f"lanes must be a positive integer, not {value!r}"
    for number in (value, 3):
        with pytest.raises(ValueError) as error:
            require_power_of_two("lanes", number)
        assert str(error.value) == f"lanes must be a power of two, not {number!r}"


def test_counts() -> None:
    for number in (0, 7, np.int64(7)):
        assert require_count("limit", number) == number
        assert type(require_count("limit", number)) is int
    for value in (*NO_INTEGERS, -1):
        with pytest.raises(ValueError) as error:
            require_count("limit", value)
        assert str(error.value) == f"limit must be a non-negative integer, not {value!r}"


def test_identifiers() -> None:
    for name in ("x", "_", "mxfp8_e2m5", "A1", "x" * 64, "module"):
        assert require_identifier("name", name) == name
    refused = ("", "1abc", "../../evil", "//c", "x;y", "a b", "a-b", "a\n", "é", "x²", "x" * 65)
    for value in (*refused, b"x", 3, None):
        with pytest.raises(ValueError) as error:
            require_identifier("name", value)
        assert str(error.value) == (
            "name must be an identifier (1 to 64 ASCII letters, digits and underscores, the first "
            f"no digit), not {value!r}"
        )
