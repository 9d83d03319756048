"""Arithmetic ``exact``: integer sums within a block, scaled and accumulated once a block.

Tested by `verif/rtl/array/test_sub_matrix_unit.py`.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

from amaranth.hdl import Module, Value

from mxsafe.formats import FormatSet
from mxsafe.rtl.arithmetic.bits import chosen, delayed, named
from mxsafe.rtl.arithmetic.pipeline import check_pipeline
from mxsafe.rtl.arithmetic.scaler import SUM_BITS, block_exponent, is_nan_scale, scale_stages
from mxsafe.rtl.array.arithmetic import Completion, EnteredBeat
from mxsafe.rtl.array.block_accumulator import (
    BlockAccumulator,
    BlockAccumulatorConfiguration,
    most_add_stages,
)
from mxsafe.rtl.array.block_sequencer import BlockSequencer, BlockSequencerConfiguration
from mxsafe.rtl.array.integer_arithmetic import IntegerArithmetic
from mxsafe.rtl.array.shape import UnitShape
from mxsafe.rtl.mac.multiplier import (
    PairedMultiplier,
    PairedMultiplierConfiguration,
    block_registers,
    comes_signed,
    dsp_product,
    product_places,
)
from mxsafe.rtl.mac.operand import SIDES, Side
from mxsafe.rtl.mac.operand_dot import (
    OperandDotConfiguration,
    dot_places,
    late_bits,
    require_carry_save,
    require_dsp,
    summed_together,
)
from mxsafe.rtl.timing import Target, at, only_for
from mxsafe.rtl.unit import Unit, place
from mxsafe.validation import PositiveInteger, require_integer, within


class Exact(IntegerArithmetic):
    """Integer sums within a block; few accumulators scale and add them once a block.

    A MAC needs its accumulator once a block, so few accumulators serve many MACs: one is the least
    that keeps the full rate for 1x64 blocks (a block lasts 16 beats), eight for 8x8 tiles (two
    beats), or one for each MAC that serves two columns.

    Parameters
    ----------
    formats : OperandFormats
        Formats of both operands, or sets of formats chosen at run time. Results of a block with
        codes for NaN or Inf are any numbers, unless its scale is NaN: see `SpecialCodes`.
    block : int
        Longest block in k that sums must hold.
    accumulators : int
        Accumulators that the MACs of a sub-matrix unit share; it divides their number. A block must
        last at least as many cycles as MACs share one.
    pipeline : int, optional
        Register stages of the MACs, see `OperandDot`.
    scale_stages, add_stages : int, optional
        Registers within the accumulators' scaler, 0 to 4, and adder, 1 to 4 (more for an FPGA),
        fewer than their MACs unless that is one. By default two in the scaler and three in the
        adder, or as many as there is room for where few MACs share one: there registers are not
        cheap. For an FPGA the adder has 12 or as many as there is room for, which is two fewer than
        MACs share it: its sums are interleaved, and the next one into an accumulator comes when the
        last is done.
    dsp : bool, optional
        Multiply with ``*``, which FPGA tools map to DSP blocks, instead of by digits (see
        `mxsafe.rtl.arithmetic.radix4`); no matter for integer elements. By default for an FPGA.
    target : {"asic", "fpga"}
        What the array is built for, see `mxsafe.rtl.timing`.
    paired : bool, optional
        For an FPGA MACs of two rows share DSP blocks, see `PairedMultiplier`; by default where two
        products fit one.
    carry_save : bool
        Products are added without a chain of carries, and with the sum of a block for the first
        time: less energy and time, more registers. Not for an FPGA, nor for two operands of
        integers.
    interleave : int
        Columns that each MAC serves in turn, 1 or 2: of 2 it has two sums and an accumulator of its
        own, and takes products of two beats a cycle. Columns of the shape are those of results.
        Not for an FPGA, nor for sets of formats.
    """

    name = "exact"
    label = "exact"
    shown_if_not_default = frozenset({"target", "paired", "carry_save", "interleave"})

    accumulators: PositiveInteger = 1
    pipeline: int | None = None
    scale_stages: int | None = None
    add_stages: int | None = None
    dsp: bool | None = None
    target: Target = "asic"
    paired: bool | None = None
    carry_save: bool = False
    interleave: Annotated[int, within(1, 2)] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        block = bool(block_registers(self))
        self._settle(dsp=block, paired=block and PairedMultiplierConfiguration.fits(self.formats))
        require_dsp(self, self.dsp)
        only_for(self, "fpga", "paired")
        if self.paired:
            _ = PairedMultiplierConfiguration(formats=self.formats)  # which refuses wide ones
        if self.carry_save:
            require_carry_save(self, self.formats)
        if self.interleave > 1:
            self._require_single_formats("interleave 2")
            if not at(self, "columns in turn"):
                raise ValueError(f"interleave must be 1 with target {self.target}, not 2")

    @property
    def turns(self) -> int:
        """Columns of results that a MAC serves, one after the other."""
        return self.interleave

    @property
    def groups(self) -> int:
        """All lanes of a MAC work on beats of the same column."""
        return 1

    def _settle_for(self, shape: UnitShape) -> None:
        if shape.macs % self.accumulators:
            raise ValueError(
                f"accumulators must divide the {shape.rows} * {shape.columns} = {shape.macs} MACs, "
                f"not {self.accumulators}"
            )
        if self.interleave > 1:
            self._require_turns(shape)
        lanes = self.group_lanes(shape.lanes)
        together = self._together(lanes)
        places = dot_places(
            lanes,
            product_places(self),
            dsp=bool(self.dsp),
            together=together,
            carry_save=self.carry_save,
        )
        self._settle(pipeline=min(at(self, "default", of="OperandDot"), len(places)))
        least = max(block_registers(self), 1)
        self._set(pipeline=check_pipeline(self.pipeline, places, least))
        macs = self.block_cycles(shape)
        most_add = most_add_stages(self, macs)
        if most_add < 1:
            apart = 1 + at(self, "turn around", of="BlockAccumulator")
            counts = range(1, shape.macs // apart + 1)
            most = max((count for count in counts if shape.macs % count == 0), default=0)
            raise ValueError(
                f"accumulators must be at most {most} of {shape.macs} MACs with target "
                f"{self.target}, where sums into one must come at least {apart} cycles apart, "
                f"not {self.accumulators}"
            )
        scaling = scale_stages(self, self._sum_bits(shape) - 1)
        self._settle(
            scale_stages=scaling.default or (2 if macs > 2 else 1),
            add_stages=min(at(self, "add_stages"), most_add),
        )
        self._set(
            scale_stages=_stages("scale_stages", self.scale_stages, 0, scaling.most, macs),
            add_stages=_stages("add_stages", self.add_stages, 1, most_add, macs),
        )
        self._require_block(shape)

    def _require_turns(self, shape: UnitShape) -> None:
        """Refuse columns that MACs cannot share, or accumulators that they would have to."""
        if shape.columns % self.interleave:
            raise ValueError(
                f"interleave must divide the {shape.columns} columns, not {self.interleave}"
            )
        macs = shape.macs // self.interleave
        if self.accumulators != macs:
            raise ValueError(
                f"accumulators must be {macs} with interleave {self.interleave}, one for each MAC, "
                f"not {self.accumulators}"
            )

    @property
    def runs_free(self) -> bool:
        """On an FPGA: a clock enable of so many registers would be the longest path."""
        return bool(at(self, "near"))

    @property
    def rows_together(self) -> int:
        """Two share DSP blocks where they are paired."""
        return 2 if self.paired else 1

    def format_set(self, side: Side) -> FormatSet | None:
        fmt = self.formats.of(side)
        return fmt if isinstance(fmt, FormatSet) else None

    @property
    def offset_width(self) -> int:
        """Bits of the sum of both operands' ``emax``, which sums of a set are relative to."""
        sets = [self.format_set(side) for side in SIDES]
        return sum(max(chosen_from.exponents) for chosen_from in sets if chosen_from).bit_length()

    @property
    def _multiplies_by_dsp(self) -> bool:
        return bool(self.dsp)

    def _together(self, lanes: int) -> int | None:
        """Products in each sum that a MAC hands to its accumulator; None for half of them."""
        if self.carry_save:
            return lanes
        return None if comes_signed(self) else summed_together(self.formats, lanes)

    def _late(self, lanes: int) -> int:
        """Upper bits of a MAC's sums that take their carry a cycle later.

        With one accumulator of a single format the sums of blocks are as slow as a MAC.
        """
        is_slowest = self.accumulators > 1 or any(map(self.format_set, SIDES))
        few = self.pipeline == 1 and not self.carry_save
        return late_bits(self.formats, lanes) if few and is_slowest else 0

    def mac(self, lanes: int) -> OperandDotConfiguration:
        return self.part(
            OperandDotConfiguration,
            lanes=lanes,
            paired=bool(self.paired),
            together=self._together(lanes),
            late=self._late(lanes),
        )

    def multiply(
        self, m: Module, platform: object, *, en: Value, macs: Sequence[Unit[Any]], shape: UnitShape
    ) -> None:
        """Put multipliers in place that the MACs of two rows share."""
        if not self.paired:
            return
        for number in range(0, shape.macs, 2 * shape.columns):
            for column in range(shape.columns):
                below = number + column + shape.columns
                pair = [macs[mac] for mac in (number + column, below) if mac < shape.macs]
                for lane in range(shape.lanes):
                    name = f"{number + column}_{lane}"
                    if len(pair) == 2:
                        self._pair(m, platform, name, en, pair, lane)
                    else:  # the last one of an odd number of rows
                        a, w = pair[0].a[lane].significand, pair[0].w[lane].significand
                        product = dsp_product(m, platform, f"last_{name}", en, (a, w), reset=False)
                        m.d.comb += pair[0].significands[lane].eq(product)

    def _pair(
        self,
        m: Module,
        platform: object,
        name: str,
        en: Value,
        pair: Sequence[Unit[Any]],
        lane: int,
    ) -> None:
        """A multiplier for one lane of two MACs."""
        multiplier = PairedMultiplier(formats=self.formats)
        unit = place(m, platform, f"multiply_{name}", multiplier, reset=False)
        m.d.comb += [unit.en.eq(en), unit.w.eq(pair[0].w[lane].significand)]
        for index, mac in enumerate(pair):
            m.d.comb += [
                unit.a[index].eq(mac.a[lane].significand),
                mac.significands[lane].eq(unit.products[index]),
            ]

    def block_cycles(self, shape: UnitShape) -> int:
        """As many cycles as MACs share an accumulator."""
        return shape.macs // self.accumulators

    def completes_rows(self, shape: UnitShape) -> bool:
        """A single accumulator completes the MACs one after the other, row by row."""
        return self.accumulators == 1 and self.interleave == 1

    def latency(self, shape: UnitShape, *, by_row: bool) -> int:
        return self._sequencer(shape, by_row=by_row).latency

    @property
    def _dot_latency(self) -> int:
        """Enabled cycles from a beat that enters to dot products: local registers come first."""
        assert self.pipeline is not None
        return self.pipeline + at(self, "near")

    def _accumulator(self, shape: UnitShape, *, by_row: bool) -> BlockAccumulatorConfiguration:
        dot, macs = self.mac(self.group_lanes(shape.lanes)), self.block_cycles(shape)
        assert self.scale_stages is not None
        assert self.add_stages is not None
        return self.part(
            BlockAccumulatorConfiguration,
            macs=macs,
            halves=dot.half_count,
            half_bits=dot.half_bits,
            sum_bits=self._sum_bits(shape),
            quantum_exponent=self.formats.quantum_exponent,
            shown=shape.columns if by_row else macs,
            exponent_bits=SUM_BITS + bool(self.offset_width),
            groups=self._starts(shape) if self.accumulators == 1 else 1,
            turns=self.turns,
        )

    def _starts(self, shape: UnitShape) -> int:
        """Registers that say that a block starts: more where few gates are between registers."""
        if self.accumulators > 1:
            return 2
        if self.interleave > 1:
            return 1
        assert self.pipeline is not None
        wanted = at(self, "starts") if self.pipeline > 1 else 1
        return wanted if shape.macs >= wanted else 1

    def _sequencer(self, shape: UnitShape, *, by_row: bool) -> BlockSequencerConfiguration:
        accumulator = self._accumulator(shape, by_row=by_row)
        return BlockSequencerConfiguration(
            macs=accumulator.macs,
            shown=accumulator.shown,
            dot_latency=self._dot_latency,
            step_latency=accumulator.step_latency,
            result_latency=accumulator.latency,
            groups=self._starts(shape),
            turns=self.turns,
            early=at(self, "near"),
        )

    def accumulate(
        self,
        m: Module,
        platform: object,
        *,
        beat: EnteredBeat,
        macs: Sequence[Unit[Any]],
        shape: UnitShape,
        by_row: bool,
    ) -> Completion:
        """Put accumulators behind groups of MACs, and one sequencer for all of them."""
        sequencer = BlockSequencer(self._sequencer(shape, by_row=by_row))
        sequence = place(m, platform, "sequencer", sequencer)
        m.d.comb += [sequence.en.eq(beat.en), sequence.token.eq(beat.token)]
        if beat.phase is not None:
            m.d.comb += sequence.phase.eq(beat.phase)
        beat, step = self._later(m, beat, sequence.index)
        row_steps = shape.columns // self.turns
        flags = ("steps", "first") if self.turns > 1 else ("valid", "turn", "steps", "first")
        results: list[Value] = []
        for number in range(self.accumulators):
            accumulate = BlockAccumulator(self._accumulator(shape, by_row=by_row))
            place(m, platform, f"accumulate_{number}", accumulate)
            together, carries = accumulate.config.dots, accumulate.config.carries
            own = range(number * together, (number + 1) * together)
            places = [divmod(i, row_steps) for i in own for _ in range(self.turns)]
            places = [
                (row, column + row_steps * (i % self.turns))
                for i, (row, column) in enumerate(places)
            ]
            self._scale(m, number, beat, step, accumulate, places)
            m.d.comb += [
                accumulate.en.eq(beat.en),
                *(getattr(accumulate, flag).eq(getattr(sequence, flag)) for flag in flags),
                accumulate.starts.eq(
                    sequence.starts
                    if self.accumulators == 1
                    else sequence.starts[2 * number // self.accumulators]
                ),
            ]
            if self.runs_free:
                m.d.comb += accumulate.copies.eq(sequence.copies)
            for index, mac in enumerate(own):
                m.d.comb += [
                    accumulate.dots[index].as_value().eq(macs[mac].halves.as_value()),
                    getattr(accumulate, carries)[index].eq(getattr(macs[mac], carries)),
                ]
            results += [accumulate.acc[index] for index in range(accumulate.config.shown)]
        if self.turns > 1:  # of a MAC those of its columns come together
            results = [
                results[row + self.turns * column + turn]
                for row in range(0, shape.macs, shape.columns)
                for turn in range(self.turns)
                for column in range(row_steps)
            ]
        return Completion(sequence.done, results)

    def _later(self, m: Module, beat: EnteredBeat, index: Value) -> tuple[EnteredBeat, Value]:
        """Scales, and which of them is looked up, a cycle later where each MAC has its accumulator.

        These are fewer registers than a cycle more for sums of scales.
        """
        if self.turns == 1:
            return beat, index
        scales: dict[Side, list[Value]] = {
            side: [
                delayed(m, beat.en, f"scale_{side}_{number}_later", scale, 1)
                for number, scale in enumerate(lines)
            ]
            for side, lines in beat.scales.items()
        }
        return replace(beat, scales=scales), delayed(m, beat.en, "index_later", index, 1)

    def _scale(
        self,
        m: Module,
        number: int,
        beat: EnteredBeat,
        step: Value,
        accumulate: BlockAccumulator,
        places: list[tuple[int, int]],
    ) -> None:
        """Look up the scales of an accumulator's next step: those of its MAC's row and column."""
        rows = [beat.scales["a"][row] for row, _ in places]
        columns = [beat.scales["w"][column] for _, column in places]
        # From the look-up to the turn.
        cycles = left = self._dot_latency + (1 if self.turns == 1 else 0)
        scale_a = chosen(m, f"scale_a_{number}", step, rows)
        scale_w = chosen(m, f"scale_w_{number}", step, columns)
        looked_up = at(self, "scales")
        if looked_up:
            cycles = left = left - 1
            scale_a = delayed(m, beat.en, f"scale_a_{number}_chosen", scale_a, 1)
            scale_w = delayed(m, beat.en, f"scale_w_{number}_chosen", scale_w, 1)
        exponent = block_exponent(m, scale_a, scale_w)
        nan = is_nan_scale(m, scale_a, scale_w)
        if beat.offset is not None:
            # Elements of a set are relative to 2^emax of their format. That comes in behind the
            # first register: the look-up and two additions would be the longest path.
            left -= 1
            scales = delayed(m, beat.en, f"scales_{number}", exponent, 1)
            offset = delayed(m, beat.en, f"offset_{number}", beat.offset, 1 + looked_up)
            exponent = named(m, f"exponent_{number}", len(scales) + 1, scales + offset)
        m.d.comb += [
            accumulate.block_exponent.eq(delayed(m, beat.en, f"exponent_{number}", exponent, left)),
            accumulate.nan.eq(delayed(m, beat.en, f"nan_{number}", nan, cycles)),
        ]


def _stages(name: str, stages: object, least: int, most: int, macs: int) -> int:
    try:
        return require_integer(name, stages, least, most)
    except ValueError:
        raise ValueError(
            f"{name} must be an integer from {least} to {most} with {macs} MACs an accumulator, "
            f"not {stages!r}"
        ) from None
