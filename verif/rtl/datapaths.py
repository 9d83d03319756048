"""Proofs that datapaths compute what `specifications/` says, for all operands.

A specification is a module of Verilog whose inputs are a unit's operands and results. It is written
from the contract alone, with integers and comparisons, and shares no code with the unit or with its
model. ABC joins nets of both that are always equal and proves the rest by SAT.

A unit of control has a specification that goes from state to state as well. What the unit expects
of those around it stands there: once that is broken nothing is claimed.
"""

import fnmatch
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import count, pairwise, takewhile
from pathlib import Path

from mxsafe.verilog.parameters import fixed_name
from verif.rtl.frames import later_operands
from verif.rtl.pipelines import prove_stillness
from verif.rtl.stream_rules import ENABLES
from verif.support.fresh import require_fresh
from verif.support.manifest import Module, generated
from verif.support.proof import INDUCTION, REACHABILITY, first_clock, never, never_at

FOLDER = Path(__file__).parent / "specifications"
"""Of specifications."""
_CODE_BITS = 8
_INSIDE = "inside_"
"""What names of ports of specifications begin with that are nets of the unit, or of a part.

Where parts share the name of a net the part's own name stands before it.
"""
_EACH = "_each"
"""What ends the name of a port of a specification that is several nets, NAME_0 lowest."""
_OF_EACH = "_of_each"
"""What ends such a name that is a port of each of the parts that are `free` and have it, those in
the order of their names."""
_WATCHED = "watched"
"""A port of specifications that says which word of memories is known."""
_WATCHED_BITS = 32
_OF_MEMORY = ("known", "word", "shows", "shown")
"""Ports of ``watched_memory``, as ``inside_NAME_NUMBER`` those of the memories of a unit."""
_SECONDS = 300
"""That a method may take, if nothing else is said."""
_MODULE = re.compile(r"^module (\w+).*?^endmodule$\n?", re.MULTILINE | re.DOTALL)
_ASSIGNED = re.compile(r"^  assign .+? = (.+?);$", re.MULTILINE | re.DOTALL)
_WIRE = re.compile(r"\\\S+ |[A-Za-z_][\w$]*|\d+'[bdh][0-9a-f]+|\d+|[\[\]{}:,\s]")
_NET = r"^  (?:reg|wire) (?:\[(\d+):0\] )?{};$"
_MEMORY = re.compile(r"^  reg \[(\w+)-1:0\] (\w+) \[0:(\w+)-1\];$\n", re.MULTILINE)
_PLACED = re.compile(r"^  mxsafe_beat_memory (#\(\.BEAT_BITS\((\d+)\).*\()$", re.MULTILINE)
_INSTANCE = re.compile(r"^  (\w+)(?: #\(.*?\))? \\?\S+ +\($", re.MULTILINE)
_PORT = re.compile(r"^  input .*?(\w+),?$", re.MULTILINE)
_INSIDE_HOLDS = "inside_holds"
"""An output of specifications: what they say of nets inside, so that induction proves ``holds``."""


@dataclass(frozen=True)
class Datapath:
    """How the function of a unit is specified.

    Attributes
    ----------
    specification : str
        Module of `FOLDER`, without its ending.
    parameters : Mapping of str to str or int
        Its parameters: numbers, or the names of the unit's parameters that they are.
    codes : Mapping of str to Mapping of str to int
        Operands that are made of element codes, with parameters of ``mxsf_operands``: the
        specification has the codes.
    significands : int
        After so many cycles `significands` comes from outside, the products of those of all codes.
    steps : bool
        The specification has registers too: it is compared in all cycles after a first reset.
    parts : Mapping of str to str
        Units inside, which are proved by themselves, and what stands for them and for their
        functions in the specification: a module of `FOLDER` whose ports have the same names, with
        parameters if need be. Behind it are registers, as many as the unit's latency.
    free : tuple of str
        What names of units inside begin with that are proved by themselves, and whose results may
        be anything here: the specification says what they get.
    late : Mapping of str to int
        Operands that come so many cycles after the others.
    words : str
        Parameter in Verilog, of a unit that moves words whole: their width, which is 1 in a proof.
    variants : int
        What stands for parts does so in several ways, and the proof holds in each: ``VARIANT`` of
        the specification says in which.
    first : str
        The method of `never` that is tried first, of one that has `steps`: reachability is quick
        where registers of the unit and of the specification are equal one by one.
    """

    specification: str
    parameters: Mapping[str, str | int] = field(default_factory=dict)
    codes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    significands: int = 0
    steps: bool = False
    parts: Mapping[str, str] = field(default_factory=dict)
    free: tuple[str, ...] = ()
    late: Mapping[str, int] = field(default_factory=dict)
    words: str = ""
    variants: int = 1
    first: str = INDUCTION


