"""Arithmetic ``window``: integer sums throughout, converted to binary32 at the end of a tile.

Tested by `verif/rtl/array/test_sub_matrix_unit.py`.
"""

from collections.abc import Sequence
from typing import Annotated, Any

from amaranth.hdl import Cat, Module, Value

from mxsafe.formats import E8M0
from mxsafe.products import DEFAULT_INNER, DEFAULT_WINDOW
from mxsafe.rtl.arithmetic.bits import chosen, delayed, named
from mxsafe.rtl.arithmetic.pipeline import check_pipeline
from mxsafe.rtl.arithmetic.scaler import block_exponent, is_nan_scale
from mxsafe.rtl.array.arithmetic import Completion, EnteredBeat
from mxsafe.rtl.array.integer_arithmetic import IntegerArithmetic
from mxsafe.rtl.array.scale_distances import ScaleDistancesConfiguration
from mxsafe.rtl.array.shape import UnitShape
from mxsafe.rtl.array.window_accumulator import WindowAccumulator, WindowAccumulatorConfiguration
from mxsafe.rtl.array.window_sequencer import WindowSequencer, WindowSequencerConfiguration
from mxsafe.rtl.mac.operand import SIDES, Side
from mxsafe.rtl.mac.operand_dot import (
    OperandDotConfiguration,
    dot_places,
    late_bits,
    summed_together,
)
from mxsafe.rtl.timing import STAGES
from mxsafe.rtl.unit import Unit, place
from mxsafe.validation import limited, require_positive_integer, within


