"""The benches of vector units, benched: what is wrong in one of them is found."""

from pathlib import Path

import pytest

from mxsafe.rtl.vector.summed_rows import SummedRows
from mxsafe.rtl.vector.vector_arithmetic import VectorArithmetic
from verif.support import backward_checks, row_dot_checks, softmax_checks
from verif.support.backward_checks import (
    check_normalise_backward,
    check_softmax_backward,
    normalised_rows,
    paired_rows,
    small_normalise_backward,
    small_softmax_backward,
)
from verif.support.generated import generated
from verif.support.manifest import Module
from verif.support.multiplier_checks import check_products
from verif.support.mutation import mutated
from verif.support.normalise_checks import check_rows, normalise_unit
from verif.support.normalise_checks import random_rows as normalise_rows
from verif.support.row_dot_checks import check_row_sums, random_lengths, small_row_dot
from verif.support.softmax_checks import (
    check_overlong_row,
    check_softmax,
    corner_rows,
    random_rows,
    small_softmax,
)
from verif.support.summed_rows_checks import check_summed_rows
from verif.support.tests import available, some
from verif.support.vector_checks import check_vectors, random_vectors

WRONG = "differ|results for"
AFTER = r"beats came out for \d+ after reset"
STALLED = "a stalled result changed from"
DURING = "was taken during reset"
LOST = "was never taken|were not taken"
# Right and wrong text; products are found to differ.
MULTIPLIERS = {
    "tie to odd": ("below | leading[1]", "below | ~leading[1]"),
    "no sticky bit": ("assign below = sticky_1 |", "assign below = 0 & sticky_1 |"),
    "bit below two leading ones lost": ("shifted_1[25] & shifted_1[0]", "1'b0"),
    "subnormal operand not shifted": ("place = both_are_normal ?", "place = 1 ?"),
    "exponent of subnormals is 0": ("a[23] | ", "a[23] | 0 & "),
    "highest bit of a subnormal misplaced": (
        "subnormal_mantissa[22] ? 1'h0",
        "subnormal_mantissa[22] ? 1'h1",
    ),
    "only one operand searched": (
        "assign both_are_normal = a_is_normal &",
        "assign both_are_normal = b_is_normal | 0 &",
    ),
    "subnormal result keeps its exponent": (
        "assign has_no_exponent = spare[9] |",
        "assign has_no_exponent = 0 & spare[9] |",
    ),
    "far below wraps around": ("assign is_far = spare[9] &", "assign is_far = 0 &"),
    "overflow a binade late": ("assign is_beyond = base >=", "assign is_beyond = base >"),
    "overflow by a carry": ("is_at_largest & ", "0 & "),
    "0 times Inf": ("b_is_infinite & a_is_zero", "1'b0"),
    "a sign of NaN": ("product[31] = negative &", "product[31] = negative | 0 &"),
}
# Start of the module's name, right and wrong text, and how it is found.
VECTORS = {
    "held operand taken": (
        "vector",
        "assign takes_addend = waits_for_addend[1] &",
        "assign takes_addend = waits_for_addend[1] | 0 &",
        f"{WRONG}|{LOST}|{AFTER}",
    ),
    "operand taken without need": (
        "vector",
        "assign needs_operand = ",
        "assign needs_operand = 1 | ",
        f"{WRONG}|{LOST}|{AFTER}",
    ),
    "addend not waited for": (
        "vector",
        "assign lane_0_en = output_is_free &",
        "assign lane_0_en = output_is_free | 0 &",
        f"{WRONG}|{AFTER}",
    ),
    "operand taken without a beat": (
        "vector",
        "= s_axis_tvalid & needs_operand;",
        "= needs_operand;",
        f"{WRONG}|{LOST}|{AFTER}",
    ),
    "operand of lane 0 in all": (
        "vector",
        ": s_axis_operand_tdata[63:32]",
        ": s_axis_operand_tdata[31:0]",
        WRONG,
    ),
    "addition for scaling": (
        "vector",
        "assign lane_1_addend = waits_for_addend[1] ?",
        "assign lane_1_addend = 1 ?",
        WRONG,
    ),
    "product for a sum": (
        "vector",
        "factor_0_low = s_axis_tuser[0] ?",
        "factor_0_low = 1 ?",
        WRONG,
    ),
    "factor before an addend": (
        "vector",
        "assign some_wait_for_addend = |",
        "assign some_wait_for_addend = 0 & |",
        f"{WRONG}|{LOST}|{AFTER}",
    ),
    "another beat's flags": ("vector", "m_axis_tuser <= user_4", "m_axis_tuser <= user_3", WRONG),
    "another beat's end": (
        "vector",
        "m_axis_tlast <= last_4",
        "m_axis_tlast <= last_3",
        f"{WRONG}|{AFTER}",
    ),
    "not reset": ("vector", "if (rst) valid", "if (0) valid", "unknown|came out"),
    "beat taken during reset": (
        "vector",
        "assign is_ready = lane_0_en &",
        "assign is_ready = lane_0_en | 0 &",
        DURING,
    ),
    "moves on while stalled": ("vector", "| m_axis_tready;", "| 1'b1;", STALLED),
}
ROW_DOTS = {
    "sum of the row before goes on": (".clear_a(accumulate_clear_a)", ".clear_a(1'b0)", "unknown"),
    "partial sums move in pauses": (
        "assign accumulate_en_last = is_of_row |",
        "assign accumulate_en_last = add_partials_0_en |",
        WRONG,
    ),
    "short row ends early": (
        "is_of_row & next_taken[2]",
        "is_of_row & next_taken[1]",
        f"{WRONG}|{AFTER}|never end",
    ),
    "last beat ignored": (
        "assign last_beat_in = fills_up |",
        "assign last_beat_in = fills_up | 0 &",
        "nothing came out",
    ),
    "beat taken while a row is filled up": (
        "assign takes_beats = add_partials_0_en &",
        "assign takes_beats = add_partials_0_en | 0 &",
        f"{WRONG}|{AFTER}",
    ),
    "place filled up with a beat": (
        "? multiply_0_result : 32'd0",
        "? multiply_0_result : multiply_0_result",
        WRONG,
    ),
    "last partial sum left": ("row_ends ? 3'h4", "row_ends ? 3'h3", "nothing came out"),
    "pushed out within a row": (
        "assign is_between_rows = ",
        "assign is_between_rows = 1 | ",
        WRONG,
    ),
    "other partial sums paired": (
        "assign has_pair_0 = final_leaves & has_first_0",
        "assign has_pair_0 = final_leaves & ~has_first_0",
        f"{WRONG}|unknown",
    ),
    "number taken without its factor": (
        "assign s_axis_tready = is_ready & s_axis_factor_tvalid",
        "assign s_axis_tready = is_ready",
        "were not taken together",
    ),
    "beat taken during reset": (
        "assign is_ready = front_moves &",
        "assign is_ready = front_moves | 0 &",
        DURING,
    ),
    "goes on while stalled": ("| m_axis_tready;", "| 1'b1;", STALLED),
    "beats not reset": ("if (rst) valid", "if (0) valid", f"{WRONG}|came out"),
    "places not reset": ("if (rst) places_taken", "if (0) places_taken", "unknown|differ|never"),
    "filling up not reset": ("if (rst) fills_up", "if (0) fills_up", "unknown|differ|never"),
    "final sums not reset": (
        "| { rst, row_ends }",
        "| { 1'b0, row_ends }",
        "unknown|differ|came out",
    ),
    "pair not reset": ("if (rst) has_first_0", "if (0) has_first_0", "unknown|differ|came out"),
    "sum that leaves not reset": (
        "if (rst) m_axis_tvalid",
        "if (0) m_axis_tvalid",
        "unknown|came out",
    ),
}
# Where rows run, start of the module's name, right and wrong text, and how it is found.
SOFTMAXES = {
    "smaller value of two lanes": (
        "lanes",
        "softmax_entry",
        "s_axis_tdata[30:0] < s_axis_tdata[62:32]",
        "s_axis_tdata[30:0] > s_axis_tdata[62:32]",
        WRONG,
    ),
    "largest of what does not count": (
        "lanes",
        "softmax_entry",
        "largest_of_2_0_rises & counts[1]",
        "largest_of_2_0_rises",
        WRONG,
    ),
    "maximum without signs": (
        "lanes",
        "softmax_entry",
        "$signed(\\m_axis_summary_tdata.maxima ) >= $signed(largest_key_0)",
        "\\m_axis_summary_tdata.maxima  >= largest_key_0",
        WRONG,
    ),
    "maximum of the rows before": (
        "beats",
        "softmax_entry",
        "row_begins | rises_1",
        "rises_1",
        f"{WRONG}|unknown",
    ),
    "maximum of the row before": (
        "lanes",
        "softmax_entry",
        "assign maximum_restarts = takes_beat",
        "assign maximum_restarts = 0 & takes_beat",
        f"{WRONG}|unknown",
    ),
    "row that does not wait for the one before": (
        "beats",
        "softmax_entry",
        "~ m_axis_summary_tvalid",
        "1 | m_axis_summary_tvalid",
        WRONG,
    ),
    "a value too many": (
        "lanes",
        "softmax_entry",
        "s_axis_tuser[44:32] > 13'h0001",
        "s_axis_tuser[44:32] >= 13'h0001",
        WRONG,
    ),
    "a value too many in a later beat": (
        "lanes",
        "softmax_entry",
        "remaining_after_or_0 > 13'h0001",
        "remaining_after_or_0 >= 13'h0001",
        WRONG,
    ),
    "values counted as beats": (
        "lanes",
        "softmax_entry",
        "remaining - 13'h0002",
        "remaining - 13'h0001",
        WRONG,
    ),
    "length of the rows before": (
        "beats",
        "softmax_entry",
        "s_axis_tlast ? 13'h0000",
        "0 ? 13'h0000",
        WRONG,
    ),
    "place in the row not reset": (
        "lanes",
        "softmax_entry",
        "if (rst) row_begins",
        "if (0) row_begins",
        "unknown|differ",
    ),
    "lanes as long as the first": (
        "beats",
        "softmax_entry",
        "$signed(beyond_length) < $signed(14'h0001)",
        "$signed(beyond_length) < $signed(14'h0000)",
        WRONG,
    ),
    "causal without being told": (
        "beats",
        "softmax_entry",
        "counts_1 = counts_without_mask |",
        "counts_1 = $signed(beyond_length) < $signed(14'h0001) |",
        WRONG,
    ),
    "NaN with a sign is small": (
        "lanes",
        "softmax_entry",
        "key_0_is_negative = s_axis_tdata[31] &",
        "key_0_is_negative = s_axis_tdata[31] | 0 &",
        WRONG,
    ),
    "NaN is a number": (
        "beats",
        "softmax_lane",
        "assign result = invalid ?",
        "assign result = 0 ?",
        WRONG,
    ),
    "Inf is a number": (
        "lanes",
        "softmax_constants",
        "$signed(maximum) < $signed(",
        "$signed(maximum) <= $signed(",
        WRONG,
    ),
    "threshold rounded down": (
        "lanes",
        "softmax_constants",
        "assign rounds_up = is_inexact &",
        "assign rounds_up = 0 &",
        WRONG,
    ),
    "value at the threshold left out": (
        "lanes",
        "softmax_lane",
        "$signed(key) >= $signed(threshold)",
        "$signed(key) > $signed(threshold)",
        WRONG,
    ),
    "left of the window": (
        "lanes",
        "softmax_lane",
        "| place_distance[10:6]",
        "| place_distance[10:7]",
        WRONG,
    ),
    "result above 1": (
        "lanes",
        "softmax_lane",
        "is_below_one = counts_sloped &",
        "is_below_one = counts_sloped | 0 &",
        WRONG,
    ),
    "lowest bit of the power lost": (
        "beats",
        "softmax_lane",
        "mantissa_power <= polynomial",
        "mantissa_power <= { polynomial[19:1], 1'b0 }",
        WRONG,
    ),
    "distance from the end of a segment": (
        "lanes",
        "softmax_logarithm",
        "polynomial_distance[13] = ~ fraction_normalised[13]",
        "polynomial_distance[13] = fraction_normalised[13]",
        WRONG,
    ),
    "no logarithm": (
        "lanes",
        "softmax_core",
        "start - sum_logarithm_logarithm",
        "start",
        WRONG,
    ),
    "carry between lanes lost": (
        "lanes",
        "softmax_core",
        "{ 1'h0, lane_0_term[15:0] } + { 1'h0, lane_1_term[15:0] }",
        "{ 1'h0, lane_0_term[15:0] ^ lane_1_term[15:0] }",
        WRONG,
    ),
    "upper halves of terms not added": (
        "lanes",
        "softmax_core",
        "{ 1'h0, lane_0_term[31:16] } + { 1'h0, lane_1_term[31:16] }",
        "{ 1'h0, lane_0_term[31:16] ^ lane_1_term[31:16] }",
        WRONG,
    ),
    "carry between parts of a sum lost": (
        "beats",
        "softmax_core",
        "lane_0_term[31:20], row_0_total[20] }",
        "lane_0_term[31:20], 1'h0 }",
        WRONG,
    ),
    "last carry of a sum lost": (
        "beats",
        "softmax_core",
        "total[44:21] + { 23'h000000, total[20] }",
        "total[44:21] + 24'h000000",
        WRONG,
    ),
    "sums of lanes added a clock early": (
        "lanes",
        "softmax_core",
        "assign adds_groups = has_groups_1 &",
        "assign adds_groups = has_terms_1 &",
        f"{WRONG}|unknown",
    ),
    "terms of results added": (
        "beats",
        "softmax_core",
        "assign takes_term = takes_beat &",
        "assign takes_term = takes_beat | 0 &",
        WRONG,
    ),
    "sum not cleared": (
        "lanes",
        "softmax_core",
        "assign clears_sums = in_setup &",
        "assign clears_sums = 0 &",
        "unknown",
    ),
    "no pause before the first pass": (
        "lanes",
        "softmax_core",
        "assign s_axis_summary_tready = in_setup &",
        "assign s_axis_summary_tready = in_setup | 0 &",
        f"{WRONG}|unknown",
    ),
    "pause before the second pass too short": (
        "beats",
        "softmax_core",
        "is_second ? 4'h0 : 4'hc",
        "is_second ? 4'h0 : 4'hd",
        WRONG,
    ),
    "no pause before the second pass": (
        "lanes",
        "softmax_core",
        "assign is_finished = in_finish &",
        "assign is_finished = in_finish | 0 &",
        f"{WRONG}|unknown",
    ),
    "maximum of another lane": (
        "beats",
        "softmax_core",
        "maximum = step[0] ?",
        "maximum = ~step[0] ?",
        WRONG,
    ),
    "sum of another lane": (
        "beats",
        "softmax_core",
        "assign total = step[0] ?",
        "assign total = ~step[0] ?",
        WRONG,
    ),
    "constants of another lane": (
        "beats",
        "softmax_core",
        ".complement(lane_1_complement)",
        ".complement(lane_0_complement)",
        WRONG,
    ),
    "pass not reset": (
        "lanes",
        "softmax_core",
        "if (rst) is_second",
        "if (0) is_second",
        "unknown|differ|never taken|came out",
    ),
    "pause not reset": (
        "beats",
        "softmax_core",
        "| { rst, ends_pass }",
        "| { 1'b0, ends_pass }",
        "unknown|differ|never taken|came out",
    ),
    "step of a pause not reset": (
        "lanes",
        "softmax_core",
        "if (rst) step",
        "if (0) step",
        "unknown|differ|never taken|came out",
    ),
    "results not reset": (
        "beats",
        "softmax_core",
        "if (rst) result_3",
        "if (0) result_3",
        "unknown|came out",
    ),
    "moves on while stalled": ("beats", "softmax_core", "| m_axis_tready;", "| 1'b1;", STALLED),
}

