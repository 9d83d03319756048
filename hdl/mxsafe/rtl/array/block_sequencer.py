"""When sums start and end, and whose turn it is: the sequence that accumulate units follow."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.arithmetic.bits import named
from mxsafe.rtl.arithmetic.pipeline import delayed
from mxsafe.rtl.array.token import Token
from mxsafe.rtl.unit import Unit

__all__ = ["BlockWalk"]


class BlockWalk(Unit):
    """Flags for the `BlockAccumulate` units of a sub-matrix unit, all of which walk in step.

    A block that ends starts a walk of `macs` steps, one an enabled clock. The next may end `macs`
    cycles later, not earlier. The first block after a reset starts a tile whatever its flags say.

    Parameters
    ----------
    macs : int
        Steps of a walk.
    mac_latency : int
        Enabled clocks that dot products come after their flags.
    step_latency, latency_after : int
        `step_latency` and `latency` of the units.
    done_every : int
        Steps from one `done` to the next.

    Attributes
    ----------
    en : In(1)
        Clock enable of every register.
    token : In(Token)
        Flags of a beat, as it enters the MACs.
    index : Out
        Number of the step whose scales are looked up.
    valid, starts, turn, steps, first : Out
        See `BlockAccumulate`; `turn` comes ``mac_latency + 1`` enabled clocks after `index`.
    done : Out(1)
        The last `done_every` accumulators of the units hold results of a tile, for this cycle.
    latency : int
        Enabled clocks from a tile's last beat, as it enters the MACs, until the first `done`.
    """

    def __init__(
        self,
        *,
        macs: int,
        mac_latency: int,
        step_latency: int,
        latency_after: int,
        done_every: int,
    ) -> None:
        self._macs, self._done_every = macs, done_every
        self._mac_latency = mac_latency
        self._step_latency, self._latency_after = step_latency, latency_after
        super().__init__(
            {
                "en": In(1),
                "token": In(Token),
                "index": Out(range(max(macs, 2))),
                "valid": Out(1),
                "starts": Out(1),
                "turn": Out(macs),
                "steps": Out(1),
                "first": Out(1),
                "done": Out(1),
            },
            module_name=f"block_walk_{macs}by{done_every}_{mac_latency}_{step_latency}_{latency_after}",
            parameters={
                "macs": macs,
                "mac_latency": mac_latency,
                "step_latency": step_latency,
                "latency_after": latency_after,
                "done_every": done_every,
            },
            latency=mac_latency + done_every + latency_after,
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        en, token, last_index = self.en, self.token, self._macs - 1
        last = named(m, "is_last", 1, token.block_last | token.last)
        ends = named(m, "ends", 1, token.valid & last)
        walks = named(m, "walks", 1, ends | self.index.any())
        with m.If(en & walks):
            m.d.sync += self.index.eq(Mux(self.index == last_index, 0, self.index + 1))

        block_starts = Signal(init=1)
        tile_starts = Signal(init=1)
        starts = named(m, "starts_now", 1, block_starts | token.first)
        is_first = named(m, "is_first", 1, tile_starts | token.first)
        block_first = Signal(reset_less=True)
        block_final = Signal(reset_less=True)
        with m.If(en & token.valid):
            m.d.sync += [block_starts.eq(last), tile_starts.eq(is_first & ~last)]
        with m.If(en & ends):
            m.d.sync += [block_first.eq(is_first), block_final.eq(token.last)]

        # Of the step that `index` was at an enabled clock ago.
        begins = Signal()
        completes = Signal(reset_less=True)
        steps = range(self._done_every - 1, self._macs, self._done_every)
        with m.If(en):
            m.d.sync += [
                begins.eq(walks),
                completes.eq(Cat(self.index == step for step in steps).any()),
            ]
        steps_after = self._mac_latency + self._step_latency
        results_after = self._mac_latency + self._latency_after
        final = named(m, "is_final", 1, begins & block_final & completes)
        turn_0 = delayed(m, en, "ends_after", ends, self._mac_latency + 1, reset=True)
        turn = [turn_0]
        for i in range(1, self._macs):
            turn.append(delayed(m, en, f"turn_{i}", turn[-1], 1, reset=True))
        m.d.comb += [
            self.valid.eq(
                delayed(m, en, "valid_after", token.valid, self._mac_latency, reset=True)
            ),
            self.starts.eq(delayed(m, en, "starts_after", starts, self._mac_latency)),
            *(self.turn[i].eq(flag) for i, flag in enumerate(turn)),
            self.steps.eq(delayed(m, en, "begins_after", begins, steps_after, reset=True)),
            self.first.eq(delayed(m, en, "first_after", block_first, steps_after)),
            self.done.eq(delayed(m, en, "final_after", final, results_after, reset=True)),
        ]
        return m
