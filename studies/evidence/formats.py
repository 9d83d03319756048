"""The configurations that are compared: formats and blocks."""

from collections.abc import Iterator
from dataclasses import dataclass

FLOATS = ("float32", "bf16")
MX = (
    "mxint8",
    "mxfp8_e4m3",
    "mxfp8_e2m5",
    "mxsf",
    "mxfp6_e2m3",
    "mxfp6_e3m2",
    "mxfp4_e2m1",
)
BLOCKS = ("1x64", "8x8", "1x32")
"""Blocks of the paper for inference, of the paper for training, and of OCP's formats."""

NAMES = {
    "float32": "float32",
    "bf16": "bfloat16",
    "mxint8": "MXINT8",
    "mxfp8_e4m3": "MXFP8 E4M3",
    "mxfp8_e2m5": "E2M5 (BOOST)",
    "mxsf": "MXSF",
    "mxfp6_e2m3": "MXFP6 E2M3",
    "mxfp6_e3m2": "MXFP6 E3M2",
    "mxfp4_e2m1": "MXFP4",
}
"""Names of blocks on pages."""


@dataclass(frozen=True)
class Configuration:
    """A format and, if it has any, its blocks.

    Attributes
    ----------
    format : str
        Of `FLOATS` or `MX`.
    block : str
        Of `BLOCKS`, empty for `FLOATS`.
    """

    format: str
    block: str = ""

    @property
    def shape(self) -> int | tuple[int, int]:
        """Blocks as `mxsafe.quantize` takes them."""
        rows, columns = map(int, self.block.split("x"))
        return columns if rows == 1 else (rows, columns)

    @property
    def path(self) -> str:
        """The end of the name of a run."""
        return f"{self.format}/{self.block}" if self.block else self.format


def configurations() -> Iterator[Configuration]:
    """All of them, float32 first."""
    for name in FLOATS:
        yield Configuration(name)
    for block in BLOCKS:
        for name in MX:
            yield Configuration(name, block)
