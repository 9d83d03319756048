"""Why mutants that are neither killed nor proved equivalent may live."""

__all__ = ["REASONS"]

_CONVERTER = "mxsf_block_converter_width8"
_WALK = "address_walk_10x10x8_20x20x20_start_bits28_address_bits33"
_REPLAY = "row_replay_beat_bits136_depth128_passes1_rows3_summary_bits65"
_SUM = "of the sum its sign and bits 1 to 4 are read, no others"
_NOT_WRITTEN = "what would be written in a clock in which nothing is"
_LOW = "no address comes to 2^32, and where the outermost loop turns it is below 2^30"
_CORE = "softmax_core_lanes1_beats_fpga"
_SAME_FACTOR = (
    "what is loaded again is the same: the factor of a row stays until its set-up is over"
)
_ONE_PASS = "a row is given once here, so that the count of passes is always 0"
REASONS: dict[tuple[str, str, str], str] = {
    (_WALK, "cnot1", "$procmux$53.A[0] by bit 4"): _LOW,
    (_WALK, "cnot1", "turn_of_2[32] by bit 2"): _LOW,
    (f"{_WALK}_paced", "cnot1", "$procdff$84.D[3] by bit 2"): _LOW,
    ("beat_memory_beat_bits128", "inv", "$procmux$17.A[19]"): _NOT_WRITTEN,
    ("beat_memory_beat_bits128_depth256", "inv", "$procmux$17.A[19]"): _NOT_WRITTEN,
    ("beat_memory_beat_bits136_depth128", "inv", "$procmux$20.A[0]"): _NOT_WRITTEN,
    ("beat_memory_beat_bits224_depth128", "const0", "$procmux$17.A[79]"): _NOT_WRITTEN,
    ("beat_memory_beat_bits256_depth2048", "const0", "$procmux$17.A[101]"): _NOT_WRITTEN,
    ("beat_memory_beat_bits280_depth8", "const0", "$procmux$14.A[86]"): _NOT_WRITTEN,
    ("buffer_walk", "cnot1", "$ternary$buffer_walk.v:42$5.A[6] by bit 0"): (
        "the outermost loop takes its count as the walk begins, and once more after its end"
    ),
    ("fetch", "cnot1", "\\$17[0] by bit 5"): (
        "the bit is 0 as long as no more than 16 descriptors are ahead, which "
        "`verif/rtl/accelerator/test_fetch.py` proves"
    ),
    ("fetch", "const0", "$procmux$70.B[0]"): "a bit of a reset value that is 0 anyhow",
    (_CONVERTER, "inv", "raised_3[6]"): _SUM,
    (_CONVERTER, "inv", "raised_4[0]"): _SUM,
    (_REPLAY, "const0", "pass[0]"): _ONE_PASS,
    (_REPLAY, "const1", "$procmux$98.S[0]"): _ONE_PASS,
    (_REPLAY, "inv", "next_pass[1]"): _ONE_PASS,
    ("row_walk_depth512_later", "const0", "rst[0]"): (
        "no walk has begun in the clock after a reset, so that nobody asks"
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
