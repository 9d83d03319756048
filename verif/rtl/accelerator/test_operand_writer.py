"""What a writer of operands refuses; what it writes is a matter of the vector engine's test."""

from typing import Any

import pytest

from mxsafe.formats import MX_FORMATS
from mxsafe.rtl.accelerator.operand_writer import OperandWriter
from mxsafe.rtl.stream.operand_packer import OperandPackerConfiguration


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beats": (64, 64)}, "beats must be 3 numbers, not 2"),
        ({"entries": (32, 0, 32)}, "entries must be a positive integer, not 0"),
        ({"entries": (32, 31, 32)}, r"entries must be even numbers, not \(32, 31, 32\)"),
        (
            {"beats": (64, 64, 70_000)},
            "beats must be at most 65536, not 70000",
        ),
    ],
)
def test_configurations_that_cannot_work(options: dict[str, Any], message: str) -> None:
    packer = OperandPackerConfiguration(format=MX_FORMATS["mxsf"])
    with pytest.raises(ValueError, match=f"^{message}$"):
        OperandWriter(packer=packer, **options)
