"""What a MAC of an array hands on, and what it refuses; its numbers are those of arrays' tests."""

from typing import Any

import pytest

from mxsafe.formats import MX_FORMATS
from mxsafe.products import OperandFormats
from mxsafe.rtl.mac.operand_dot import OperandDotConfiguration

MXSF = OperandFormats(MX_FORMATS["mxsf"], MX_FORMATS["mxsf"])


@pytest.mark.parametrize(
    ("lanes", "pipeline", "registered", "numbers"),
    [
        (1, 1, ("products",), 1),
        (2, 1, ("sums",), 1),
        (4, 0, (), 1),
        (4, 1, ("sums",), 1),
        (4, 3, ("sums", "products", "halves"), 1),
        (8, 1, ("sums",), 2),
        (8, 3, ("sums", "products", "total"), 1),
        (16, 2, ("sums", "products"), 4),
    ],
)
def test_sums_of_four_products(
    lanes: int, pipeline: int, registered: tuple[str, ...], numbers: int
) -> None:
    dot = OperandDotConfiguration(
        formats=MXSF, lanes=lanes, pipeline=pipeline, together=min(lanes, 4)
    )
    assert (dot.registered, dot.half_count) == (registered, numbers)
    assert dot.half_bits == MXSF.sum_bits(lanes // numbers) + 1


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"together": 3}, "together must be a power of two, not 3"),
        ({"lanes": 2, "together": 4}, "together must be at most 2 lanes, not 4"),
        (
            {"lanes": 8, "together": 8, "target": "fpga"},
            "together must be half of 8 lanes with target fpga, not 8",
        ),
        ({"late": 9}, "late must be an integer from 0 to 8, not 9"),
        ({"together": 1, "late": 1}, "late must be an integer from 0 to 0, not 1"),
        ({"target": "fpga", "late": 1}, "late must be an integer from 0 to 0, not 1"),
    ],
)
def test_errors(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:
        OperandDotConfiguration(formats=MXSF, **parameters)
    assert str(error.value) == message
