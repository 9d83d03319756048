"""Integer sums of a block, and one scaler and adder for those of several MACs.

Tested by `verif/rtl/array/test_accumulator.py`.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from mxsafe.products import WIDEST_SUM
from mxsafe.rtl.arithmetic.bits import (
    any_of,
    delayed,
    gated_or,
    kept,
    named,
    noted,
    truncated,
    update,
)
from mxsafe.rtl.arithmetic.float32_adder import Float32Adder
from mxsafe.rtl.arithmetic.register_copy import RegisterCopy
from mxsafe.rtl.arithmetic.scaler import SUM_BITS, Scaler
from mxsafe.rtl.array.block_sums import add_blocks, sums_in_turn
from mxsafe.rtl.timing import Target, Timed, at, stages_of
from mxsafe.rtl.unit import Configuration, Part, Ports, Unit, place
from mxsafe.validation import Alike, about, require_integer, within


class BlockAccumulatorConfiguration(Configuration):
    """A `BlockAccumulator`; the default one serves 16 MACs of four lanes of MXSF.

    Parameters
    ----------
    macs : int
        MACs that share the accumulator.
    halves, half_bits : int
        Numbers that make up a dot product (of more than four lanes more than one), and their bits,
        sign included.
    sum_bits : int
        Bits of the sum of a block, sign included.
    quantum_exponent : int
        Exponent of the weight of the lowest bit of all these.
    scale_stages : int
        Registers of the scaler.
    add_stages : int
        Registers of the adder, at least 1 and less than `macs`, or 1; for an FPGA one fewer.
    shown : int
        Binary32 accumulators to put out.
    exponent_bits : int
        Bits of `block_exponent`, see `Scaler`.
    target : {"asic", "fpga"}
        What the unit is built for, see `mxsafe.rtl.timing`.
    carry_save : bool
        Halves are added with `plus`, and none is subtracted, as for an FPGA.
    groups : int
        Groups of MACs, each of which takes a bit of `starts`.
    turns : int
        Columns that a MAC serves in turn: each has its own sum. `macs` counts columns, and there is
        one MAC.
    """

    shown_if_not_default = frozenset({"target", "carry_save", "groups", "turns"})

    macs: Alike = 16
    halves: Alike = 2
    half_bits: Annotated[int, within(1, WIDEST_SUM)] = 26
    sum_bits: Annotated[int, within(3, WIDEST_SUM)] = 31
    quantum_exponent: int = -22
    scale_stages: int = 2
    add_stages: int = 3
    shown: Alike = 4
    exponent_bits: int = SUM_BITS
    target: Target = "asic"
    carry_save: bool = False
    groups: Alike = 1
    turns: Alike = 1

    def __post_init__(self) -> None:
        if self.turns not in (1, self.macs) or (self.turns > 1 and _in_memory(self)):
            raise ValueError(
                f"turns must be 1, or the {self.macs} macs with target asic, not {self.turns}"
            )
        require_integer("add_stages", self.add_stages, 1, most_add_stages(self, self.macs))
        with about(pipeline="scale_stages"):
            _ = self.scaler

    scaler = Part(
        Scaler,
        width=lambda c: c.sum_bits - 1,
        pipeline=lambda c: c.scale_stages,
        twos_complement=lambda _: True,
    )

    @property
    def carries(self) -> str:
        """Name of the port beside `dots`."""
        return "plus" if _in_memory(self) or self.carry_save else "negate"

    @property
    def dots(self) -> int:
        """MACs whose dot products come at a time."""
        return self.macs // self.turns

    @property
    def step_latency(self) -> int:
        """Enabled cycles from `turn` to `steps`."""
        return self.scale_stages + at(self, "step")

    @property
    def latency(self) -> int:
        """Enabled cycles from `turn` until `acc` ends with that MAC's accumulator."""
        return self.step_latency + at(self, "turn around") - 1 + self.add_stages

    @property
    def properties(self) -> Mapping[str, int]:
        """When flags have to come."""
        return {"step_latency": self.step_latency}