# Start of the module's name, right and wrong text, and how it is found.
SOFTMAX_BACKWARDS = {
    "gradient not waited for": (
        "softmax_backward",
        "assign rows_s_axis_tvalid = s_axis_tvalid & s_axis_gradient_tvalid",
        "assign rows_s_axis_tvalid = s_axis_tvalid",
        f"{WRONG}|unknown|{AFTER}",
    ),
    "row that does not fit counts": (
        "softmax_backward",
        "rows_m_axis_tdata[30:0] |",
        "rows_m_axis_tdata[30:0] | 31'd0 &",
        WRONG,
    ),
    "sum not waited for": (
        "softmax_backward",
        "assign takes_beat = rows_m_axis_tvalid &",
        "assign takes_beat = rows_m_axis_tvalid | 0 &",
        f"{WRONG}|unknown|{AFTER}",
    ),
    "sum added": (
        "softmax_backward",
        "less_sum_0[31] = ~ sum_0[31]",
        "less_sum_0[31] = sum_0[31]",
        WRONG,
    ),
    "result of the next beat": (
        "softmax_backward",
        "left_0_2 <= left_0_1",
        "left_0_2 <= rows_m_axis_tdata[31:0]",
        WRONG,
    ),
    "another beat's end": (
        "softmax_backward",
        "m_axis_tlast <= last_7",
        "m_axis_tlast <= last_6",
        f"{WRONG}|{AFTER}",
    ),
    "moves on while stalled": ("softmax_backward", "| m_axis_tready;", "| 1'b1;", STALLED),
    "beats not reset": ("softmax_backward", "if (rst) valid", "if (0) valid", "unknown|came out"),
    "sum not reset": (
        "softmax_backward",
        "if (rst) has_sums",
        "if (0) has_sums",
        "unknown|differ|never",
    ),
    "row that is cut goes on for its sum": (
        "summed_rows",
        "assign products_0_s_axis_tlast = s_axis_tlast |",
        "assign products_0_s_axis_tlast = s_axis_tlast | 0 &",
        f"{WRONG}|never",
    ),
    "added up without being stored": (
        "summed_rows",
        "assign pair_is_offered = s_axis_tvalid & is_stored",
        "assign pair_is_offered = s_axis_tvalid",
        f"{WRONG}|unknown|never",
    ),
}
SUMMED_ROWS = {
    "next row never waits for room": (
        "leaves_little_room = beats_in_row >= 3'h5",
        "leaves_little_room = 1'b0",
        "never taken",
    ),
    "next row waits for too little room": (
        "leaves_little_room = beats_in_row >= 3'h5",
        "leaves_little_room = beats_in_row >= 3'h6",
        "never taken",
    ),
    "place in the row not reset": (
        "if (rst) beats_in_row",
        "if (0) beats_in_row",
        "unknown|differ",
    ),
}
NORMALISE_BACKWARDS = {
    "statistics taken with every beat": (
        "normalise_backward_lanes",
        "assign s_axis_statistics_tready = s_axis_gain_tready & s_axis_tlast",
        "assign s_axis_statistics_tready = s_axis_gain_tready",
        f"{WRONG}|{LOST}|{AFTER}",
    ),
    "gain not waited for": (
        "normalise_backward_lanes",
        "{ s_axis_gain_tvalid,",
        "{ 1'b1,",
        "were not taken together",
    ),
    "mean added": (
        "normalise_backward_lanes",
        "difference_0_addend[31] = ~ s_axis_statistics_tdata[31]",
        "difference_0_addend[31] = s_axis_statistics_tdata[31]",
        WRONG,
    ),
    "row that does not fit counts": (
        "normalise_backward_lanes",
        "of_row_deviation[30:0] |",
        "of_row_deviation[30:0] | 31'd0 &",
        WRONG,
    ),
    "deviation of the next row": (
        "normalise_backward_lanes",
        "reciprocal_3 <= reciprocal_2",
        "reciprocal_3 <= reciprocal_1",
        WRONG,
    ),
    "entry not reset": (
        "normalise_backward_lanes",
        "if (rst) entry_valid",
        "if (0) entry_valid",
        "unknown|differ|came out",
    ),
    "moves on while stalled": ("normalise_backward_lanes", "| m_axis_tready;", "| 1'b1;", STALLED),
    "deviation of another row": (
        "summed_rows",
        "is_oldest[0] = rows_without_sums == 3'h1",
        "is_oldest[0] = rows_without_sums == 3'h2",
        WRONG,
    ),
    "sum of products not waited for": (
        "summed_rows",
        "assign m_axis_sums_tvalid = products_0_m_axis_tvalid &",
        "assign m_axis_sums_tvalid = products_0_m_axis_tvalid | 1 &",
        f"{WRONG}|unknown|never|{AFTER}",
    ),
    "totals not reset": (
        "summed_rows",
        "if (rst) has_totals",
        "if (0) has_totals",
        "unknown|differ|never",
    ),
    "factors overwritten": (
        "normalise_backward_row",
        "assign has_next = moves & is_ready",
        "assign has_next = is_ready",
        f"{WRONG}|unknown|never",
    ),
    "total not multiplied": (
        "normalise_backward_row",
        "assign multiply_x = is_total ?",
        "assign multiply_x = 0 ?",
        f"{WRONG}|unknown",
    ),
    "not multiplied by the deviation": (
        "normalise_backward_row",
        "assign multiply_factor = multiplies_again ?",
        "assign multiply_factor = 0 ?",
        WRONG,
    ),
    "step not reset": (
        "normalise_backward_row",
        "if (rst) step",
        "if (0) step",
        "unknown|differ|never|nothing",
    ),
    "factors not reset": (
        "normalise_backward_row",
        "if (rst) valid",
        "if (0) valid",
        "unknown|differ|never",
    ),
}
DIVIDERS = {
    "pass begins when one divider is done": (
        "normalise_core",
        "assign some_wait = | waits_for_row;",
        "assign some_wait = waits_for_row[0];",
        f"{WRONG}|unknown|{AFTER}",
    ),
    "statistics when one divider is done": (
        "normalise_core",
        "assign all_are_done = some_wait &",
        "assign all_are_done = of_row_done | 0 &",
        f"{WRONG}|unknown|{AFTER}|{LOST}",
    ),
}
# Start of the module's name, right and wrong text.
COPIES = {
    "copy of a mean not inverted": (
        "normalise_row",
        "= ~ mean_high_inverse_0;",
        "= mean_high_inverse_0;",
    ),
    "copy of a mean not written": (
        "normalise_row",
        "if (writes_mean_0) mean_high_inverse_0",
        "if (0) mean_high_inverse_0",
    ),
}
NORMALISATIONS = {
    "statistics with a mean alone": (
        "normalise_core",
        "of_row_done & deviation_is_next",
        "of_row_done",
        f"{WRONG}|{AFTER}",
    ),
    "pass begins before its row is known": (
        "normalise_core",
        "assign is_blocked = waits_for_row |",
        "assign is_blocked = 0 & waits_for_row |",
        f"{WRONG}|unknown|{AFTER}",
    ),
    "gain not waited for": ("normalise_core", "s_axis_gain_tvalid |", "1'b1 |", f"{WRONG}|{LOST}"),
    "less a mean before it is known": (
        "normalise_core",
        ".leaves(of_row_leaves)",
        ".leaves(1'b0)",
        f"{WRONG}|unknown",
    ),
    "bias not waited for": ("normalise_core", "s_axis_bias_tvalid |", "1'b1 |", f"{WRONG}|{LOST}"),
    "lane added twice": (
        "normalise_core",
        "} : lane_1_square",
        "} : lane_0_square",
        WRONG,
    ),
    "row that does not fit counts": (
        "normalise_core",
        "is_overlong <= s_axis_tuser[3]",
        "is_overlong <= 1'b0",
        WRONG,
    ),
    "moves on while stalled": (
        "normalise_core",
        "assign output_is_free = ",
        "assign output_is_free = 1'b1 | ",
        STALLED,
    ),
    "pass not reset": (
        "normalise_core",
        "if (rst) waits_for_row",
        "if (0) waits_for_row",
        "unknown|differ|never",
    ),
    "largest of the row before": (
        "normalise_lanes",
        "s_axis_tlast ? 8'h00",
        "0 ? 8'h00",
        WRONG,
    ),
    "carry of a sum lost": (
        "normalise_row",
        "carries_0[0] }",
        "1'b0 }",
        WRONG,
    ),
    "epsilon far below": ("normalise_row", "is_far ? 20'h00000", "0 ? 20'h00000", WRONG),
    "epsilon of an odd exponent": (
        "normalise_row",
        "assign epsilon_is_odd = ~ epsilon[23]",
        "assign epsilon_is_odd = epsilon[23]",
        WRONG,
    ),
    "root rounded down": (
        "normalise_row",
        "assign root_rounded = root +",
        "assign root_rounded = root + 0 *",
        WRONG,
    ),
    "another sign of the mean": (
        "normalise_row",
        "assign mean_is_negative = ~ quotient[26]",
        "assign mean_is_negative = quotient[26]",
        WRONG,
    ),
    "deviation not reset": (
        "normalise_row",
        "if (rst) is_deviation",
        "if (0) is_deviation",
        "unknown|differ|never",
    ),
    "mean of subnormals": (
        "normalise_row",
        "assign mean_normalised_distance = mean_normalised_subnormal ?",
        "assign mean_normalised_distance = 0 ?",
        WRONG,
    ),
    "gain that is not finite": (
        "normalise_lane_gain",
        "assign gain_is_special = & gain[30:23]",
        "assign gain_is_special = 0",
        WRONG,
    ),
    "zero with a sign": (
        "normalise_lane_gain",
        "assign flips_value = word[31] &",
        "assign flips_value = word[31] | 0 &",
        WRONG,
    ),
    "borrow of a mean lost": (
        "normalise_lane_gain",
        "borrow_value <= less_low",
        "borrow_value <= 0 & less_low",
        WRONG,
    ),
    "value far below the largest": (
        "normalise_lane_gain",
        "assign magnitude = is_beyond ?",
        "assign magnitude = 0 ?",
        WRONG,
    ),
}


