"""Proofs about datapaths fail for units that are wrong in few cases: one of each specification."""

import re
from pathlib import Path

import pytest

from verif.rtl.datapaths import (
    DATAPATHS,
    FOLDER,
    datapath,
    inside,
    is_wrong_at_ports,
    only_wires,
    prove_datapath,
    says_of_inside,
    specification_text,
    texts,
)
from verif.support.manifest import Module
from verif.support.proof import run_yosys
from verif.support.tests import some

WRONG = {
    "bf16_multiplier": (
        "{ 1'h0, w[14:8], \\$scale_block_exponent$or_2  };",
        "{ 1'h0, w[14:7]  };",
    ),
    "anchor_scan": (
        r"assign \$a_rises_14$less  = a_largest_14 < a_scales[119:112];",
        r"assign \$a_rises_14$less  = a_largest_14[7:1] < a_scales[119:113];",
    ),
    "full_adders": (r"assign \$carries$or  = a | b;", r"assign \$carries$or  = a & b;"),
    "operand_feed_anchors16": (
        r"assign \$a_codes_en$or  = scan_is_known | \$a_codes_en$not ;",
        r"assign \$a_codes_en$or  = scan_is_known | \$a_codes_en$not | last;",
    ),
    "multiplier_18x18": ("= a_entered * b_entered;", "= a_entered[16:0] * b_entered;"),
    "number_rounder": (
        r"assign increment_3 = s_axis_tdata[111] & \$increment_3$or ;",
        "assign increment_3 = s_axis_tdata[111];",
    ),
    "relu": (
        r"assign is_negative_11 = values[383] & \$is_negative_11$not ;",
        "assign is_negative_11 = values[383];",
    ),
    "mxsf_decoder": ("subnormal_exponent = code[1] ? 4'h5", "subnormal_exponent = code[1] ? 4'h4"),
    "mxsf_lane_decoder_count4": (".code(codes[23:16])", ".code(codes[31:24])"),
    "mxsf_operand_decoder": (
        r"assign \$shift$or  = code[2] | \$shift$not ;",
        r"assign \$shift$or  = code[2];",
    ),
    "mxsf_operand_decoder_digits": (
        "assign gates[7] = decoded[4] & decoded[5];",
        "assign gates[7] = decoded[5];",
    ),
    "mxsf_operand_decoder_triple": (
        "+ { 1'h0, significand, 1'h0 };",
        "+ { 2'h0, significand[4:0], 1'h0 };",
    ),
    "mxsf_encoder": (
        r"assign \$rounds_up$or  = extended[0] | extended[2];",
        r"assign \$rounds_up$or  = extended[0];",
    ),
    "mxsf_float32_normaliser": ("assign lower_4 = cut_8 | cut_4;", "assign lower_4 = cut_4;"),
    "mxsf_fp12_multiplier": (
        "assign drops_for_subnormals[3] = shift < 4'h1;",
        "assign drops_for_subnormals[3] = 1'h0;",
    ),
    "mxsf_operand_multiplier": (
        "assign is_step_3 = shift[3:2] == 2'h3;",
        "assign is_step_3 = 1'h0;",
    ),
    "mxsf_paired_multiplier": (".b({ 12'h000, w })", ".b({ 13'h0000, w[4:0] })"),
    "mxsf_operand_dot_reset": (
        r"assign level4_1_sum = \$level4_1_sum$add  + { 25'h0000000, level4_1_differ };",
        r"assign level4_1_sum = \$level4_1_sum$add ;",
    ),
    "mxsf_operand_multiplier_dsp_fpga_halved_paired": (
        "assign is_negative = a[9] ^ w[9];",
        "assign is_negative = a[9] | w[9];",
    ),
    "mxsf_operand_dot_lanes2_fpga_paired": (
        "+ { 25'h0000000, negate_0_products };",
        "+ 26'h0000000;",
    ),
    "mxsf_operand_dot_pipeline6_reset_fpga": (
        "{ value_0_products[24], value_0_products }",
        "{ value_0_products[23], value_0_products }",
    ),
    "fp12_unpacker": ("code[10:7] - { 3'h0, is_normal };", "code[10:7] - 4'h1;"),
    "fp12_packer": (
        r"assign \$increment$or  = sticky | shifted[0];",
        r"assign \$increment$or  = sticky;",
    ),
    "fp12_rounder_width22": (
        r"assign tie_to_even = | \$tie_to_even$and_2 ;",
        "assign tie_to_even = 1'h0;",
    ),
    "fp12_adder": (
        "assign pack_zero_sign = pack_negate & unpack_b_sign;",
        "assign pack_zero_sign = pack_negate | unpack_b_sign;",
    ),
    "scaler": (
        "assign is_below = $signed(top) < $signed(11'h000);",
        "assign is_below = $signed(top) <= $signed(11'h000);",
    ),
    "float32_adder": (
        "assign b_exponent[0] = b[23] | b_field_is_zero;",
        "assign b_exponent[0] = b[23];",
    ),
    "float32_multiplier": (
        "assign is_at_largest = base == 9'h0fd;",
        "assign is_at_largest = base == 9'h0fc;",
    ),
    "safe_mac_exact": (
        "+ { 1'h0, multiply_negate[1] };",
        "+ 2'h0;",
    ),
    "float32_multiplier_fpga": (
        "+ { 1'h0, multiply_1_0_product[23:0] };",
        "+ { 2'h0, multiply_1_0_product[22:0] };",
    ),
    "safe_mac_exact_fpga": (
        "{ multiply_halves[25], multiply_halves[25:0] }",
        "{ multiply_halves[24], multiply_halves[25:0] }",
    ),
    "scale_distances": (
        "= first ? 4'h0 : above_before;",
        "= above_before;",
    ),
    "register_slice_bits32": (
        "assign fills = sink_valid & ~sink_ready & (is_full | arrives);",
        "assign fills = sink_valid & ~sink_ready & arrives;",
    ),
    "register_slice_bits2_halved": (
        "assign fills = sink_valid ? ~sink_ready : arrives;",
        "assign fills = sink_valid ? ~sink_ready : source_valid;",
    ),
    "row_address_generator_depth4096_address_bits15": (
        "assign following[15] = | total[16:15];",
        "assign following[15] = total[15];",
    ),
    "address_generator": (
        "assign is_above = origin_0[17] | total[17];",
        "assign is_above = total[17];",
    ),
    "second_operand_columns8_only_numbers": (
        "assign lane_after = ends_row ? 3'h0 : next_lane;",
        "assign lane_after = next_lane;",
    ),
    "beat_chain": (
        "else if (moves[3]) ends_3 <= ends_2;",
        "else if (moves[3]) ends_3 <= ends_2 & ~ends_3;",
    ),
    "burst_splitter": (
        r"assign \burst_payload.last  = run_is_last & run_ends;",
        r"assign \burst_payload.last  = run_is_last;",
    ),
    "block_sequencer": (
        r"assign \$tile_starts$and  = is_first & \$tile_starts$not ;",
        r"assign \$tile_starts$and  = is_first;",
    ),
    "window_sequencer": (
        "assign completes = | { turn_15_1, turn_11_1, turn_7_1, turn_3_1 };",
        "assign completes = | { turn_11_1, turn_7_1, turn_3_1 };",
    ),
    "window_sequencer_turns2": (
        r"assign begins = en & \$begins$not ;",
        r"assign begins = en;",
    ),
    "block_sequencer_macs2_shown2_step_latency2_result_latency3_groups2_turns2": (
        "assign round_starts = starts_now | round_begun;",
        "assign round_starts = starts_now;",
    ),
    "descriptor_check_small_no_sweeps_fpga": (
        r"assign \$vector_breaks_7$more  = descriptor[207:199] >= 9'h007;",
        r"assign \$vector_breaks_7$more  = descriptor[207:199] >= 9'h006;",
    ),
    "mxsf_operand_packer_width8": (
        r"assign \$is_padding$and  = \$is_padding$not  & ends_block;",
        r"assign \$is_padding$and  = \$is_padding$not  & s_axis_tuser;",
    ),
    "tile_transposer_rows8": (
        "if (\\$held_square$and ) held_square <= s_payload;",
        "held_square <= s_payload;",
    ),
    "transposer": (
        r"assign packet_ends = is_padding | \$packet_ends$and ;",
        r"assign packet_ends = \$packet_ends$and ;",
    ),
    "wide_transposer": (
        r"assign \$s_ready$not_2  = ~ \$s_ready$and ;",
        r"assign \$s_ready$not_2  = ~ alone;",
    ),
    "beat_reader_beat_bits256_depth512_address_bits15_ahead1": (
        "else has_room <= \\$has_room$sub ;",
        "else has_room <= \\$has_room$sub | m_axis_tready;",
    ),
    "row_replay_beat_bits32_depth128_passes3_summary_bits8_may_skip_may_stop_fpga": (
        r"assign is_in_last_pass = \$is_in_last_pass$equal  | stop;",
        r"assign is_in_last_pass = \$is_in_last_pass$equal  | stop & ~skip;",
    ),
    "beat_splitter_columns8_parts8_depth128": (
        "assign memory_write_data[31:0] = single ? s_axis_tdata[31:0] : s_axis_tdata[63:32];",
        "assign memory_write_data[31:0] = s_axis_tdata[63:32];",
    ),
    "beat_joiner_columns8_parts8_depth128": (
        r"assign \$memory_0_read_en$or  = \$memory_0_read_en$not  | moves;",
        r"assign \$memory_0_read_en$or  = 1'h1;",
    ),
    "tag_queue": (
        r"assign \$tags_held$sub  = \$tags_held$add  - { 5'h00, pop };",
        r"assign \$tags_held$sub  = \$tags_held$add  - { 5'h00, pop & ~push };",
    ),
    "buffer_address_generator_together2": (
        "if (\\$word_beside$any ) word_beside <= 1'h0;",
        "if (rst) word_beside <= 1'h0;",
    ),
    "memory_address_generator_word_bytes16": (
        r"assign \$is_past$and  = is_below_top & run_end[12];",
        r"assign \$is_past$and  = is_below_top & run_end[12] & run_payload[60];",
    ),
    "beat_memory_beat_bits64_depth16": (
        "if (write_en)",
        "if (write_en & write_address != DEPTH - 2)",
    ),
    "mxsf_operand_writer_width8_64x256x512_later": (
        r"assign \$scales_written$or  = scales_written | scales_taken;",
        r"assign \$scales_written$or  = scales_taken;",
    ),
    "result_rows_rows8_beats512": (
        r"assign \$column_held$and  = tile_taken & ends_inner_loop;",
        r"assign \$column_held$and  = row_taken & ends_inner_loop;",
    ),
    "descriptor_queue_under_way2": (
        r"assign \$lacks_store$and  = waits_for_start & engine_ready;",
        r"assign \$lacks_store$and  = waits_for_start;",
    ),
    "operand_buffer_word_bits128_beats64_writers1_reads_words_fpga": (
        "if (rst) scales_is_held <= 1'h0;",
        "if (rst) scales_is_held <= scales_is_held;",
    ),
    "vector_buffer_columns8_banks2_bank_depth256": (
        r"assign \$held$or  = x_holds | y_holds;",
        r"assign \$held$or  = x_holds | y_hold;",
    ),
    "bf16_mac": ("level4_1_b <= multiply_3_product;", "level4_1_b <= multiply_2_product;"),
    "multiply_add_late_addend": (
        "if (en) add_b <= addend;",
        "if (en) add_b <= { addend[31:1], addend[0] & addend[30] };",
    ),
    "fp12_accumulator": (
        r"assign is_nan = \$is_nan$equal  | \$is_nan$equal_2 ;",
        r"assign is_nan = \$is_nan$equal ;",
    ),
    "bf16_accumulator_first_behind": (
        r"assign first_is_negative = partial_sum[31] & \$first_is_negative$any ;",
        "assign first_is_negative = partial_sum[31];",
    ),
    "activation_width8": (
        "assign is_gelu = code == 2'h1;",
        "assign is_gelu = code == 2'h1 | code == 2'h3;",
    ),
    "activation_stream_width1_pipeline6": (
        ".code(s_axis_tuser),",
        ".code({ s_axis_tuser[1], s_axis_tuser[0] & ~s_axis_tlast }),",
    ),
    "axi_writer_word_bytes16_data_bits64": (
        r"assign empty = ~ \$empty$any ;",
        r"assign empty = ~ \$empty$any  | pop;",
    ),
    "softmax_entry_lanes1_beats_norms": (
        r"assign \$key_0_is_nan$any  = | s_axis_tdata[22:0];",
        r"assign \$key_0_is_nan$any  = | s_axis_tdata[22:1];",
    ),
    "axi_reader_word_bytes16_data_bits64": (
        r"assign \$words_payload$and  = words_payload[128] & beat_of_word;",
        r"assign \$words_payload$and  = words_payload[128] & beat_of_word & ~tags_pop;",
    ),
    "safe_mac": (
        "else if (en) pack_zero_sign <= zero_sign;",
        "else if (en) pack_zero_sign <= 1'h0;",
    ),
    "result_rows_rows8_beats512_under_way5_fpga": (
        "changes <= { done, changes[1] };",
        "changes <= { done, 1'h0 };",
    ),
    "register_copy_bits3": (
        "if (en) copy <= value;",
        "if (en) copy <= { value[2] & (value[1] | value[0]), value[1:0] };",
    ),
    "softmax_entry": (
        r"assign \$key_15_is_nan$all  = & s_axis_tdata[510:503];",
        r"assign \$key_15_is_nan$all  = & { s_axis_tdata[510], s_axis_tdata[508:503] };",
    ),
    "largest_exponent_count3": (
        "assign left_4 = some_4 ? have_4 : left_5;",
        "assign left_4 = have_4;",
    ),
    "registers": (
        "else happened <= ",
        "else happened <= ~{ interrupt_error_written, interrupt_done_written } & ",
    ),
    "queues_products_under_way5_fpga": (
        "error_5_0 <= is_deadlock_2;",
        "error_5_0 <= is_deadlock_1;",
    ),
    "mxsf_converter": (
        "raised_7[10] ? 4'h0 : raised_7[4:1]",
        "raised_7[4:1]",
    ),
    "vector_add_multiply_axpy_scale_lanes1_both_fpga": (
        "waits_for_addend[4] ? s_axis_operand_tdata",
        "waits_for_addend[3] ? s_axis_operand_tdata",
    ),
    "narrow_exp_sigmoid_reciprocal_rsqrt_stream_width4": (
        "s_axis_tlast & is_last_part",
        "s_axis_tlast",
    ),
    "folded_chain_relu_gelu_silu_tanh_columns1_depth128_affine_dividers1_fpga_parts8": (
        ".single(controls[3])",
        ".single(1'h0)",
    ),
    "mxsf_layer": (
        "is_oldest[1] ? tile_1",
        "is_oldest[1] ? tile_0",
    ),
    "mxsf_block_converter_width8": (
        "assign largest_after_3 = block_last ? 8'h00",
        "assign largest_after_3 = tiles ? 8'h00",
    ),
    "vector_chain_relu_gelu_silu_tanh_columns1_depth128_affine_dividers1_fpga": (
        "assign s_axis_bias_tready = arithmetic_s_axis_operand_tready & affine_held;",
        "assign s_axis_bias_tready = arithmetic_s_axis_operand_tready;",
    ),
    "fetch_small_no_sweeps_fpga": (
        "else held_lost <= next_is_lost;",
        "else held_lost <= is_lost;",
    ),
    "mxsf_pu": ("last_after_1 <= token_next[3];", "last_after_1 <= token_next[2];"),
    "mxsf_pu_exact": (
        "if (en) nan_0_1 <= is_nan;",
        r"if (en) nan_0_1 <= \$is_nan$equal ;",
    ),
    "mxsf_pu_exact_4x8x4_accumulators16_carry_save_interleave2": (
        "assign a_enters = en & phase;",
        "assign a_enters = en;",
    ),
    "bf16_gemm_engine_first_behind": (
        r"assign \$engine_error$and  = feed_fault & rows_is_only_one;",
        r"assign \$engine_error$and  = feed_fault;",
    ),
    "mxsf_pu_window": (
        "accumulate_nan <= anchor_nan_2;",
        "accumulate_nan <= anchor_nan_1;",
    ),
}
"""A text of the Verilog of a unit, or of one inside it, and what takes its place."""


