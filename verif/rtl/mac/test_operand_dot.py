"""What a MAC of an array hands on, and what it refuses; its numbers are those of arrays' tests."""

from typing import Any

import pytest

from mxsafe.formats import MX_FORMATS
from mxsafe.products import OperandFormats
from mxsafe.rtl.mac.operand_dot import OperandDotConfiguration

INTEGERS = OperandFormats(MX_FORMATS["mxint8"], MX_FORMATS["mxint8"])
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


@pytest.mark.parametrize("lanes", [2, 4, 8])
def test_sums_without_carries(lanes: int) -> None:
    dot = OperandDotConfiguration(formats=MXSF, lanes=lanes, carry_save=True)
    assert (dot.registered, dot.half_count, dot.carries) == (("sums",), 2, "plus")
    assert dot.half_bits == dot.dot_bits


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"together": 3}, "together must be a power of two, not 3"),
        ({"lanes": 2, "together": 4}, "together must be at most 2 lanes, not 4"),
        (
            {"lanes": 8, "together": 8, "target": "fpga"},
            "together must be half of 8 lanes with target fpga, not 8",
        ),
        ({"paired": True}, "paired must be False with target asic, not True"),
        ({"late": 9}, "late must be an integer from 0 to 8, not 9"),
        ({"together": 1, "late": 1}, "late must be an integer from 0 to 0, not 1"),
        ({"target": "fpga", "late": 1}, "late must be an integer from 0 to 0, not 1"),
        ({"carry_save": True, "late": 1}, "late must be an integer from 0 to 0, not 1"),
        ({"lanes": 1, "carry_save": True}, "lanes must be at least 2 with carry_save, not 1"),
        (
            {"lanes": 8, "together": 4, "carry_save": True},
            "together must be all of 8 lanes with carry_save, not 4",
        ),
        (
            {"carry_save": True, "target": "fpga"},
            "carry_save must be False with target fpga, not True",
        ),
        (
            {"carry_save": True, "formats": INTEGERS},
            "carry_save must be False where both operands are integers, not True",
        ),
    ],
)
def test_errors(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:
        OperandDotConfiguration(**{"formats": MXSF, **parameters})
    assert str(error.value) == message