UNDETERMINED = {
    "float32_multiplier_pipeline3": "stopped after a minute; full adders add the rows of its "
    "digits, in an order that no sum of the specification has",
    "mxsf_operand_dot_lanes8_carry_save": "stopped after two minutes; full adders add eight "
    "products, in an order that no sum of the specification has",
}
"""Units of which no proof came to an end, by pattern, and what was tried."""
_DIGITS = {"DIGITS": 1, "BITS": 12}
_TRIPLE = {"TRIPLE": 1, "BITS": 17}
_ROWS = {"DEPTH": "depth", "BITS": "address_bits", "STRIDE": "stride_bits"}
_BEATS: Mapping[str, str | int] = {
    "LOOPS": 3,
    "COUNT": 10,
    "STEP": 20,
    "START": "start_bits",
    "BITS": "address_bits",
}
_SEQUENCER = {
    "MACS": "macs",
    "SHOWN": "shown",
    "DOT": "dot_latency",
    "RESULT": "result_latency",
}
_BLOCKS = {**_SEQUENCER, "STEP": "step_latency"}
_BURSTS = {"BYTES": "beat_bytes", "BURST": "burst", "BEATS": "beats_bits"}
_OPERANDS = {"BITS": "word_bits", "BEATS": "beats", "TOGETHER": "reads_words"}
_BANKS = {"BANKS": "banks", "DEPTH": "bank_depth", "COLUMNS": "columns"}
_WRITER: Mapping[str, str | int] = {"WIDTH": "width", "OUT": 64, "A": 256, "W": 512}
_RESULTS = {"ROWS": "rows", "BEATS": "beats", "UNDER_WAY": "under_way"}
_FEED = {"A": "a_beats", "W": "w_beats", "AE": "a_entries", "WE": "w_entries"}
_RUNS = {"BYTES": "word_bytes", "LAST": "tells_last"}
_MASTER = {"WORD": "word_bytes", "BITS": "data_bits", "BURST": "burst", "DEPTH": "bursts"}
_READER = {
    "DEPTH": "depth",
    "ADDRESS": "address_bits",
    "BEAT": "beat_bits",
    "ROWS": "rows_bits",
    "AHEAD": "ahead",
}
_REPLAY = {
    "BEAT": "beat_bits",
    "DEPTH": "depth",
    "PASSES": "passes",
    "ROWS": "rows",
    "SUMMARY": "summary_bits",
}
_SMALL = {"ROWS": 8, "LANES": 8, "WORD": 16, "REDUCED": 128, "FUNCTIONS": 0b111011}
"""A machine of 8 rows; of its functions bits stand for relu, gelu, silu and tanh, and for none."""
_QUEUES = Datapath(
    "queues",
    {
        "LOAD": "load_under_way",
        "GEMM": "gemm_under_way",
        "VECTOR": "vector_under_way",
        "STORE": "store_under_way",
        "TOKENS": "token_bits",
    },
    steps=True,
    free=("descriptor_queue",),
    first=REACHABILITY,
)
_FETCH = Datapath("fetch", steps=True, free=("descriptor_check", "beat_memory"))
_BUS = Datapath("registers", {"CONSTANTS": "constants"}, steps=True, first=REACHABILITY)
_ARITHMETIC = Datapath(
    "vector_arithmetic",
    {"LANES": "lanes", "DUE": "multiply_stages", "LATENCY": "latency"},
    steps=True,
    free=("multiply_add",),
)
_BLOCK_CONVERTER = Datapath(
    "mxsf_block_converter",
    {"WIDTH": "width"},
    steps=True,
    free=(
        "mxsf_encoder",
        "mxsf_float32_normaliser",
        "largest_exponent",
        "row_replay",
        "register_slice",
    ),
)
_LAYER = Datapath(
    "layer",
    steps=True,
    free=("mxsf_sta", "mxsf_converter", "mxsf_operand_packer"),
)
_PU = {"INTERVAL": "row_interval", "DOT": "pipeline", "LATENCY": "latency"}
_FREE_MACS = ("safe_mac", "bf16_mac", "fp12_accumulator", "bf16_accumulator")
_NEAR_PU: Mapping[str, str | int] = {
    "A": 10,
    "W": 10,
    "STAGES": "pipeline",
    "NEAR": 1,
    "SHARED": 1,
}
_FREE_DOTS = ("block_accumulator", "block_sequencer", "mxsf_operand_dot", "mxsf_paired_multiplier")
_FREE_WINDOW = ("window_accumulator", "window_sequencer", "mxsf_operand_dot")
_ENGINE = {
    "PU_ROWS": "pu_rows",
    "PU_COLUMNS": "pu_columns",
    "ROWS": "rows",
    "COLUMNS": "columns",
    "LANES": "lanes",
}
_FREE_ENGINE = ("mxsf_sta", "bf16_sta", "operand_feed", "result_rows")
_SCALER = {"WIDTH": "width", "QUANTUM_EXPONENT": "quantum_exponent"}


def _dot(lanes: int, a: Mapping[str, int], w: Mapping[str, int], **parameters: int) -> Datapath:
    codes = {"a": {"COUNT": lanes, **a}, "w": {"COUNT": lanes, **w}}
    return Datapath("mxsf_operand_dot", {"LANES": lanes, **parameters}, codes)


def _paired_dot(lanes: int, bits: int) -> Datapath:
    return replace(_dot(lanes, {}, {}, PARTS=1, BITS=bits), significands=3)


def _lanes(lane: str, code: int, *, chosen: int = 1, operands: int = 2) -> Datapath:
    """Lanes side by side, with so many bits of a code, and of what is chosen by it."""
    part = f"lane_operand #(.CHOSEN({chosen}), .CODE({code}))"
    parameters = {"COUNT": "width", "CHOSEN": chosen, "CODE": code}
    return Datapath("activation", parameters, parts={lane: part}, variants=operands)


def _stream(lanes: str, width: int, code: int) -> Datapath:
    """Lanes of functions, so many with so many bits of a code, between streams."""
    part = f"lanes_operand #(.COUNT({width}), .CODE({code}))"
    parameters = {"COUNT": width, "CODE": code, "LATENCY": "latency"}
    return Datapath("function_stream", parameters, steps=True, parts={lanes: part}, variants=2)