def _broken(module: Module, name: str, right: str, wrong: str, folder: Path) -> list[Path]:
    """Sources of which the one whose name begins so is wrong."""
    folder.mkdir()
    stems = [source.stem for source in module.sources if source.stem.startswith(name)]
    (source,) = [name] if name in stems else stems
    return mutated(module, source, right, wrong, folder)


@pytest.mark.parametrize("mutation", some(MULTIPLIERS, every=len(MULTIPLIERS)))
def test_wrong_multiplier_is_found(
    mutation: str, modules: dict[str, Module], tmp_path: Path
) -> None:
    module = modules["float32_multiplier"]
    sources = mutated(module, module.name, *MULTIPLIERS[mutation], tmp_path)
    with pytest.raises(AssertionError, match="differ"):
        check_products(available("icarus"), module, 31, 80, sources=sources)


@pytest.mark.parametrize("mutation", some(VECTORS, every=len(VECTORS)))
def test_wrong_vector_arithmetic_is_found(mutation: str, tmp_path: Path) -> None:
    name, right, wrong, message = VECTORS[mutation]
    operations = "add+multiply+axpy+scale"
    unit = VectorArithmetic(operations=operations, lanes=2, operand="both", holds=True, user_bits=5)
    module = generated(unit, tmp_path / "right")
    sources = _broken(module, name, right, wrong, tmp_path / "wrong")
    with pytest.raises(AssertionError, match=message):
        check_vectors(
            available("icarus"),
            module,
            random_vectors(module, 1, 60),
            stall_in=0.2,
            stall_out=0.2,
            resets_after=range(1, 30, 7),
            sources=sources,
        )


