"""Test vectors for hardware of one's own, corner classes first."""

from mxsafe.vectors.build import (
    DESCRIPTION,
    INPUTS,
    UNITS,
    Column,
    VectorSet,
    build,
    converter,
    decoder,
    mac,
    write,
)

__all__ = [
    "DESCRIPTION",
    "INPUTS",
    "UNITS",
    "Column",
    "VectorSet",
    "build",
    "converter",
    "decoder",
    "mac",
    "write",
]
