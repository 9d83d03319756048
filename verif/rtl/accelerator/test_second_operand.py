"""What a feed of operands refuses; what it gives is a matter of the vector engine's test."""

import pytest

from mxsafe.rtl.accelerator.second_operand import SecondOperand


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": 12}, "columns must be a power of two, not 12"),
        ({"columns": 1}, "columns must be 2 or more, not 1"),
        ({"beats_bits": 0}, "beats_bits must be a positive integer, not 0"),
    ],
)
def test_configurations_that_cannot_work(options: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        SecondOperand(**options)