_POWERS = "exp_sigmoid_reciprocal_rsqrt"
_WITH_DERIVATIVES = "relu_relud_gelu_silu_tanh_gelud_silud_tanhd"
_CURVES = "relu_gelu_silu_tanh_lane_pipeline"
_CHAIN = Datapath(
    "vector_chain",
    steps=True,
    free=(
        "vector_add_multiply_axpy_scale",
        "activation_stream",
        _WITH_DERIVATIVES,
        "narrow_exp",
        "rows_",
        "register_slice",
    ),
    first=REACHABILITY,
)
DATAPATHS = {
    "full_adders*": Datapath("full_adders", {"BITS": "bits"}),
    "largest_exponent*": Datapath("largest_exponent", {"COUNT": "count", "BITS": "bits"}),
    "multiplier_18x18": Datapath("multiplier_18x18"),
    "multiplier_18x18_signed_reset": Datapath("multiplier_18x18", {"SIGNED": 1}),
    "number_rounder": Datapath("number_rounder", {"COUNT": "width"}),
    "relu": Datapath("relu", {"COUNT": "width"}),
    "mxsf_decoder": Datapath("mxsf_decoder"),
    "mxsf_lane_decoder_count*": Datapath("mxsf_lane_decoder", {"COUNT": "count"}),
    "mxsf_lane_decoder_digits*": Datapath("mxsf_lane_decoder", {"COUNT": "count", **_DIGITS}),
    "mxsf_lane_decoder_triple*": Datapath("mxsf_lane_decoder", {"COUNT": "count", **_TRIPLE}),
    "mxsf_operand_decoder": Datapath("mxsf_operand_decoder"),
    "mxsf_operand_decoder_digits": Datapath("mxsf_operand_decoder_digits"),
    "mxsf_operand_decoder_triple": Datapath("mxsf_operand_decoder_triple"),
    "mxsf_encoder": Datapath("mxsf_encoder"),
    "mxsf_float32_normaliser": Datapath("mxsf_float32_normaliser"),
    "mxsf_fp12_multiplier": Datapath("mxsf_fp12_multiplier"),
    "mxsf_operand_multiplier": Datapath(
        "mxsf_operand_multiplier", codes={"a": _DIGITS, "w": _TRIPLE}
    ),
    "mxsf_paired_multiplier": Datapath("mxsf_paired_multiplier"),
    "mxsf_operand_dot_reset": _dot(4, _DIGITS, _TRIPLE, PARTS=2, BITS=26),
    "mxsf_operand_dot_together4*": _dot(4, _DIGITS, _TRIPLE, PARTS=1, BITS=27),
    "mxsf_operand_multiplier_dsp_fpga_halved_reset": Datapath(
        "mxsf_signed_multiplier", {"BLOCKS": 1}, {"a": {}, "w": {}}
    ),
    "mxsf_operand_multiplier_dsp_fpga_halved_paired": Datapath(
        "mxsf_signed_multiplier", codes={"a": {}, "w": {}}, significands=3
    ),
    "mxsf_operand_dot_pipeline6_reset_fpga": replace(
        _dot(4, {}, {}, PARTS=2, BITS=26), specification="mxsf_signed_dot"
    ),
    "mxsf_operand_dot_fpga_paired": _paired_dot(4, 27),
    "mxsf_operand_dot_lanes2_fpga_paired": _paired_dot(2, 26),
    "fp12_unpacker": Datapath("fp12_unpacker"),
    "fp12_packer": Datapath("fp12_packer"),
    "fp12_rounder_width22": Datapath("fp12_rounder"),
    "fp12_adder": Datapath("fp12_adder"),
    "safe_mac_exact_fpga": Datapath("safe_mac_exact_blocks"),
    "safe_mac_exact": Datapath("safe_mac_exact"),
    "safe_mac": Datapath("safe_mac"),
    "scaler*twos_complement*": Datapath("scaler", {**_SCALER, "SIGNED": 1}),
    "scaler*": Datapath("scaler", _SCALER),
    "float32_adder": Datapath("float32_adder"),
    "float32_adder_clearable": Datapath("float32_adder", {"CLEARABLE": 1}),
    "float32_multiplier_fpga": Datapath("float32_multiplier", {"BLOCKS": 1}),
    "float32_multiplier": Datapath("float32_multiplier"),
    "float32_multiplier_pipeline2": Datapath("float32_multiplier"),
    "bf16_multiplier": Datapath(
        "bf16_multiplier", parts={"scaler_width16_quantum_exponentm14": "scaler_operands"}
    ),
    "bf16_mac": Datapath(
        "bf16_mac", parts={"bf16_multiplier": "bf16_product", "float32_adder": "float32_sum"}
    ),
    "fp12_accumulator": Datapath(
        "fp12_accumulator",
        steps=True,
        parts={
            "scaler": "scaler_product #(.QUANTUM_EXPONENT(-18))",
            "float32_adder_clearable": "float32_sum #(.CLEARABLE(1))",
        },
    ),
    "bf16_accumulator_first_behind": Datapath("bf16_accumulator", steps=True),
    "multiply_add_late_addend": Datapath(
        "multiply_add",
        parts={
            "float32_multiplier_pipeline2": "float32_product",
            "float32_adder_pipeline1": "float32_sum",
        },
        late={"addend": 2},
    ),
    "multiply_add_multiply_stages3_late_addend": Datapath(
        "multiply_add",
        parts={
            "float32_multiplier_pipeline3": "float32_product",
            "float32_adder_pipeline1": "float32_sum",
        },
        late={"addend": 3},
    ),
    "multiply_add_late_addend_fpga": Datapath(
        "multiply_add",
        {"BLOCKS": 1},
        parts={
            "float32_multiplier_fpga": "float32_product #(.BLOCKS(1))",
            "float32_adder_pipeline6_fpga": "float32_sum",
        },
        late={"addend": 5},
    ),
    "register_slice*": Datapath("register_slice", {"BITS": "bits", "HALVED": "halved"}, steps=True),
    "scale_distances*": Datapath(
        "scale_distances", {"COUNT": "count", "BITS": "distance_bits"}, steps=True
    ),
    "row_address_generator*_later": Datapath(
        "row_address_generator", {**_ROWS, "LATER": 1}, steps=True
    ),
    "row_address_generator*": Datapath("row_address_generator", _ROWS, steps=True),
    "address_generator": Datapath("address_generator", steps=True),
    "address_generator_paced": Datapath("address_generator", {"PACED": 1}, steps=True),
    "address_generator*_paced": Datapath("address_generator", {**_BEATS, "PACED": 1}, steps=True),
    "address_generator*": Datapath("address_generator", _BEATS, steps=True),
    "second_operand*": Datapath(
        "second_operand", {"COLUMNS": "columns", "ONLY_NUMBERS": "only_numbers"}, steps=True
    ),
    "beat_chain*": Datapath(
        "beat_chain",
        {"STAGES": "stages", "LANES": "lane_bits", "LARGEST": "largest_bits"},
        steps=True,
    ),
    "burst_splitter*_fpga": Datapath("burst_splitter", {**_BURSTS, "LATER": 1}, steps=True),
    "burst_splitter": Datapath("burst_splitter", _BURSTS, steps=True),
    "burst_splitter_beat_bytes8_beats_bits13": Datapath("burst_splitter", _BURSTS, steps=True),
    "axi_reader*_fpga": Datapath(
        "axi_reader", {**_MASTER, "WINDOW": "window", "LATER": 1}, steps=True
    ),
    "axi_reader*": Datapath("axi_reader", {**_MASTER, "WINDOW": "window"}, steps=True),
    "axi_writer*_fpga": Datapath("axi_writer", {**_MASTER, "LATER": 1}, steps=True),
    "axi_writer*": Datapath("axi_writer", _MASTER, steps=True),
    "block_sequencer": Datapath("block_sequencer", _BLOCKS, steps=True),
    "block_sequencer*_early1": Datapath("block_sequencer", {**_BLOCKS, "EARLY": 1}, steps=True),
    "block_sequencer*_turns2": Datapath(
        "block_sequencer", {**_BLOCKS, "TURNS": "turns", "GROUPS": "groups"}, steps=True
    ),
    "window_sequencer": Datapath("window_sequencer", _SEQUENCER, steps=True),
    "window_sequencer_turns2": Datapath(
        "window_sequencer", {**_SEQUENCER, "TURNS": "turns"}, steps=True
    ),
    "register_copy*": Datapath("register_copy", {"BITS": "bits"}),
    "buffer_address_generator_paced": Datapath(
        "buffer_address_generator", {"PACED": 1}, steps=True
    ),
    "buffer_address_generator_together2": Datapath(
        "buffer_address_generator", {"TOGETHER": 2}, steps=True
    ),
    "buffer_address_generator": Datapath("buffer_address_generator", steps=True),
    "memory_address_generator*_paced": Datapath(
        "memory_address_generator", {**_RUNS, "PACED": 1}, steps=True
    ),
    "memory_address_generator*": Datapath("memory_address_generator", _RUNS, steps=True),
    "descriptor_check": Datapath("descriptor_check"),
    "descriptor_check_anchored": Datapath("descriptor_check", {"WINDOW": 1}),
    "descriptor_check_bf16": Datapath("descriptor_check", {"SCALED": 0}),
    "descriptor_check_small": Datapath("descriptor_check", _SMALL),
    "descriptor_check_small_no_sweeps_fpga": Datapath("descriptor_check", {**_SMALL, "SWEEPS": 0}),
    "bf16_operand_packer": Datapath("operand_packer", {"CODE": 16, "GROUPS": 0}, steps=True),
    "mxsf_operand_packer*": Datapath(
        "operand_packer", {"WIDTH": "width", "GROUPS": "groups", "LANES": "lanes"}, steps=True
    ),
    "transposer": Datapath("transposer", steps=True),
    "tile_transposer*": Datapath("tile_transposer", {"ROWS": "rows"}, steps=True),
    "wide_transposer": Datapath("wide_transposer", {"ROWS": "rows"}, steps=True),
    "beat_reader*_later": Datapath("beat_reader", {**_READER, "LATER": 1}, steps=True),
    "beat_reader*": Datapath("beat_reader", _READER, steps=True),
    "row_replay*_fpga": Datapath("row_replay", {**_REPLAY, "LATER": 1}, steps=True),
    "row_replay*": Datapath("row_replay", _REPLAY, steps=True),
    "beat_splitter_columns8_parts8_depth128": Datapath("beat_splitter", steps=True),
    "beat_joiner_parts4_no_rows": Datapath(
        "beat_joiner", {"PARTS": 4, "BITS": 128, "IN_ROWS": 0}, steps=True
    ),
    "beat_joiner_columns8_parts8_depth128": Datapath("beat_joiner", steps=True),
    "tag_queue": Datapath("tag_queue", {"DEPTH": "depth"}, steps=True),
    "beat_memory*": Datapath("beat_memory", {"DEPTH": "depth"}, steps=True, words="BEAT_BITS"),
    "operand_feed": Datapath("operand_feed", _FEED, steps=True),
    "operand_feed_anchors*": Datapath("operand_feed", {**_FEED, "ANCHORS": "anchors"}, steps=True),
    "operand_feed*_paced": Datapath("operand_feed", {**_FEED, "PACED": 1}, steps=True),
    "operand_feed*_entries*": Datapath("operand_feed", _FEED, steps=True),
    "anchor_scan": Datapath(
        "anchor_scan", {"ROWS": "rows", "A": "a_entries", "W": "w_entries"}, steps=True
    ),
    "result_rows": Datapath("result_rows", _RESULTS, steps=True),
    "result_rows_rows8_beats512": Datapath("result_rows", _RESULTS, steps=True),
    "result_rows*_fpga": Datapath("result_rows", {**_RESULTS, "LATER": 1}, steps=True),
    "queues*_fpga": replace(_QUEUES, parameters={**_QUEUES.parameters, "LATER": 1}),
    "queues": _QUEUES,
    "fetch_small*_fpga": replace(_FETCH, parameters={"WORDS": 2, "LATER": 1}),
    "fetch_small": replace(_FETCH, parameters={"WORDS": 2}),
    "fetch*": _FETCH,
    "registers*_fpga": replace(_BUS, parameters={"CONSTANTS": "constants", "STAGES": 3}),
    "registers*": _BUS,
    "descriptor_queue*": Datapath(
        "descriptor_queue", {"DEPTH": "depth", "UNDER_WAY": "under_way"}, steps=True
    ),
    "bf16_operand_writer*": Datapath(
        "operand_writer", {"WIDTH": "width", "CODE": 16, "SCALED": 0}, steps=True
    ),
    "mxsf_operand_writer*_later": Datapath("operand_writer", {**_WRITER, "LATER": 1}, steps=True),
    "mxsf_operand_writer_width8*": Datapath("operand_writer", _WRITER, steps=True),
    "mxsf_operand_writer*": Datapath("operand_writer", {"WIDTH": "width"}, steps=True),
    "operand_buffer*words4_no_scaled*": Datapath(
        "operand_buffer",
        {"BITS": "word_bits", "BEATS": "beats", "WORDS": "words", "SCALED": 0},
        steps=True,
    ),
    "operand_buffer*_fpga": Datapath("operand_buffer", {**_OPERANDS, "HELD": 1}, steps=True),
    "operand_buffer*": Datapath("operand_buffer", _OPERANDS, steps=True),
    "activation_stream": _stream("activation", 16, 2),
    "activation_stream_width8": _stream("activation_width8", 8, 2),
    "activation_stream_width1_pipeline6": _stream("activation_width1_pipeline6", 1, 2),
    "every_function_stream": _stream("every_function", 16, 4),
    f"{_POWERS}_stream_width4": _stream(f"{_POWERS}_width4", 4, 2),
    f"{_WITH_DERIVATIVES}_stream": _stream(_WITH_DERIVATIVES, 16, 3),
    "activation_width1_pipeline6": _lanes(f"{_CURVES}6", 2),
    "activation*": _lanes(f"{_CURVES}3", 2, chosen=4),
    "every_function": _lanes("function_lane_pipeline8", 4, operands=3),
    f"{_POWERS}_width4": _lanes(f"{_POWERS}_lane_pipeline8", 2, operands=3),
    _WITH_DERIVATIVES: _lanes(f"{_WITH_DERIVATIVES}_lane_pipeline3", 3, chosen=8),
    "softmax_entry*_norms": Datapath(
        "softmax_entry", {"LANES": "lanes", "NORMS": "norms"}, steps=True
    ),
    "softmax_entry_beats": Datapath("softmax_entry", {"LANES": "lanes"}, steps=True),
    "softmax_entry": Datapath("softmax_row_entry", {"LANES": "lanes"}, steps=True),
    "vector_buffer": Datapath("vector_buffer", _BANKS, steps=True),
    "mxsf_converter*": Datapath(
        "mxsf_converter",
        {"WIDTH": "width", "GROUPS": "groups", "BEATS": "block_beats"},
        steps=True,
        free=("mxsf_encoder", "mxsf_float32_normaliser", "largest_exponent", "beat_chain"),
        first=REACHABILITY,
    ),
    f"narrow_{_POWERS}_stream_width4": Datapath(
        "narrow_function", {"PARTS": "parts"}, steps=True, free=(_POWERS, "beat_joiner")
    ),
    "folded_chain_*": Datapath(
        "folded_chain",
        steps=True,
        free=("vector_chain", "beat_joiner", "beat_splitter", "register_slice"),
    ),
    "vector_chain_*_fpga": replace(_CHAIN, parameters={"COLUMNS": "columns", "LATER": 1}),
    "vector_chain_sweeps_affine": replace(
        _CHAIN, parameters={"COLUMNS": "columns", "NARROW": 1, "SWEEPS": 1}
    ),
    "vector_chain_*_sweeps_affine": replace(_CHAIN, parameters={"COLUMNS": "columns", "SWEEPS": 1}),
    "mxsf_block_converter*_fpga*": replace(
        _BLOCK_CONVERTER, parameters={"WIDTH": "width", "LATER": 1}
    ),
    "mxsf_block_converter*": _BLOCK_CONVERTER,
    "mxsf_layer_8x8": replace(_LAYER, parameters={"GROUPS": 2}),
    "mxsf_layer*": _LAYER,
    "vector_arithmetic": replace(_ARITHMETIC, parameters={**_ARITHMETIC.parameters, "SCALES": 0}),
    "vector_add_multiply_axpy_scale*_both*": replace(
        _ARITHMETIC, parameters={**_ARITHMETIC.parameters, "BOTH": 1}
    ),
    "vector_buffer_columns8_banks2_bank_depth256": Datapath("vector_buffer", _BANKS, steps=True),
    "mxsf_pu": Datapath("pu", _PU, steps=True, free=_FREE_MACS, first=REACHABILITY),
    "bf16_pu_first_behind": Datapath(
        "pu",
        {**_PU, "CODE": 16, "SCALED": 0, "PARTIAL": 32},
        steps=True,
        free=_FREE_MACS,
        first=REACHABILITY,
    ),
    "mxsf_pu_exact": Datapath(
        "exact_pu", {"STAGES": "pipeline"}, steps=True, free=_FREE_DOTS, first=REACHABILITY
    ),
    "mxsf_pu_exact_fpga": Datapath(
        "exact_pu", _NEAR_PU, steps=True, free=_FREE_DOTS, first=REACHABILITY
    ),
    "mxsf_pu_exact_4x4x2_fpga": Datapath(
        "exact_pu",
        {**_NEAR_PU, "LANES": 2, "DOT": 26},
        steps=True,
        free=_FREE_DOTS,
        first=REACHABILITY,
    ),
    "mxsf_pu_exact_4x8x4*_interleave2": Datapath(
        "interleaved_pu",
        {"INTERVAL": "row_interval"},
        steps=True,
        free=_FREE_DOTS,
        first=REACHABILITY,
    ),
    "mxsf_pu_window": Datapath("window_pu", steps=True, free=_FREE_WINDOW, first=REACHABILITY),
    "mxsf_pu_window*_interleave2": Datapath(
        "window_pu", {"TURNS": 2}, steps=True, free=_FREE_WINDOW, first=REACHABILITY
    ),
    "mxsf_gemm_engine_exact_?x?x4x8x4*": Datapath(
        "gemm_engine", _ENGINE, steps=True, free=_FREE_ENGINE, first=REACHABILITY
    ),
    "mxsf_gemm_engine_window*": Datapath(
        "gemm_engine",
        {**_ENGINE, "ANCHORED": 1},
        steps=True,
        free=_FREE_ENGINE,
        first=REACHABILITY,
    ),
    "bf16_gemm_engine_first_behind": Datapath(
        "gemm_engine",
        {**_ENGINE, "CODE": 16, "SCALED": 0},
        steps=True,
        free=_FREE_ENGINE,
        first=REACHABILITY,
    ),
}
"""By patterns of units, of which the first one counts."""


