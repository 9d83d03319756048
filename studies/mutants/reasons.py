"""Reasons why mutants that are neither killed nor proved equivalent may live."""

from collections.abc import Mapping
from typing import Any

_BEHIND = (
    "a tile behind the buffer ends in a fault, and of one that is not written no address is looked "
    "at"
)
_ENGINE = "mxsf_gemm_engine_exact_2x2x4x4x2_fpga_a_beats256_w_beats512_vector_beats512"
_ROWS = "result_rows_rows8_beats512_under_way5_fpga"
_LOAD = "load_engine_rows8_a_beats256_w_beats512_vector_beats512"
_FEED = "operand_feed_a_beats256_w_beats512_a_entries128_w_entries256"
_OWN_QUEUE = (
    "a descriptor neither waits for its own queue nor signals to it, and this queue is that"
)
_LONG_TILE = "a tile of so many beats ends behind its buffer, in a fault, with the bit or without"
_PLAIN_SCALES = "with 8 rows scales are not transposed: such a descriptor is refused"
_OUTSIDE = "with the bit that decides the address is outside already, and the loops end in a fault"
_CHAIN = "chain_relu_gelu_silu_tanh_columns1_depth128_affine_dividers1_fpga"
_BEHIND_ERROR = "behind an error a queue runs nothing, and it is emptied before the next program"
_SAME_BUS = "the pin has this value in every burst"
_LONG_PROGRAM = "no program that is simulated has so many descriptors before an error"
_PASSES = "the unit of functions is ready whenever whoever takes its results is"
_POWER = "results have no sign, and zeros below their significands of 15 bits"
REASONS: dict[tuple[str, str, str], str] = {
    ("descriptor_queue", "const1", "$not$descriptor_queue.v:143$7.A[2]"): _OWN_QUEUE,
    ("descriptor_queue", "const0", "oldest[2]"): _OWN_QUEUE,
    ("descriptor_queue", "const1", "\\$7[2]"): _OWN_QUEUE,
    ("descriptor_queue_under_way3", "const0", "\\$31[1]"): _OWN_QUEUE,
    ("descriptor_queue_under_way5", "cnot1", "$procmux$128.Y[1] by bit 35"): _OWN_QUEUE,
    (
        "descriptor_queue_under_way5",
        "const1",
        "$eq$descriptor_queue_under_way5.v:227$75.A[0]",
    ): "an engine is done only while a descriptor runs",
    (_LOAD, "const0", "word_1[30]"): _PLAIN_SCALES,
    (f"{_LOAD}_fpga", "cnot1", "word_1[104] by bit 58"): _PLAIN_SCALES,
    (f"{_LOAD}_fpga", "cnot0", f"$ternary${_LOAD}_fpga.v:263$78.B[7] by bit 9"): (
        "the number is compared with a power of two above this bit, and read nowhere else"
    ),
    ("beat_joiner_columns8_parts8_depth128", "inv", "\\$index$add[5]"): (
        "words are written and read in another order, the same one, and it has all places"
    ),
    ("operand_feed", "cnot1", "beats_left[9] by bit 12"): _LONG_TILE,
    (_FEED, "cnot1", "beats_left[9] by bit 12"): _LONG_TILE,
    ("operand_feed_anchors16", "cnot1", "\\$a_codes_strip$mux[12] by bit 14"): _OUTSIDE,
    ("operand_feed_a_entries0_w_entries0", "const0", "$procdff$183.CLK[0]"): _BEHIND,
    (
        "beat_reader_beat_bits256_depth512_ahead2_later",
        "cnot1",
        "\\$beats_left$mux[4] by bit 10",
    ): "a row with so many beats does not end before the buffer does, which is a fault",
    (f"{_FEED}_fpga_paced", "cnot1", "$procmux$201.Y[1] by bit 11"): _OUTSIDE,
    (f"{_FEED}_fpga_paced", "cnot1", "a_scales_first[12] by bit 8"): _OUTSIDE,
    (_ENGINE, "const1", f"$and${_ENGINE}.v:154$14.A[0]"): (
        "the engine gives both operands the same ends of tiles, and reads no `out_of_step`"
    ),
    ("mxsf_sta_window", "const1", "distances_w_1_ends[0]"): (
        "a block has the same scale in all of its beats, and ends before its tile does"
    ),
    ("mxsf_sta_window", "cnot0", "pu_0_1_token_next[3] by bit 0"): (
        "what a token says is looked at with a beat alone"
    ),
    ("mxsf_pu_exact_fpga", "inv", "mac_0_1.w[15]"): (
        "significands are multiplied beside the MACs, which read signs and shifts alone"
    ),
    ("mxsf_pu_exact_4x4x2_fpga", "cnot0", "$procmux$51.A[4] by bit 1"): (
        "units of an engine for FPGAs take a step in every cycle"
    ),
    (_ROWS, "const0", "\\$33[0]"): (
        "in the cycle that is left out, the place is that where a descriptor before has written"
    ),
    (_ROWS, "const0", "$procmux$87.S[0]"): (
        "no row comes so soon after a reset that it could still be held up"
    ),
    ("result_rows", "cnot1", "row_held[4] by bit 14"): _BEHIND,
    ("softmax", "const0", "lane_9_power[31]"): _POWER,
    ("softmax_beats", "const0", "m_axis_tdata[168]"): _POWER,
    ("softmax_constants", "const0", "\\$largest_apart$not_2[0]"): (
        "with a factor of less than 2^121 the reach is a normal number"
    ),
    (f"vector_{_CHAIN}", "cnot0", "softmax.s_axis_tuser[31] by bit 22"): (
        "softmax takes factors without a sign"
    ),
    (f"vector_{_CHAIN}", "const1", "functions_passes[0]"): _PASSES,
    ("normalise_no_centre_gain", "const0", "lane_11_result[10]"): (
        "results have zeros below their significands of 12 bits"
    ),
    ("normalise_core_no_centre_gain", "const0", "\\$13[0]"): (
        "sums wait for a gain too, and no result leaves before one has come"
    ),
    ("normalise_core_no_centre_gain", "const0", "\\$25[108]"): (
        "without a mean the upper two bits of every square are 0"
    ),
    ("queues", "const1", "\\$51[0]"): _BEHIND_ERROR,
    (
        "queues_products_under_way5_fpga",
        "const1",
        "$and$queues_products_under_way5_fpga.v:411$56.A[0]",
    ): "a descriptor stays until it is taken, or all is reset, so that it is there in its turn",
    ("mxsf_accelerator_fpga", "cnot0", "m_axi_arlen[4] by bit 0"): (
        "a word takes two beats, so that a burst has an even number of them"
    ),
    ("mxsf_accelerator_small", "cnot1", "s_axi_awaddr[5] by bit 1"): (
        "a host writes registers at multiples of four"
    ),
    ("mxsf_accelerator_small", "cnot1", "m_axi_arprot[2] by bit 1"): "the other bit is always 0",
    ("mxsf_accelerator", "const1", "m_axi_arburst[0]"): _SAME_BUS,
    ("mxsf_accelerator", "const0", "m_axi_arcache[3]"): _SAME_BUS,
    ("mxsf_accelerator", "const0", "m_axi_awburst[1]"): _SAME_BUS,
    ("mxsf_accelerator_core", "const0", "fetch_number[12]"): _LONG_PROGRAM,
    ("mxsf_accelerator_core_small", "const0", "error_number[25]"): _LONG_PROGRAM,
    ("mxsf_accelerator_core_fpga", "const0", "queues_store_stop[0]"): (
        "behind an error, or in a reset, the writer stops too and writes nothing more"
    ),
    ("mxsf_accelerator_core_fpga", "const0", "stop_vector_copy[0]"): (
        "behind an error, or in a reset, this changes nothing but buffers, which hold anything then"
    ),
    ("mxsf_accelerator_core_fpga", "const1", "fetch_run_ready[0]"): (
        "the slice is free when a run is offered: the second of a program comes two cycles after "
        "the first, and a later one when all descriptors of one before have left"
    ),
    ("fetch_small", "const0", "check_error[3]"): "no error of a descriptor has a code of 8 or more",
}
"""By module, mode and place."""


def reason(module: str, mutant: Mapping[str, Any]) -> str:
    """Why a mutant of a module may live, or nothing."""
    return REASONS.get((module, mutant["mode"], mutant["place"]), "")
