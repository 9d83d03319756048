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
from mxsafe.model.functions import (
    exp,
    gelu,
    gelu_derivative,
    reciprocal,
    relu,
    relu_derivative,
    rsqrt,
    sigmoid,
    silu,
    silu_derivative,
    tanh,
    tanh_derivative,
)
from mxsafe.model.gemm import matmul
from mxsafe.model.layer import (
    LayerSchedule,
    OperandBeats,
    activate,
    bias_beats,
    layer_beats,
    layer_output,
    operand_beats,
    operand_tensor,
    residual_beats,
)
from mxsafe.model.normalisation import (
    Normalised,
    layer_norm,
    normalise,
    rms_norm,
    window_sum,
)
from mxsafe.model.row_replay import ReplayedBeats, replay_rows
from mxsafe.model.safe_mac import mac_nan, safe_mac, safe_mac_exact
from mxsafe.model.schedule import Beats, Schedule
from mxsafe.model.softmax import softmax, softmax_by_factor, softmax_factor
from mxsafe.model.training import PassTraffic, pass_traffic
from mxsafe.model.transposer import transpose_beats
from mxsafe.model.vector_arithmetic import add, axpy, half_sums, multiply

__all__ = [
    "Beats",
    "ConvertedBeats",
    "LayerSchedule",
    "Normalised",
    "OperandBeats",
    "PassTraffic",
    "ReplayedBeats",
    "Schedule",
    "activate",
    "add",
    "axpy",
    "bf16_mac",
    "bf16_matmul",
    "bias_beats",
    "convert_beats",
    "converted_tensor",
    "decode_fields",
    "decoder_outputs",
    "exp",
    "gelu",
    "gelu_derivative",
    "half_sums",
    "layer_beats",
    "layer_norm",
    "layer_output",
    "mac_nan",
    "matmul",
    "matrix_beats",
    "multiply",
    "normalise",
    "operand_beats",
    "operand_tensor",
    "pass_traffic",
    "reciprocal",
    "relu",
    "relu_derivative",
    "replay_rows",
    "residual_beats",
    "rms_norm",
    "rsqrt",
    "safe_mac",
    "safe_mac_exact",
    "scale_and_accumulate",
    "sigmoid",
    "silu",
    "silu_derivative",
    "softmax",
    "softmax_by_factor",
    "softmax_factor",
    "tanh",
    "tanh_derivative",
    "transpose_beats",
    "window_sum",
]
