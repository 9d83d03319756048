"""The benches of streaming units, benched: what is wrong in one of them is found."""

from pathlib import Path

import numpy as np
import pytest

from verif.support.array_checks import operands
from verif.support.converter_checks import (
    check_beats,
    check_long_blocks,
    converter,
    corner_beats,
    ragged_beats,
)
from verif.support.layer_checks import broken_ties, check_layers, small_layer
from verif.support.manifest import Module
from verif.support.mutation import mutated
from verif.support.packer_checks import check_packing, packer, random_blocks
from verif.support.replay_checks import check_rows as check_replay
from verif.support.replay_checks import row_replay, rows_of_all_lengths
from verif.support.tests import available, some
from verif.support.transposer_checks import check_rows, random_packets, transposer

WRONG = "differ|results for"
AFTER = r"beats came out for \d+ after reset"
# Start of the module's name, right and wrong text, and how it is found.
CONVERTERS = {
    "tie to odd": (
        "mxsf_encoder",
        "extended[0] | extended[2]",
        "extended[0] | ~extended[2]",
        WRONG,
    ),
    "no sticky bit": ("mxsf_encoder", "extended[0] | extended[2]", "extended[2]", WRONG),
    "saturates at the seam": (
        "mxsf_encoder",
        "extended[8:2] >= 7'h7f",
        "(extended[8:2] == 7'h1f || &extended[8:2])",
        WRONG,
    ),
    "wraps around": ("mxsf_encoder", "extended[8:2] >= 7'h7f", "1'b0", WRONG),
    "half the smallest is zero": (
        "mxsf_encoder",
        "{ 3'h1, sticky_at_2 }",
        "4'h0",
        WRONG,
    ),
    "subnormals flushed": (
        "mxsf_float32_normaliser",
        "{ 5'h00, moved_8, moved_4, moved_2, moved_1 }",
        "9'h00f",
        WRONG,
    ),
    "lowest bit of the input lost": (
        "mxsf_float32_normaliser",
        "| word[16:0]",
        "| word[16:1]",
        WRONG,
    ),
    "subnormal shifted a place too far": (
        "mxsf_float32_normaliser",
        "assign moved_1 = ~ shifted_2[9]",
        "assign moved_1 = shifted_2[9]",
        WRONG,
    ),
    "tlast ignored": (
        "mxsf_converter",
        "assign block_last = s_axis_tlast |",
        "assign block_last =",
        AFTER,
    ),
    "Inf under a scale": (
        "mxsf_converter",
        "assign is_special_0 = & ",
        "assign is_special_0 = 0 & ",
        WRONG,
    ),
    "exponent of a later block": (
        "mxsf_converter",
        "assign first_end = ended & ",
        "assign first_end = ended | 0 & ",
        "a stalled result changed from",
    ),
    "empty head offered": (
        "mxsf_converter",
        "assign m_axis_tvalid = valid[3] &",
        "assign m_axis_tvalid =",
        AFTER,
    ),
    "offers nothing before it is asked": (
        "mxsf_converter",
        "assign m_axis_tvalid = valid[3]",
        "assign m_axis_tvalid = m_axis_tready & valid[3]",
        "changed from|was never taken|results for|nothing came out",
    ),
    "leaves without being taken": (
        "mxsf_converter",
        "assign leaves = m_axis_tvalid & m_axis_tready",
        "assign leaves = m_axis_tvalid",
        "a stalled result changed from",
    ),
    "beat taken during reset": (
        "mxsf_converter",
        "assign s_axis_tready = moves[0] & ",
        "assign s_axis_tready = moves[0] | 0 & ",
        "a beat of s_axis was taken during reset",
    ),
    "chain not reset": (
        "beat_chain",
        "if (rst) valid_0",
        "if (0) valid_0",
        "was never taken",
    ),
    "largest exponent not reset": (
        "mxsf_converter",
        "if (rst) largest_before_0",
        "if (0) largest_before_0",
        "unknown|differ",
    ),
    "gaps do not close": (
        "mxsf_converter",
        "assign gap = gap_1 | ",
        "assign gap = gap_1 | 0 & ",
        "a beat had to wait|was never taken|differ|results for",
    ),
}
# Right and wrong text of a converter of long blocks.
LONG_CONVERTERS = {
    "a gap far ahead does not close": ("gap_16 | { 32'h00000000, gap_16[63:32] }", "gap_16"),
    "a stage takes a beat while its own waits": (
        ".moves(moves[39:32])",
        ".moves(moves[39:32] | 8'h10)",
    ),
    "the end of a later block counts": ("ended_16 | {", "ended_16 | 0 & {"),
}
TRANSPOSERS = {
    "turns a row early": ("steps_done == 2'h3", "steps_done == 2'h2", "beats differ after reset"),
    "column offered without a row": (
        "assign m_axis_tvalid = is_full & has_row",
        "assign m_axis_tvalid = is_full",
        "changed from|differ|results for",
    ),
    "moves on while stalled": (
        "assign step = is_open & has_row",
        "assign step = has_row",
        "changed from",
    ),
    "next packet let in": ("assign takes_rows = ", "assign takes_rows = is_draining | ", AFTER),
    "short tile not filled up with zeros": (
        "is_padding ? 8'h00 : s_axis_tdata[7:0]",
        "s_axis_tdata[7:0]",
        WRONG,
    ),
    "offers nothing before it is asked": (
        "assign m_axis_tvalid = is_full",
        "assign m_axis_tvalid = m_axis_tready & is_full",
        "changed from|was never taken|results for|nothing came out",
    ),
    "tile not reset": ("if (rst) is_full", "if (0) is_full", "came out after reset|unknown"),
    "rows not reset": ("if (rst) steps_done", "if (0) steps_done", "came out|unknown|differ"),
}
PACKERS = {
    "short block goes on": ("is_padding <= \\$", "is_padding <= 0 & \\$", "differ|results for"),
    "anything in missing lanes": ("is_padding ? 16'h0000 : ", "0 ? 16'h0000 : ", "differ"),
    "end of a block taken early": (
        "assign s_axis_tready = is_ready &",
        "assign s_axis_tready = (is_ready | s_axis_tuser) &",
        f"{WRONG}|changed from|{AFTER}",
    ),
    "moves on while stalled": (
        "assign step = s_axis_tvalid &",
        "assign step = ",
        f"{WRONG}|changed from",
    ),
    "lane not reset": ("if (rst) lane", "if (0) lane", "unknown|differ"),
    "offers nothing before it is asked": (
        " | m_axis_tready",
        " & 1'b0 | m_axis_tready",
        "was never taken|results for",
    ),
}
REPLAYS = {
    "room made in every pass": (
        "assign beat_freed = memory_read_en &",
        "assign beat_freed = memory_read_en | 0 &",
        f"{WRONG}|was never taken",
    ),
    "one row too many let in": (
        "assign has_room = ",
        "assign has_room = 1 | ",
        f"{WRONG}|{AFTER}",
    ),
    "long row waits for itself": (
        "assign row_ends = s_axis_tlast |",
        "assign row_ends = s_axis_tlast | 0 &",
        "was never taken",
    ),
    "beat taken during reset": (
        "assign s_axis_tready = has_room &",
        "assign s_axis_tready = has_room | 0 &",
        "a beat of s_axis was taken during reset",
    ),
    "goes on while stalled": (
        "assign memory_read_en = rows_wait &",
        "assign memory_read_en = rows_wait | 0 &",
        f"{WRONG}|changed from",
    ),
    "place not reset": (
        "if (rst) memory_read_address",
        "if (0) memory_read_address",
        "unknown|differ|never end",
    ),
    "summary of the newest row": ("? row_1 :", "? row_0 :", f"{WRONG}|{AFTER}"),
    "offers nothing before it is asked": (
        " | m_axis_tready",
        " & 1'b0 | m_axis_tready",
        "was never taken|results for|nothing came out",
    ),
}
# Start of the module's name, right and wrong text, and how it is found.
LAYERS = {
    "negative numbers pass": (
        "relu_width",
        "? 32'd0 : values[31:0]",
        "? values[31:0] : values[31:0]",
        WRONG,
    ),
    "other rows come out": (
        "mxsf_layer",
        "if (rst) drops_rows",
        "if (1) drops_rows",
        AFTER,
    ),
    "dropped rows stop the array": (
        "mxsf_layer",
        "assign array_m_axis_c_tready = activation_s_axis_tready | drops_rows",
        "assign array_m_axis_c_tready = activation_s_axis_tready & ~drops_rows",
        "was never taken",
    ),
    "weights taken without samples": (
        "mxsf_sta",
        "assign s_axis_a_tready = s_axis_w_tready & s_axis_w_tvalid",
        "assign s_axis_a_tready = s_axis_w_tready",
        "were not taken together",
    ),
    "strip goes on": (
        "mxsf_layer",
        "assign activation_s_axis_tlast = tile_of_row[0] &",
        "assign activation_s_axis_tlast = 0 & tile_of_row[0] &",
        AFTER,
    ),
    "flags of the newest tile": (
        "mxsf_layer",
        "? tile_1 :",
        "? tile_0 :",
        "strips|differ|results for",
    ),
    "a row that is no feature": (
        "mxsf_layer",
        "= row == tile_of_row[2:1]",
        "= row == (tile_of_row[2:1] | 2'h1)",
        WRONG,
    ),
    "last row of the newest tile": (
        "mxsf_layer",
        "? tile_1 :",
        "? { tile_0[2:1], tile_1[0] } :",
        "strips|differ|results for",
    ),
    "lowest bit of a result lost": (
        "mxsf_layer",
        ".s_axis_tdata(activation_s_axis_tdata)",
        ".s_axis_tdata({ activation_s_axis_tdata[127:33], 1'b0, activation_s_axis_tdata[31:0] })",
        WRONG,
    ),
    "a low bit of a result set": (
        "mxsf_layer",
        ".s_axis_tdata(activation_s_axis_tdata)",
        ".s_axis_tdata(activation_s_axis_tdata | 128'h100)",
        WRONG,
    ),
    "tiles not counted anew": (
        "mxsf_layer",
        "if (rst) tiles_under_way",
        "if (0) tiles_under_way",
        "unknown|never taken",
    ),
}