@pytest.mark.parametrize("mutation", some(ROW_DOTS, every=len(ROW_DOTS)))
def test_wrong_row_dot_is_found(mutation: str, tmp_path: Path) -> None:
    right, wrong, message = ROW_DOTS[mutation]
    module = small_row_dot(tmp_path / "right")
    sources = _broken(module, "row_dot", right, wrong, tmp_path / "wrong")
    with pytest.raises(AssertionError, match=message):
        check_row_sums(
            available("icarus"),
            module,
            random_lengths(module, 1, 20),
            2,
            stall_in=0.25,
            stall_out=0.2,
            resets_after=row_dot_checks.RESETS,
            sources=sources,
        )


@pytest.mark.parametrize("mutation", some(SOFTMAXES, every=len(SOFTMAXES)))
def test_wrong_softmax_is_found(mutation: str, tmp_path: Path) -> None:
    along, name, right, wrong, message = SOFTMAXES[mutation]
    module = small_softmax(tmp_path / "right", along)
    sources = _broken(module, name, right, wrong, tmp_path / "wrong")
    with pytest.raises(AssertionError, match=message):
        check_softmax(
            available("icarus"),
            module,
            random_rows(module, 3, 10) + corner_rows(module)[::3],
            stall_in=0.3,
            stall_out=0.1,
            resets_after=softmax_checks.RESETS,
            sources=sources,
        )


