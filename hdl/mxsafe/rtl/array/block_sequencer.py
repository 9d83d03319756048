"""When sums of a block start and end, and which MAC's turn it is: flags for accumulators."""

from typing import Annotated

from amaranth.hdl import Cat, Module, Mux, Value
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.arithmetic.bits import delayed, kept, named, noted
from mxsafe.rtl.array.block_steps import count_steps, mark_starts
from mxsafe.rtl.array.token import Token
from mxsafe.rtl.unit import Configuration, Ports, Unit
from mxsafe.validation import Alike, require_integer, within

Latency = Annotated[int, within(0, 256)]
"""Annotation of enabled cycles that flags are delayed by."""


class BlockSequencerConfiguration(Configuration):
    """A `BlockSequencer`; the default one goes with the default `BlockAccumulator`.

    Parameters
    ----------
    macs : int
        MACs that share an accumulator: steps after each block.
    shown : int
        Accumulators that are put out: steps from one `done` to the next.
    dot_latency : int
        Enabled cycles that dot products come after their flags.
    step_latency, result_latency : int
        `step_latency` and `latency` of the accumulators.
    groups : int
        Registers of `starts`, 1 or 2, or 4 where dot products come two cycles or more after their
        flags: it reaches every bit of every sum.
    early : int
        Enabled cycles that `valid`, `starts` and `copies` come earlier, 0 or 1: for registers near
        what they reach.
    turns : int
        Columns that a MAC serves in turn, 1 or 2, with a beat in each phase of a round.
    """

    shown_if_not_default = frozenset({"groups", "early", "turns"})

    macs: Alike = 16
    shown: Alike = 4
    dot_latency: Latency = 1
    step_latency: Latency = 3
    result_latency: Latency = 6
    groups: Alike = 1
    early: Annotated[int, within(0, 1)] = 0
    turns: Annotated[int, within(1, 2)] = 1

    def __post_init__(self) -> None:
        most = self.dot_latency if self.turns == 1 else 0
        require_integer("early", self.early, 0, most)
        if self.groups not in (1, 2, 4) or (self.groups == 4 and self.dot_latency < 2):
            raise ValueError(
                f"groups must be 1 or 2, or 4 with a dot_latency of 2 or more, not {self.groups}"
            )

    @property
    def latency(self) -> int:
        """Enabled cycles from a tile's last beat, as it enters the MACs, until the first `done`."""
        return self.dot_latency + self.shown + self.result_latency