def datapath(module: Module) -> Datapath | None:
    """How a module's function is specified, if it is."""
    found = (one for pattern, one in DATAPATHS.items() if fnmatch.fnmatch(module.unit, pattern))
    return next(found, None)


def rests_on(module: Module) -> list[str]:
    """Units that a unit's proof takes as proved: parts, and memories of which it knows a word."""
    path = datapath(module)
    if path is None:
        return []
    text = module.text
    memories = [unit for unit, one in generated().items() if f"  {one.instance} " in text]
    free = {one.instance for one in _free_parts(module, path).values()}
    parts = [unit for unit, one in generated().items() if one.instance in free]
    return [*path.parts, *parts, *(memories if _watches(path) else [])]


def only_wires(module: Module) -> bool:
    """Whether a module holds instances and wires between them, and nothing else."""
    text = re.sub(r"//.*", "", module.text)
    assigned = _ASSIGNED.findall(text)
    return (
        "always" not in text
        and len(assigned) == len(re.findall(r"\bassign\b", text))
        and all(not _WIRE.sub("", value).strip() for value in assigned)
        and _INSTANCE.search(text) is not None
    )


def inside(module: Module) -> set[str]:
    """Names in Verilog of the modules that a module instantiates itself."""
    files = {source.stem for source in module.sources}
    return files & set(_INSTANCE.findall(re.sub(r"//.*", "", module.text)))


