"""Reasons why places in the Verilog are not reached, as far as they are known."""

import fnmatch
from collections.abc import Iterable

_BUS = (
    "axi_*|burst_splitter*|memory_address_generator*|fetch*|load_engine*|store_engine*"
    "|mxsf_accelerator*"
)
_QUEUES = "fetch*|descriptor_queue*|mxsf_accelerator*|registers*|*_engine*"
_WALKS = (
    "address_generator*|beat_reader*|beat_splitter*|buffer_address_generator*|operand_feed*|row_replay*|result_rows*"
    "|mxsf_vector_engine*|vector_chain*|softmax_entry*|*_engine*|normalise_row*"
    "|mxsf_sta_*"
)
_VECTORS = "normalise*|softmax*|folded_chain*|vector_chain*|mxsf_vector_engine*"
_NUMBERS = (
    "*tdata*[[]*|*_data[[]*|lane_*[[]*|reduced_beat*|largest*[[]*|*summary_*[[]*|deviation_*[[]*"
    "|base[[]*"
)
_FEW_ROWS = (
    "Bits of numbers, and of what is computed of them: few rows are put through units of many "
    "lanes, and in those not every bit of every lane changes."
)
REASONS: tuple[tuple[str, str, str], ...] = (
    (
        "*",
        "rst ^v",
        "The reset of a unit that has no register to reset; the modules around tie it to 0.",
    ),
    (
        "registers*",
        "*_counter[[]*|*_next[[]*|read_value_*[[]*",
        "Counters of 64 bits, for which no simulation is long enough, and their high halves.",
    ),
    (
        "*",
        "m_axi_a?burst*|m_axi_a?cache*|m_axi_a?size*|m_axi_a?prot*|m_axi_a?len*",
        "Signals of AXI4 that are the same in every burst of the units inside.",
    ),
    (
        _QUEUES,
        "*number*[[]*|*descriptors_left*|*program_length[[]*|oldest*[[]*|running_*[[]*",
        "Numbers of descriptors, which have 32 bits; programs in the tests have less than 256.",
    ),
    (
        "*_engine*|mxsf_accelerator*|fetch*|operand_feed*|result_rows*",
        "*descriptor[[]*|descriptor_?[[]*|*read_data[[]*",
        "Fields of descriptors that are 0 in one kind of them, and sizes above those of the "
        "programs in the tests.",
    ),
    (
        f"{_BUS}|registers*",
        "*m_axi_a?addr[[]*|burst_*|*splitter*payload[[]*|*run*payload[[]*|*base[[]*|*program_*[[]*"
        "|next_word_*|place_in_words*|walk_address*|$*[[]*[]] ^v|$*[[]*[]] v|then of *next_low*",
        "Bits of addresses, lengths and counts above the memory and the programs that the benches "
        "have, and of base addresses that stay the same.",
    ),
    (
        "queues*",
        "$*[[]6]*|$*[[]6-7]*",
        "Carries and borrows of counters of tokens: that none leaves its range is proved.",
    ),
    (
        "queues*",
        "queue_*_give[[]*|queue_*_take[[]*",
        "The own queue's bit among those of others: no descriptor waits for it or signals to it.",
    ),
    (
        "*",
        "*error[[]3]*",
        "Codes of errors, which are below 8.",
    ),
    (
        "descriptor_queue*|fetch*",
        "$*[[]*[]] ^v|unread*|waiting*",
        "Carries above the range of a counter, and the top bit of a count that lacks the one which "
        "is shown.",
    ),
    (
        "normalise_core*|softmax_core",
        "*[[]*",
        _FEW_ROWS,
    ),
    (_VECTORS, _NUMBERS, _FEW_ROWS),
    (
        _WALKS,
        "*[[]*[]] ^v",
        "High bits of counts, strides and places in buffers, above those of the products and rows "
        "in the tests.",
    ),
    (
        "softmax*",
        "row_*[[]*|total*[[]*|sum_logarithm_total*",
        "High bits of sums of weights, for which the rows in the tests are too short.",
    ),
    (
        "softmax_constants*",
        "factor[[]*",
        "The sign of a factor: softmax takes those without one.",
    ),
    (
        "float32_multiplier*",
        "high_half*|low_half*|significands[[]*|high_carried*|multiply_*_product[[]*",
        "Bits above the largest product, which are 0 for all factors: more than induction finds.",
    ),
    (
        "*lane*|softmax_*",
        "*polynomial*",
        "Bits above the largest value that the coefficients of a table give.",
    ),
    (
        "mxsf_*",
        "*_halves[[]*",
        "Ports of buffers at which whole words were written.",
    ),
    (
        "mxsf_*multiplier*",
        "*product*[[]*|rounded[[]*|with_half[[]*|shifted[[]*",
        "All pairs of codes are run: these bits are the same for all of them.",
    ),
    (
        "float32_adder*",
        "$*[[]25-55[]]*",
        "Bits above the leading one of a sum, which a shift by the zeros in front of it leaves at "
        "0.",
    ),
    (
        "softmax_constants*",
        "*",
        "Subnormal numbers and overflows, to which no factor in the range of this unit leads.",
    ),
    (
        "mxsf_accelerator*",
        "s_axi_a?prot[[]*|s_axi_a?addr[[]*",
        "Protection and addresses of registers that programs do not use; the bench of the "
        "registers has all.",
    ),
    (
        "fp12_adder|fp12_packer|fp12_rounder*",
        "* ^v|then of*",
        "All pairs of operands are run, in ascending order: a bit that did not change in it has no "
        "reason to, or would fall behind the last pair.",
    ),
    (
        "function_lane*",
        "*",
        "Bits of what tables of functions give: few numbers of each function are put through lanes "
        "with many of them.",
    ),
)
"""Patterns for modules and for what is left in them, without its line, and the reason.

The first that fits counts. ``|`` stands between patterns, one of which has to fit.
"""
UNKNOWN = "not known"


def rule(module: str, what: str) -> int | None:
    """Number of the reason why a place of a module was not reached."""
    place = _place(what)
    for number, (modules, places, _) in enumerate(REASONS):
        if _fits(module, modules) and _fits(place, places):
            return number
    return None


def reason(module: str, what: str) -> str:
    """Why a place of a module was not reached."""
    number = rule(module, what)
    return UNKNOWN if number is None else REASONS[number][2]


def unused(left: Iterable[tuple[str, str]]) -> list[str]:
    """Patterns that fit none of the places that have their reason.

    Parameters
    ----------
    left : iterable of (str, str)
        Modules, and what was not reached of them.
    """
    by_rule: dict[int | None, list[tuple[str, str]]] = {}
    for module, what in left:
        by_rule.setdefault(rule(module, what), []).append((module, _place(what)))
    found = []
    for number, (modules, places, _) in enumerate(REASONS):
        here = by_rule.get(number, [])
        texts = [module for module, _ in here], [place for _, place in here]
        for patterns, fitted in zip((modules, places), texts, strict=True):
            found += [
                f"{pattern} in {modules}: {places}"
                for pattern in patterns.split("|")
                if not any(_fits(text, pattern) for text in fitted)
            ]
    return found


def _place(what: str) -> str:
    """A place without its line."""
    return what.partition(": ")[2]


def _fits(text: str, patterns: str) -> bool:
    return any(fnmatch.fnmatchcase(text, pattern) for pattern in patterns.split("|"))
