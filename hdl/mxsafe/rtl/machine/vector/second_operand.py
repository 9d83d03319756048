"""Second operands of vectors from beats: a beat each, a number each, or one for a whole row."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.arithmetic.bits import chosen, kept, named, noted, truncated, update
from mxsafe.rtl.machine.ports import WIDTHS
from mxsafe.rtl.stream.axi_stream import AxiStream
from mxsafe.rtl.timing import Target, at
from mxsafe.rtl.unit import Configuration, Ports, Unit
from mxsafe.validation import AlikePower


class SecondOperandConfiguration(Configuration):
    """An `SecondOperand`.

    Parameters
    ----------
    columns : int
        Numbers of a beat, a power of two, at least 2.
    only_numbers : bool
        Whether an operand is always one number.
    target : {"asic", "fpga"}
        What it is built for: for an FPGA it is said from a register which operand ends a row.
    """

    columns: AlikePower = 16
    only_numbers: bool = False
    target: Target = "asic"

    def __post_init__(self) -> None:
        if self.columns < 2:
            raise ValueError(f"columns must be 2 or more, not {self.columns}")

    @property
    def latency(self) -> int:
        """Cycles from a beat to its first number; none to a beat as it is."""
        return 1


class SecondOperand(Unit[SecondOperandConfiguration]):
    """Gives a row of operands from beats: one operand for each beat of a row of `beats`.

    Attributes
    ----------
    start : In(1)
        A row begins with the next operand; there is no beat yet.
    beats : In
        Operands of a row, at least 1; steady.
    numbers, constant : In(1)
        Unless there are `only_numbers`: how operands come from beats, steady. With ``numbers``
        each is one number: those of a beat from lane 0 on, and a row begins with a new beat. With
        ``constant`` a beat is all operands of a row. Else it is one.
    s_axis_tdata : In(array)
        A beat.
    m_axis_tdata : Out(array)
        An operand; with ``numbers`` in lane 0, which is the only one if there are `only_numbers`.
        The other lanes are those of `s_axis_tdata` then, and may change while the number waits.
    """

    def ports(self) -> Ports:
        config = self.config
        beat = data.ArrayLayout(32, config.columns)
        operand = data.ArrayLayout(32, 1) if config.only_numbers else beat
        return {
            "start": In(1),
            "beats": In(WIDTHS["vector"]["beats"]),
            **({} if config.only_numbers else {"numbers": In(1), "constant": In(1)}),
            "s_axis": In(AxiStream(beat, last=False)),
            "m_axis": Out(AxiStream(operand, last=False)),
        }

    def fill(self, m: Module, platform: object) -> None:
        columns = self.config.columns
        numbers: Value = Const(1, 1)
        constant: Value = Const(0, 1)
        if not self.config.only_numbers:
            numbers, constant = self.numbers, self.constant
        left = Signal(len(self.beats), name="operands_left", reset_less=True)
        lane = Signal(range(columns), name="lane", reset_less=True)
        held = Signal(name="number_is_held")
        free = named(m, "number_is_free", 1, ~held | self.m_axis.tready)
        moves = named(m, "moves", 1, Mux(numbers, free, self.m_axis.tready))
        step = named(m, "operand_moves", 1, self.s_axis.tvalid & moves)
        ends: Value = left == 1
        if at(self.config, "row ends"):
            ends = Signal(name="row_ends", reset_less=True)
        ends_row = named(m, "ends_row", 1, ends)
        ends_beat = noted(
            named(m, "ends_beat", 1, ends_row | Mux(numbers, lane.all(), ~constant)),
            "A beat of operands is taken with its last number, or at the end of a row; a constant "
            "one stays for the whole row.",
        )
        left_less_1 = truncated(m, "left_less_1", len(left), left - 1)
        next_lane = truncated(m, "next_lane", len(lane), lane + 1)
        lane_after = named(m, "lane_after", len(lane), Mux(ends_row, 0, next_lane))
        with m.If(self.start):
            m.d.sync += [left.eq(self.beats), lane.eq(0)]
        with m.Elif(step):
            m.d.sync += [
                left.eq(Mux(ends_row, self.beats, left_less_1)),
                lane.eq(lane_after),
            ]
        if at(self.config, "row ends"):
            update(
                m, ends, (self.start | step, Mux(self.start | ends_row, self.beats == 1, left == 2))
            )
        update(m, held, (free, step & numbers))
        words: list[Value] = [self.s_axis.tdata[index] for index in range(columns)]
        number = noted(
            kept(m, step, "number", chosen(m, "of_lane", lane, words)),
            "One number for all lanes: it waits in a register, chosen from the lanes of a beat.",
        )
        first = named(m, "first", 32, Mux(numbers, number, words[0]))
        others = [] if self.config.only_numbers else words[1:]
        m.d.comb += [
            self.s_axis.tready.eq(moves & ends_beat),
            self.m_axis.tvalid.eq(Mux(numbers, held, self.s_axis.tvalid)),
            self.m_axis.tdata.as_value().eq(Cat(first, *others)),
        ]
