"""Bit-exact NumPy models, one for each hardware unit."""

from mxsafe.model.accumulate import scale_and_accumulate
from mxsafe.model.bf16 import bf16_mac, bf16_matmul
from mxsafe.model.decoder import decode_fields, decoder_outputs
from mxsafe.model.gemm import matmul
from mxsafe.model.safe_mac import mac_nan, safe_mac, safe_mac_exact
from mxsafe.model.schedule import Beats, Schedule

__all__ = [
    "Beats",
    "Schedule",
    "bf16_mac",
    "bf16_matmul",
    "decode_fields",
    "decoder_outputs",
    "mac_nan",
    "matmul",
    "safe_mac",
    "safe_mac_exact",
    "scale_and_accumulate",
]