@pytest.mark.full
def test_overlong_row_that_counts_is_found(tmp_path: Path) -> None:
    module = small_softmax(tmp_path / "right", "lanes")
    right, wrong = ".spoilt(s_axis_tuser[2])", ".spoilt(1'b0)"
    sources = _broken(module, "softmax_core", right, wrong, tmp_path / "wrong")
    with pytest.raises(AssertionError, match=WRONG):
        check_overlong_row(available("icarus"), module, sources=sources)


@pytest.mark.full
@pytest.mark.parametrize("mutation", SUMMED_ROWS)
def test_wrong_rows_with_sums_are_found(mutation: str, tmp_path: Path) -> None:
    """Long rows, of which a next one does not have room for all of its beats, and resets."""
    right, wrong, message = SUMMED_ROWS[mutation]
    module = generated(SummedRows(lanes=2, depth=8, partials=4), tmp_path / "right")
    sources = _broken(module, module.name, right, wrong, tmp_path / "wrong")
    rows, resets = paired_rows(module, 1, 20, (6, 4)), range(2, 12)
    check_summed_rows(available("icarus"), module, rows, 2, resets_after=resets)
    with pytest.raises(AssertionError, match=message):
        check_summed_rows(
            available("icarus"), module, rows, 2, resets_after=resets, sources=sources
        )


