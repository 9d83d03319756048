"""Checks of the queues: programs with random tokens, and a network of processes as model."""

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mxsafe.machine.description import DESCRIPTORS, ERRORS, HEADER_BITS, QUEUES
from mxsafe.rtl.machine.control.descriptor_queue import PAYLOAD_BITS
from mxsafe.rtl.machine.control.queues import Queues
from verif.bench.difference import difference
from verif.support.manifest import Module
from verif.support.simulators import run_bench
from verif.support.units import generated

GEMM = QUEUES.index("gemm")


def queues(**parameters: Any) -> Module:
    """Queues with little room, in `folder`."""
    sizes: dict[str, Any] = {"depth": 3, "token_bits": 2, "number_bits": 9} | parameters
    return generated(Queues(**sizes))


@dataclass
class Program:
    """Descriptors of queues: which, what they wait for, what they signal, what else is in them.

    Attributes
    ----------
    queue, wait, signal, payload : list of int
        An item each descriptor.
    errors : dict of int to int
        Error of the descriptor that holds this.
    fetch_error : int
        Error after the last descriptor.
    first_number : int, optional
        Number of the first descriptor; by default a random one.
    """

    queue: list[int] = field(default_factory=list)
    wait: list[int] = field(default_factory=list)
    signal: list[int] = field(default_factory=list)
    payload: list[int] = field(default_factory=list)
    errors: dict[int, int] = field(default_factory=dict)
    fetch_error: int = 0
    first_number: int | None = None

    def job(self, first_number: int) -> dict[str, Any]:
        """The program as the bench wants it, with descriptors numbered from there on."""
        kinds = list(DESCRIPTORS.values())
        words = []
        for queue, wait, signal, payload in zip(
            self.queue, self.wait, self.signal, self.payload, strict=True
        ):
            offsets = kinds[queue].offsets
            header = kinds[queue].opcode | wait << offsets["wait"] | signal << offsets["signal"]
            words.append(payload << HEADER_BITS | header)
        errors = {str(word): code for word, code in self.errors.items()}
        return {
            "descriptors": words,
            "errors": errors,
            "fetch_error": self.fetch_error,
            "first_number": first_number,
        }


