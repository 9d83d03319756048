"""Why mutants that are neither killed nor proved equivalent may live."""

__all__ = ["REASONS"]

_CONVERTER = "mxsf_block_converter_width8"
_WALK = "address_walk_10x10x8_20x20x20_start_bits28_address_bits33"
_REPLAY = "row_replay_beat_bits256_depth128_passes3_summary_bits64_may_skip"
_SUM = "of the sum its sign and bits 1 to 4 are read, no others"
_LOW = "no address comes to 2^32, and where the outermost loop turns it is below 2^30"
_CORE = "softmax_core_lanes1_beats_fpga"
_SAME_FACTOR = (
    "what is loaded again is the same: the factor of a row stays until its set-up is over"
)
_BEHIND = (
    "a tile behind the buffer ends in a fault, and of one that is not written no address is looked "
    "at"
)
REASONS: dict[tuple[str, str, str], str] = {
    (_WALK, "cnot1", "$procmux$53.A[0] by bit 4"): _LOW,
    (_WALK, "cnot1", "turn_of_2[32] by bit 2"): _LOW,
    (f"{_WALK}_paced", "cnot1", "$procdff$84.D[3] by bit 2"): _LOW,
    ("beat_reader_beat_bits256_depth512", "cnot1", "$procmux$54.A[8] by bit 10"): (
        "a row of 1024 beats or more leaves the memory before it ends"
    ),
    ("buffer_walk", "cnot1", "$ternary$buffer_walk.v:42$5.A[6] by bit 0"): (
        "the outermost loop takes its count as the walk begins, and once more after its end"
    ),
    (_CONVERTER, "inv", "raised_3[6]"): _SUM,
    (_CONVERTER, "inv", "raised_4[0]"): _SUM,
    ("mxsf_converter_64x1", "cnot0", "steps_7[5] by bit 6"): (
        "of the sum bits 0 to 4 are read, no others"
    ),
    ("mxsf_pu_exact_fpga", "inv", "mac_0_1.w[15]"): (
        "significands are multiplied beside the MACs, which read signs and shifts alone"
    ),
    ("result_rows", "cnot1", "base[0] by bit 13"): _BEHIND,
    ("result_rows_rows8_beats512_under_way4", "const0", "\\$22[9]"): _BEHIND,
    (_REPLAY, "cnot1", "\\$17[6] by bit 1"): (
        "of the count only its last value is read, and wrong ones before it come in pairs"
    ),
    (_CORE, "const0", "\\$18[0]"): _SAME_FACTOR,
    (_CORE, "const0", "\\$24[0]"): _SAME_FACTOR,
    (_CORE, "const0", "$procmux$145.S[0]"): (
        "a term that a reset leaves is added before the set-up of the next row clears its sum"
    ),
    ("softmax_entry_lanes1_beats", "const1", "$eq$softmax_entry_lanes1_beats.v:99$24.B[1]"): (
        "the count stops at 4098 instead of 4096, and no length is beyond 4096"
    ),
}
"""By module, mode and place."""