@pytest.mark.full
@pytest.mark.parametrize("mutation", SOFTMAX_BACKWARDS)
def test_wrong_softmax_backward_is_found(mutation: str, tmp_path: Path) -> None:
    name, right, wrong, message = SOFTMAX_BACKWARDS[mutation]
    module = small_softmax_backward(tmp_path / "right")
    sources = _broken(module, name, right, wrong, tmp_path / "wrong")
    with pytest.raises(AssertionError, match=message):
        check_softmax_backward(
            available("icarus"),
            module,
            paired_rows(module, 1, 14),
            stall_in=0.1,
            stall_out=0.2,
            resets_after=backward_checks.RESETS,
            sources=sources,
        )


@pytest.mark.full
@pytest.mark.parametrize("mutation", NORMALISE_BACKWARDS)
def test_wrong_normalise_backward_is_found(mutation: str, tmp_path: Path) -> None:
    name, right, wrong, message = NORMALISE_BACKWARDS[mutation]
    module = small_normalise_backward(tmp_path / "right", gain=True)
    sources = _broken(module, name, right, wrong, tmp_path / "wrong")
    with pytest.raises(AssertionError, match=message):
        check_normalise_backward(
            available("icarus"),
            module,
            normalised_rows(module, 1, 40),
            stall_in=0.02,
            stall_out=0.4,
            resets_after=backward_checks.RESETS,
            sources=sources,
        )


