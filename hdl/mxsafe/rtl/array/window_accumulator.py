"""Integer sums of blocks and of tiles, and one conversion to binary32 for those of all MACs.

Tested by `verif/rtl/array/test_sub_matrix_unit.py`.
"""

from itertools import pairwise
from typing import Annotated, Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.formats import E8M0
from mxsafe.products import LEAST_WINDOW, WIDEST_SUM, WIDEST_WINDOW
from mxsafe.rtl.arithmetic.bits import delayed, gated_or, named, noted
from mxsafe.rtl.arithmetic.scaler import SUM_BITS, Scaler
from mxsafe.rtl.array.block_sums import add_blocks, sums_in_turn
from mxsafe.rtl.unit import Configuration, Part, Ports, Unit, place
from mxsafe.validation import Alike, about, within


class WindowAccumulatorConfiguration(Configuration):
    """A `WindowAccumulator`; the default one serves 16 MACs of eight lanes of MXSF.

    Parameters
    ----------
    macs : int
        MACs that share the conversion.
    halves, half_bits : int
        Numbers that make up a dot product, and their bits, sign included.
    sum_bits : int
        Bits of the sum of a block, sign included.
    quantum_exponent : int
        Exponent of the weight of the lowest bit of all these.
    window : int
        Bits of the integer of an output, sign included.
    lowest_exponent : int
        Exponent of the weight of its lowest bit, with anchors of 1.
    distance_bits : int
        Bits of a block's distance from the anchor; at the largest of them it adds nothing.
    scale_stages : int
        Registers of the scaler.
    shown : int
        Results to put out, for each turn.
    turns : int
        Columns that a MAC serves in turn: it has sums and windows, and there are conversions, for
        each. Halves are as many groups.
    """

    shown_if_not_default = frozenset({"turns"})

    macs: Alike = 16
    halves: Alike = 2
    half_bits: Annotated[int, within(1, WIDEST_SUM)] = 27
    sum_bits: Annotated[int, within(3, WIDEST_SUM + 1)] = 31
    quantum_exponent: int = -22
    window: Annotated[int, within(LEAST_WINDOW, WIDEST_WINDOW)] = 32
    lowest_exponent: int = -17
    distance_bits: Annotated[int, within(1, E8M0.width)] = 5
    scale_stages: int = 2
    shown: Alike = 4
    turns: Alike = 1

    def __post_init__(self) -> None:
        with about(pipeline="scale_stages", quantum_exponent="lowest_exponent"):
            _ = self.scaler

    scaler = Part(
        Scaler,
        width=lambda c: c.window - 1,
        quantum_exponent=lambda c: c.lowest_exponent,
        pipeline=lambda c: c.scale_stages,
        twos_complement=lambda _: True,
    )

    @property
    def below(self) -> int:
        """Bits of a block's sum below the one that rounds it; negative if that has to be added."""
        return self.lowest_exponent - self.quantum_exponent - 1

    @property
    def latency(self) -> int:
        """Enabled cycles from `turn` until `results` ends with that MAC's."""
        return self.scale_stages + 1


