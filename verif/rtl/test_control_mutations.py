"""Control and products, benched: hardware that is wrong in one place must be found wrong."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.rtl.accelerator.descriptor_check import DescriptorCheck
from mxsafe.rtl.accelerator.fetch import Fetch
from mxsafe.rtl.accelerator.operand_buffer import OperandBuffer
from mxsafe.rtl.accelerator.registers import Registers
from mxsafe.rtl.accelerator.vector_buffer import VectorBuffer
from mxsafe.rtl.unit import Unit
from verif.support.buffer_checks import check_operand_buffer, check_vector_buffer
from verif.support.control_checks import (
    check_fetch,
    check_registers,
    check_verdicts,
    random_programs,
)
from verif.support.gemm_checks import check_case, gemm_engine, random_case
from verif.support.generated import generated
from verif.support.manifest import Module
from verif.support.mutation import mutated
from verif.support.proof import prove
from verif.support.queue_checks import check_programs, queue_programs, queues, token_statements
from verif.support.tests import available, some

QUEUES = {
    "descriptor starts without tokens": (
        "descriptor_queue_depth3_number_bits9",
        "assign missing = ",
        "assign missing = 4'h0 & ",
        "took a token|ended with|neither ended|ran something else",
    ),
    "descriptor waits for its engine": (
        "descriptor_queue_depth3_number_bits9",
        "assign may_start = ",
        "assign may_start = engine_ready & ",
        "neither ended",
    ),
    "a signal is lost": (
        "descriptor_queue_depth3_number_bits9",
        "assign retired = ",
        "assign retired = oldest_is_done | ",
        "ended with|neither ended|ran something else|took|gave",
    ),
    "deadlock seen while fetch may go on": (
        "queues_depth3_token_bits2_number_bits9",
        "assign fetch_is_stuck = ",
        "assign fetch_is_stuck = 1 | ",
        "ended with|ran something else",
    ),
    "deadlock not seen in front of a full queue": (
        "queues_depth3_token_bits2_number_bits9",
        "assign fetch_is_stuck = ended | finds_queue_full",
        "assign fetch_is_stuck = ended",
        "neither ended",
    ),
    "greatest number instead of the least": (
        "queues_depth3_token_bits2_number_bits9",
        "load_gemm_goes_first ? queue_load_number : queue_gemm_number",
        "load_gemm_goes_first ? queue_gemm_number : queue_load_number",
        "ended with",
    ),
    "an error of one that is done": (
        "descriptor_queue_depth3_under_way3_number_bits9",
        "assign error = oldest_is_done ? 4'h0 : ",
        "assign error = ",
        "ended with",
    ),
}
ENGINES = {
    "strips of a in the wrong loop": (
        "operand_feed_",
        "assign a_codes_next_strip = ends_inner_loop ?",
        "assign a_codes_next_strip = ~ends_inner_loop ?",
    ),
    # Reading them at its end instead makes no difference: exact units take scales there.
    "scales of blocks of one beat not read": (
        "operand_feed_",
        "assign a_scales_en = a_codes_en & starts_block",
        "assign a_scales_en = a_codes_en & starts_block & ~ends_block",
    ),
    "block ends with its count alone": (
        "operand_feed_",
        "assign ends_block = is_last_of_block | ends_tile",
        "assign ends_block = is_last_of_block",
    ),
    "rows beyond the edge written": (
        "result_rows_",
        "assign is_beyond = ends_inner_loop &",
        "assign is_beyond = 0 & ends_inner_loop &",
    ),
    "wrong stride of results": (
        "result_rows_",
        "assign base = ends_inner_loop ? column : tile",
        "assign base = tile",
    ),
}


def broken(
    unit: Unit[Any] | Module, tmp_path: Path, name: str, right: str, wrong: str
) -> tuple[Module, list[Path]]:
    """A module, and its sources with one of them, whose name begins so, broken."""
    module = unit if isinstance(unit, Module) else generated(unit, tmp_path / "right")
    (source,) = (s.stem for s in module.sources if s.stem.startswith(name))
    (tmp_path / "wrong").mkdir()
    return module, mutated(module, source, right, wrong, tmp_path / "wrong")


@pytest.mark.full
@pytest.mark.parametrize("mutation", QUEUES)
def test_wrong_queues_are_found(mutation: str, tmp_path: Path) -> None:
    name, right, wrong, message = QUEUES[mutation]
    module = queues(tmp_path / "right")
    (source,) = (s.stem for s in module.sources if s.stem == name)
    (tmp_path / "wrong").mkdir()
    sources = mutated(module, source, right, wrong, tmp_path / "wrong")
    rng = np.random.default_rng(3)
    programs = queue_programs(rng, 60)
    with pytest.raises(AssertionError, match=message):
        check_programs(available("verilator"), module, programs, sources=sources)


@pytest.mark.full
@pytest.mark.yosys
def test_products_that_start_early_without_room_are_found(tmp_path: Path) -> None:
    """By the proof: in programs they hardly ever meet a counter that is full."""
    module = queues(tmp_path / "right", depth=2, number_bits=2)
    source = "descriptor_queue_depth2_under_way2_number_bits2"
    (tmp_path / "wrong").mkdir()
    right, wrong = "assign is_next = ", "assign is_next = 1 | "
    sources = mutated(module, source, right, wrong, tmp_path / "wrong")
    with pytest.raises(AssertionError, match="proof did fail"):
        prove(
            module,
            tmp_path / "proof",
            token_statements(module),
            free="beat_memory",
            sources=sources,
        )


@pytest.mark.parametrize("mutation", some(ENGINES, every=len(ENGINES)))
def test_wrong_products_are_found(mutation: str, tmp_path: Path) -> None:
    whole = gemm_engine(tmp_path / "right", "exact")
    module, sources = broken(whole, tmp_path, *ENGINES[mutation])
    case = random_case(3, 12, module, "exact")
    with pytest.raises(AssertionError, match=r"differ|rows were written|is written|error 3"):
        check_case(available("icarus"), module, case, sources=sources)


@pytest.mark.full
def test_products_that_stand_still_are_found(tmp_path: Path) -> None:
    whole = gemm_engine(tmp_path / "right", "exact")
    right, wrong = "assign ready = ", "assign ready = 0 & "
    module, sources = broken(whole, tmp_path, "operand_feed_", right, wrong)
    case = random_case(3, 12, module, "exact")
    with pytest.raises(AssertionError, match="nothing is written or done for 4001 clocks"):
        check_case(available("icarus"), module, case, sources=sources)


@pytest.mark.full
def test_a_wrong_judge_is_found(tmp_path: Path) -> None:
    """A field that may be too large."""
    machine = MachineConfiguration()
    module, sources = broken(
        DescriptorCheck(),
        tmp_path,
        "descriptor_check",
        "assign gemm_last_rows_is_high = ",
        "assign gemm_last_rows_is_high = 0 & ",
    )
    with pytest.raises(AssertionError, match="verdicts differ"):
        check_verdicts(available("icarus"), module, machine, 2_000, sources=sources)


@pytest.mark.full
@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("if (fetch_failed)", "if (0)", "differ|ended with"),
        ("assign run_valid = ", "assign run_valid = run_ready & ", "came to no end"),
        (
            "assign descriptor_valid = ",
            "assign descriptor_valid = descriptor_ready & ",
            "came to no end",
        ),
    ],
    ids=["errors are overlooked", "runs wait for memory", "descriptors wait for the queues"],
)
def test_a_wrong_fetch_is_found(right: str, wrong: str, message: str, tmp_path: Path) -> None:
    machine = MachineConfiguration()
    module, sources = broken(Fetch(), tmp_path, "fetch", right, wrong)
    programs = random_programs(np.random.default_rng(7), 20, machine)
    with pytest.raises(AssertionError, match=message):
        check_fetch(available("icarus"), module, machine, programs, sources=sources)


@pytest.mark.full
def test_wrong_registers_are_found(tmp_path: Path) -> None:
    """A soft reset that does not wait for memory."""
    module, sources = broken(
        Registers(), tmp_path, "registers", "assign clear = stop & quiet", "assign clear = stop"
    )
    with pytest.raises(AssertionError, match=r"cleared|not 0|stop"):
        check_registers(available("icarus"), module, MachineConfiguration(), sources=sources)


@pytest.mark.full
def test_a_wrong_operand_buffer_is_found(tmp_path: Path) -> None:
    """An odd entry where the even one was read."""
    module, sources = broken(
        OperandBuffer(word_bits=32, beats=8, entries=8),
        tmp_path,
        "operand_buffer",
        "assign scales_data = shows_odd_entry ?",
        "assign scales_data = ~shows_odd_entry ?",
    )
    with pytest.raises(AssertionError, match="operand buffer differs"):
        check_operand_buffer(available("icarus"), module, 500, sources=sources)


@pytest.mark.full
def test_a_wrong_vector_buffer_is_found(tmp_path: Path) -> None:
    """A beat that somebody holds is lost."""
    module, sources = broken(
        VectorBuffer(columns=2, bank_depth=4),
        tmp_path,
        "vector_buffer",
        "assign y_holds = y_hold ?",
        "assign y_holds = 0 & y_hold ?",
    )
    with pytest.raises(AssertionError, match="vector buffer differs"):
        check_vector_buffer(available("icarus"), module, 500, sources=sources)