@pytest.mark.parametrize("mutation", some(CONVERTERS, every=len(CONVERTERS)))
def test_wrong_converter_is_found(mutation: str, tmp_path: Path) -> None:
    name, right, wrong, message = CONVERTERS[mutation]
    module = converter(tmp_path / "right", block=16, width=4)
    (source,) = (s.stem for s in module.sources if s.stem.startswith(name))
    (tmp_path / "wrong").mkdir()
    sources = mutated(module, source, right, wrong, tmp_path / "wrong")
    whole, ragged = corner_beats(module, 3, 24), ragged_beats(module, 4, 200)
    beats = np.concatenate([whole[0], ragged[0]]), np.concatenate([whole[1], ragged[1]])
    with pytest.raises(AssertionError, match=message):
        check_beats(
            available("icarus"),
            module,
            beats,
            stall_in=0.1,
            stall_out=0.3,
            resets_after=range(1, 40),
            sources=sources,
        )


@pytest.mark.full
@pytest.mark.parametrize("mutation", LONG_CONVERTERS)
def test_wrong_converter_of_long_blocks_is_found(
    mutation: str, modules: dict[str, Module], tmp_path: Path
) -> None:
    module = modules["mxsf_converter_64x1"]
    sources = mutated(module, module.name, *LONG_CONVERTERS[mutation], tmp_path)
    with pytest.raises(AssertionError, match=f"was never taken|{WRONG}|{AFTER}|changed from"):
        check_long_blocks(available("icarus"), module, sources=sources)


