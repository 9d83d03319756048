"""Claims about the beats of each kind of stream unit: none is lost, none is made."""

from collections.abc import Callable, Mapping

from mxsafe.machine.description import DESCRIPTOR_BYTES
from verif.rtl.stream_rules import Claims, streams
from verif.support.manifest import Module, made_from
from verif.support.proof import INDUCTION, INTERPOLATION, REACHABILITY

_S, _M = "s_axis_t", "m_axis_t"


def _bits(most: int) -> int:
    return most.bit_length() + 1


def _queue(module: Module) -> Claims:
    source, sink = streams(module)
    declarations = f"""
  // A beat is followed from when it enters, whichever it is, with the number of those before it.
  wire pick;
  reg follows = 0;
  reg [{source.bits - 1}:0] value = 0;
  reg [2:0] before = 0;
  reg [2:0] held = 0;
  reg late = 0;
  reg deaf = 0;
  always @($global_clock) begin
    held <= rst ? 0 : held + {source.name}takes - {sink.name}takes;
    late <= ~rst & held != 0 & ~{sink.name}valid;
    deaf <= ~rst & held == 0 & ~{source.name}ready;
    if (rst) follows <= 0;
    else if (!follows) begin
      follows <= {source.name}takes & pick;
      value <= {source.value};
      before <= held - {sink.name}takes;
    end else if ({sink.name}takes) begin
      follows <= before != 0;
      before <= before - 1;
    end
  end
"""
    return Claims(
        summary="beats leave as they came, in their order, two cycles later at most",
        declarations=declarations,
        never={
            "more_than_two": "held > 2",
            "beat_made": f"{sink.name}valid & held == 0",
            "another_beat": f"follows & before == 0 & {sink.name}takes & {sink.value} != value",
            "waits_for_ready": f"late & held != 0 & ~{sink.name}valid",
            "never_ready": f"deaf & held == 0 & ~{source.name}ready & ~was_reset",
        },
    )


def _passes(module: Module) -> Claims:
    return Claims(
        summary="a beat is there and taken as it comes",
        never={
            "valid_alone": f"{_M}valid != {_S}valid",
            "taken_alone": f"{_M}takes != {_S}takes",
            "another_last": f"{_M}last != {_S}last",
        },
    )


def _line(module: Module) -> Claims:
    top = module.latency - 1
    declarations = f"""
  reg [{top}:0] there = 0;
  reg [{top}:0] last = 0;
  wire steps = ~there[{top}] | {_M}ready;
  always @($global_clock) begin
    if (rst) there <= 0;
    else if (steps) there <= {{there, {_S}valid}};
    if (steps) last <= {{last, {_S}last}};
  end
"""
    return Claims(
        summary="a beat leaves after so many steps, and only a sink stops a step",
        declarations=declarations,
        never={
            "valid_at_another_time": f"~rst & {_M}valid != there[{top}]",
            "ready_at_another_time": f"~rst & {_S}ready != steps",
            "another_last": f"~rst & {_M}valid & {_M}last != last[{top}]",
        },
    )


def _packer(module: Module) -> Claims:
    lanes = module.parameters["lanes"]
    declarations = f"""
  reg [{_bits(lanes) - 1}:0] gathered = 0;
  reg [{_bits(lanes) - 1}:0] waited = 0;
  wire ends = s_axis_tuser | {_S}last;
  always @($global_clock) begin
    gathered <= rst | {_M}takes ? 0 : gathered + {_S}takes;
    waited <= rst | ~{_S}valid | {_M}valid ? 0 : waited + (waited != {lanes});
  end
"""
    return Claims(
        summary="a beat for so many, or for fewer that end a block",
        declarations=declarations,
        never={
            "too_many_gathered": f"gathered >= {lanes}",
            "beat_lost": f"{_S}takes & (ends | gathered == {lanes - 1}) & ~{_M}takes",
            "beat_made": f"{_M}takes & ~({_S}takes & (ends | gathered == {lanes - 1}))",
            "another_last": f"{_M}takes & {_M}last != {_S}last",
            "waits_for_ready": f"waited == {lanes}",
        },
    )


