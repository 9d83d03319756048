"""The queues of the machine, and the tokens between them."""

from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.machine.description import (
    DESCRIPTOR_BITS,
    DESCRIPTORS,
    ERRORS,
    HEADER_BITS,
    QUEUES,
    TOKEN_BITS,
)
from mxsafe.rtl.arithmetic.bits import any_of, gated_or, named, noted
from mxsafe.rtl.machine.control.descriptor_queue import (
    PAYLOAD_BITS,
    DescriptorQueue,
    DescriptorQueueConfiguration,
)
from mxsafe.rtl.machine.ports import ERROR_BITS, EnginePort
from mxsafe.rtl.timing import Target, at, held
from mxsafe.rtl.unit import Configuration, Ports, Unit, place
from mxsafe.validation import Alike, PositiveInteger, require_integer

GEMM = QUEUES.index("gemm")


def descriptor_layout(queue: str) -> data.StructLayout:
    """Fields of a kind of descriptor after its header, as the description has them."""
    own = DESCRIPTORS[queue].own
    fields = {field.name: field.width for field in own}
    unused = PAYLOAD_BITS - sum(fields.values())
    return data.StructLayout(fields | ({"reserved": unused} if unused else {}))


_LEAST_CLOCKS = 1 + (len(QUEUES) - 1).bit_length()
"""In which the least of the queues' numbers is found, with registers around each comparison."""


class QueuesConfiguration(Configuration):
    """`Queues`.

    Parameters
    ----------
    depth : int
        Descriptors that have a place in each queue.
    products_under_way : int
        Most descriptors of the GEMM engine that run at a time; the VECTOR engine runs one.
    token_bits : int
        Bits of a counter of tokens, which must hold those of all descriptors that run.
    number_bits : int
        Bits of a descriptor's number.
    target : {"asic", "fpga"}
        What it is built for, see `mxsafe.rtl.timing`.
    """

    depth: Alike = 8
    products_under_way: int = 3
    token_bits: PositiveInteger = TOKEN_BITS
    number_bits: PositiveInteger = 32
    target: Target = "asic"

    def __post_init__(self) -> None:
        most = self.most_tokens
        count = require_integer("products_under_way", self.products_under_way, 1, most)
        self._set(products_under_way=count)

    @property
    def latency(self) -> int:
        """Cycles from a descriptor in an empty queue to its start."""
        return self.queue(0).latency

    @property
    def most_tokens(self) -> int:
        """Tokens that a counter holds."""
        return (1 << self.token_bits) - 1

    @property
    def under_way(self) -> dict[str, int]:
        """By queue most descriptors that run at a time; all of them have places."""
        # Two runs of words hide the latency of memory.
        most = {"load": 2, "gemm": self.products_under_way, "vector": 1, "store": 2}
        return {queue: min(count, self.depth) for queue, count in most.items()}

    @property
    def properties(self) -> Mapping[str, Any]:
        return {f"{name}_under_way": most for name, most in self.under_way.items()}

    def queue(self, number: int) -> DescriptorQueueConfiguration:
        """One of the queues."""
        return self.part(
            DescriptorQueueConfiguration,
            under_way=self.under_way[QUEUES[number]],
        )