@pytest.mark.parametrize("mutation", some(TRANSPOSERS, every=len(TRANSPOSERS)))
def test_wrong_transposer_is_found(mutation: str, tmp_path: Path) -> None:
    right, wrong, message = TRANSPOSERS[mutation]
    module = transposer(tmp_path / "right", size=4, element_bits=8)
    (tmp_path / "wrong").mkdir()
    sources = mutated(module, module.name, right, wrong, tmp_path / "wrong")
    with pytest.raises(AssertionError, match=message):
        check_rows(
            available("icarus"),
            module,
            random_packets(module, 1, 20),
            stall_in=0.2,
            stall_out=0.2,
            resets_after=range(1, 20),
            sources=sources,
        )


@pytest.mark.parametrize("mutation", some(PACKERS, every=len(PACKERS)))
def test_wrong_packer_is_found(mutation: str, tmp_path: Path) -> None:
    right, wrong, message = PACKERS[mutation]
    module = packer(tmp_path / "right", width=2, lanes=4)
    (tmp_path / "wrong").mkdir()
    sources = mutated(module, module.name, right, wrong, tmp_path / "wrong")
    with pytest.raises(AssertionError, match=message):
        check_packing(
            available("icarus"),
            module,
            random_blocks(module, 1, 60, 9),
            stall_in=0.2,
            stall_out=0.2,
            resets_after=range(1, 20),
            sources=sources,
        )


@pytest.mark.parametrize("mutation", some(REPLAYS, every=len(REPLAYS)))
def test_wrong_row_replay_is_found(mutation: str, tmp_path: Path) -> None:
    right, wrong, message = REPLAYS[mutation]
    module = row_replay(tmp_path / "right", depth=4)
    (tmp_path / "wrong").mkdir()
    sources = mutated(module, module.name, right, wrong, tmp_path / "wrong")
    with pytest.raises(AssertionError, match=message):
        check_replay(
            available("icarus"),
            module,
            rows_of_all_lengths(module, 40),
            stall_in=0.2,
            stall_out=0.2,
            resets_after=range(1, 16),
            sources=sources,
        )


@pytest.mark.parametrize("mutation", some(LAYERS, every=len(LAYERS)))
def test_wrong_layer_is_found(mutation: str, tmp_path: Path) -> None:
    name, right, wrong, message = LAYERS[mutation]
    module = small_layer(tmp_path / "right", arithmetic="exact", block=4)
    (source,) = (s.stem for s in module.sources if s.stem.startswith(name))
    (tmp_path / "wrong").mkdir()
    sources = mutated(module, source, right, wrong, tmp_path / "wrong")
    rng = np.random.default_rng(1)
    # Tiles of one block to seven: few or many are under way at a time.
    shapes = ((3, 4), (9, 4), (6, 8), (13, 4), (1, 28), (11, 12))
    pairs = [*(operands(rng, features, k, 5, 4) for features, k in shapes), broken_ties(4)]
    with pytest.raises(AssertionError, match=message):
        check_layers(
            available("icarus"),
            module,
            pairs,
            stall_in=0.1,
            stall_out=0.2,
            resets_after=(20, 31, 45),
            sources=sources,
        )