def most_add_stages(config: Timed, macs: int) -> int:
    """Most registers of an adder that so many MACs share; 0 or less where they are too few."""
    most = macs - at(config, "turn around", of="BlockAccumulator")
    # A single MAC finds its sum in the register of the adder, but not in a memory.
    most = most if _in_memory(config) else max(most, 1)
    return min(most, stages_of(config, of="Float32Adder").most)


def _in_memory(config: Timed) -> bool:
    """Whether accumulators are a memory, see `BlockAccumulator`."""
    return config.target == "fpga"


class _Flags(NamedTuple):
    """Flags of the sum of a MAC.

    Attributes
    ----------
    adds, starts : Value
        It takes a dot product in this cycle, and it starts from 0 with that.
    copies : Value
        It is complete, and the next one may start.
    """

    adds: Value
    starts: Value
    copies: Value


_FEW = 8
"""MACs that share an adder of a unit that has several: there the adder is among the slowest."""
_TOGETHER = 4
"""MACs among whose sums one is chosen in the first of two cycles."""


class BlockAccumulator(Unit[BlockAccumulatorConfiguration]):
    """Integer sums of a block for several MACs, and their binary32 accumulators.

    While a block lasts, the dot product of every MAC is added to an integer of its own. After its
    end the shared scaler and adder take one MAC after the other: a sum a cycle is scaled and added
    to that MAC's binary32 accumulator, while the next block is summed. Sums that have to wait are
    copied once and then stay where they are. The accumulators are a ring that turns along and runs
    through the adder, whose last register is part of the ring.

    Flags come from a `BlockSequencer`, for several such units take the same; those of a step come
    twice: as it begins, and again when it has reached the adder. Only flags are reset.

    Attributes
    ----------
    en : In(1)
        Clock enable of every register.
    dots : In(array of arrays of signed), negate : In(array)
        Halves of dot products; those with `negate` set are subtracted.
    valid : In(1)
        There are dot products; not with turns, where those that lack are 0.
    starts : In(groups)
        They are the first of a block: for each group of MACs.
    turn : In(macs)
        One-hot: the MAC whose step begins. That of MAC 0 comes in the cycle after the block's last
        dot products, for only then are its sums complete. Not with turns.
    block_exponent, nan : In
        Of that MAC's scales, in the same cycle. See `Scaler`.
    steps, first : In(1)
        A step has reached the adder, `step_latency` enabled cycles after it began; and it belongs
        to the first block of a tile.
    acc : Out(array of 32)
        The last accumulators of the ring; that of the last step comes last.

    plus : In(array)
        With `carry_save` or for an FPGA in place of `negate`: halves and these are added, see
        `OperandDot`.
    copies : In(1)
        Only for an FPGA: that of MAC 0. It comes a cycle earlier than `turn` does, and so do
        `valid` and `starts`: each MAC has registers of its own for these.

    Notes
    -----
    By target: for an FPGA the accumulators are not a ring but a memory of look-up tables, of which
    a step reads its MAC's and which the adder writes: the choice among the accumulators of a ring
    was the longest path, and 512 registers more. `steps` comes a cycle before the sum is at the
    adder. Flags have registers near each MAC, and a sum is chosen in two cycles.

    With turns the sums of a MAC go round in a ring, a step in every enabled cycle, and come to the
    same place in their turn: there each is complete when its step begins, so that none waits.

    A step that begins while others are still inside the adder finds the ring less far turned, so
    it takes its accumulator from as many places further on.
    """

    def ports(self) -> Ports:
        config = self.config
        halves = data.ArrayLayout(signed(config.half_bits), config.halves)
        return {
            "en": In(1),
            "dots": In(data.ArrayLayout(halves, config.dots)),
            config.carries: In(data.ArrayLayout(config.halves, config.dots)),
            **({"valid": In(1)} if config.turns == 1 else {}),
            "starts": In(config.groups),
            **({"copies": In(1)} if _in_memory(config) else {}),
            **({"turn": In(config.macs)} if config.turns == 1 else {}),
            "block_exponent": In(config.exponent_bits),
            "nan": In(1),
            "steps": In(1),
            "first": In(1),
            "acc": Out(data.ArrayLayout(32, config.shown)),
        }

    def fill(self, m: Module, platform: object) -> None:
        flags = self._flags(m, platform)
        rings = add_blocks(
            m,
            adds=[of.adds for of in flags],
            starts=[of.starts for of in flags],
            dots=[[self.dots[i]] for i in range(self.config.dots)],
            carries=[[getattr(self, self.config.carries)[i]] for i in range(self.config.dots)],
            sum_bits=self.config.sum_bits,
            negated=self.config.carries == "negate",
            turns=self.config.turns,
        )
        head: Value = rings[0][0]
        if self.config.turns == 1:
            head = self._head(m, flags, [ring[0] for ring in rings])
        scaled = self._scale(m, platform, head)
        accumulate = self._accumulate_in_memory if _in_memory(self.config) else self._accumulate
        accumulate(m, platform, scaled)

    def _flags(self, m: Module, platform: object) -> list[_Flags]:
        """Flags of the sum of each MAC."""
        macs = self.config.dots
        if self.config.turns > 1:
            return [_Flags(self.en, self.starts[0], Const(0, 1))]
        if not _in_memory(self.config):
            adds = named(m, "adds", 1, self.en & self.valid)
            groups = self.config.groups
            starts = [self.starts[groups * i // macs] for i in range(macs)]
            return [_Flags(adds, of_mac, self.turn[0]) for of_mac in starts]
        flags = []
        for i in range(macs):
            near = place(m, platform, f"flags_{i}", RegisterCopy(bits=3), reset=False)
            m.d.comb += [
                near.en.eq(self.en),
                near.value.eq(Cat(self.valid, self.starts, self.copies)),
            ]
            valid, starts, first_turn = near.copy
            adds = named(m, f"adds_{i}", 1, self.en & valid)
            noted(adds, "From registers of its own: flags reach every bit of the sums of a MAC.")
            flags.append(_Flags(adds, starts, first_turn))
        return flags

    def _head(self, m: Module, flags: Sequence[_Flags], sums: list[Signal]) -> Value:
        """The sum whose turn it is."""
        if not _in_memory(self.config):
            copies: list[Value] = [named(m, "copies", 1, self.en & self.turn[0])] * (len(sums) - 1)
            turns = sums_in_turn(m, copies=copies, turn=self.turn, sums=sums)
            head = gated_or(m, "head", turns)
            return noted(head, "The sum whose turn it is: turns are one-hot.").as_signed()
        copies = [
            named(m, f"copies_{mac}", 1, self.en & flags[mac].copies) for mac in range(1, len(sums))
        ]
        turns = sums_in_turn(m, copies=copies, turn=self.turn, sums=sums)
        # A sum is chosen in two cycles: among those of some MACs, which lie together, and then.
        together = [
            delayed(m, self.en, f"head_{start}", gated_or(m, f"head_of_{start}", some), 1)
            for start in range(0, len(turns), _TOGETHER)
            for some in (turns[start : start + _TOGETHER],)
        ]
        head = named(m, "head", self.config.sum_bits, any_of(together))
        noted(head, "Chosen in two cycles: among sums of MACs that lie together, then among those.")
        return delayed(m, self.en, "chosen", head, 1).as_signed()

    def _scale(self, m: Module, platform: object, head: Value) -> Signal:
        """The product of the head and its block scales."""
        clocks = at(self.config, "head")
        exponent = delayed(m, self.en, "head_exponent", self.block_exponent, clocks)
        nan = delayed(m, self.en, "head_nan", self.nan, clocks)
        scale = place(m, platform, "scale", Scaler(self.config.scaler), reset=False)
        product = kept(m, self.en, "product", scale.product)
        m.d.comb += [
            scale.value.eq(head),
            scale.block_exponent.eq(exponent),
            scale.nan.eq(nan),
        ]
        if self.config.scale_stages:
            m.d.comb += scale.en.eq(self.en)
        return product

    def _accumulate(self, m: Module, platform: object, product: Signal) -> None:
        """The ring of accumulators, the last of which is the last register in the adder."""
        add = Float32Adder(
            pipeline=self.config.add_stages,
            clearable=True,
            quick=self.config.add_stages == 1 or self.config.macs <= _FEW,
            one_nan=self.config.turns > 1,
        )
        place(m, platform, "add", add, reset=False)
        # Registers of the adder that results pass without stopping.
        inside = self.config.add_stages - 1
        # For each register a flag, whether what it holds is a step.
        passing = []
        before: Value = self.steps
        for stage in range(inside):
            before = kept(m, self.en, f"passing_{stage + 1}", before, reset=True)
            passing.append(before)
        ring = [
            Signal(32, name=f"accumulator_{i}", reset_less=True)
            for i in range(self.config.macs - 1)
        ]
        around = [*ring, add.sum]
        if inside:
            m.d.comb += add.en.eq(self.en)
        moves = noted(
            named(m, "moves", 1, self.en & before),
            "The ring of accumulators turns for steps alone: between them they stay, and take no "
            "power. Its last register is the last one in the adder.",
        )
        with m.If(moves):
            m.d.sync += [left.eq(right) for left, right in pairwise(around)]

        flags: Value = sum(passing[1:], passing[0]) if passing else Const(0)
        count = truncated(
            m,
            "passing",
            inside.bit_length(),
            flags,
            note="Steps inside the adder, for which the ring has yet to turn: the accumulator of a "
            "MAC is so many places further on.",
        )
        own: Value = around[0]
        for further in range(1, inside + 1):
            own = named(m, f"own_{further}", 32, Mux(count == further, around[further], own))
        m.d.comb += [
            add.en_last.eq(moves),
            add.a.eq(own),
            add.clear_a.eq(self.first),
            add.b.eq(product),
            self.acc.as_value().eq(Cat(*around[-len(self.acc) :])),
        ]

    def _accumulate_in_memory(self, m: Module, platform: object, product: Signal) -> None:
        """Accumulators in a memory, which is written in the order in which it is read."""
        config = self.config
        add = Float32Adder(pipeline=config.add_stages, clearable=True, target="fpga")
        place(m, platform, "add", add, reset=False)
        memory = Memory(shape=32, depth=config.macs, init=[])
        m.submodules.accumulators = memory
        read = memory.read_port(domain="comb")
        write = memory.write_port()

        own = kept(m, self.en, "own", read.data)
        first = kept(m, self.en, "adds_first", self.first)
        self._count(m, "read", named(m, "reads", 1, self.en & self.steps), read.addr)
        behind = config.add_stages + 1
        written = delayed(m, self.en, "passing", self.steps, behind, reset=True)
        writes = named(m, "writes", 1, self.en & written)
        self._count(m, "write", writes, write.addr)
        shown = [Signal(32, name=f"shown_{i}", reset_less=True) for i in range(config.shown - 1)]
        noted(
            self.acc.as_value(),
            "Sums of a row of MACs come without a gap: they move on in every cycle, and are all "
            "there when the last one is.",
        )
        around = [*shown, add.sum]
        with m.If(self.en):
            m.d.sync += [left.eq(right) for left, right in pairwise(around)]
        if config.add_stages > 1:
            m.d.comb += add.en.eq(self.en)
        m.d.comb += [
            write.en.eq(writes),
            write.data.eq(add.sum),
            add.en_last.eq(self.en),
            add.a.eq(own),
            add.clear_a.eq(first),
            add.b.eq(product),
            self.acc.as_value().eq(Cat(*around)),
        ]

    def _count(self, m: Module, name: str, counts: Value, accumulator: Value) -> None:
        """An address that goes through all accumulators."""
        address = Signal(len(accumulator), name=f"{name}_address")
        following = truncated(m, f"next_{name}_address", len(accumulator), address + 1)
        last = named(m, f"{name}_is_last", 1, address == self.config.macs - 1)
        noted(
            address, "Every block steps through all MACs in order, so a counter is address enough."
        )
        update(m, address, (counts, Mux(last, 0, following)))
        m.d.comb += accumulator.eq(address)