def test_a_unit_of_every_specification_is_wrong(modules: dict[str, Module]) -> None:
    """And what is changed is there, also of those that only the full run proves."""
    for name, (right, _) in WRONG.items():
        assert texts(modules[name]).count(right) == 1, f"{name}: {right}"
    wrong = {found.specification for name in WRONG if (found := datapath(modules[name]))}
    assert wrong == {found.specification for found in DATAPATHS.values()}


@pytest.mark.yosys
@pytest.mark.parametrize("name", some(WRONG))
def test_wrong_datapaths_are_not_proved(
    name: str, modules: dict[str, Module], tmp_path: Path
) -> None:
    with pytest.raises(AssertionError, match="proof did fail"):
        prove_datapath(modules[name], tmp_path, change=WRONG[name])


@pytest.mark.yosys
@pytest.mark.parametrize(
    "name",
    [
        "tag_queue",
        "buffer_address_generator_together2",
        "result_rows_rows8_beats512_under_way5_fpga",
        "operand_feed_anchors16",
        "anchor_scan",
        "softmax_entry",
        "registers",
    ],
)
def test_ports_alone_tell_wrong_datapaths(
    name: str, modules: dict[str, Module], tmp_path: Path
) -> None:
    module = modules[name]
    assert says_of_inside(module)
    assert is_wrong_at_ports(module, tmp_path, change=WRONG[name])


