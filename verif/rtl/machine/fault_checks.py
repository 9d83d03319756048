"""Programs that end with errors, on the simulated machine, each followed by one that is right."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mxsafe.machine.assembler import Assembler, Instruction, fault_of, split
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import DESCRIPTOR_BYTES, ERRORS
from verif.rtl.machine.accelerator_checks import FAILED, Program, require_done, require_memory
from verif.rtl.machine.accelerator_job import Run, run_programs
from verif.rtl.machine.descriptor_places import touched
from verif.rtl.machine.power_up import powered_up
from verif.rtl.machine.program_faults import Fault
from verif.support.manifest import Module

__all__ = ["check_faults"]

_LIMIT = 200_000


@dataclass(frozen=True)
class Probe:
    """A program that adds a product to numbers in memory, over and over: it forgets no mistake.

    Attributes
    ----------
    program : bytes
    memory : ndarray of uint8
        What it works on.
    """

    program: bytes
    memory: NDArray[np.uint8]

    @classmethod
    def at(cls, configuration: MachineConfiguration, address: int) -> "Probe":
        """That of memory from an address on."""
        c, rng = configuration, np.random.default_rng(7)
        rows, size = c.rows, c.word_bytes
        beats = c.block_beats
        codes = rng.integers(0, 256, (2, 2 * beats * size)).astype(np.uint8)
        scales = np.full((2, size), 127, np.uint8)
        numbers = rng.standard_normal(rows * rows).astype("<f4").view(np.uint8)
        parts = [codes[0], scales[0], codes[1], scales[1], numbers]
        starts = address + np.cumsum([0, *(len(part) for part in parts)])
        make = Assembler(c)
        names = ("a_codes", "a_scales", "w_codes", "w_scales", "vector")
        moves = {
            name: {"buffer": name, "address": int(start), "count_0": len(part) // size}
            for name, start, part in zip(names, starts, parts, strict=False)
        }
        sums = {"arithmetic": "add", "y": rows, "d": 2 * rows, "beats": rows, "to_vector": 1}
        program = [
            *(make.load(**moves[name]) for name in names[:3]),
            make.load(**moves["w_scales"], signal="gemm"),
            make.load(**moves["vector"], signal="vector"),
            make.gemm(beats=beats, block=beats, result=rows, wait="load", signal="vector"),
            make.vector(**sums, wait="load,gemm", signal="store"),
            make.store(**moves["vector"], wait="vector", **{"from": 4 * rows}),
        ]
        return cls(make.assemble(program), np.concatenate(parts))


@dataclass
class _Image:
    """Memory that grows."""

    memory: NDArray[np.uint8]
    multiple: int

    def put(self, data: bytes) -> int:
        """Address of bytes behind all others."""
        start = -(-len(self.memory) // self.multiple) * self.multiple
        added = np.frombuffer(data, np.uint8)
        between = np.zeros(start - len(self.memory), np.uint8)
        self.memory = np.concatenate([self.memory, between, added])
        return start


def check_faults(
    simulator: str,
    module: Module,
    configuration: MachineConfiguration,
    program: Program,
    faults: Sequence[Fault],
    *,
    seed: int = 1,
) -> int:
    """Each error must be told with its descriptor, and a right program must run after each.

    Those that begin as the right program does come first, and then that program as a whole. What
    the others write must be words that they name: memory is compared but for these.

    Returns
    -------
    int
        Errors that were found.
    """
    size = configuration.word_bytes
    image = _Image(program.memory, size)
    place = image.put(b"")
    probe = Probe.at(configuration, place)
    assert image.put(probe.memory.tobytes()) == place
    right = Run(program=image.put(probe.program), length=len(probe.program) // DESCRIPTOR_BYTES)
    own = [fault for fault in faults if fault.errors is not None or fault.error == "deadlock"]
    foreign = [fault for fault in faults if fault not in own]
    runs = []
    for fault in own:
        runs += [_wrong(fault, program, image), right]
    runs += [program.run, right]
    for fault in foreign:
        runs += [_wrong(fault, program, image), right]
    ended = run_programs(
        simulator,
        module,
        image.memory,
        runs,
        latency=(5, 40),
        pause=0.1,
        seed=seed,
    )
    assert len(ended.runs) == len(runs) == 2 * len(faults) + 2
    expected = image.memory.copy()
    machine = powered_up(configuration, seed)
    assert machine.run(program.data, expected, base=program.base).error == "none"
    ordered = [*own, None, *foreign]
    for each, ran, after in zip(ordered, ended.runs[::2], ended.runs[1::2], strict=True):
        _require_told(each, ran)
        outcome = machine.run(probe.program, expected)
        assert outcome.error == "none", outcome.reason
        require_done(after)
        counted = after["words_read"], after["words_written"]
        assert counted == (outcome.words_read, outcome.words_written), each
    named = _named_by(foreign, program.base, configuration)
    assert 4 * len(named) < len(expected), "too little is compared"
    kept = np.ones(len(expected), np.bool_)
    kept[named] = False
    require_memory(ended.memory[kept], expected[kept])
    return len(faults)


def _require_told(fault: Fault | None, ran: dict[str, int]) -> None:
    """A run must have ended with the error, or without one, and be idle after a reset."""
    if fault is None:
        require_done(ran)
        return
    told = ran["status"], ran["error"], ran["error_descriptor"]
    wanted = FAILED, ERRORS[fault.error], fault.number
    assert told == wanted, f"{fault.name}: status, error, number are {told}, not {wanted}"
    idle = ran["status_after_reset"], ran["pending_after_reset"]
    assert idle == (0, 0), f"{fault.name}: not idle after a reset"


def _wrong(fault: Fault, program: Program, image: _Image) -> Run:
    """The run of a wrong program, or of the right one where memory answers with errors."""
    start, count, errors = program.start, len(program.instructions), fault.errors
    if fault.program is not None:
        start, count = image.put(fault.program), len(fault.program) // DESCRIPTOR_BYTES
    if errors is not None:
        offset = program.start if fault.error == "fetch" else program.base
        errors = range(errors.start + offset, errors.stop + offset)
    return Run(program=start, length=count, base=program.base, limit=_LIMIT, errors=errors)


def _named_by(
    faults: Sequence[Fault], base: int, configuration: MachineConfiguration
) -> NDArray[np.int64]:
    """Bytes that wrong programs may write."""
    words: set[int] = set()
    for fault in faults:
        for data in split(fault.program or b""):
            if fault_of(data, configuration) is None:
                places = touched(Instruction.decoded(data), configuration).writes
                words |= set(places.get("memory", np.zeros(0, np.int64)).tolist())
    size = configuration.word_bytes
    first = base + np.array(sorted(words), np.int64) * size
    return (first[:, None] + np.arange(size)).reshape(-1)
