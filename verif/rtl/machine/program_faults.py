"""Programs that end with an error: which error it is, and of which descriptor."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mxsafe.machine.assembler import Assembler, Instruction, fault_of
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import (
    DESCRIPTOR_BYTES,
    LOAD_BUFFERS,
    MOST_TOKENS,
    STORE_BUFFERS,
    TARGETS,
)
from mxsafe.machine.reach import address_fault
from mxsafe.model.machine import Machine
from verif.rtl.machine.accelerator_checks import Program
from verif.rtl.machine.descriptor_cases import single_faults
from verif.rtl.machine.descriptor_places import touched

_PREFIX = 5
"""Most good descriptors before a wrong one."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A program that ends with an error.

    Attributes
    ----------
    error : str
        Name of the error.
    number : int
        Of its descriptor.
    program : bytes, optional
        Without it, it is the good program.
    errors : range, optional
        Addresses that memory answers with errors, relative to the base; to a fetch, relative to
        the program.
    """

    name: str
    error: str
    number: int
    program: bytes | None = None
    errors: range | None = None


def without_tokens(instructions: Sequence[Instruction]) -> list[Instruction]:
    """Descriptors that wait for nobody and signal nobody."""
    return [_changed(one, wait=0, signal=0) for one in instructions]


def _changed(one: Instruction, **values: int) -> Instruction:
    given = {name: value for name, value in one.values.items() if name != "opcode"}
    return Instruction(one.kind, given | values)


def _good(program: Program, rng: np.random.Generator, most: int = _PREFIX) -> list[bytes]:
    """Some descriptors of a program that change no memory."""
    quiet = [one for one in program.instructions if one.kind != "store" and not _is_piece(one)]
    count = int(rng.integers(0, most + 1))
    chosen = [quiet[int(at)] for at in rng.integers(0, len(quiet), count)]
    return [one.encoded() for one in without_tokens(chosen)]


def _is_piece(one: Instruction) -> bool:
    """Whether a descriptor is for a piece of a row, and has to follow another one."""
    return one.kind == "vector" and one["sweep"] != 0


def malformed(program: Program, configuration: MachineConfiguration, seed: int) -> Iterator[Fault]:
    """Every way in which a descriptor can be malformed, in the middle of good ones."""
    rng = np.random.default_rng(seed)
    for name, word in single_faults(rng, configuration):
        data = word.to_bytes(DESCRIPTOR_BYTES, "little")
        fault = fault_of(data, configuration)
        assert fault is not None, name
        before, after = _good(program, rng), _good(program, rng, 2)
        whole = b"".join([*before, data, *after])
        yield Fault(name=name, error=fault.error, number=len(before), program=whole)


def misplaced(program: Program, seed: int) -> Iterator[Fault]:
    """Pieces of rows without those before them, each kind of sweep once."""
    rng, done = np.random.default_rng(seed), set[tuple[int, int]]()
    for one in without_tokens([one for one in program.instructions if _is_piece(one)]):
        kind = one["reduction"], one["sweep"]
        if not one["clear"] and kind not in done:
            done.add(kind)
            before, after = _good(program, rng), _good(program, rng, 2)
            whole = b"".join([*before, one.encoded(), *after])
            name = f"sweep {kind[1]} of reduction {kind[0]}"
            yield Fault(name=name, error="sweep", number=len(before), program=whole)


def places_of(configuration: MachineConfiguration) -> set[str]:
    """Names of all places in buffers that descriptors can miss."""
    c = configuration
    operands = [name for name in c.load_buffers if name != "vector"]
    names = {f"load {name}" for name in c.load_buffers}
    names |= {"load vector widen", "store vector narrow", "store vector"}
    names |= {f"gemm {name}" for name in operands}
    names |= {"gemm result", "vector x", "vector y", "vector d"}
    if c.conversions:
        names |= {f"store {name}" for name in c.store_buffers}
        places = ("out", "out_scales") if c.scaled else ("out",)
        names |= {f"vector {place} {target}" for place in places for target in TARGETS.members}
    return names


def _place_names(one: Instruction) -> Iterator[tuple[str, str]]:
    """Fields that say where a descriptor begins in a buffer, and the name of what they miss."""
    if one.kind in ("load", "store"):
        names = LOAD_BUFFERS if one.kind == "load" else STORE_BUFFERS
        name = f"{one.kind} {names.name_of(one['buffer'])}"
        flag = "widen" if one.kind == "load" else "narrow"
        yield "to" if one.kind == "load" else "from", f"{name} {flag}" if one[flag] else name
    elif one.kind == "gemm":
        for name in ("a_codes", "a_scales", "w_codes", "w_scales", "result"):
            yield name, f"gemm {name}"
    else:
        for name in ("x", "y", "d"):
            yield name, f"vector {name}"
        for name in ("out", "out_scales"):
            yield name, f"vector {name} {TARGETS.name_of(one['target'])}"


def _missing(
    one: Instruction, place: str, configuration: MachineConfiguration
) -> Instruction | None:
    """A descriptor whose last entry is one too far; None if it does not use that place."""
    width = one.descriptor.field(place).width
    far = _changed(one, **{place: (1 << width) - 1})
    fault = address_fault(far, configuration)
    if fault is None or not fault.reason.startswith(f"{one.kind}: {place} "):
        return None
    most, last = (int(text) for text in fault.reason.split(" up to ")[1].split(", not "))
    return _changed(one, **{place: far[place] - (last - most - 1)})


def address_faults(
    program: Program, configuration: MachineConfiguration, seed: int
) -> Iterator[Fault]:
    """Descriptors of a program moved past the end of each buffer: by one, and as far as can be."""
    rng = np.random.default_rng(seed)
    left = places_of(configuration)
    order = [program.instructions[int(at)] for at in rng.permutation(len(program.instructions))]
    for one in without_tokens(one for one in order if not _is_piece(one)):
        for place, name in _place_names(one):
            if name not in left:
                continue
            near = _missing(one, place, configuration)
            if near is None:
                continue
            left.remove(name)
            far = _changed(one, **{place: (1 << one.descriptor.field(place).width) - 1})
            for how, wrong in (("by one", near), ("far", far)):
                assert address_fault(wrong, configuration) is not None
                before, after = _good(program, rng), _good(program, rng, 2)
                whole = b"".join([*before, wrong.encoded(), *after])
                number = len(before)
                yield Fault(name=f"{name} {how}", error="address", number=number, program=whole)
    assert not left, f"the program never uses {', '.join(sorted(left))}"


def bits_outside(
    program: Program, configuration: MachineConfiguration, seed: int
) -> Iterator[Fault]:
    """Descriptors that one bit of a place or a stride takes past the end of some buffer.

    Without the bit they are good, so that a machine that loses it finds no error. Each bit that
    does so in one of a program's descriptors comes once.
    """
    rng = np.random.default_rng(seed)
    done, fields = set[str](), set[str]()

    def written(one: Instruction) -> int:
        return touched(one, configuration).writes.get("memory", np.zeros(0)).size

    # Those that write little first: the rest of memory must stay as it is.
    whole_rows = (one for one in program.instructions if not _is_piece(one))
    for one in sorted(without_tokens(whole_rows), key=written):
        places = {place for place, _ in _place_names(one)}
        names = [f.name for f in one.descriptor.fields if f.name in places or _is_stride(f.name)]
        for name in names:
            if "scale" in name and not configuration.scaled:
                continue
            fields.add(f"{one.kind} {name}")
            for bit in range(one.descriptor.field(name).width):
                what = f"{one.kind} {name} by bit {bit}"
                wrong = _changed(one, **{name: one[name] | 1 << bit})
                if what in done or wrong.fault(configuration) is not None:
                    continue
                if address_fault(wrong, configuration) is not None:
                    done.add(what)
                    before = _good(program, rng, 1)
                    whole = b"".join([*before, wrong.encoded()])
                    yield Fault(name=what, error="address", number=len(before), program=whole)
    left = fields - {what.partition(" by bit ")[0] for what in done}
    assert not left, f"no bit of {', '.join(sorted(left))} takes a descriptor outside"


def _is_stride(name: str) -> bool:
    """Whether a field is a stride in a buffer; those in memory begin with the word."""
    return "_stride" in name or name.startswith("step_")


def memory_faults(
    program: Program, configuration: MachineConfiguration, seed: int, count: int
) -> Iterator[Fault]:
    """Errors of memory anywhere: in words that a program reads, writes, and is made of."""
    rng, size = np.random.default_rng(seed), configuration.word_bytes
    first: dict[int, tuple[str, int]] = {}
    for number, one in enumerate(program.instructions):
        places = touched(one, configuration)
        for error, where in (("read", places.reads), ("write", places.writes)):
            for word in np.unique(where.get("memory", np.zeros(0, np.int64))):
                first.setdefault(int(word), (error, number))
    for wanted in ("read", "write"):
        words = [word for word, (error, _) in first.items() if error == wanted]
        for word in rng.choice(words, count, replace=False):
            errors = range(int(word) * size, (int(word) + 1) * size)
            number = first[int(word)][1]
            yield Fault(name=f"{wanted} of {word}", error=wanted, number=number, errors=errors)
    for number in rng.choice(len(program.instructions), count, replace=False):
        at = int(number) * DESCRIPTOR_BYTES
        yield Fault(
            name=f"fetch of {number}",
            error="fetch",
            number=int(number),
            errors=range(at, at + DESCRIPTOR_BYTES),
        )


def deadlocks(
    program: Program, configuration: MachineConfiguration, seed: int, count: int
) -> Iterator[Fault]:
    """Programs that lack a token, and one that gives more than a counter holds."""
    rng = np.random.default_rng(seed)
    assembler = Assembler(configuration)
    signals = [n for n, one in enumerate(program.instructions) if one["signal"]]
    programs = []
    for number in rng.choice(signals, count, replace=False):
        instructions = list(program.instructions)
        one = instructions[number]
        bits = [1 << bit for bit in range(4) if one["signal"] >> bit & 1]
        signal = one["signal"] & ~int(rng.choice(bits))
        instructions[number] = _changed(one, signal=signal)
        programs.append((f"no signal of {number}", instructions))
    # The last token finds no room, and what would take it stands behind it.
    give = assembler.load(buffer="vector", signal="gemm")
    take = assembler.load(buffer="vector")
    many = [give] * (MOST_TOKENS + 1)
    programs.append(("too many tokens", [*many, *[take] * configuration.queue_depth]))
    for name, instructions in programs:
        data = b"".join(one.encoded() for one in instructions)
        outcome = Machine(configuration).run(data, program.memory.copy(), base=program.base)
        if outcome.error == "deadlock":
            number = outcome.descriptor
            yield Fault(name=name, error="deadlock", number=number, program=data)
