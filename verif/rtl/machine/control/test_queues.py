"""The queues: order, tokens, deadlocks, errors, with engines that take any time."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from mxsafe.machine.description import ERRORS, QUEUES
from mxsafe.rtl.machine.control.descriptor_queue import DescriptorQueue
from mxsafe.rtl.machine.control.queues import Queues
from verif.rtl.machine.control.queue_checks import (
    Program,
    check_programs,
    expected,
    program_that_fails,
    queue_programs,
    queues,
    shortest_pauses,
    token_statements,
)
from verif.support.manifest import Module
from verif.support.proof import prove
from verif.support.tests import raises, refused, some
from verif.support.units import published


def test_the_model_knows_a_deadlock() -> None:
    """A descriptor that nothing signals, a circle, a queue that is full in front of a signal."""
    alone = Program(queue=[0], wait=[2], signal=[0], payload=[1])
    assert expected(alone, depth=2, most_tokens=3).error == ERRORS["deadlock"]
    circle = Program(queue=[0, 1], wait=[2, 1], signal=[2, 1], payload=[1, 2])
    assert expected(circle, depth=2, most_tokens=3).error == ERRORS["deadlock"]
    # Three of queue 0 wait for queue 1, whose descriptor is behind them.
    behind = Program(
        queue=[0, 0, 0, 1], wait=[2, 0, 0, 0], signal=[0] * 3 + [1], payload=[1, 2, 3, 4]
    )
    assert expected(behind, depth=3, most_tokens=3).error == 0
    assert expected(behind, depth=2, most_tokens=3).error == ERRORS["deadlock"]


@pytest.mark.parametrize("depth", some([3, 1]))
def test_random_programs(depth: int, simulator: str) -> None:
    rng = np.random.default_rng(depth)
    programs = queue_programs(rng, 60 if simulator == "verilator" else 15)
    module = queues(depth=depth)
    check_programs(simulator, module, programs)


def test_random_programs_for_fpgas() -> None:
    """A descriptor is handed over a cycle after its place was found."""
    programs = queue_programs(np.random.default_rng(4), 15)
    check_programs("icarus", queues(target="fpga"), programs)


def _many_tokens(giver: int, takers: list[int], given: int, taken: int) -> Program:
    """Descriptors that signal to some other queues, in front of all that wait for them."""
    count = taken * len(takers)
    return Program(
        queue=[giver] * given + takers * taken,
        wait=[0] * given + [1 << giver] * count,
        signal=[sum(1 << at for at in takers)] * given + [0] * count,
        payload=list(range(1, 1 + given + count)),
    )


def _one_too_many(giver: int, taker: int, other: int, given: int) -> Program:
    """Descriptors that signal to two queues, of which one takes all that there is room for first.

    The giver then owes tokens to the other one alone, and the last taker waits in vain.
    """
    return Program(
        queue=[giver] * given + [taker] * (given + 1) + [other] * given,
        wait=[0] * given + [1 << giver] * (2 * given + 1),
        signal=[1 << taker | 1 << other] * given + [0] * (2 * given + 1),
        payload=list(range(1, 2 + 3 * given)),
    )


def _error(queue: int, code: int) -> Program:
    """One descriptor of a queue, which has an error."""
    return Program(queue=[queue], wait=[0], signal=[0], payload=[1], errors={1: code})


@pytest.mark.variant
@pytest.mark.parametrize("name", published(Queues))
def test_random_programs_of_published_ones(name: str) -> None:
    programs = queue_programs(np.random.default_rng(6), 20)
    check_programs("verilator", published(Queues)[name], programs)


@pytest.mark.variant
@pytest.mark.parametrize("name", published(Queues))
def test_errors_of_published_ones(name: str) -> None:
    """Each error of each queue, alone and in front of others, and of fetching."""
    module = published(Queues)[name]
    programs = []
    for queue, queue_name in enumerate(QUEUES):
        programs += [_error(queue, code) for code in range(1, 16)]
        count = 32 * module.parameters[f"{queue_name}_under_way"]
        programs += [program_that_fails(number, queue) for number in range(count)]
    programs += [Program(fetch_error=code) for code in range(1, 16)]
    no_waiting = ("tokens", "deadlocks", "lacks")
    check_programs("verilator", module, programs, without=no_waiting)


@pytest.mark.variant
@pytest.mark.parametrize("name", published(Queues))
def test_the_least_number_of_published_ones(name: str) -> None:
    """Two descriptors wait for each other; from the first number to the other each bit changes."""
    module = published(Queues)[name]
    programs = [
        Program(
            queue=[one, other],
            wait=[1 << other, 1 << one],
            signal=[1 << other, 1 << one],
            payload=[1, 2],
            first_number=(1 << bit) - 1,
        )
        for bit in range(module.parameters["number_bits"])
        for one, other in itertools.permutations(range(len(QUEUES)), 2)
    ]
    nothing_starts = ("descriptors", "tokens", "early", "lacks")
    check_programs("verilator", module, programs, without=nothing_starts)


@pytest.mark.variant
@pytest.mark.parametrize("name", published(Queues))
def test_signals_of_published_ones_take_no_time(name: str) -> None:
    """The next descriptor starts as soon behind one that signals as behind one that does not."""
    module = published(Queues)[name]
    giver = QUEUES.index("vector")  # of the one queue that never starts one early
    signals = [0, *(1 << at for at in range(len(QUEUES)) if at != giver)]
    program = Program(
        queue=[giver] * 8, wait=[0] * 8, signal=signals * 2, payload=list(range(1, 9))
    )
    pauses = shortest_pauses("verilator", module, giver, [program] * 16)
    assert sorted(pauses) == signals
    assert len(set(pauses.values())) == 1, f"cycles to the next start, by signals: {pauses}"


@pytest.mark.variant
@pytest.mark.parametrize("name", published(Queues))
def test_many_tokens_of_published_ones(name: str) -> None:
    """As many tokens as there is room for, and one more; a token that nobody gives."""
    check_programs("verilator", published(Queues)[name], _token_programs(published(Queues)[name]))


def _token_programs(module: Module) -> list[Program]:
    """As many tokens as a module has room for, and one more; and one that nobody gives."""
    most, depth = (1 << module.parameters["token_bits"]) - 1, module.parameters["depth"]
    programs = []
    for queue in range(len(QUEUES)):
        # Behind those tokens a queue is full of descriptors that cannot signal yet; with one more,
        # whichever queue they are for, those that wait for them never get there: a deadlock.
        others = [other for other in range(len(QUEUES)) if other != queue]
        programs.append(_many_tokens(queue, others, most + depth, most + depth))
        programs += [
            _one_too_many(queue, taker, other, most + depth)
            for taker, other in itertools.permutations(others, 2)
        ]
        more = most + depth + 1
        programs += [_many_tokens(queue, [other], more, more) for other in others]
    # The last one waits for a token that nobody gives.
    programs.append(_many_tokens(QUEUES.index("store"), [QUEUES.index("load")], 2, 3))
    return programs


def test_many_tokens() -> None:
    """Where there is room for few: counters that are full, and descriptors that wait for room."""
    module = queues()
    check_programs("verilator", module, _token_programs(module))


@pytest.mark.yosys
@pytest.mark.parametrize(
    ("products", "target"),
    [(3, "asic"), (1, "asic"), pytest.param(1, "fpga", marks=pytest.mark.variant)],
)
def test_tokens_and_places_are_proved(products: int, target: str, tmp_path: Path) -> None:
    """No counter of tokens leaves its range, and no descriptor is lost, at any time."""
    module = queues(depth=2, number_bits=2, products_under_way=products, target=target)
    prove(module, tmp_path / "proof", token_statements(module), free="beat_memory")


test_configurations_that_cannot_work = refused(
    Queues,
    [
        ({"depth": 0}, "depth must be a positive integer, not 0"),
        ({"token_bits": 0}, "token_bits must be a positive integer, not 0"),
        (
            {"token_bits": 2, "products_under_way": 4},
            "products_under_way must be an integer from 1 to 3, not 4",
        ),
        ({"number_bits": 0}, "number_bits must be a positive integer, not 0"),
    ],
)


def test_a_queue_needs_a_place() -> None:
    with raises(ValueError, "under_way must be a positive integer, not 0"):
        DescriptorQueue(under_way=0)