def _transposer(module: Module) -> Claims:
    size = module.parameters["size"]
    top = _bits(size) - 1
    declarations = f"""
  reg [{top}:0] rows = 0;
  reg [{top}:0] columns = 0;
  reg [1:0] tiles = 0;
  reg is_last = 0;
  reg next_is_last = 0;
  reg [{_bits(2 * size) - 1}:0] waited = 0;
  wire tile_ends = {_S}takes & (rows == {size - 1} | {_S}last);
  wire tile_leaves = {_M}takes & columns == {size - 1};
  always @($global_clock) begin
    rows <= rst | tile_ends ? 0 : rows + {_S}takes;
    columns <= rst | tile_leaves ? 0 : columns + {_M}takes;
    tiles <= rst ? 0 : tiles + tile_ends - tile_leaves;
    if (tile_leaves) is_last <= next_is_last;
    if (tile_ends & tiles == tile_leaves) is_last <= {_S}last;
    if (tile_ends & tiles != tile_leaves) next_is_last <= {_S}last;
    waited <= rst | ~{_S}valid | {_M}valid ? 0 : waited + (waited != {2 * size});
  end
"""
    return Claims(
        summary="all columns of each tile, the last marked",
        declarations=declarations,
        never={
            "column_made": f"{_M}valid & tiles == 0",
            "tile_lost": "tiles > 2",
            "another_last": f"{_M}valid & {_M}last != (is_last & columns == {size - 1})",
            "waits_for_ready": f"waited == {2 * size}",
        },
    )


def _groups(module: Module) -> Claims:
    declarations = """
  reg [3:0] held = 0;
  reg [1:0] word = 0;
  reg [3:0] waited = 0;
  always @($global_clock) begin
    held <= rst ? 0 : held + s_takes - m_takes;
    word <= rst ? 0 : word + s_takes;
    waited <= rst | ~s_valid | m_valid ? 0 : waited + (waited != 8);
  end
"""
    return Claims(
        summary="a word for each word",
        declarations=declarations,
        never={
            "too_many": "held > 6",
            "word_made": "m_takes & held == 0 & ~s_takes",
            "waits_for_ready": "waited == 8",
        },
    )


def _splitter(module: Module) -> Claims:
    top = (module.parameters["parts"] - 1).bit_length() - 1
    declarations = f"""
  reg [{top}:0] part = 0;
  reg was_by_rows = 0;
  always @($global_clock) begin
    was_by_rows <= by_rows;
    part <= rst | start ? 0 : part + ({_M}takes & ({_M}last | ~by_rows));
  end
"""
    return Claims(
        summary="each beat with all its parts",
        declarations=declarations,
        assumed=["(rst | start | by_rows == was_by_rows)", f"~(start & ({_S}valid | {_M}valid))"],
        never={
            "beat_lost_or_made": f"{_S}takes != ({_M}takes & (by_rows ? part == 0 : &part))",
        },
    )


def _joiner(module: Module) -> Claims:
    top = (module.parameters["parts"] - 1).bit_length() - 1
    declarations = f"""
  reg [{top}:0] part = 0;
  reg was_by_rows = 0;
  always @($global_clock) begin
    was_by_rows <= by_rows;
    part <= rst ? 0 : part + ({_S}takes & ({_S}last | ~by_rows));
  end
"""
    return Claims(
        summary="a beat with its last part",
        declarations=declarations,
        assumed=["(rst | by_rows == was_by_rows)"],
        never={
            "beat_lost_or_made": f"{_M}takes != ({_S}takes & &part)",
            "another_last": f"{_M}takes & {_M}last != {_S}last",
        },
    )


def _pairs(module: Module) -> Claims:
    """Beats of both operands are taken together."""
    return Claims(
        summary="beats of all operands are taken together",
        never={"taken_alone": "s_axis_a_ttakes != s_axis_w_ttakes"},
    )


def _given(*assumed: str, first: str = REACHABILITY) -> Callable[[Module], Claims]:
    """No more than the rules, of units that get no more than this."""
    return lambda module: Claims(summary="", never={}, assumed=assumed, first=first)


def _fetch(module: Module) -> Claims:
    fields = {name: (low, width) for name, low, width in module.ports["run_payload"].fields}
    low, width = fields["words"]
    declarations = f"""
  // Words that have been asked for and are not there.
  reg [15:0] coming = 0;
  wire [{width - 1}:0] wanted = run_payload[{low + width - 1}:{low}];
  always @($global_clock) coming <= rst ? 0 : coming + (run_takes ? wanted : 0) - word_valid;
"""
    ahead = module.parameters["ahead"]
    words = 8 * DESCRIPTOR_BYTES // {n: w for n, _, w in module.ports["word"].fields}["data"]
    bits = ahead.bit_length()
    nets = {"descriptors_ahead": bits, "waiting": bits, "shows": 1, "judged": 1}
    which = "0"
    if words > 1:
        nets["which_word"] = (words - 1).bit_length()
        which = "inside_which_word"
    held = f"{words} * (inside_waiting + inside_shows)"
    return Claims(
        summary="",
        declarations=declarations,
        # What is handed over was asked for: without this no proof comes to an end.
        never={
            "words_miscounted": (
                f"{words} * inside_descriptors_ahead != coming + {which} + {held}"
            ),
            "judged_without_descriptor": "inside_judged & ~inside_shows",
        },
        assumed=["(~word_valid | coming != 0)", "(~start | ended)"],
        nets=nets,
        first=INDUCTION,
    )