@cache
def _modules() -> dict[str, str]:
    """Verilog of all modules of specifications, by name."""
    files = sorted(FOLDER.glob("*.v"))
    return {found[1]: found[0] for file in files for found in _MODULE.finditer(file.read_text())}


def specification_text(*names: str) -> str:
    """Verilog of modules of specifications, and of all inside them."""
    wanted, rest = [], list(names)
    while rest:
        name = rest.pop()
        wanted.append(name)
        inside = set(re.findall(r"\w+", _modules()[name])) & set(_modules())
        rest += sorted(inside.difference(wanted, rest))
    return "\n".join(_modules()[name] for name in reversed(wanted))


def texts(module: Module) -> str:
    """Verilog of a module and of all inside it, parts by what stands for them."""
    require_fresh(module.sources)
    path = datapath(module)
    parts = [(generated()[unit], put) for unit, put in path.parts.items()] if path else []
    replaced = [_in_place(part, put) for part, put in parts]
    free = _free_parts(module, path) if path else {}
    replaced += [_ports_alone(name, part) for name, part in free.items()]
    left_out = {*(part.name for part, _ in parts), *free, module.name}
    kept = [source.read_text() for source in module.sources if source.stem not in left_out]
    return "\n".join([_own(module), *kept, *replaced])


def _own(module: Module) -> str:
    """A module's own Verilog: parts that are free have a name for each choice of parameters."""
    path = datapath(module)
    text = module.sources[0].read_text()
    for name, part in (_free_parts(module, path) if path else {}).items():
        text = text.replace(f"  {part.instance} ", f"  {name} ")
    return text


def _free_parts(module: Module, path: Datapath) -> dict[str, Module]:
    """The modules inside a module whose results may be anything, by names in Verilog."""
    text = module.text
    return {
        fixed_name(part.name, part.given): part
        for unit, part in generated().items()
        if unit.startswith(path.free) and f"  {part.instance} " in text
    }


def _ports_alone(name: str, part: Module) -> str:
    """A module with the ports of a part, and nothing that drives its outputs."""
    declared = "".join(
        f"  {kind} [{port.width - 1}:0] {port.name};\n"
        for port in part.ports.values()
        for kind in (port.direction, "wire")
    )
    return f"module {name}({', '.join(part.ports)});\n{declared}endmodule\n"


