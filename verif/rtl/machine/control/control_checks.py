"""Checks of what judges and fetches: descriptors and programs of the machine."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from mxsafe.machine.assembler import fault_of
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import (
    DESCRIPTOR_BYTES,
    DESCRIPTORS,
    ERRORS,
)
from verif.rtl.machine.descriptor_cases import good_descriptor, single_faults, wrong_descriptors
from verif.support.checkers import assert_equal, assert_same
from verif.support.manifest import Module
from verif.support.simulators import run_bench, run_lockstep


def check_verdicts(
    simulator: str,
    module: Module,
    machine: MachineConfiguration,
    count: int,
) -> Counter[str]:
    """Verdicts are the assembler's; returns how many there are of each."""
    rng = np.random.default_rng(11)
    words = [good_descriptor(rng, name, machine) for name in DESCRIPTORS for _ in range(count // 8)]
    words += wrong_descriptors(rng, count, machine)
    words += [word for _, word in single_faults(rng, machine)]
    raw = [word.to_bytes(DESCRIPTOR_BYTES, "little") for word in words]
    faults = [fault_of(one, machine) for one in raw]
    names = ["none" if fault is None else fault.error for fault in faults]
    # For an FPGA a verdict comes later than its descriptor.
    rows = np.frombuffer(b"".join([*raw, *raw[:1] * module.latency]), np.uint8)
    stimulus = {"descriptor": rows.reshape(len(raw) + module.latency, -1)}
    if "rst" in module.ports:
        stimulus["rst"] = np.zeros((len(raw) + module.latency, 1), np.uint8)
    log = run_lockstep(simulator, module, stimulus, unsettled=module.latency)
    got = module.ports["error"].numbers(log["error"])[module.latency :]
    model = np.array([ERRORS[name] for name in names])
    assert_equal("verdicts differ", got, model, descriptor=np.array([w.hex() for w in raw]))
    found = Counter(names)
    assert min(found[name] for name in ("none", "malformed", "opcode")) > 0, f"only {found}"
    return found


def random_programs(
    rng: np.random.Generator, count: int, machine: MachineConfiguration
) -> list[dict[str, Any]]:
    """Good descriptors up to a wrong one in every other program, in words.

    Of every fifth program a word is not to be read.
    """
    programs = []
    for number in range(count):
        length = 0 if number == 3 else int(rng.integers(1, 60))
        kinds = rng.choice(list(DESCRIPTORS), length)
        words = [good_descriptor(rng, name, machine) for name in kinds]
        if length and number % 2:
            words[-1 - int(rng.integers(0, length)) // 2] = next(wrong_descriptors(rng, 1, machine))
        raw = b"".join(word.to_bytes(DESCRIPTOR_BYTES, "little") for word in words)
        size = machine.word_bytes
        split = [int.from_bytes(raw[i : i + size], "little") for i in range(0, len(raw), size)]
        errors = rng.integers(0, len(split), 1).tolist() if split and number % 5 == 2 else []
        address = int(rng.integers(0, 1 << 50))
        programs.append({"words": split, "address": address, "errors": errors})
    return programs


def programs_at_the_top(
    rng: np.random.Generator, machine: MachineConfiguration
) -> list[dict[str, Any]]:
    """Good descriptors up to the last addresses there are, or past them by some words."""
    size, each = machine.word_bytes, DESCRIPTOR_BYTES // machine.word_bytes
    top = (1 << 64) // size
    programs: list[dict[str, Any]] = []
    for length in (1, 2, 9, 25):
        for beyond in (0, 1, each, each + 1, 9 * each):
            words = [good_descriptor(rng, "load", machine) for _ in range(length)]
            raw = b"".join(word.to_bytes(DESCRIPTOR_BYTES, "little") for word in words)
            split = [int.from_bytes(raw[i : i + size], "little") for i in range(0, len(raw), size)]
            address = top - max(len(split) - beyond, 1)
            programs.append({"words": split, "address": address, "errors": []})
    return programs


def check_fetch(
    simulator: str,
    module: Module,
    machine: MachineConfiguration,
    programs: Sequence[dict[str, Any]],
) -> None:
    """Descriptors come in order up to the first error."""
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
    logs = run_bench(simulator, module, "fetch", options)
    came = failed = 0
    for number, (program, log) in enumerate(zip(programs, logs, strict=True)):
        raw = b"".join(word.to_bytes(size, "little") for word in program["words"])
        split = [raw[i : i + DESCRIPTOR_BYTES] for i in range(0, len(raw), DESCRIPTOR_BYTES)]
        error, end = 0, len(split)
        for place, one in enumerate(split):
            fault = fault_of(one, machine)
            is_there = program["address"] + (place + 1) * each <= 1 << fields["first"]
            if not is_there or any(word // each == place for word in program["errors"]):
                error, end = ERRORS["fetch"], place
            elif fault is not None:
                error, end = ERRORS[fault.error], place
            if error:
                break
        expected = [[place, int.from_bytes(one, "little")] for place, one in enumerate(split[:end])]
        assert_same(f"descriptors of program {number}", log["descriptors"], expected)
        assert log["error"] == error, f"program {number} ended with {log['error']}, not {error}"
        below = min(len(program["words"]), (1 << fields["first"]) - program["address"])
        assert len(log["asked"]) <= below // each * each, f"words of {number} past the top"
        if error:
            assert log["number"] == end, f"error of {log['number']}, not {end}, in {number}"
        else:
            assert_same(f"words of program {number}", log["asked"], [*range(len(program["words"]))])
        came, failed = came + end, failed + bool(error)
        if len(program["words"]) == each and not error:
            assert log["latency"] == module.latency, f"program {number}: {log['latency']} cycles"
    assert came > 0
    assert failed > 0