class Window(IntegerArithmetic):
    """Integer sums of blocks, aligned to anchors and added as integers; see `mxsafe.model.window`.

    Blocks of any length take the full rate. One conversion to binary32 serves all MACs of a
    sub-matrix unit, for a tile lasts at least as many beats as there are MACs.

    Parameters
    ----------
    formats : OperandFormats
        Formats of both operands. Results of a block with codes for NaN or Inf are any numbers,
        unless its scale is NaN: see `SpecialCodes`.
    block : int
        Longest block in k that sums must hold.
    window : int
        Bits of the integer of an output, sign included.
    inner : int
        Most products of an output: its tile has at most ``inner / lanes`` beats, padding included.
    pipeline : int, optional
        Register stages of the MACs, see `OperandDot`; by default 1.
    scale_stages : int
        Registers within the scaler, 0 to 4.
    interleave : int
        Columns that each MAC serves in turn, 1 or 2: of 2 it has two windows for one alignment, and
        takes products of as many beats a cycle. Columns of the shape are those of results.
    """

    shown_if_not_default = frozenset({"interleave"})

    name = "window"
    label = "window"

    window: int = DEFAULT_WINDOW
    inner: Annotated[int, limited(require_positive_integer, 1 << 32)] = DEFAULT_INNER
    pipeline: int | None = None
    scale_stages: Annotated[int, within(0, STAGES["Scaler"]["asic"].most)] = 2
    interleave: Annotated[int, within(1, 2)] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_single_formats("arithmetic window")
        _ = self._lowest_exponent  # which refuses windows that are too narrow

    @property
    def turns(self) -> int:
        """Columns of results that a MAC serves, one after the other."""
        return self.interleave

    def _settle_for(self, shape: UnitShape) -> None:
        self._settle(pipeline=1)
        if shape.columns % self.turns:
            raise ValueError(
                f"interleave must divide the {shape.columns} columns, not {self.interleave}"
            )
        together = summed_together(self.formats, shape.lanes)
        places = dot_places(shape.lanes, together=together)
        self._set(pipeline=check_pipeline(self.pipeline, places))
        if self.inner < shape.lanes:
            raise ValueError(f"inner must be at least the {shape.lanes} lanes, not {self.inner}")
        self._require_block(shape)

    @property
    def _lowest_exponent(self) -> int:
        return self.formats.window_exponent(self.window, self.inner)

    def anchor_width(self, side: Side) -> int:
        """Bits of an anchor: it is a scale."""
        return E8M0.width

    def distances(self, count: int) -> ScaleDistancesConfiguration:
        return ScaleDistancesConfiguration(distance_bits=self._distance_bits, count=count)

    @property
    def _distance_bits(self) -> int:
        """Bits of a distance for the sums of the longest block, whatever the lanes."""
        sum_bits = self.formats.sum_bits(self.block) + 1
        below = self._lowest_exponent - self.formats.quantum_exponent - 1
        return min(max(sum_bits - below - 1, 1).bit_length(), E8M0.width)

    def mac(self, lanes: int) -> OperandDotConfiguration:
        return self.part(
            OperandDotConfiguration,
            lanes=lanes,
            together=summed_together(self.formats, lanes),
            late=late_bits(self.formats, lanes) if self.pipeline == 1 else 0,
        )

    def tile_beats(self, lanes: int) -> int:
        """Most beats of a tile that windows hold."""
        return self.inner // lanes

    def completes_rows(self, shape: UnitShape) -> bool:
        """Results of MACs come one after the other, row by row."""
        return True

    def latency(self, shape: UnitShape, *, by_row: bool) -> int:
        return self._sequencer(shape, by_row=by_row).latency

    def _accumulator(self, shape: UnitShape, *, by_row: bool) -> WindowAccumulatorConfiguration:
        dot = self.mac(shape.lanes)
        columns = shape.columns // self.turns
        return WindowAccumulatorConfiguration(
            macs=shape.rows * columns,
            halves=self.turns * dot.half_count,
            half_bits=dot.half_bits,
            sum_bits=self._sum_bits(shape),
            quantum_exponent=self.formats.quantum_exponent,
            window=self.window,
            lowest_exponent=self._lowest_exponent,
            scale_stages=self.scale_stages,
            distance_bits=self._distance_bits,
            shown=columns if by_row else shape.rows * columns,
            turns=self.turns,
        )

    def _sequencer(self, shape: UnitShape, *, by_row: bool) -> WindowSequencerConfiguration:
        accumulator = self._accumulator(shape, by_row=by_row)
        assert self.pipeline is not None
        return WindowSequencerConfiguration(
            macs=accumulator.macs,
            shown=accumulator.shown,
            dot_latency=self.pipeline,
            result_latency=accumulator.latency,
            turns=self.turns,
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
        """Put an accumulator behind all MACs, and a sequencer; see `Arithmetic.accumulate`."""
        sequence = WindowSequencer(self._sequencer(shape, by_row=by_row))
        accumulate = WindowAccumulator(self._accumulator(shape, by_row=by_row))
        turns, config = self.turns, accumulate.config
        place(m, platform, "sequencer", sequence)
        place(m, platform, "accumulate", accumulate)
        m.d.comb += [
            sequence.en.eq(beat.en),
            sequence.token.eq(beat.token),
            accumulate.en.eq(beat.en),
            *(
                getattr(accumulate, flag).eq(getattr(sequence, flag))
                for flag in ("starts", "aligns", "first", "turn")
            ),
        ]
        if beat.phase is None:
            m.d.comb += accumulate.valid.eq(sequence.valid)
        else:
            m.d.comb += sequence.phase.eq(beat.phase)
        for index in range(config.macs):
            dots = macs[turns * index : turns * (index + 1)]
            m.d.comb += [
                accumulate.dots[index].as_value().eq(Cat(dot.halves.as_value() for dot in dots)),
                accumulate.negate[index].eq(Cat(dot.negate for dot in dots)),
            ]
        self._measure(m, beat, accumulate, shape)
        self._look_up(m, beat, sequence, accumulate, shape)
        columns = shape.columns // turns
        rows = [
            accumulate.results[turn * config.shown + start + column]
            for start in range(0, config.shown, columns)
            for turn in range(turns)
            for column in range(columns)
        ]
        return Completion(sequence.done, rows)

    def _measure(
        self, m: Module, beat: EnteredBeat, accumulate: WindowAccumulator, shape: UnitShape
    ) -> None:
        """Distances of the blocks of all MACs, with their last dot products."""
        bits, columns = self._distance_bits, shape.columns // self.turns
        assert self.pipeline is not None
        scales: dict[Side, Value] = {side: Cat(*beat.scales[side]) for side in SIDES}
        if beat.phase is not None:
            # The first turn comes with the end of the block, which is in the last phase.
            parts = [scales["w"].word_select(turn, columns * bits) for turn in range(self.turns)]
            scales["w"] = chosen(m, "distances_w", beat.phase, [*parts[1:], parts[0]])
        # Those of rows and columns wait while products are made.
        waiting: dict[Side, Value] = {
            side: delayed(m, beat.en, f"distance_{side}", scales[side], self.pipeline)
            for side in SIDES
        }
        for index in range(shape.rows * columns):
            row, column = divmod(index, columns)
            of_row = waiting["a"].word_select(row, bits)
            of_column = waiting["w"].word_select(column, bits)
            both = named(m, f"both_distances_{index}", bits + 1, of_row + of_column)
            most = both[-1].replicate(bits)
            m.d.comb += accumulate.distances[index].eq(both[:-1] | most)

    def _look_up(
        self,
        m: Module,
        beat: EnteredBeat,
        sequence: WindowSequencer,
        accumulate: WindowAccumulator,
        shape: UnitShape,
    ) -> None:
        """Anchors of the next step: those of its MAC's row and columns."""
        columns = shape.columns // self.turns
        places = [divmod(index, columns) for index in range(shape.rows * columns)]
        anchor_a = chosen(
            m, "anchor_a_chosen", sequence.index, [beat.anchors["a"][row] for row, _ in places]
        )
        cycles = sequence.config.turn_latency
        for turn in range(self.turns):
            suffix = f"_{turn}" if turn else ""
            of_turn = beat.anchors["w"][turn * columns : (turn + 1) * columns]
            anchor_w = chosen(
                m, f"anchor_w_chosen{suffix}", sequence.index, [of_turn[col] for _, col in places]
            )
            exponent = block_exponent(m, anchor_a, anchor_w)
            nan = is_nan_scale(m, anchor_a, anchor_w)
            m.d.comb += [
                accumulate.anchor_exponent[turn].eq(
                    delayed(m, beat.en, f"anchor_exponent{suffix}", exponent, cycles)
                ),
                accumulate.nan[turn].eq(delayed(m, beat.en, f"anchor_nan{suffix}", nan, cycles)),
            ]