def _in_place(part: Module, specification: str) -> str:
    """A module of a part's name and ports, with another one in it, and its registers behind that.

    The part has one result. Its enables, which may be several, have to be known as `ENABLES`.
    """
    ports = part.ports.values()
    (result,) = (port for port in ports if port.direction == "output")
    declared = ", ".join(f"{port.direction} [{port.width - 1}:0] {port.name}" for port in ports)
    known = [name for name in part.ports if name in _ports(specification.split()[0])]
    late = later_operands(part)
    waits = max(late.values(), default=0)
    enables = [name for name in ENABLES if name in part.ports]
    moves = [*enables[-1:] * (part.latency - 1), *enables[:1]]  # the last register has the first
    chains = {name: [name] for name in known}
    for name in chains.keys() - late.keys():
        chains[name] += [f"{name}_{stage}" for stage in range(1, waits + 1)]
    stages = [f"result_{stage}" for stage in range(part.latency + 1 - waits)]
    kept = "".join(
        f"  reg [{part.ports[name].width - 1}:0] {stage};\n"
        for name, chain in chains.items()
        for stage in chain[1:]
    ) + "".join(f"  reg [{result.width - 1}:0] {stage};\n" for stage in stages[1:])
    pairs = [(chain, moves) for chain in chains.values()] + [(stages, moves[waits:])]
    moved = "".join(
        f"  always @(posedge clk) if ({enable}) {after} <= {before};\n"
        for chain, enabled in pairs
        for (before, after), enable in zip(pairwise(chain), enabled, strict=False)
    )
    connected = ", ".join(f".{name}({chain[-1]})" for name, chain in chains.items())
    return (
        f"module {part.name}({declared});\n"
        f"  wire [{result.width - 1}:0] {stages[0]};\n{kept}"
        f"  {specification} put ({connected}, .{result.name}({stages[0]}));\n{moved}"
        f"  assign {result.name} = {stages[-1]};\nendmodule\n"
    )


def claims(module: Module, *, of_ports: bool = False) -> list[str]:
    """Verilog of a module, of its specification, and of ``monitor``, 1 where they differ.

    One for each variant of what stands for parts; `of_ports` without what it says of nets inside.
    """
    path = datapath(module)
    assert path is not None, f"{module.name} has no specification"
    text = _claim(module, path, of_ports=of_ports)
    if path.variants == 1:
        return [text]
    return [f"`define VARIANT {variant}\n{text}" for variant in range(path.variants)]


def _claim(module: Module, path: Datapath, *, of_ports: bool) -> str:
    if path.words:
        module = _with_bits_of_words(module, path.words)
    names = [f"{path.specification}_specification", *["mxsf_operands"] * bool(path.codes)]
    names += ["mxsf_significands"] * bool(path.significands)
    names += [put.split()[0] for put in path.parts.values()]
    names += ["watched_memory"] * _watches(path)
    nets = {} if of_ports else _nets(module, path)
    text = _shown(module, nets, watches=_watches(path))
    return f"{text}\n{specification_text(*names)}\n{_monitor(module, path, nets)}"


def _with_bits_of_words(module: Module, parameter: str) -> Module:
    """A module whose words are single bits: of each bit of a word the same is to be proved."""
    wide = module.parameters[parameter.lower()]
    ports = {
        name: replace(port, width=1) if port.width == wide else port
        for name, port in module.ports.items()
    }
    return replace(module, given={**module.given, parameter: 1}, ports=ports)


def is_of_ports(module: Module) -> bool:
    """Whether a specification says what is right at the ports of a module by these alone.

    Others do it by registers of the unit, or by what stands for memories and parts: that one is
    broken does not show that a result is wrong.
    """
    path = datapath(module)
    if path is None or path.parts or path.free:
        return False
    ports = _ports(f"{path.specification}_specification")
    return not any(port.startswith(_INSIDE) for port in ports) or says_of_inside(module)


def says_of_inside(module: Module) -> bool:
    """Whether a specification says apart what holds of nets inside a module."""
    path = datapath(module)
    return path is not None and _says_of_inside(path)


def _says_of_inside(path: Datapath) -> bool:
    return f"output {_INSIDE_HOLDS}," in _modules()[f"{path.specification}_specification"]


def _watches(path: Datapath) -> bool:
    """Whether a specification is about a word of memories, which may be any one."""
    return _WATCHED in _ports(f"{path.specification}_specification")


def _shown(module: Module, nets: Mapping[str, int], *, watches: bool) -> str:
    """Verilog of a module and of all inside it, with more outputs: nets, also of its parts.

    Memories of one that `watches` know a word, and an input says which.
    """
    text = texts(module)
    if memory := _MEMORY.search(module.text):
        return _with_register(text, memory)
    added: dict[str, str] = {}
    of_parts = _of_free_parts(module, nets)
    own = _bits(module.text, [net for net in nets if net not in of_parts])
    others = [net for net in nets if net not in own]
    for part in _shown_parts(module):
        outputs: dict[str, str] = {}
        for instance in _instances(module, part):
            shown = _bits_of_instance(module, part, instance, others)
            of_part = _file(module, part)
            outputs |= {f"{_INSIDE}{net}": _output(of_part, net) for net, _ in shown.values()}
            connected = "".join(
                f".{_INSIDE}{net}({_INSIDE}{name}), " for name, (net, _) in shown.items()
            )
            begin = re.search(rf"^  {part} \\?{instance} +\(", text, re.MULTILINE)
            assert begin
            text = f"{text[: begin.end()]}{connected}{text[begin.end() :]}"
            added |= {
                f"{_INSIDE}{name}": f"  output [{bits - 1}:0] {_INSIDE}{name};\n"
                for name, (_, bits) in shown.items()
            }
        text = _with_ports(text, part, outputs)
    added |= {f"{_INSIDE}{net}": _output(module.text, net) for net in own}
    if watches:
        added[_WATCHED] = f"  input [{_WATCHED_BITS - 1}:0] {_WATCHED};\n"
        added |= {
            f"{_INSIDE}{net}": f"  output [{bits - 1}:0] {_INSIDE}{net};\n"
            for net, bits in _of_memories(module).items()
        }
        for number, (memory, _) in enumerate(_PLACED.findall(module.text)):
            ports = (f".{name}({_INSIDE}{name}_{number}), " for name in _OF_MEMORY)
            placed = f"  watched_memory {memory}.{_WATCHED}({_WATCHED}), {''.join(ports)}"
            text = text.replace(f"  mxsafe_beat_memory {memory}", placed, 1)
    return _with_ports(text, module.name, added)


