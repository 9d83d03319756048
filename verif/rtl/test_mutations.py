"""The benches, benched: hardware and models that are wrong by one must be found wrong."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from mxsafe import model
from mxsafe.formats import OPERAND_FORMATS
from mxsafe.model.float_arithmetic import add, decode_float, encode_float
from mxsafe.model.gemm import ProductArithmetic
from mxsafe.verilog.presets import build
from verif.support import corner_cases
from verif.support.array_checks import (
    check_continued_tiles_with_stalls,
    check_distances,
    check_formats_at_run_time,
    check_full_queue,
    check_out_of_step,
    check_overlong_block,
    check_overlong_tile,
    check_resets,
    check_scales_above_anchors,
    check_short_tiles,
    check_special_codes,
    operands,
    small_array,
)
from verif.support.array_job import Job, run_products
from verif.support.checkers import assert_equal, check_mac
from verif.support.generated import generated
from verif.support.manifest import Module, mac_stimulus
from verif.support.mutation import mutated
from verif.support.simulators import run_lockstep
from verif.support.tests import available, some

UNITS = {
    "safe_mac": ("partial_sum", model.safe_mac),
    "safe_mac_exact": ("dot", model.safe_mac_exact),
}
MUTATIONS = {
    "decoder: wrong exponent at the seam": (
        "mxsf_operand_decoder_digits",
        "{ 1'h1, code[6:5] }",
        "{ 1'h1, code[6:5] ^ {2{&code[4:0]}} }",
    ),
    "decoder: subnormals as normals": ("mxsf_operand_decoder_digits", "= | code[4:2]", "= 1'b1"),
    "multiplier: tie to odd": (
        "mxsf_fp12_multiplier",
        "assign tie_to_even = |",
        "assign tie_to_even = ~|",
    ),
    "rounder: tie to odd": (
        "fp12_rounder_width22",
        "assign tie_to_even = |",
        "assign tie_to_even = ~|",
    ),
    "rounder: truncates": ("fp12_rounder_width22", "= value + ", "= value + 0 * "),
    "packer: no sticky bit": ("fp12_packer", "assign sticky = |", "assign sticky = 0 & |"),
    "packer: no guard bit": ("fp12_packer", "assign guard = |", "assign guard = 0 & |"),
    "packer: +0 for -0": ("fp12_packer", ": zero_sign;", ": 1'b0;"),
    "mac: enable ignored": ("safe_mac", "else if (en) partial_sum", "else partial_sum"),
    "mac: reset ignored": ("safe_mac", "if (rst) partial_sum", "if (0) partial_sum"),
    "exact multiplier: shift off by one": (
        "mxsf_operand_multiplier",
        "{ 1'h0, a[10:8] } + { 1'h0, w[15:13] }",
        "{ 1'h0, a[10:8] } + { 1'h0, w[15:13] } + (&product[3:0])",
    ),
    "exact mac: enable ignored": ("safe_mac_exact", "else if (en) dot", "else dot"),
    "exact mac: a carry lost": (
        "mxsf_operand_dot_reset",
        "{ 25'h0000000, level4_1_differ }",
        "26'h0000000",
    ),
}


def drive(
    module: Module, sources: list[Path], reference: Callable[..., np.ndarray] | None = None
) -> int:
    operands = corner_cases.mixed(1, 3_000, module.parameters["lanes"])
    rows = corner_cases.with_stalls(1, *operands, flush=module.latency - 1, resets=20)
    stimulus = mac_stimulus(module, *rows)
    log = run_lockstep(available("icarus"), module, stimulus, sources=sources)
    output, usual = UNITS["safe_mac" if "partial_sum" in module.ports else "safe_mac_exact"]
    return check_mac(module, log, output, reference or usual)


@pytest.mark.parametrize("mutation", some(MUTATIONS, every=len(MUTATIONS)))
def test_wrong_hardware_is_found(mutation: str, modules: dict[str, Module], tmp_path: Path) -> None:
    exact = mutation.startswith("exact")
    module = modules["safe_mac_exact" if exact else "safe_mac"]
    sources = mutated(module, *MUTATIONS[mutation], tmp_path)
    with pytest.raises(AssertionError, match="differ"):
        drive(module, sources)


# Arithmetic, start of the module's name, right and wrong text, the check that finds it and how.
ARRAY_MUTATIONS: dict[str, tuple[ProductArithmetic, str, str, str, Callable[..., object], str]] = {
    "tile wait removed": (
        "fp12",
        "mxsf_sta_",
        "assign tile_too_early = ",
        "assign tile_too_early = 0 & ",
        check_short_tiles,
        r"tile \d+ of \d+ never came out",
    ),
    "block wait removed": (
        "exact",
        "mxsf_sta_",
        "assign block_too_early = ",
        "assign block_too_early = 0 & ",
        check_short_tiles,
        r"tile \d+ of \d+ never came out",
    ),
    "extra tlast of the second operand ignored": (
        "fp12",
        "mxsf_sta_",
        "s_axis_a_tlast ^ s_axis_w_tlast",
        "s_axis_a_tlast & ~s_axis_w_tlast",
        check_out_of_step,
        "tlast extra was not flagged",
    ),
    "missing tlast of the second operand ignored": (
        "exact",
        "mxsf_sta_",
        "s_axis_a_tlast ^ s_axis_w_tlast",
        "~s_axis_a_tlast & s_axis_w_tlast",
        check_out_of_step,
        "tlast missing was not flagged",
    ),
    "overlong block flagged a beat late": (
        "exact",
        "mxsf_sta_",
        "beats_before == 6'h20",
        "beats_before == 6'h21",
        check_overlong_block,
        "a block of a beat too many was not flagged",
    ),
    "tlast wavers while stalled": (
        "fp12",
        "mxsf_sta_",
        "assign m_axis_c_tlast = ",
        "assign m_axis_c_tlast = m_axis_c_tready & ",
        partial(check_short_tiles, stall=0.3),
        "a stalled result changed from",
    ),
    "nothing is offered before it is asked for": (
        "fp12",
        "mxsf_sta_",
        " | m_axis_c_tready",
        " & 1'b0 | m_axis_c_tready",
        partial(check_short_tiles, stall=0.3),
        r"tile \d+ of \d+ never came out",
    ),
    "end of a tile not reset": (
        "fp12",
        "mxsf_pu_",
        "if (rst) ends_after_1",
        "if (0) ends_after_1",
        check_resets,
        "came out after reset",
    ),
    "end of a row in the sequence not reset": (
        "exact",
        "block_sequencer",
        "if (rst) final_after_1",
        "if (0) final_after_1",
        check_resets,
        "contains non-0/1 values",
    ),
    "a step finds its accumulator where the ring has not turned": (
        "exact",
        "block_accumulator",
        "passing == 2'h2",
        "1'b0",
        check_short_tiles,
        "differ",
    ),
    "the ring of accumulators turns while results wait": (
        "exact",
        "block_accumulator",
        "else if (en) passing_1",
        "else if (en | steps) passing_1",
        check_continued_tiles_with_stalls,
        "differ",
    ),
    "special codes forgotten in their block": (
        "exact",
        "mxfp8_e5m2_special_codes",
        ": special_before",
        ": 0",
        check_special_codes,
        "product: .* differ",
    ),
    "special codes remembered beyond their tile": (
        "exact",
        "mxfp8_e5m2_special_codes",
        "= first ? ",
        "= 0 ? ",
        check_special_codes,
        "product: .* differ",
    ),
    "special codes without effect": (
        "fp12",
        "mxfp8_e4m3_special_codes",
        "is_special[0] = ",
        "is_special[0] = 0 & ",
        check_special_codes,
        "product: .* differ",
    ),
    "second half of packed codes lost": (
        "exact",
        "multi_code_unpacker_lanes2_count4_begins",
        "is_part_1_of_2 = has_2_of_4_bits & part",
        "is_part_1_of_2 = 0 & part",
        check_formats_at_run_time,
        "product: .* differ",
    ),
    "tile ends with the first half of packed codes": (
        "exact",
        "multi_code_unpacker_lanes2_count4_begins",
        "s_axis_tlast & is_last_part",
        "s_axis_tlast",
        check_formats_at_run_time,
        "differ|came out",
    ),
    "exponent of another format": (
        "exact",
        "multi_sta_exact_",
        "is_mode_3_a ? 3'h2",
        "is_mode_3_a ? 3'h4",
        check_formats_at_run_time,
        "product: .* differ",
    ),
    "subnormals of E2M5, E2M3 and E2M1 a binade too low": (
        "exact",
        "multi_operand_decoder_triple",
        "exponent_field_1 } : 3'h5",
        "exponent_field_1 } : 3'h4",
        check_formats_at_run_time,
        "product: .* differ",
    ),
    "blocks cut instead of rounded": (
        "window",
        "window_accumulator",
        "{ 31'h00000000, aligned_0_0[0] }",
        "32'h00000000",
        check_short_tiles,
        "product: .* differ",
    ),
    "a window goes on with the tile before": (
        "window",
        "window_accumulator",
        "kept_window_0 = first ?",
        "kept_window_0 = 1'b0 ?",
        check_short_tiles,
        "contains non-0/1 values",
    ),
    "large distances wrap": (
        "window",
        "scale_distances",
        "is_far_0 = ",
        "is_far_0 = 1'b0 & ",
        check_distances,
        "product: .* differ",
    ),
    "the distances of both sides wrap": (
        "window",
        "mxsf_pu_window",
        "= { 1'h0, distance_a_1[4:0] } + { 1'h0, distance_w_1[4:0] };",
        "= 6'h1f & ({ 1'h0, distance_a_1[4:0] } + { 1'h0, distance_w_1[4:0] });",
        check_distances,
        "product: .* differ",
    ),
    "a scale above its anchor forgotten": (
        "window",
        "scale_distances",
        ": above_before",
        ": 0",
        check_scales_above_anchors,
        "product: .* differ",
    ),
    "a scale above its anchor remembered beyond the tile": (
        "window",
        "scale_distances",
        "= first ? ",
        "= 0 ? ",
        check_scales_above_anchors,
        "product: .* differ",
    ),
    "long tiles not flagged": (
        "window",
        "mxsf_sta_window",
        "sums_may_wrap = | { tile_is_overlong, ",
        "sums_may_wrap = | { 1'b0, ",
        check_overlong_tile,
        "a tile of a beat too many was not flagged",
    ),
    "rows of a tile not reset": (
        "fp12",
        "mxsf_sta_",
        "if (rst) row_number ",
        "if (0) row_number ",
        check_resets,
        r"Logic\('X'\)",
    ),
}


@pytest.mark.parametrize("mutation", some(ARRAY_MUTATIONS, every=18))
def test_wrong_array_is_found(mutation: str, tmp_path: Path) -> None:
    arithmetic, name, right, wrong, check, message = ARRAY_MUTATIONS[mutation]
    fmt = next((fmt for fmt in OPERAND_FORMATS if name.startswith(fmt)), "mxsf")
    module = small_array(tmp_path / "right", arithmetic, fmt)
    (source,) = (s.stem for s in module.sources if s.stem.startswith(name))
    (tmp_path / "wrong").mkdir()
    sources = mutated(module, source, right, wrong, tmp_path / "wrong")
    with pytest.raises(AssertionError, match=message):
        check(available("icarus"), module, sources=sources)


# Start of the module's name, right and wrong text, the check that finds it and how.
FPGA_MUTATIONS: dict[str, tuple[str, str, str, Callable[..., object], str]] = {
    "two significands a bit too close in a block": (
        "mxsf_paired_multiplier",
        "{ a[11:6], 6'h00, a[5:0] }",
        "{ 1'h0, a[11:6], 5'h00, a[5:0] }",
        check_short_tiles,
        "differ",
    ),
    "sums of interleaved MACs are added to those of another": (
        "block_accumulator",
        "read_is_last = read__addr == 2'h3",
        "read_is_last = read__addr == 2'h2",
        check_short_tiles,
        "differ",
    ),
    "tiles enter that have no place": (
        "mxsf_sta_",
        "tile_lacks_room = ",
        "tile_lacks_room = 0 & ",
        partial(check_short_tiles, stall=(0.0, 0.4), seed=4),
        "differ|came out",
    ),
    "a tile has no place any more when its first row leaves": (
        "mxsf_sta_",
        "tile_freed = row_leaves & m_axis_c_tlast",
        "tile_freed = row_leaves & row_number == 0",
        check_full_queue,
        "a tile has entered early",
    ),
    "places of tiles not reset": (
        "mxsf_sta_",
        "if (rst) tiles_free",
        "if (0) tiles_free",
        check_resets,
        r"Logic\('X'\)",
    ),
    "what units say before the reset has reached them": (
        "mxsf_sta_",
        "is_done_since_reset = is_done & ",
        "is_done_since_reset = is_done | 0 & ",
        check_resets,
        "differ|came out",
    ),
    "sums copied a clock after they are complete": (
        "block_accumulator",
        "copies_1 = en & flags_1_copy[2]",
        "copies_1 = en & turn[1]",
        check_short_tiles,
        "differ|contains non-0/1 values",
    ),
    "rows that wait not reset": (
        "mxsf_sta_",
        "if (rst) rows_waiting",
        "if (0) rows_waiting",
        check_resets,
        r"Logic\('X'\)",
    ),
    "flags beside a row on offer change": (
        "mxsf_sta_",
        "else if (queue_read_en) m_axis_c_tuser",
        "else m_axis_c_tuser",
        check_full_queue,
        "flags of a stalled result changed",
    ),
}


@pytest.mark.full
@pytest.mark.parametrize("mutation", FPGA_MUTATIONS)
def test_wrong_array_for_fpgas_is_found(mutation: str, tmp_path: Path) -> None:
    name, right, wrong, check, message = FPGA_MUTATIONS[mutation]
    module = small_array(tmp_path / "right", "exact", target="fpga")
    (source,) = (s.stem for s in module.sources if s.stem.startswith(name))
    (tmp_path / "wrong").mkdir()
    sources = mutated(module, source, right, wrong, tmp_path / "wrong")
    with pytest.raises(AssertionError, match=message):
        check(available("icarus"), module, sources=sources)


# Unit, whether it has DSP blocks, start of the module's name, right and wrong text.
FPGA_MAC_MUTATIONS: dict[str, tuple[str, bool, str, str, str]] = {
    "product: tie to odd": (
        "safe_mac",
        True,
        "safe_mac",
        "product_3_tie = |",
        "product_3_tie = ~|",
    ),
    "sum: tie to odd": ("safe_mac", True, "safe_mac", "level4_0_tie = |", "level4_0_tie = ~|"),
    "packed: no sticky bit": ("safe_mac", True, "safe_mac", "sticky = |", "sticky = 0 & |"),
    "packed: the one that a complement lacks": (
        "safe_mac",
        True,
        "safe_mac",
        "{ folded[22:1], total_leading[22] } >>",
        "{ folded[22:1], 1'h0 } >>",
    ),
    "packed: +0 for -0": ("safe_mac", True, "safe_mac", ": zero_sign_shifted_high;", ": 1'b0;"),
    "pending sign of a sum lost": (
        "safe_mac",
        False,
        "safe_mac",
        "total_differ = ",
        "total_differ = 0 & ",
    ),
    "digits: a row of the triple": (
        "safe_mac",
        False,
        "safe_mac",
        "significands_2_product_triple = ",
        "significands_2_product_triple = 1 ^ ",
    ),
    "exact: a carry lost": (
        "safe_mac_exact",
        False,
        "mxsf_operand_dot",
        "value_1_products, negate_1_products }",
        "value_1_products, 1'h0 }",
    ),
}


@pytest.mark.parametrize("mutation", some(FPGA_MAC_MUTATIONS, every=len(FPGA_MAC_MUTATIONS)))
def test_wrong_mac_for_fpgas_is_found(mutation: str, tmp_path: Path) -> None:
    unit, dsp, name, right, wrong = FPGA_MAC_MUTATIONS[mutation]
    mac = build(unit, OPERAND_FORMATS["mxsf"], target="fpga", dsp=dsp)
    module = generated(mac, tmp_path / "right")
    (source,) = (s.stem for s in module.sources if s.stem.startswith(name))
    (tmp_path / "wrong").mkdir()
    sources = mutated(module, source, right, wrong, tmp_path / "wrong")
    with pytest.raises(AssertionError, match="differ"):
        drive(module, sources)


def test_left_over_beats_are_found(tmp_path: Path) -> None:
    module = small_array(tmp_path, "exact")
    product = operands(np.random.default_rng(3), 4, 8, 4, 8)

    def one_more(job: Job) -> None:
        job["w"] = np.concatenate([job["w"], job["w"][-1:]])
        job["w_last"] = np.append(job["w_last"], True)

    with pytest.raises(AssertionError, match="beats of the second operand were left over"):
        run_products(available("icarus"), module, [product], alter=one_more)


def test_wrong_model_is_found(modules: dict[str, Module]) -> None:
    module = modules["safe_mac"]
    sources = list(module.sources)
    assert drive(module, sources) > 1_000

    def off_by_one(a: np.ndarray, w: np.ndarray) -> np.ndarray:
        result = model.safe_mac(a, w)
        result[len(result) // 2] ^= 1
        return result

    with pytest.raises(AssertionError, match="differ"):
        drive(module, sources, off_by_one)


def test_wrong_adder_is_found(modules: dict[str, Module], tmp_path: Path) -> None:
    module = modules["fp12_adder"]
    sources = []
    for source in module.sources:
        text = source.read_text().replace("guard & ", "guard | ")
        (tmp_path / source.name).write_text(text)
        sources.append(tmp_path / source.name)
    a, b = np.random.default_rng(4).integers(0, 1 << 12, (2, 4_000))
    log = run_lockstep(
        available("icarus"),
        module,
        {"a": module.ports["a"].words(a), "b": module.ports["b"].words(b)},
        sources=sources,
    )
    expected = encode_float(add(decode_float(a), decode_float(b))).astype(np.int64)
    with pytest.raises(AssertionError, match="differ"):
        assert_equal("fp12_adder", module.ports["sum"].numbers(log["sum"]), expected, a=a, b=b)