class WindowAccumulator(Unit[WindowAccumulatorConfiguration]):
    """Integer sums of blocks for several MACs, aligned and added to those of tiles.

    While a block lasts, the dot product of every MAC is added to an integer of its own. After its
    end that is shifted right by the block's distance from the anchor, rounded, and added to another
    integer, the window. After the end of a tile the shared scaler takes one MAC after the other,
    from copies of the windows. Only flags are reset, and those are in the `WindowSequencer`.

    With turns the sums of a MAC go round in a ring, a step in every enabled cycle, and come to the
    same place in their turn. A dot product consists of as many groups of halves, each of which
    comes a cycle later than the one before, to the same sum a step further on. So there are as many
    additions as groups, but only one alignment, which the windows pass in their turn, too.

    Attributes
    ----------
    en : In(1)
        Clock enable of every register.
    dots : In(array of arrays of signed), negate : In(array)
        Halves of dot products; those with `negate` set are subtracted.
    valid : In(1)
        There are dot products; of those of several turns one that lacks is 0.
    starts : In(2)
        They are the first of a block: a flag for the lower MACs, and one for the upper.
    aligns, first : In(1)
        The sums of a block are complete; it is the first of a tile. With turns: those of the first
        turn are, in the next cycle those of the second...
    distances : In(array)
        For each MAC, an enabled cycle earlier: how far its block is below the anchors of row and
        column.
    turn : In(macs)
        One-hot: the MAC whose windows are converted. That of MAC 0 comes when the windows of a tile
        are complete, in the cycle after `aligns`.
    anchor_exponent, nan : In(array)
        Of that MAC's anchors, in the same cycle, for each turn. See `Scaler`.
    results : Out(array of 32)
        The last results of the first turn, of the second...; of each that of the last step comes
        last.
    """

    def ports(self) -> Ports:
        config = self.config
        halves = data.ArrayLayout(signed(config.half_bits), config.halves)
        return {
            "en": In(1),
            "dots": In(data.ArrayLayout(halves, config.macs)),
            "negate": In(data.ArrayLayout(config.halves, config.macs)),
            **({"valid": In(1)} if config.turns == 1 else {}),
            "starts": In(2),
            **{name: In(1) for name in ("aligns", "first")},
            "distances": In(data.ArrayLayout(config.distance_bits, config.macs)),
            "turn": In(config.macs),
            "anchor_exponent": In(data.ArrayLayout(SUM_BITS, config.turns)),
            "nan": In(config.turns),
            "results": Out(data.ArrayLayout(32, config.turns * config.shown)),
        }

    def fill(self, m: Module, platform: object) -> None:
        config = self.config
        adds = named(m, "adds", 1, self.en & self.valid) if config.turns == 1 else self.en
        rings = add_blocks(
            m,
            adds=[adds] * config.macs,
            starts=[self.starts[2 * i // config.macs] for i in range(config.macs)],
            dots=[self._in_groups(self._addends(m, i)) for i in range(config.macs)],
            carries=[self._in_groups(self.negate[i]) for i in range(config.macs)],
            sum_bits=config.sum_bits,
            negated=False,
            turns=config.turns,
        )
        windows_of = self._windows(m, [ring[-1] for ring in rings])
        results: list[Signal] = []
        for turn in range(config.turns):
            suffix = f"_{turn}" if turn else ""
            # When all are complete those of the last turn have just entered their rings.
            windows = [ring[config.turns - 1 - turn] for ring in windows_of]
            head = self._head(m, suffix, windows)
            results += self._convert(m, platform, suffix, turn, head)
        m.d.comb += self.results.as_value().eq(Cat(*results))

    def _in_groups(self, halves: Any) -> list[Any]:
        """What belongs to the halves of a dot product, for each turn."""
        count = self.config.halves // self.config.turns
        return [halves[start : start + count] for start in range(0, self.config.halves, count)]

    def _addends(self, m: Module, i: int) -> list[Value]:
        """Halves of a dot product, or their complements, to which `negate` is added."""
        addends: list[Value] = []
        for j, half in enumerate(self.dots[i]):
            complement = named(m, f"complement_{i}_{j}", half.shape(), ~half)
            addend = named(m, f"half_{i}_{j}", None, Mux(self.negate[i][j], complement, half))
            noted(addend, "Subtracted by its complement and a carry into the addition.")
            addends.append(addend)
        return addends

    def _windows(self, m: Module, sums: list[Signal]) -> list[list[Signal]]:
        """Sums of tiles, of rounded sums of blocks: for each MAC those of all turns, in a ring."""
        windows, shape = [], signed(self.config.window)
        moves = named(m, "moves", 1, self.en & self.aligns)
        for i, sum_ in enumerate(sums):
            aligned = self._aligned(m, i, sum_)
            names = [f"window_{i}", *(f"window_{i}_{step}" for step in range(1, self.config.turns))]
            ring = [Signal(shape, name=name, reset_less=True) for name in names]
            kept = named(m, f"kept_window_{i}", shape, Mux(self.first, 0, ring[-1]))
            without_carry = named(m, f"before_rounding_{i}", None, kept + aligned[1:].as_signed())
            total = named(m, f"next_window_{i}", None, without_carry + aligned[0])
            noted(total, "The bit below the window rounds: it is the carry into the addition.")
            with m.If(moves):
                m.d.sync += [
                    left.eq(right) for left, right in zip(ring, [total, *ring], strict=False)
                ]
            windows.append(ring)
        return windows

    def _aligned(self, m: Module, i: int, sum_: Signal) -> Value:
        """The sum of a block at its place in the window, with the bit below that."""
        below = self.config.below
        if below < 0:
            moved: Value = Cat(Const(0, -below), sum_)
        else:  # of a sum that is all below its sign is left
            moved = sum_[min(below, len(sum_) - 1) :]
        width = max(len(moved), 2)  # a sum of few bits has a sign beside the bit that rounds
        moved = named(m, f"aligned_{i}", signed(width), moved.as_signed())
        for low, gates in self._steps(m, i):
            choices = []
            for number, gate in enumerate(gates):
                step = min(number << low, width)
                choices.append((gate, Cat(moved[step:], moved[-1].replicate(step))))
            shifted = gated_or(m, f"aligned_{i}_{low}", choices)
            noted(
                shifted,
                "Alignment: the sum of a block goes right by the distance of its scales from the "
                "largest ones of its row and column. Far below, its sign is left.",
            )
            moved = shifted
        return moved

    def _steps(self, m: Module, i: int) -> list[tuple[int, list[Value]]]:
        """Lowest bits of two bits each of a distance, and what they are, from registers.

        A choice of four whose gates are known is as quick as a multiplexer of two, of which it
        takes the place of two.
        """
        distance, steps = self.distances[i], []
        for high in range(self.config.distance_bits, 0, -2):
            low = max(high - 2, 0)
            gates: list[Value] = []
            any_ = named(m, f"distance_{i}_{low}_any", 1, distance[low:high].any())
            for number in range(1 << high - low):
                name = f"distance_{i}_{low}_is_{number}"
                here = noted(
                    named(m, name, 1, distance[low:high] == number if number else ~any_),
                    "Two bits of a distance at once: a choice of four with gates from registers "
                    "is as quick as a multiplexer of two.",
                )
                gates.append(delayed(m, self.en, name, here, 1))
            steps.append((low, gates))
        return steps

    def _head(self, m: Module, suffix: str, windows: list[Signal]) -> Value:
        """The window of the MAC that is converted."""
        copies = named(m, f"copies{suffix}", 1, self.en & self.turn[0])
        others = [copies] * (len(windows) - 1)
        turns = sums_in_turn(
            m, copies=others, turn=self.turn, sums=windows, name=f"waiting{suffix}"
        )
        return gated_or(m, f"head{suffix}", turns).as_signed()

    def _convert(
        self, m: Module, platform: object, suffix: str, turn: int, head: Value
    ) -> list[Signal]:
        """Binary32 of one window after the other, of which the last few stay."""
        scale = place(m, platform, f"scale{suffix}", Scaler(self.config.scaler), reset=False)
        results = [
            Signal(32, name=f"result{suffix}_{i}", reset_less=True)
            for i in range(self.config.shown)
        ]
        around = [*results, scale.product]
        with m.If(self.en):
            m.d.sync += [left.eq(right) for left, right in pairwise(around)]
        m.d.comb += [
            scale.value.eq(head),
            scale.block_exponent.eq(self.anchor_exponent[turn]),
            scale.nan.eq(self.nan[turn]),
        ]
        if self.config.scale_stages:
            m.d.comb += scale.en.eq(self.en)
        return results
