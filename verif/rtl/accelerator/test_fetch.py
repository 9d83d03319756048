"""Fetch: programs in order, with late words, full queues and errors of every kind."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxsafe.machine.assembler import fault_of
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import DESCRIPTOR_BYTES, DESCRIPTORS, ERRORS
from mxsafe.rtl.accelerator.fetch import Fetch, FetchConfiguration
from verif.support.bench_job import run_bench
from verif.support.descriptor_cases import good_descriptor, wrong_descriptors
from verif.support.generated import generated
from verif.support.manifest import Module
from verif.support.mutation import mutated
from verif.support.proof import prove
from verif.support.tests import Tally, some

# Words that have been asked for and are not there, counted apart from the unit.
_COUNTS = """
  reg [15:0] coming;
  always @(posedge clk)
    if (rst) coming <= 0;
    else coming <= coming + (run_taken ? {wanted} : 0) - word_valid;
"""
MACHINES = {"word": MachineConfiguration(), "two words": MachineConfiguration(rows=8)}
WRONG = {
    "less room than asked for": (
        "assign has_room = descriptors_ahead <= 4'h8",
        "assign has_room = descriptors_ahead < 10",
    ),
    "read twice": (
        "if (memory_0_read_en) memory_0_read_address",
        "if (shows) memory_0_read_address",
    ),
    "too many at a time": ("? descriptors_left : 32'd8", "? descriptors_left : 32'd9"),
}


def random_programs(
    rng: np.random.Generator, count: int, machine: MachineConfiguration
) -> list[dict[str, Any]]:
    """Good descriptors up to perhaps a wrong one, in words; some are not to be read."""
    programs = []
    for number in range(count):
        length = 0 if number == 3 else int(rng.integers(1, 60))
        kinds = rng.choice(list(DESCRIPTORS), length)
        words = [good_descriptor(rng, name, machine) for name in kinds]
        if length and rng.random() < 0.5:
            words[-1 - int(rng.integers(0, length)) // 2] = next(wrong_descriptors(rng, 1, machine))
        raw = b"".join(word.to_bytes(DESCRIPTOR_BYTES, "little") for word in words)
        size = machine.word_bytes
        split = [int.from_bytes(raw[i : i + size], "little") for i in range(0, len(raw), size)]
        errors = rng.integers(0, len(split), 1).tolist() if split and rng.random() < 0.2 else []
        address = int(rng.integers(0, 1 << 50))
        programs.append({"words": split, "address": address, "errors": errors})
    return programs


def check_fetch(
    simulator: str,
    module: Module,
    machine: MachineConfiguration,
    programs: Sequence[dict[str, Any]],
    *,
    sources: list[Path] | None = None,
) -> int:
    """Descriptors come in order up to the first error; returns how many came."""
    size = machine.word_bytes
    each = DESCRIPTOR_BYTES // size
    fields = {name: width for name, _, width in module.ports["run_payload"].fields}
    options = {
        "seed": 3,
        "limit": 50_000,
        "word_bits": 8 * size,
        "words": each,
        "first_bits": fields["first"],
        "programs": programs,
    }
    logs = run_bench(simulator, module, "fetch", options, sources=sources)
    came = failed = 0
    for number, (program, log) in enumerate(zip(programs, logs, strict=True)):
        raw = b"".join(word.to_bytes(size, "little") for word in program["words"])
        split = [raw[i : i + DESCRIPTOR_BYTES] for i in range(0, len(raw), DESCRIPTOR_BYTES)]
        error, end = 0, len(split)
        for place, one in enumerate(split):
            fault = fault_of(one, machine)
            if any(word // each == place for word in program["errors"]):
                error, end = ERRORS["fetch"], place
            elif fault is not None:
                error, end = ERRORS[fault.error], place
            if error:
                break
        expected = [[place, int.from_bytes(one, "little")] for place, one in enumerate(split[:end])]
        assert log["descriptors"] == expected, f"descriptors of program {number} differ"
        assert log["error"] == error, f"program {number} ended with {log['error']}, not {error}"
        if error:
            assert log["number"] == end, f"error of {log['number']}, not {end}, in {number}"
        else:
            assert log["asked"] == list(range(len(program["words"]))), f"words of {number} differ"
        came, failed = came + end, failed + bool(error)
        if len(program["words"]) == each and not error:
            assert log["latency"] == module.latency, f"program {number}: {log['latency']} clocks"
    assert came > 0
    assert failed > 0
    return came


@pytest.mark.parametrize("size", MACHINES)
def test_random_programs(size: str, simulator: str, tmp_path: Path, tally: Tally) -> None:
    machine = MACHINES[size]
    rng = np.random.default_rng(7)
    programs = random_programs(rng, 40 if simulator == "verilator" else 15, machine)
    word = good_descriptor(rng, "load", machine).to_bytes(DESCRIPTOR_BYTES, "little")
    length = machine.word_bytes
    split = [int.from_bytes(word[i : i + length], "little") for i in range(0, len(word), length)]
    programs.append({"words": split, "address": 5, "errors": []})
    module = generated(Fetch(FetchConfiguration.of(machine)), tmp_path)
    came = check_fetch(simulator, module, machine, programs)
    tally(simulator, "descriptors fetched", came)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"ahead": 12}, "ahead must be a power of two, not 12"),
        ({"ahead": 1}, "ahead must be 2 or more, not 1"),
        ({"count_bits": 3}, "count_bits must be 4 or more, not 3"),
        ({"count_bits": 0}, "count_bits must be a positive integer, not 0"),
    ],
)
def test_configurations_that_cannot_work(parameters: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError) as error:
        Fetch(**parameters)
    assert str(error.value) == message


def _prove_room(module: Module, folder: Path, *, sources: Sequence[Path] | None = None) -> None:
    """All words that come find room, and leave in the order in which they came, at any time."""
    ahead = module.parameters["ahead"]
    run, word = (
        {name: (low, width) for name, low, width in module.ports[port].fields}
        for port in ("run_payload", "word")
    )
    low, width = run["words"]
    words = 8 * DESCRIPTOR_BYTES // word["data"][1]
    which = "which_word" if words > 1 else "0"
    claims = [
        "assume (!word_valid || coming != 0);",
        "assume (!start || ended);",
        f"assert (descriptors_ahead <= {ahead});",
        f"assert ({words} * descriptors_ahead == coming + {which} + {words} * (waiting + shows));",
        f"assert (((memory_0_read_address + waiting) & {ahead - 1}) == into);",
        "assert (!judged || shows);",
    ]
    counts = _COUNTS.format(wanted=f"run_payload[{low + width - 1}:{low}]")
    prove(module, folder, claims, free="beat_memory", declarations=counts, sources=sources)


@pytest.mark.parametrize("words", [1, 2])
def test_room_is_proved(words: int, tmp_path: Path, tally: Tally) -> None:
    machine = MACHINES["word" if words == 1 else "two words"]
    _prove_room(generated(Fetch(FetchConfiguration.of(machine)), tmp_path), tmp_path / "proof")
    tally("yosys sat", "fetch", 1)


@pytest.mark.parametrize("mutation", some(WRONG, every=4))
def test_wrong_room_is_not_proved(mutation: str, tmp_path: Path) -> None:
    right, wrong = WRONG[mutation]
    module = generated(Fetch(), tmp_path)
    (tmp_path / "wrong").mkdir()
    sources = mutated(module, "fetch", right, wrong, tmp_path / "wrong")
    with pytest.raises(AssertionError, match="proof did fail"):
        _prove_room(module, tmp_path / "proof", sources=sources)
