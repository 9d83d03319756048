"""Bit-exact NumPy models, one for each hardware unit."""

from mxsafe.model.accumulate import scale_and_accumulate
from mxsafe.model.decoder import decode_fields
from mxsafe.model.gemm import matmul
from mxsafe.model.safe_mac import safe_mac, safe_mac_exact
from mxsafe.model.schedule import Beats, Schedule

__all__ = [
    "Beats",
    "Schedule",
    "decode_fields",
    "matmul",
    "safe_mac",
    "safe_mac_exact",
    "scale_and_accumulate",
]