@pytest.mark.full
@pytest.mark.parametrize("mutation", DIVIDERS)
def test_wrong_dividers_are_found(mutation: str, tmp_path: Path) -> None:
    name, right, wrong, message = DIVIDERS[mutation]
    parameters = {"lanes": 4, "along": "beats", "dividers": 2, "statistics": True}
    module = normalise_unit(tmp_path / "right", **parameters)
    sources = _broken(module, name, right, wrong, tmp_path / "wrong")
    with pytest.raises(AssertionError, match=message):
        check_rows(available("icarus"), module, normalise_rows(module, 7, 16), sources=sources)


@pytest.mark.full
@pytest.mark.parametrize("mutation", COPIES)
def test_wrong_copies_of_means_are_found(mutation: str, tmp_path: Path) -> None:
    module = normalise_unit(tmp_path / "right", lanes=8, depth=4)
    sources = _broken(module, *COPIES[mutation], tmp_path / "wrong")
    with pytest.raises(AssertionError, match=f"{WRONG}|unknown"):
        check_rows(available("icarus"), module, normalise_rows(module, 7, 16), sources=sources)


@pytest.mark.parametrize("mutation", some(NORMALISATIONS, every=len(NORMALISATIONS)))
def test_wrong_normalisation_is_found(mutation: str, tmp_path: Path) -> None:
    name, right, wrong, message = NORMALISATIONS[mutation]
    module = normalise_unit(tmp_path / "right", gain=True, bias=True, statistics=True)
    sources = _broken(module, name, right, wrong, tmp_path / "wrong")
    with pytest.raises(AssertionError, match=message):
        check_rows(
            available("icarus"),
            module,
            normalise_rows(module, 7, 30),
            stall_in=0.1,
            stall_out=0.2,
            resets_after=(60, 150),
            sources=sources,
        )