class BlockSequencer(Unit[BlockSequencerConfiguration]):
    """Flags for the `BlockAccumulator` units of a sub-matrix unit, all of which go in step.

    A block that ends starts `macs` steps, one an enabled cycle. The next may end `macs` cycles
    later, not earlier. The first block after a reset starts a tile whatever its flags say.

    With turns the MACs take both beats of a round for the first column in its last phase, in which
    blocks end, and for the second one in the cycle behind that.

    Attributes
    ----------
    en : In(1)
        Clock enable of every register.
    token : In(Token)
        Flags of a beat, as it enters the MACs.
    phase : In(1)
        With turns: which beat of a round it is.
    index : Out
        Number of the step whose scales are looked up.
    valid, starts, turn, steps, first : Out
        See `BlockAccumulator`; `valid` and `turn` only without turns. `starts` is there once for
        each group of them. A step begins ``dot_latency + 1`` enabled cycles after its `index`, with
        `turn`.
    copies : Out(1)
        Only if flags come early: that of the first turn.
    done : Out(1)
        The last `shown` accumulators of the units hold results of a tile, for this cycle.
    """

    def ports(self) -> Ports:
        macs = self.config.macs
        return {
            "en": In(1),
            "token": In(Token),
            **({"phase": In(1)} if self.config.turns > 1 else {}),
            "index": Out(range(max(macs, 2))),
            **({"valid": Out(1)} if self.config.turns == 1 else {}),
            "starts": Out(self.config.groups),
            **({"copies": Out(1)} if self.config.early else {}),
            **({"turn": Out(macs)} if self.config.turns == 1 else {}),
            "steps": Out(1),
            "first": Out(1),
            "done": Out(1),
        }

    def fill(self, m: Module, platform: object) -> None:
        config = self.config
        en, token = self.en, self.token
        last = named(m, "is_last", 1, token.block_last | token.last)
        ends = named(m, "ends", 1, token.valid & last)
        stepping = count_steps(m, en=en, ends=ends, index=self.index, macs=config.macs)
        starts, is_first = mark_starts(m, en=en, token=token, ends=last)
        block_ends = named(m, "block_ends", 1, en & ends)
        block_first = kept(m, block_ends, "block_first", is_first)
        block_final = kept(m, block_ends, "block_final", token.last)
        if config.turns > 1:
            starts = self._over_turns(m, starts)

        steps = range(config.shown - 1, config.macs, config.shown)
        shows = Cat(self.index == step for step in steps)
        completing = named(m, "is_completing", len(shows), shows)
        begins = kept(m, en, "begins", stepping, reset=True)
        completes = kept(m, en, "completes", completing.any())
        noted(completes, "Whether the step of an enabled cycle ago was the last of a row of MACs.")
        noted(begins, "Flags wait for what they belong to: dot products, the scaler, the adder.")
        steps_after = config.dot_latency + config.step_latency
        results_after = config.dot_latency + config.result_latency
        final = named(m, "is_final", 1, begins & block_final & completes)
        if config.turns == 1:
            self._take_turns(m, ends)
        m.d.comb += [
            self.starts.eq(Cat(*self._starting(m, starts))),
            self.steps.eq(delayed(m, en, "begins_after", begins, steps_after, reset=True)),
            self.first.eq(delayed(m, en, "first_after", block_first, steps_after)),
            self.done.eq(delayed(m, en, "final_after", final, results_after, reset=True)),
        ]

    def _take_turns(self, m: Module, ends: Value) -> None:
        """Flags of dot products, and of the sums that wait for their turn."""
        config, en, early = self.config, self.en, self.config.early
        noted(self.turn, "A one in a shift register: an index of the MAC would have to be decoded.")
        copies = delayed(m, en, "ends_after", ends, config.dot_latency + 1 - early, reset=True)
        turn = [delayed(m, en, "turn_0", copies, early, reset=True)]
        if early:
            m.d.comb += self.copies.eq(copies)
        for i in range(1, config.macs):
            turn.append(delayed(m, en, f"turn_{i}", turn[-1], 1, reset=True))
        cycles = config.dot_latency - early
        valid = delayed(m, en, "valid_after", self.token.valid, cycles, reset=True)
        m.d.comb += [
            self.valid.eq(valid),
            *(self.turn[i].eq(flag) for i, flag in enumerate(turn)),
        ]

    def _over_turns(self, m: Module, starts: Value) -> Value:
        """Whether the round of two beats starts a block, for both columns.

        Without a beat in the first phase the second one starts it.
        """
        begins = named(m, "begins_round", 1, self.token.valid & starts)
        begun = kept(m, self.en, "round_begun", begins & ~self.phase)
        of_round = named(m, "round_starts", 1, starts | begun)
        closes = named(m, "closes_round", 1, self.en & self.phase)
        before = kept(m, closes, "round_started", of_round)
        noted(before, "Flags of a round stay for both columns that a MAC serves in turn.")
        return named(m, "turn_starts", 1, Mux(self.phase, of_round, before))

    def _starting(self, m: Module, starts: Value) -> list[Value]:
        """Whether a block starts, when its dot products come: from a register for each group."""
        latency = self.config.dot_latency - self.config.early
        if self.config.groups == 1:
            return [delayed(m, self.en, "starts_after", starts, latency)]
        goes_on = noted(
            named(m, "goes_on", 1, ~starts),
            "Registers that share the loads of a flag: every other one is inverted, for synthesis "
            "makes one register of two that are equal.",
        )
        if self.config.groups == 2:
            there = delayed(m, self.en, "starts_after", starts, latency)
            return [there, ~delayed(m, self.en, "goes_on_after", goes_on, latency)]
        before = delayed(m, self.en, "starts_before", starts, latency - 1)
        not_before = delayed(m, self.en, "goes_on_before", goes_on, latency - 1)
        return [
            delayed(m, self.en, "starts_after", before, 1),
            ~delayed(m, self.en, "goes_on_after", not_before, 1),
            delayed(m, self.en, "starts_again", ~not_before, 1),
            ~delayed(m, self.en, "goes_on_again", ~before, 1),
        ]