def _of_each(module: Module) -> dict[str, list[str]]:
    """By ports of a specification that are ports of free parts the names of these nets."""
    path = datapath(module)
    if path is None:
        return {}
    free = _free_parts(module, path)
    found = [(one, part.ports) for name, part in free.items() for one in _instances(module, name)]
    found.sort(key=lambda one: [*map(_in_order, re.split(r"(\d+)", one[0]))])
    nets = {
        port: port.removeprefix(_INSIDE).removesuffix(_OF_EACH)
        for port in _ports(f"{path.specification}_specification")
        if port.endswith(_OF_EACH)
    }
    return {
        port: [f"{one}_{net}" for one, ports in found if net in ports] for port, net in nets.items()
    }


def _in_order(word: str) -> tuple[int, str]:
    """A key for words some of which are numbers."""
    return (int(word), "") if word.isdigit() else (0, word)


def _of_free_parts(module: Module, nets: Iterable[str]) -> set[str]:
    """Those of some nets that are ports of a part which is free, whatever they are connected to."""
    path = datapath(module)
    return {
        net
        for part in (_free_parts(module, path) if path else {})
        for instance in _instances(module, part)
        for net in _bits_of_instance(module, part, instance, nets)
        if net.startswith(f"{instance}_")
    }


def _instances(module: Module, part: str) -> list[str]:
    """Names under which a module holds another one."""
    return re.findall(rf"^  {part} \\?(\S+) +\($", _own(module), re.MULTILINE)


def _shown_parts(module: Module) -> list[str]:
    """Names of modules inside a module, those for one choice of parameters by what `_own` says."""
    path = datapath(module)
    return sorted({*inside(module), *(_free_parts(module, path) if path else {})})


def _bits_of_instance(
    module: Module, part: str, instance: str, names: Iterable[str]
) -> dict[str, tuple[str, int]]:
    """Nets of a part that are asked for, alone or behind the instance's name, and their bits."""
    text = _file(module, part)
    found = ((name, name.removeprefix(f"{instance}_")) for name in names)
    return {name: (net, bits) for name, net in found for bits in _bits(text, [net]).values()}


def _of_memories(module: Module) -> dict[str, int]:
    """Bits of what shows the memories of a unit."""
    return {
        f"{name}_{number}": int(bits) if name in ("word", "shown") else 1
        for number, (_, bits) in enumerate(_PLACED.findall(module.text))
        for name in _OF_MEMORY
    }


def _output(text: str, net: str) -> str:
    """An output that shows a net of a module, or several of them."""
    name, nets = f"{_INSIDE}{net}", _declared(text, net)
    value = f"{{{', '.join(reversed(nets))}}}" if len(nets) > 1 else next(iter(nets))
    return f"  output [{sum(nets.values()) - 1}:0] {name};\n  assign {name} = {value};\n"


def _with_ports(text: str, name: str, added: Mapping[str, str]) -> str:
    """Verilog in which a module has more ports, with their declarations."""
    before, head, own = text.partition(f"module {name}(")
    if not added or not head:
        return text
    declared = "".join(added.values())
    names = "".join(f"{port}, " for port in added)
    return f"{before}{head}{names}{own.replace('endmodule', f'{declared}endmodule', 1)}"


def _with_register(text: str, memory: re.Match[str]) -> str:
    """Verilog of a memory whose words are one register, which is an output."""
    width, name, depth = memory.groups()
    text = text.replace(memory[0], "")
    text = re.sub(rf"\b{name}\[(\w+)\]", rf"{_INSIDE}{name}[{width} * \1 +: {width}]", text)
    return text.replace(
        ") (\n", f") (\n  output reg [{width} * {depth} - 1:0] {_INSIDE}{name},\n", 1
    )


def prove_datapath(
    module: Module,
    folder: Path,
    *,
    change: tuple[str, str] | None = None,
    seconds: int = _SECONDS,
) -> None:
    """Prove that a module computes what its specification says, so many cycles after its operands.

    Its enable is high, its registers may hold anything before, and it may get anything after. While
    its enables are low none of its registers changes. With a specification that has `steps` the
    proof is about every cycle after a first one of reset, by induction if that is enough.

    Parameters
    ----------
    change : tuple of str, optional
        A text of the module's Verilog and what takes its place: the proof has to fail.
    seconds : int
        That a method may take, of a specification that has `steps`.
    """
    for variant, text in enumerate(claims(module)):
        _prove(module, _changed(module, text, change), folder / str(variant), seconds)


def is_wrong_at_ports(
    module: Module,
    folder: Path,
    *,
    change: tuple[str, str] | None = None,
    seconds: int = _SECONDS,
) -> bool:
    """Whether a module is found to give what its specification does not say, within 200 cycles.

    See `prove_datapath`; what the specification says of nets inside is left out.
    """
    (text,) = claims(module, of_ports=True)
    try:
        first_clock(folder, _changed(module, text, change), "monitor", seconds=seconds)
    except AssertionError:
        return False
    return True


def _changed(module: Module, text: str, change: tuple[str, str] | None) -> str:
    if change is None:
        return text
    right, wrong = change
    assert text.count(right) == 1, f"{module.name} no longer holds {right!r} once"
    return text.replace(right, wrong)


def _prove(module: Module, text: str, folder: Path, seconds: int) -> None:
    path = datapath(module)
    if path is not None and path.steps:
        never(folder, text, "monitor", seconds=seconds, first=path.first)
        return
    never_at(folder, text, "monitor", clock=module.latency)
    if any(name in module.ports for name in ENABLES):
        prove_stillness(module, text, folder / "stillness")


def _free(module: Module, path: Datapath) -> dict[str, int]:
    """Widths of what may be anything: operands, or the codes that they are made of."""
    free = {}
    fixed = ("clk", "rst", *ENABLES, *["significands"] * bool(path.significands))
    for port in module.ports.values():
        if port.direction == "input" and port.name not in fixed:
            count = path.codes.get(port.name, {}).get("COUNT", 1)
            coded = port.name in path.codes
            free[f"code_{port.name}" if coded else port.name] = (
                _CODE_BITS * count if coded else port.width
            )
    return free


def _ports(name: str) -> list[str]:
    return _PORT.findall(_modules()[name])


def _with(values: Mapping[str, str | int]) -> str:
    return f" #({', '.join(f'.{name}({value})' for name, value in values.items())})" * bool(values)


def _parameters(module: Module, path: Datapath) -> dict[str, str | int]:
    """Values of the specification's parameters."""
    given = path.parameters.items()
    known = {**module.parameters, "latency": module.latency}
    values = {key: known[of] if isinstance(of, str) else of for key, of in given}
    return {key: _number(value) for key, value in values.items()}


def _number(value: object) -> str | int:
    """A parameter in Verilog: a number, or several of 32 bits each, the first lowest."""
    if not isinstance(value, list):
        return int(value)
    words = "".join(f"{word:08x}" for word in reversed(value))
    return f"{4 * len(words)}'h{words}"