@pytest.mark.yosys
def test_what_is_right_at_ports_depends_on_no_net_inside(
    modules: dict[str, Module], tmp_path: Path
) -> None:
    """Of specifications that say apart what holds of these nets."""
    found = (datapath(module) for module in modules.values() if says_of_inside(module))
    names = sorted({f"{path.specification}_specification" for path in found if path})
    assert len(names) > 10
    (tmp_path / "all.v").write_text(specification_text(*names))
    ports = [f"select -assert-none {name}/o:holds %ci* {name}/i:inside_* %i" for name in names]
    nets = [f"select -assert-any {name}/o:inside_holds %ci* {name}/i:inside_* %i" for name in names]
    run_yosys(tmp_path, f"read_verilog all.v; proc; flatten; {'; '.join(ports + nets)}")


def test_every_pattern_is_of_a_unit(modules: dict[str, Module]) -> None:
    used = {id(datapath(module)) for module in modules.values()}
    assert [name for name, found in DATAPATHS.items() if id(found) not in used] == []


def test_specifications_share_nothing_with_the_hardware() -> None:
    """Their modules instantiate each other alone."""
    text = specification_text(*(f"{one.specification}_specification" for one in DATAPATHS.values()))
    assert "mxsafe_" not in text
    files = "".join(file.read_text() for file in FOLDER.glob("*.v"))
    assert all(f"module {line} " in files for line in ("float32_of", "mxsf_fields"))


def test_wires_alone_are_told_from_gates(modules: dict[str, Module]) -> None:
    assert only_wires(modules["relu_stream"])
    assert inside(modules["relu_stream"]) == {"relu"}
    assert not only_wires(modules["mxsf_pu"])
    assert not only_wires(modules["full_adders"])
    assert not only_wires(modules["register_copy"])


def test_words_that_are_narrowed_are_moved_whole(modules: dict[str, Module]) -> None:
    """Nothing in the unit depends on a bit of them: what holds of one bit holds of all."""
    for module in modules.values():
        path = datapath(module)
        if path is None or not path.words:
            continue
        text = re.sub(r"//.*|/\*.*?\*/", "", module.text)
        body = text[text.index(");") + 2 : text.index("endmodule")]
        assert text.count(path.words) == 1 + text.count(f" [{path.words}-1:0] ")
        move = r"always @\(posedge clk\)\s+if \(\w+\) \w+(\[\w+\])? <= \w+(\[\w+\])?;"
        declared = rf"reg \[{path.words}-1:0\] \w+ \[0:\w+-1\];"
        assert re.sub(f"{move}|{declared}", "", body).strip() == "", module.name
