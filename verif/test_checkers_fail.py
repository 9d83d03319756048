"""Every kind of checker can fail: hardware that is wrong in one place is seen by each of them.

How much the tests find is the mutation score, `docs/mutation.md`; here it is whether they can.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mxsafe import model
from mxsafe.machine.configuration import SMALL_MACHINE, MachineConfiguration
from mxsafe.rtl.board.serial_bridge import SerialBridge
from mxsafe.rtl.machine.accelerator import Accelerator
from verif.host.copying_machine import COPIED_BEATS, copying_machines
from verif.rtl.array.array_checks import check_short_tiles, small_array
from verif.rtl.board.bridge_checks import MEMORY_WORDS, PATIENCE, check_bridge
from verif.rtl.mac import corner_cases
from verif.rtl.machine.accelerator_checks import require_done, require_memory
from verif.rtl.machine.accelerator_job import Run, run_programs
from verif.rtl.machine.control.control_checks import check_fetch, random_programs
from verif.rtl.machine.control.queue_checks import check_programs, queue_programs
from verif.rtl.machine.control.register_checks import check_registers
from verif.rtl.machine.dma.memory_port_checks import (
    LIVELY,
    check_reader,
    check_writer,
    random_runs,
    separate_runs,
)
from verif.rtl.machine.dma.transfer_checks import check_stores, random_stores
from verif.rtl.machine.gemm.gemm_checks import check_case, gemm_engine, random_case
from verif.rtl.machine.vector.vector_engine_checks import (
    check_engine,
    few_tasks,
    small_machine,
    vector_engine,
)
from verif.rtl.stream.transposer_checks import check_rows, random_packets
from verif.rtl.stream_claims import claims_for
from verif.rtl.stream_rules import prove_rules
from verif.support.checkers import check_mac
from verif.support.manifest import Module, mac_stimulus
from verif.support.simulators import run_lockstep
from verif.support.units import generated, mutated

Fault = tuple[str | Callable[[], Module], str, str, Callable[[Module], object], str]
COPYING = replace(SMALL_MACHINE, queue_depth=9)
"""Units are generated once for a configuration: no other test has this one."""
RELU = small_machine(functions=("relu",), reductions=())


def _copying_machine() -> Module:
    with copying_machines():
        return generated(Accelerator(machine=COPYING))


def _fetches(module: Module) -> None:
    machine = MachineConfiguration()
    programs = random_programs(np.random.default_rng(7), 16, machine)
    check_fetch("icarus", module, machine, programs)


def _reads(module: Module) -> None:
    runs = [random_runs(seed, 6, module.parameters["word_bytes"], 30, 200) for seed in (1, 2)]
    check_reader("icarus", module, runs, LIVELY, memory_words=200)


def _writes(module: Module) -> None:
    runs = separate_runs(1, module.parameters["word_bytes"], 30, 60)
    check_writer("icarus", module, runs, LIVELY, memory_words=60)


def _runs(module: Module) -> None:
    """A machine that copies the first beats of a program."""
    size = COPIED_BEATS * COPYING.data_width // 8
    memory = np.random.default_rng(1).integers(0, 256, 3 * size).astype(np.uint8)
    run = Run(program=0, length=1, base=size, limit=1000)
    ended = run_programs("icarus", module, memory, [run])
    require_done(ended.runs[0])
    require_memory(ended.memory, np.concatenate([memory[:size], memory[:size], memory[2 * size :]]))


def _streams(module: Module) -> None:
    check_rows(
        "icarus",
        module,
        random_packets(module, 1, 6),
        stall_in=0.2,
        stall_out=0.2,
        resets_after=range(1, 12),
    )


def _sums(module: Module) -> None:
    operands = corner_cases.mixed(1, 300, module.parameters["lanes"])
    rows = corner_cases.with_stalls(1, *operands, flush=module.latency - 1, resets=5)
    log = run_lockstep("icarus", module, mac_stimulus(module, *rows))
    check_mac(module, log, "partial_sum", model.safe_mac)


# What is broken, a text of it and what takes its place, the check, and what that says.
FAULTS: dict[str, Fault] = {
    "a sum": (
        "safe_mac",
        "assign sticky = |",
        "assign sticky = 0 & |",
        _sums,
        r"partial_sum: \d+ of \d+ differ",
    ),
    "a beat of a stream": (
        "transposer",
        "steps_done == 3'h7",
        "steps_done == 3'h6",
        _streams,
        "beats differ after reset",
    ),
    "an element of a beat": (
        "transposer",
        "assign entering_3 = is_padding ? 8'h00 : s_axis_tdata[39:32]",
        "assign entering_3 = is_padding ? 8'h00 : { s_axis_tdata[39:33], 1'h0 }",
        _streams,
        r"m_axis_tdata: \d+ of \d+ differ",
    ),
    "a beat that waits": (
        "transposer",
        "assign step = is_open & has_row",
        "assign step = has_row",
        _streams,
        "a stalled result changed",
    ),
    "a beat that waits for ready": (
        "transposer",
        "assign m_axis_tvalid = is_full",
        "assign m_axis_tvalid = m_axis_tready & is_full",
        _streams,
        "was never taken",
    ),
    "a beat in a reset": (
        "transposer",
        "assign \\$s_axis_tready$not  = ~ rst;",
        "assign \\$s_axis_tready$not  = 1'h1;",
        _streams,
        "was taken during reset",
    ),
    "what powers up unknown": (
        "transposer",
        "if (rst) is_full",
        "if (0) is_full",
        _streams,
        "m_axis_tvalid is X",
    ),
    "tiles of an array": (
        lambda: small_array("exact"),
        "assign block_too_early = ",
        "assign block_too_early = 0 & ",
        lambda module: check_short_tiles("icarus", module),
        r"tile \d+ of \d+ never came out",
    ),
    "rows of a product": (
        lambda: gemm_engine("exact"),
        "assign is_beyond = ends_inner_loop &",
        "assign is_beyond = 0 & ends_inner_loop &",
        lambda module: check_case("icarus", module, random_case(3, 3, module, "exact")),
        r"vector beats: \d+ of \d+ differ",
    ),
    "buffers of the vector engine": (
        lambda: vector_engine(RELU),
        "assign beat_after = block_last ?",
        "assign beat_after = 0 & block_last ?",
        lambda module: check_engine("icarus", module, RELU, few_tasks(RELU)[:4], limit=2000),
        r"words of out_codes, .* differ",
    ),
    "a request of AXI": (
        "axi_reader",
        "assign address_moves = ",
        "assign address_moves = 1 | ",
        _reads,
        "m_axi_ar changed from",
    ),
    "the end of a burst": (
        "axi_writer",
        "m_axi_wlast <= ",
        "m_axi_wlast <= ~ ",
        _writes,
        "wlast is wrong",
    ),
    "memory": (
        "store_engine",
        "= vector_data[16] | ",
        "= 1'h1 | ",
        lambda module: check_stores("icarus", module, random_stores(1, module, 6), LIVELY),
        r"memory: \d+ of \d+ differ",
    ),
    "registers": (
        "registers",
        "assign clear = stop & quiet",
        "assign clear = stop",
        lambda module: check_registers("icarus", module, MachineConfiguration(), 2_000),
        "s_axi_rdata: .* differ",
    ),
    "an error of a fetch": (
        "fetch",
        "if (fetch_failed)",
        "if (0)",
        _fetches,
        r"descriptors of program \d+ differ",
    ),
    "tokens": (
        "queues",
        "assign fetch_is_stuck = ",
        "assign fetch_is_stuck = 1 | ",
        lambda module: check_programs(
            "icarus", module, queue_programs(np.random.default_rng(3), 8)
        ),
        r"program \d+ ended with",
    ),
    "an answer on a serial line": (
        lambda: generated(SerialBridge(memory_bytes=4 * MEMORY_WORDS, patience=PATIENCE)),
        "== 32'd3736805603",
        "== 32'd3736805602",
        lambda module: check_bridge("icarus", module, 4),
        r"answer \d+, to a frame",
    ),
    "memory after a program": (
        _copying_machine,
        "m_axi_wdata = beats[63:0]",
        "m_axi_wdata = ~ beats[63:0]",
        _runs,
        "32 bytes of memory differ",
    ),
    "rules of memory in a program": (
        _copying_machine,
        "m_axi_wlast = number == 2'h3",
        "m_axi_wlast = number == 2'h2",
        _runs,
        "rules were broken: wlast is set",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_seen(fault: str, modules: dict[str, Module]) -> None:
    unit, right, wrong, check, said = FAULTS[fault]
    module = modules[unit] if isinstance(unit, str) else unit()
    broken = mutated(module, right, wrong)
    with pytest.raises(AssertionError, match=said):
        check(broken)


@pytest.mark.yosys
def test_a_broken_claim_is_seen(modules: dict[str, Module], tmp_path: Path) -> None:
    """By the proofs of streams; those of single units have broken ones of their own."""
    module = modules["register_slice_bits2_halved"]
    after = " sink_valid <= 1'b0;\n        else sink_valid <= fills;"
    change = f"if (rst){after}", f"if (rst & source_valid){after}"
    with pytest.raises(AssertionError, match="proof did fail: beat_made in cycle 2"):
        prove_rules(module, modules, tmp_path, claims_for(module), change=change)