def _result_rows(module: Module) -> Claims:
    declarations = f"""
  reg [{_bits(module.parameters["under_way"]) - 1}:0] entered = 0;
  always @($global_clock) entered <= rst ? 0 : entered + enters - done;
"""
    return Claims(
        summary="",
        declarations=declarations,
        never={},
        assumed=["(~enters | has_room)", f"(~{_S}valid | entered != 0)"],
    )


def _registers(module: Module) -> Claims:
    declarations = """
  reg writes = 0;
  reg reads = 0;
  reg [1:0] waited = 0;
  always @($global_clock) begin
    writes <= ~rst & (s_axi_awtakes | (writes & ~s_axi_btakes));
    reads <= ~rst & (s_axi_artakes | (reads & ~s_axi_rtakes));
  end
"""
    return Claims(
        summary="an answer for each access, at once",
        declarations=declarations,
        never={
            "taken_alone": "s_axi_awtakes != s_axi_wtakes",
            "write_answer_lost_or_made": "s_axi_bvalid != writes",
            "read_answer_lost_or_made": "s_axi_rvalid != reads",
            "write_lost": "writes & s_axi_awtakes & ~s_axi_btakes",
            "read_lost": "reads & s_axi_artakes & ~s_axi_rtakes",
        },
    )


CLAIMS: Mapping[str, Callable[[Module], Claims]] = {
    "register_slice": _queue,
    "relu_stream": _passes,
    "activation_stream": _line,
    "every_function_stream": _line,
    "mxsf_operand_packer": _packer,
    "transposer": _transposer,
    "tile_transposer": _groups,
    "beat_splitter": _splitter,
    "beat_joiner": _joiner,
    "registers": _registers,
    "fetch": _fetch,
    "result_rows": _result_rows,
    # All that was wanted before has been taken when they start.
    "beat_reader": _given("~(start & read_valid)"),
    "mxsf_operand_writer": _given(f"~(start & {_S}valid)"),
    "mxsf_converter": _given(first=INTERPOLATION),
    "mxsf_sta": _pairs,
}
"""By what names of modules begin with."""


ALSO = (
    "beat_splitter_columns8_parts8_depth128",
    "operand_feed_a_beats256_w_beats512_a_entries128_w_entries256",
    "relu_stream",
)
"""Units that are proved beside the smallest one of their kind: they are made in another way."""

_OF_ROWS = "it is a configuration of `rows`"
LEFT_OUT: Mapping[str, str] = {
    "machine/accelerator": "the whole machine",
    "machine/accelerator_core": "the whole machine",
    "machine/vector/vector_engine": "an engine of it",
    "machine/gemm/gemm_engine": "an engine of it",
    "machine/dma/load_engine": "an engine of it",
    "machine/dma/store_engine": "an engine of it",
    "machine/control/queues": "what it gives rests on what engines do; its tokens are proved",
    "machine/vector/vector_chain": "a chain of stream units",
    "machine/vector/folded_chain": "a chain of stream units",
    "machine/vector/narrow_function": "a chain of stream units",
    "machine/layer": "a chain of stream units",
    "vector/normalise": _OF_ROWS,
    "vector/normalise_core": "its passes follow from the rows in front of it, in `rows`",
    "vector/rows": "it is made of softmax's core and that of norms",
    "vector/softmax": _OF_ROWS,
    "vector/softmax_core": "its lanes are outside",
}
"""Kinds of units that are left out, and why."""


def kind_of(module: Module) -> str:
    """The file that a module is described in."""
    made_by = made_from(module.sources[0])
    return made_by.removeprefix("mxsafe.rtl.").replace(".", "/")


def claims_for(module: Module) -> Claims | None:
    """Return the claims about a module, or None if it has no more than the rules."""
    made = next((made for start, made in CLAIMS.items() if module.unit.startswith(start)), None)
    return made(module) if made else None
