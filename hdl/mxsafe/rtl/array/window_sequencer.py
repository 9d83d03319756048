"""When sums of blocks and of tiles start and end: flags for windows."""

from amaranth.hdl import Cat, Module, Value
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.arithmetic.bits import delayed, kept, named, noted
from mxsafe.rtl.array.block_sequencer import Latency
from mxsafe.rtl.array.block_steps import count_steps, mark_starts
from mxsafe.rtl.array.token import Token
from mxsafe.rtl.unit import Configuration, Ports, Unit
from mxsafe.validation import Alike


class WindowSequencerConfiguration(Configuration):
    """A `WindowSequencer`; the default one goes with the default `WindowAccumulator`.

    Parameters
    ----------
    macs : int
        MACs of the sub-matrix unit: steps after each tile.
    shown : int
        Results that are put out at a time.
    dot_latency : int
        Enabled cycles that dot products come after their flags.
    result_latency : int
        `latency` of the accumulator.
    turns : int
        Columns that a MAC serves in turn.
    """

    shown_if_not_default = frozenset({"turns"})

    macs: Alike = 16
    shown: Alike = 4
    dot_latency: Latency = 1
    result_latency: Latency = 3
    turns: Alike = 1

    @property
    def turn_latency(self) -> int:
        """Enabled cycles from a tile's last beat, as it enters the MACs, to the first turn."""
        return self.dot_latency + 1 + self.turns

    @property
    def latency(self) -> int:
        """Enabled cycles from a tile's last beat, as it enters the MACs, until the first `done`."""
        return self.turn_latency + self.shown - 1 + self.result_latency


class WindowSequencer(Unit[WindowSequencerConfiguration]):
    """Flags for the `WindowAccumulator` of a sub-matrix unit.

    Blocks may end in any cycle. A tile that ends starts `macs` steps, one an enabled cycle; the
    next may end as many cycles later, not earlier. The first block after a reset starts a tile
    whatever its flags say.

    With turns there is a beat for each group of lanes, that of phase 0 for the first. They share
    what comes of them, so a block ends with the last group, and may start with any whose earlier
    ones have no beat: their `first` in phase 0 says so.

    Attributes
    ----------
    en : In(1)
        Clock enable of every register.
    token : In(Token)
        Flags of a beat, as it enters the MACs.
    phase : In
        With turns: the group of lanes that the beat is for. Goes on in every enabled cycle.
    index : Out
        Number of the step whose anchors are looked up, `turn_latency` enabled cycles before its
        turn.
    valid, starts, aligns, first, turn : Out
        See `WindowAccumulator`.
    done : Out(1)
        The results of the accumulator are `shown` ones of a tile, for this cycle.
    """

    def ports(self) -> Ports:
        return {
            "en": In(1),
            "token": In(Token),
            **({"phase": In(range(self.config.turns))} if self.config.turns > 1 else {}),
            "index": Out(range(max(self.config.macs, 2))),
            **({"valid": Out(1)} if self.config.turns == 1 else {}),
            "starts": Out(2),
            **{name: Out(1) for name in ("aligns", "first")},
            "turn": Out(self.config.macs),
            "done": Out(1),
        }

    def fill(self, m: Module, platform: object) -> None:
        config = self.config
        en, token = self.en, self.token
        ends_block = named(m, "ends_block", 1, token.block_last | token.last)
        aligns = named(m, "block_ends", 1, token.valid & ends_block)
        ends = named(m, "tile_ends", 1, token.valid & token.last)
        count_steps(m, en=en, ends=ends, index=self.index, macs=config.macs)
        starts, is_first = mark_starts(m, en=en, token=token, ends=ends_block)

        noted(self.turn, "A one in a shift register: an index of the MAC would have to be decoded.")
        turn = [delayed(m, en, "ends_after", ends, config.turn_latency, reset=True)]
        for i in range(1, config.macs):
            turn.append(delayed(m, en, f"turn_{i}", turn[-1], 1, reset=True))
        last_shown = range(config.shown - 1, config.macs, config.shown)
        completes = named(m, "completes", 1, Cat(turn[i] for i in last_shown).any())
        begins, closes, aligns = self._over_turns(m, aligns)
        dots = config.dot_latency
        goes_on = noted(
            named(m, "goes_on", 1, ~starts),
            "Two registers share the loads; one is inverted, or synthesis would merge them.",
        )
        goes_on_after = self._after(m, "goes_on", begins, goes_on, dots)
        if config.turns == 1:
            m.d.comb += self.valid.eq(delayed(m, en, "valid_after", token.valid, dots, reset=True))
        m.d.comb += [
            self.starts.eq(Cat(self._after(m, "starts", begins, starts, dots), ~goes_on_after)),
            self.aligns.eq(delayed(m, en, "block_ends_after", aligns, dots + 1, reset=True)),
            self.first.eq(self._after(m, "first", closes, is_first, dots + 1)),
            *(self.turn[i].eq(flag) for i, flag in enumerate(turn)),
            self.done.eq(
                delayed(m, en, "completes_after", completes, config.result_latency, reset=True)
            ),
        ]

    def _over_turns(self, m: Module, block_ends: Value) -> tuple[Value, Value, Value]:
        """Enables of flags of the first phase and of the last, and where a block ends, in turns."""
        turns = self.config.turns
        if turns == 1:
            return self.en, self.en, block_ends
        begins = named(m, "begins", 1, self.en & ~self.phase.any())
        closes = named(m, "closes", 1, self.en & (self.phase == turns - 1))
        noted(begins, "Flags of a block stay for all columns that a MAC serves in turn.")
        ends = [block_ends]
        for turn in range(1, turns):
            ends.append(delayed(m, self.en, f"block_ends_{turn}", ends[-1], 1, reset=True))
        return begins, closes, named(m, "turns_end", 1, Cat(*ends).any())

    def _after(self, m: Module, name: str, enters: Value, flag: Value, cycles: int) -> Value:
        """A flag some enabled cycles later, from when it `enters`; it stays until another one."""
        entered = kept(m, enters, f"{name}_after_1", flag)
        return delayed(m, self.en, f"{name}_later", entered, cycles - 1)