def random_program(rng: np.random.Generator, longest: int = 40) -> Program:
    """A program whose tokens mostly, but not always, come to those who wait for them."""
    program = Program()
    count = int(rng.integers(1, longest))
    queue = rng.integers(0, len(QUEUES), count)
    signal, wait = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for _ in range(int(rng.integers(0, 2 * count))):
        first, second = np.sort(rng.integers(0, count, 2))
        if rng.random() < 0.02:
            first, second = second, first  # a circle, perhaps
        if queue[first] != queue[second]:
            signal[first] |= 1 << queue[second]
            wait[second] |= 1 << queue[first]
    program.queue, program.wait, program.signal = queue.tolist(), wait.tolist(), signal.tolist()
    program.payload = [int.from_bytes(rng.bytes(PAYLOAD_BITS // 8), "little") for _ in range(count)]
    kind = rng.random()
    if kind < 0.1:
        failing = program.payload[int(rng.integers(0, count))]
        program.errors[failing] = ERRORS["address"]
    elif kind < 0.2:
        program.fetch_error = ERRORS["malformed"]
    return program


def program_that_fails(number: int, queue: int = GEMM) -> Program:
    """Descriptors that wait for no tokens; one has an error, and may find it at once."""
    count = 6
    first, second, *_ = (1 << other for other in range(len(QUEUES)) if other != queue)
    return Program(
        queue=[queue] * count,
        wait=[0] * count,
        signal=[0, first, second, 0, 0, 0],
        payload=list(range(1, 1 + count)),
        errors={1 + number % count: ERRORS["address"]},
    )


def queue_programs(rng: np.random.Generator, count: int) -> list[Program]:
    """Random programs, and a few whose errors come right behind the end of another descriptor."""
    return [random_program(rng) for _ in range(count)] + [program_that_fails(n) for n in range(32)]


@dataclass
class _Process:
    waiting: deque[int] = field(default_factory=deque)
    owed: int | None = None
    """Signals that the descriptor in front still has to give, once it has run."""


@dataclass
class Expected:
    """End of a program: error, its descriptor, and the descriptors that have started."""

    error: int
    number: int
    started: list[list[int]]


def expected(program: Program, *, depth: int, most_tokens: int) -> Expected:
    """End of a program, whatever the times that its descriptors take."""
    processes = [_Process() for _ in QUEUES]
    tokens = np.zeros((len(QUEUES), len(QUEUES)), np.int64)
    started: list[list[int]] = [[] for _ in QUEUES]
    fetched = 0

    def step(at: int) -> bool:
        """Let a process do one thing; whether it could."""
        process = processes[at]
        if not process.waiting:
            return False
        number = process.waiting[0]
        if process.owed is None:
            sources = [i for i in range(len(QUEUES)) if program.wait[number] >> i & 1]
            if any(tokens[i, at] == 0 for i in sources):
                return False
            for i in sources:
                tokens[i, at] -= 1
            started[at].append(number)
            process.owed = program.signal[number]
            return True
        for to in range(len(QUEUES)):
            if process.owed >> to & 1 and tokens[at, to] < most_tokens:
                tokens[at, to] += 1
                process.owed &= ~(1 << to)
                return True
        if process.owed:
            return False
        process.waiting.popleft()
        process.owed = None
        return True

    while True:
        moved = False
        if fetched < len(program.queue) and len(processes[program.queue[fetched]].waiting) < depth:
            processes[program.queue[fetched]].waiting.append(fetched)
            fetched, moved = fetched + 1, True
        for at in range(len(QUEUES)):
            moved |= step(at)
        if not moved:
            break
    left = [process.waiting[0] for process in processes if process.waiting]
    everything = fetched == len(program.queue)
    for numbers in started:
        for number in numbers:
            if program.payload[number] in program.errors:
                return Expected(program.errors[program.payload[number]], number, started)
    if everything and program.fetch_error:
        return Expected(program.fetch_error, fetched, started)
    if left:
        return Expected(ERRORS["deadlock"], min(left), started)
    return Expected(0, 0, started)


def _check_tokens(program: Program, log: dict[str, Any], most_tokens: int) -> int:
    """No descriptor starts before tokens are given, none after signals found no room."""
    numbers = [[n for n, queue in enumerate(program.queue) if queue == at] for at in range(4)]
    taken = 0
    for giver in range(len(QUEUES)):
        for taker in range(len(QUEUES)):
            gives = [
                (place, clock)
                for place, (number, clock) in enumerate(
                    zip(numbers[giver], log["finished"][giver], strict=False)
                )
                if program.signal[number] >> taker & 1
            ]
            takes = [
                clock
                for number, (clock, _) in zip(numbers[taker], log["started"][taker], strict=False)
                if program.wait[number] >> giver & 1
            ]
            assert len(takes) <= len(gives), f"{QUEUES[taker]} took a token that was not given"
            for take, (_, give) in zip(takes, gives, strict=False):
                assert take > give, f"{QUEUES[taker]} took a token before it was given"
            taken += len(takes)
            if giver == GEMM:
                continue  # which may start early
            for place, (at, _) in enumerate(gives):
                # The next one starts when the token is given, so another must have been taken.
                if place >= most_tokens and at + 1 < len(log["started"][giver]):
                    after = log["started"][giver][at + 1][0]
                    message = f"{QUEUES[giver]} gave a token that had no room"
                    assert takes[place - most_tokens] < after, message
    return taken


def check_programs(
    simulator: str,
    module: Module,
    programs: Sequence[Program],
    *,
    without: Collection[str] = (),
) -> dict[str, int]:
    """Programs end as the model says, with tokens that are there; returns what was compared.

    There is some of everything but of what the programs are `without`.
    """
    depth = module.parameters["depth"]
    most_tokens = (1 << module.parameters["token_bits"]) - 1
    first, logs = _run(simulator, module, programs)
    counts = {"descriptors": 0, "tokens": 0, "deadlocks": 0, "early": 0, "lacks": 0}
    for at, (program, log) in enumerate(zip(programs, logs, strict=True)):
        model = expected(program, depth=depth, most_tokens=most_tokens)
        what = f"program {at}"
        got = log["error"], log["number"]
        number = first[at] + model.number if model.error else 0
        assert got == (model.error, number), f"{what} ended with {got}, not {model}"
        assert log["done"] == (model.error == 0), f"{what}: done is {log['done']}"
        for name, started, order in zip(QUEUES, log["started"], model.started, strict=True):
            words = [word for _, word in started]
            payloads = [program.payload[n] for n in order]
            if not program.errors and not program.fetch_error:
                assert len(words) == len(payloads), f"{what}: {name} ran {len(words)} descriptors"
            found = difference(words, payloads[: len(words)], "descriptor ")
            assert not found, f"{what}: {name} ran something else: {found}"
            counts["descriptors"] += len(words)
        counts["tokens"] += _check_tokens(program, log, most_tokens)
        counts["deadlocks"] += model.error == ERRORS["deadlock"]
        counts["early"] += log["most"][GEMM] > 1
        counts["lacks"] += sum(log["lacks"])
    assert set(without) <= counts.keys()
    for name, count in counts.items():
        if name in without:
            continue
        if name == "early" and depth == 1:
            continue  # there is no place for a second one
        assert count > 0, f"there were no {name}"
    return counts


def _run(
    simulator: str, module: Module, programs: Sequence[Program]
) -> tuple[list[int], list[dict[str, Any]]]:
    """Run programs; return the number of the first descriptor of each, and what happened."""
    rng = np.random.default_rng(7)
    numbers = 1 << module.parameters["number_bits"]
    drawn = [int(rng.integers(0, numbers - len(program.queue))) for program in programs]
    first = [
        at if program.first_number is None else program.first_number
        for program, at in zip(programs, drawn, strict=True)
    ]
    job = {
        "seed": 5,
        "patience": 1000,  # cycles in which nothing starts or ends: many times what engines take
        "engines": {name: module.parameters[f"{name}_under_way"] for name in QUEUES},
        "programs": [program.job(at) for program, at in zip(programs, first, strict=True)],
    }
    logs = run_bench(simulator, module, "queues", job)
    assert len(logs) == len(programs)
    return first, logs


def shortest_pauses(
    simulator: str, module: Module, giver: int, programs: Sequence[Program]
) -> dict[int, int]:
    """Fewest cycles from the end of a descriptor of a queue to the next start, by its signals."""
    _, logs = _run(simulator, module, programs)
    shortest: dict[int, int] = {}
    for program, log in zip(programs, logs, strict=True):
        starts = [clock for clock, _ in log["started"][giver]]
        for signal, end, start in zip(
            program.signal, log["finished"][giver], starts[1:], strict=False
        ):
            shortest[signal] = min(start - end, shortest.get(signal, start - end))
    return shortest


def token_statements(module: Module) -> list[str]:
    """Return the statements to prove of tokens and places, if engines end only what they have."""
    sizes = module.parameters
    most = (1 << sizes["token_bits"]) - 1
    statements = []
    for at, name in enumerate(QUEUES):
        inside = f"\\queue_{name}."
        under_way = sizes[f"{name}_under_way"]
        # Of one that runs the count and its one-hot form are the same net.
        running = f"{inside}running " if under_way > 1 else f"{inside}is_oldest "
        runs, is_done = f"{inside}engine_valid ", f"{inside}oldest_is_done "
        statements += [
            # An engine is done with what it has taken, or takes in this cycle.
            f"assume (!{name}_done || {running} > 8'd0 + {is_done} + ({runs} && !{name}_ready));",
            f"assert ({running} >= 8'd0 + {is_done} + {runs});",
            # No descriptor is lost on its way: each place is that of one in a known state.
            f"assert (8'd0 + {inside}places_taken + {runs} "
            f"== 8'd0 + {inside}unread + {inside}shows + {running});",
            f"assert ({inside}places_taken <= {sizes['depth']});",
            f"assert (!{runs} || {inside}shows );",
            f"assert (!{is_done} || {running} != 0);",
            # No descriptor that is done goes unnoticed because the one before still signals.
            f"assert (!({name}_done && {is_done} && !{inside}retired && !{inside}stop ));",
        ]
        for other, to in enumerate(QUEUES):
            if other == at:
                continue
            tokens = f"tokens_{name}_to_{to}"
            statements += [
                f"assert (!(queue_{name}_give[{other}] && &{tokens}));",
                f"assert (!(queue_{to}_take[{at}] && {tokens} == 0));",
                # Descriptors that run beside another are sure to find room for their signals.
                f"assert ({running} <= 1 || {tokens} + {running} <= {most});",
            ]
        statements.append(f"assert ({running} <= {under_way});")
    return statements