def _nets(module: Module, path: Datapath) -> dict[str, int]:
    """Bits of nets, of a unit or its parts, that its specification has as ``inside_NAME``."""
    ports = _ports(f"{path.specification}_specification")
    of_each = _of_each(module)
    wanted = [
        port.removeprefix(_INSIDE)
        for port in ports
        if port.startswith(_INSIDE) and port not in of_each
    ]
    of_parts = [*wanted, *(net for each in of_each.values() for net in each)]
    found: dict[str, int] = {}
    for part in _shown_parts(module):
        for instance in _instances(module, part):
            shown = _bits_of_instance(module, part, instance, of_parts)
            found |= {name: bits for name, (_, bits) in shown.items()}
    found |= _bits(module.text, wanted)
    memories = (one for one in _MEMORY.findall(module.text) if one[1] in wanted)
    return found | {
        name: module.given[width] * module.parameters[depth.lower()]
        for width, name, depth in memories
    }


def _bits(text: str, names: Iterable[str]) -> dict[str, int]:
    """Those of some nets that a module's text declares, and their bits."""
    found = {name: sum(_declared(text, name).values()) for name in names}
    return {name: bits for name, bits in found.items() if bits}


def _declared(text: str, name: str) -> dict[str, int]:
    """Nets of a module's text that a name stands for, and the bits of each."""
    several = (f"{name.removesuffix(_EACH)}_{number}" for number in count())
    names = several if name.endswith(_EACH) else [name]
    found = ((net, re.search(_NET.format(net), text, re.MULTILINE)) for net in names)
    there = takewhile(lambda pair: pair[1], found)
    return {net: int(one[1] or 0) + 1 for net, one in there if one}


def _file(module: Module, part: str) -> str:
    """Verilog of a module inside another one."""
    path = datapath(module)
    if path and part in (free := _free_parts(module, path)):
        return _ports_alone(part, free[part])
    return next(source.read_text() for source in module.sources if source.stem == part)


def _stepping_monitor(module: Module, path: Datapath, nets: Mapping[str, int]) -> str:
    """A module whose output is 1 in a cycle after the first in which the specification is broken.

    The first cycle is one of reset, whatever registers hold before it.
    """
    name = f"{path.specification}_specification"
    ports = module.ports.values()
    declared = [
        f"input [{port.width - 1}:0] {port.name}" for port in ports if port.direction == "input"
    ]
    wires = [
        f"  wire [{port.width - 1}:0] {port.name};" for port in ports if port.direction == "output"
    ]
    known = {**nets, **(_of_memories(module) if _watches(path) else {})}
    shown = {f"{_INSIDE}{net}": bits for net, bits in known.items()}
    wires += [f"  wire [{bits - 1}:0] {net};" for net, bits in shown.items()]
    resets = {"rst": "rst | ~started"}
    watched = [_WATCHED] * _watches(path)
    # What is never loaded may be anything, and stays the same.
    wires += [
        f"  reg [{_WATCHED_BITS - 1}:0] {port};\n  always @($global_clock) {port} <= {port};"
        for port in watched
    ]
    there = {port: resets.get(port, port) for port in [*module.ports, *shown, *watched]}
    of_unit = ", ".join(f".{port}({value})" for port, value in there.items())
    there |= {
        port: f"{{{', '.join(f'{_INSIDE}{net}' for net in reversed(each))}}}"
        for port, each in _of_each(module).items()
        if each
    }
    of_specification = [f".{port}({there.get(port, 0)})" for port in _ports(name)]
    results = ["holds", *[_INSIDE_HOLDS] * (_says_of_inside(path) and bool(nets))]
    wires += [f"  wire {', '.join(results)};"]
    of_specification += [f".{result}({result})" for result in results]
    both = f"({' & '.join(results)})" if len(results) > 1 else "holds"
    body = "\n".join(wires)
    return (
        f"\nmodule monitor({', '.join(declared)}, output differs);\n{body}\n"
        "  reg started = 0;\n  always @($global_clock) started <= 1;\n"
        f"  {module.instance} unit ({of_unit});\n"
        f"  {name}{_with(_parameters(module, path))} right ({', '.join(of_specification)});\n"
        f"  assign differs = started & ~{both};\nendmodule\n"
    )


def _monitor(module: Module, path: Datapath, nets: Mapping[str, int]) -> str:
    """A module whose output is 1 where a result is not what the specification says."""
    if path.steps:
        return _stepping_monitor(module, path, nets)
    free = _free(module, path)
    name = f"{path.specification}_specification"
    declared = [f"input [{width - 1}:0] {port}" for port, width in free.items()]
    lines, given = [], "1'b1"
    kept = {port: port for port in free}
    if module.latency:
        declared.insert(0, "input clk")
        lines += [
            "  reg [7:0] clock = 0;",
            "  always @($global_clock) clock <= clock + 1;",
        ]
        given = f"clock == {module.latency}"
        for operand, width in free.items():
            kept[operand] = f"{operand}_kept"
            comes = path.late.get(operand, 0)
            lines += [
                f"  reg [{width - 1}:0] {operand}_kept = 0;",
                f"  always @($global_clock) if (clock == {comes}) {operand}_kept <= {operand};",
            ]
    for port in module.ports.values():
        if port.name in path.codes:
            lines += [
                f"  wire [{port.width - 1}:0] {port.name};",
                f"  mxsf_operands{_with(path.codes[port.name])} of_{port.name} "
                f"(code_{port.name}, {port.name});",
            ]
        elif port.direction == "output":
            lines += [f"  wire [{port.width - 1}:0] {port.name};"]
    if path.significands:
        width = module.ports["significands"].width
        declared.append(f"input [{width - 1}:0] other_significands")
        lines += [
            f"  wire [{width - 1}:0] products, significands;",
            f"  mxsf_significands{_with({'COUNT': width // 12})} of_kept "
            "(code_a_kept, code_w_kept, products);",
            f"  assign significands = clock == {path.significands} "
            "? products : other_significands;",
        ]
    fixed = {"clk": "clk", "rst": "1'b0", **dict.fromkeys(ENABLES, "1'b1")}
    connected = [f".{port}({fixed.get(port, port)})" for port in module.ports]
    outputs = [port.name for port in module.ports.values() if port.direction == "output"]
    values = {**dict.fromkeys(outputs), **kept}
    said = [f".{port}({values[port] or port})" for port in _ports(name) if port in values]
    said += [f".{port}(0)" for port in _ports(name) if port not in values]
    parameters = _parameters(module, path)
    body = "\n".join(lines)
    return (
        f"\nmodule monitor({', '.join(declared)}, output differs);\n{body}\n  wire holds;\n"
        f"  {module.instance} unit ({', '.join(connected)});\n"
        f"  {name}{_with(parameters)} right ({', '.join(said)}, .holds(holds));\n"
        f"  assign differs = {given} & ~holds;\nendmodule\n"
    )
