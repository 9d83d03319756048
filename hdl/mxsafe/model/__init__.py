"""Bit-exact NumPy models, one for each hardware unit."""

from mxsafe.model.accumulate import scale_and_accumulate
from mxsafe.model.bf16 import bf16_mac, bf16_matmul
from mxsafe.model.converter import (
    ConvertedBeats,
    convert_beats,
    converted_tensor,
    matrix_beats,
)
from mxsafe.model.decoder import decode_fields, decoder_outputs
from mxsafe.model.gemm import matmul
from mxsafe.model.layer import (
    LayerSchedule,
    OperandBeats,
    activate,
    layer_beats,
    layer_output,
    operand_beats,
    operand_tensor,
)
from mxsafe.model.safe_mac import mac_nan, safe_mac, safe_mac_exact
from mxsafe.model.schedule import Beats, Schedule
from mxsafe.model.training import PassTraffic, TrainingPass, pass_traffic, training_pass
from mxsafe.model.transposer import transpose_beats

__all__ = [
    "Beats",
    "ConvertedBeats",
    "LayerSchedule",
    "OperandBeats",
    "PassTraffic",
    "Schedule",
    "TrainingPass",
    "activate",
    "bf16_mac",
    "bf16_matmul",
    "convert_beats",
    "converted_tensor",
    "decode_fields",
    "decoder_outputs",
    "layer_beats",
    "layer_output",
    "mac_nan",
    "matmul",
    "matrix_beats",
    "operand_beats",
    "operand_tensor",
    "pass_traffic",
    "safe_mac",
    "safe_mac_exact",
    "scale_and_accumulate",
    "training_pass",
    "transpose_beats",
]