class Queues(Unit[QueuesConfiguration]):
    """Four queues of descriptors that run side by side, and wait for each other by tokens.

    A descriptor has a place in the queue of its opcode until its signals are given. It starts when
    all tokens that it waits for are there, and takes them at once; when it is done it gives each of
    its tokens as soon as the counter has room, and the next one starts when all are given.

    The machine stops at the first error. One of them is that no queue can do anything any more,
    while descriptors have places in queues or wait for one: the number is then the least of those
    that wait for tokens or for room.

    Attributes
    ----------
    start : In(1)
        A program begins: tokens that an earlier one left are forgotten.
    descriptor_valid, descriptor_ready, descriptor, number : In, Out, In, In
        Descriptors in order, with opcodes that exist, and the number of each.
    ended : In(1)
        There are no more.
    fetch_error : In(4)
        Error of the descriptor `number`, which is not handed over.
    load, gemm, vector, store : Out(EnginePort)
        The engines.
    stop : In(1)
        All is to end, without an error: nothing starts any more.
    is_done : Out(1)
        All descriptors are done.
    stopped : Out(1)
        There has been an error; it stays until the reset.
    error, error_number : Out
        Its code, and the number of the descriptor, valid with `stopped`.
    lacks : Out(3)
        The GEMM engine waits for tokens of these of the other queues.
    """

    def ports(self) -> Ports:
        config = self.config
        return {
            "start": In(1),
            "descriptor_valid": In(1),
            "descriptor_ready": Out(1),
            "descriptor": In(DESCRIPTOR_BITS),
            "number": In(config.number_bits),
            "ended": In(1),
            "fetch_error": In(ERROR_BITS),
            **{name: Out(EnginePort(descriptor_layout(name))) for name in QUEUES},
            "stop": In(1),
            "is_done": Out(1),
            "stopped": Out(1),
            "error": Out(ERROR_BITS),
            "error_number": Out(config.number_bits),
            "lacks": Out(len(QUEUES) - 1),
        }

    def fill(self, m: Module, platform: object) -> None:
        queues = [
            place(m, platform, f"queue_{name}", DescriptorQueue(self.config.queue(number)))
            for number, name in enumerate(QUEUES)
        ]
        stops = named(m, "stops", 1, self.stopped | self.stop)
        for name, queue in zip(QUEUES, queues, strict=True):
            engine = getattr(self, name)
            m.d.comb += [
                engine.valid.eq(queue.engine.valid),
                engine.stop.eq(queue.engine.stop),
                Value.cast(engine.descriptor).eq(queue.engine.descriptor),
                queue.engine.ready.eq(engine.ready),
                queue.engine.done.eq(engine.done),
                queue.engine.error.eq(engine.error),
                queue.stop.eq(stops),
            ]
        self._count_tokens(m, queues)
        full = self._hand_over(m, queues)
        self._end(m, queues, full)
        others = (name for number, name in enumerate(QUEUES) if number != GEMM)
        m.d.comb += self.lacks.eq(Cat(getattr(queues[GEMM], f"lacks_{name}") for name in others))

    def _count_tokens(self, m: Module, queues: Sequence[DescriptorQueue]) -> None:
        """Counters of tokens from every queue to every other one."""
        config = self.config
        for giver, taker in permutations(range(len(QUEUES)), 2):
            name = f"{QUEUES[giver]}_to_{QUEUES[taker]}"
            tokens = Signal(config.token_bits, name=f"tokens_{name}")
            gives, takes = queues[giver].give[taker], queues[taker].take[giver]
            noted(
                tokens,
                "Credit counters of tokens from each queue to each other one. Those that an "
                "earlier program left are forgotten at a start.",
            )
            m.d.sync += tokens.eq(Mux(self.start, 0, tokens + gives - takes))
            under_way = queues[giver].config.under_way
            m.d.comb += [
                queues[taker].available[giver].eq(tokens.any()),
                queues[giver].has_room[taker].eq(~tokens.all()),
                queues[giver].has_room_for_all[taker].eq(tokens <= config.most_tokens - under_way),
            ]
        for number, queue in enumerate(queues):  # a queue has no tokens of its own
            m.d.comb += [
                queue.available[number].eq(0),
                queue.has_room[number].eq(1),
                queue.has_room_for_all[number].eq(1),
            ]

    def _hand_over(self, m: Module, queues: Sequence[DescriptorQueue]) -> Value:
        """A descriptor to the queue of its opcode; return whether it finds that full."""
        header = data.View(
            data.StructLayout(
                {"opcode": 4, "wait": len(QUEUES), "signal": len(QUEUES), "reserved": 4}
            ),
            self.descriptor[:HEADER_BITS],
        )
        is_late = at(self.config, "turn")
        readies, turns = [], []
        for name, queue in zip(QUEUES, queues, strict=True):
            is_for = named(m, f"is_for_{name}", 1, header.opcode == DESCRIPTORS[name].opcode)
            goes = self.descriptor_valid & ~self.stopped & is_for
            if is_late:
                turn = noted(
                    Signal(name=f"{name}_has_turn"),
                    "A cycle after both were seen: a descriptor stays until it is taken, and so "
                    "does its place in the queue.",
                )
                m.d.sync += turn.eq(goes & queue.entry_ready & ~self.descriptor_ready)
                turns.append(turn)
                goes = self.descriptor_valid & turn
            m.d.comb += [
                queue.entry_valid.eq(goes),
                queue.entry.wait.eq(header.wait),
                queue.entry.signal.eq(header.signal),
                queue.entry.number.eq(self.number),
                queue.entry.payload.eq(self.descriptor[HEADER_BITS:]),
            ]
            readies.append(is_for & queue.entry_ready)
        has_place = named(m, "has_place", 1, any_of(readies))
        ready = any_of(turns) if is_late else has_place & ~self.stopped
        m.d.comb += self.descriptor_ready.eq(ready)
        return named(m, "finds_queue_full", 1, self.descriptor_valid & ~has_place)

    def _end(self, m: Module, queues: Sequence[DescriptorQueue], full: Value) -> None:
        """Find out that all is done, or that something has gone wrong."""
        all_empty = named(m, "all_are_empty", 1, Cat(queue.is_empty for queue in queues).all())
        all_stuck = named(m, "all_are_stuck", 1, Cat(queue.is_stuck for queue in queues).all())
        fetch_stuck = named(m, "fetch_is_stuck", 1, self.ended | full)
        deadlock = noted(
            named(m, "is_deadlock", 1, all_stuck & ~all_empty & fetch_stuck),
            "No queue can do anything any more, and no descriptor can come that would change that: "
            "there are no more, or the next one finds its queue full.",
        )
        failed = [
            named(m, f"{q}_failed", 1, queue.error.any())
            for q, queue in zip(QUEUES, queues, strict=True)
        ]
        fetch_failed = named(m, "fetch_failed", 1, self.fetch_error.any())
        done = all_empty & self.ended & ~self.stopped
        if at(self.config, "errors"):
            m.d.sync += self.is_done.eq(done & ~self.start)
            # A deadlock stays until all numbers are compared.
            deadlock = held(m, "is_deadlock", deadlock, _LEAST_CLOCKS, reset=True)
        else:
            m.d.comb += self.is_done.eq(done)
        errors = [
            *(
                (gate, queue.error, queue.number)
                for gate, queue in zip(failed, queues, strict=True)
            ),
            (fetch_failed, self.fetch_error, self.number),
            (deadlock, Value.cast(ERRORS["deadlock"]), self._least(m, queues)),
        ]
        registers = at(self.config, "errors")
        errors = [
            tuple(
                held(m, f"error_{place}_{part}", value, registers, reset=True)
                for part, value in enumerate(error)
            )
            for place, error in enumerate(errors)
        ]
        gates = Cat(gate for gate, _, _ in errors)
        first = (gate & ~gates[:place].any() for place, gate in enumerate(gates))
        chosen = named(m, "chosen_error", len(errors), Cat(first))
        noted(chosen, "Of several errors in one cycle the first in this order counts.")
        code = gated_or(m, "code", ((g, c) for g, (_, c, _) in zip(chosen, errors, strict=True)))
        number = gated_or(
            m, "failed_number", ((g, n) for g, (_, _, n) in zip(chosen, errors, strict=True))
        )
        error_number = Signal(self.config.number_bits, name="error_number_held", reset_less=True)
        with m.If(~self.stopped):
            m.d.sync += [
                self.stopped.eq(chosen.any()),
                self.error.eq(code),
                error_number.eq(number),
            ]
        m.d.comb += self.error_number.eq(error_number)

    def _least(self, m: Module, queues: Sequence[DescriptorQueue]) -> Value:
        """The least number of the oldest descriptors of queues that have any."""
        registers = at(self.config, "least")
        candidates: list[tuple[str, Value, Value]] = [
            (
                name,
                held(m, f"{name}_there", ~queue.is_empty, registers, reset=True),
                held(m, f"{name}_number", queue.number, registers, reset=True),
            )
            for name, queue in zip(QUEUES, queues, strict=True)
        ]
        while len(candidates) > 1:
            (one_name, one_there, one), (name, there, number), *rest = candidates
            both = f"{one_name}_{name}"
            goes_first = named(m, f"{both}_goes_first", 1, one_there & (~there | (one < number)))
            least = named(m, f"{both}_least", len(one), Mux(goes_first, one, number))
            least = held(m, f"{both}_held", least, registers)
            some = held(m, f"{both}_there", one_there | there, registers)
            candidates = [*rest, (both, some, least)]
        return candidates[0][2]
