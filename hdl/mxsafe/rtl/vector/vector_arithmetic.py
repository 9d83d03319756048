"""Additions and multiplications of vectors, behind AXI4-Stream."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from amaranth.hdl import Cat, Const, Module, Mux, ResetSignal, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.arithmetic.bits import chosen, delayed, equals, named, update
from mxsafe.rtl.stream.axi_stream import AxiStream
from mxsafe.rtl.timing import Target
from mxsafe.rtl.unit import Configuration, Part, Ports, Unit, place
from mxsafe.rtl.vector.multiply_add import MultiplyAdd
from mxsafe.validation import Alike

OPERATIONS: tuple[str, ...] = ("add", "multiply", "axpy", "scale")
"""Operations that a unit may have, see `VectorArithmetic`."""

_WITH_OPERAND = frozenset({"add", "multiply", "axpy"})
_WITH_FACTOR = frozenset({"axpy", "scale"})
_MULTIPLYING = frozenset({"multiply", "axpy", "scale"})
_ADDING = frozenset({"add", "axpy"})
_ONE, _MINUS_ZERO = 0x3F800000, 0x80000000


class VectorArithmeticConfiguration(Configuration):
    """A `VectorArithmetic`.

    Parameters
    ----------
    operations : sequence of str, or str
        Which of `OPERATIONS` it has, as a sequence or joined by ``+``: without ``multiply``,
        ``axpy`` and ``scale`` there is no multiplier, without ``add`` and ``axpy`` no adder.
    lanes : int
        Numbers in a beat.
    operand : {"lanes", "beat", "both"}
        The second operand is a beat of numbers (``lanes``), one number for all
        lanes (``beat``), or either by a flag (``both``).
    ragged : bool
        Whether an operand that is one number for all lanes says how many lanes it is for.
    multiply_stages, add_stages : int, optional
    target : {"asic", "fpga"}
        See `mxsafe.rtl.vector.multiply_add.MultiplyAddConfiguration`.
    """

    unnamed = frozenset({"operations"})
    operations: tuple[str, ...] | str = ("add", "multiply", "axpy")
    lanes: Alike = 16
    operand: Literal["lanes", "beat", "both"] = "lanes"
    ragged: bool = False
    multiply_stages: int | None = None
    add_stages: int | None = None
    target: Target = "asic"

    def __post_init__(self) -> None:
        self._set(operations=_operations(self.operations))
        if not self.has_operand:  # then nothing depends on what it would be
            self._set(operand="lanes", ragged=False)
        if self.ragged and self.operand != "beat":
            raise ValueError(f"operand must be beat with ragged, not {self.operand!r}")
        default = replace(self.lane, multiply_stages=None, add_stages=None)
        self._settle(multiply_stages=default.multiply_stages, add_stages=default.add_stages)
        self._set(
            multiply_stages=self.lane.multiply_stages,
            add_stages=self.lane.add_stages,
        )

    @property
    def base(self) -> str:
        default = self.operations == OPERATIONS[:3]
        return "vector_arithmetic" if default else f"vector_{'_'.join(self.operations)}"

    def has(self, kind: frozenset[str]) -> bool:
        """Whether one of these operations is there."""
        return not kind.isdisjoint(self.operations)

    @property
    def has_operand(self) -> bool:
        """Whether there is a second operand."""
        return self.has(_WITH_OPERAND)

    lane = Part(
        MultiplyAdd,
        multiply=lambda unit: unit.has(_MULTIPLYING),
        add=lambda unit: unit.has(_ADDING),
        # A beat waits for its product; what is added to that need not be carried along.
        late_addend=lambda _: True,
    )

    @property
    def latency(self) -> int:
        """Cycles from a beat to its result, without stalls."""
        return self.lane.latency

    @property
    def numbers(self) -> data.ArrayLayout:
        """Layout of a beat of numbers."""
        return data.ArrayLayout(32, self.lanes)

    @property
    def last_lane(self) -> data.StructLayout | None:
        """Layout of the operand's fields beside its number; None without any."""
        lane = range(max(self.lanes, 2))
        return data.StructLayout({"last_lane": lane}) if self.ragged else None

    @property
    def user(self) -> data.StructLayout | None:
        """Layout of a beat's controls, the operation and how; None if there is nothing to say."""
        fields = {
            "operation": range(len(self.operations)) if len(self.operations) > 1 else 0,
            "single": int(self.operand == "both"),
            "factor": 32 if self.has(_WITH_FACTOR) else 0,
        }
        there = {name: shape for name, shape in fields.items() if shape != 0}
        return data.StructLayout(there) if there else None


def _operations(given: Sequence[str] | str) -> tuple[str, ...]:
    """Operations in the order of `OPERATIONS`."""
    names = given.split("+") if isinstance(given, str) else list(given)
    if not names or any(name not in OPERATIONS for name in names) or len(set(names)) < len(names):
        raise ValueError(
            f"operations must be some of {', '.join(OPERATIONS)}, each once, not {given!r}"
        )
    return tuple(name for name in OPERATIONS if name in names)


@dataclass(frozen=True, kw_only=True)
class _Turn:
    """Events of a cycle.

    Attributes
    ----------
    moves : Value
        All registers move on.
    single : Value
        The operand that is there is one number for all lanes.
    late : bool
        Addends are due after their beats.
    waiting : Value
        Beats wait for their addends.
    adds : Value
        For one of them it is due.
    """

    moves: Value
    single: Value
    late: bool
    waiting: Value
    adds: Value


class VectorArithmetic(Unit[VectorArithmeticConfiguration]):
    """Arithmetic on beats of binary32 numbers: bias, residual connection, gain, update of weights.

    For every number x of a beat, with y of the second operand and the factor a of the beat:

    ============ =========== ==================
    ``add``      x + y       bias, residual
    ``multiply`` x * y       gain, mask
    ``axpy``     a * x + y   update of weights
    ``scale``    a * x
    ============ =========== ==================

    Each operation is IEEE 754's, rounded to nearest even, subnormals included; every NaN is
    ``0x7fc00000``.

    Which of them it is, each beat says itself. A beat of the second operand is taken only for a
    beat that needs it: a factor together with that beat, an addend
    `MultiplyAddConfiguration.addend_latency` cycles later, when its product is about to come. A
    beat with a factor waits until beats before it have their addends. So for a bias that is one
    number for all lanes (features are beats, as behind an array) the operand is a number a beat.

    Attributes
    ----------
    s_axis_tdata : In(array)
        Numbers of a beat, x.
    s_axis_tuser : In(struct)
        Those fields that there are. ``operation``: number of the operation among those of the unit,
        if it has several. ``single``: y is the number of lane 0 for all lanes, if `operand` is
        ``both``. ``factor``: a, of ``axpy`` and ``scale``.
    s_axis_operand_tdata : In(array)
        Numbers y, or one if `operand` is ``beat``.
    s_axis_operand_tuser : In(struct)
        ``last_lane``, if `ragged`: in lanes beyond that one y is -0, which adds nothing. Behind an
        array those columns are no samples; they stay zero.
    m_axis_tdata : Out(array)
        Results.
    s_axis_tlast, m_axis_tlast
        Goes along.

    Notes
    -----
    `m_axis_tready` reaches both inputs' `tready` combinationally, and so does the `tvalid` of each
    input that of the other. What comes out comes from registers; a result leaves also while beats
    behind it wait for an addend.
    """

    def ports(self) -> Ports:
        config = self.config
        operand = data.ArrayLayout(32, 1 if config.operand == "beat" else config.lanes)
        return {
            "s_axis": In(AxiStream(config.numbers, user=config.user)),
            **(
                {"s_axis_operand": In(AxiStream(operand, user=config.last_lane, last=False))}
                if config.has_operand
                else {}
            ),
            "m_axis": Out(AxiStream(config.numbers)),
        }

    def fill(self, m: Module, platform: object) -> None:
        turn = self._move(m)
        for lane in range(self.config.lanes):
            # It holds data alone; what says whether they count is reset here.
            unit = place(m, platform, f"lane_{lane}", MultiplyAdd(self.config.lane), reset=False)
            m.d.comb += [
                unit.en.eq(turn.moves),
                unit.x.eq(self.s_axis.tdata[lane]),
                self.m_axis.tdata[lane].eq(unit.result),
            ]
            self._choose(m, lane, unit, turn)

    def _field(self, name: str) -> Value:
        """A field of `tuser`; 0 if there is none."""
        layout = self.config.user
        if layout is None or name not in layout.members:
            return Const(0, 1)
        return Value.cast(getattr(self.s_axis.tuser, name))

    def _is_one_of(self, kind: frozenset[str]) -> Value:
        """Whether the operation of the beat is of a kind."""
        own = self.config.operations
        others = [name for name in own if name not in kind]
        if len(others) in (0, len(own)):
            return Const(not others, 1)
        number = self._field("operation")
        return ~Cat(equals(number, own.index(name)) for name in others).any()

    def _move(self, m: Module) -> "_Turn":
        """Take beats and operands."""
        config = self.config
        valid, leaves = Signal(config.latency - 1, name="valid"), Signal(name="result_is_valid")
        free = named(m, "output_is_free", 1, ~leaves | self.m_axis.tready)
        enters = Signal(name="enters")
        turn = self._wait_for_addends(m, free, enters)
        joined: Value = Const(1, 1)
        if config.has_operand:
            early = _WITH_OPERAND - _ADDING if turn.late else _WITH_OPERAND
            needs = named(m, "needs_operand", 1, self._is_one_of(early))
            there = self.s_axis_operand.tvalid & ~turn.waiting
            joined = named(m, "has_operand", 1, there | ~needs)
            uses = self.s_axis.tvalid & needs & ~turn.waiting
            uses = named(m, "uses_operand", 1, uses | turn.adds)
            m.d.comb += self.s_axis_operand.tready.eq(free & uses & ~ResetSignal())
        ready = named(m, "is_ready", 1, turn.moves & ~ResetSignal())
        m.d.comb += [
            self.s_axis.tready.eq(ready & joined),
            enters.eq(self.s_axis.tvalid & joined),
        ]
        following = Cat(enters, valid)
        update(m, valid, (turn.moves, following[:-1]))
        update(m, leaves, (free, following[-1] & turn.moves))
        last = delayed(m, turn.moves, "last", self.s_axis.tlast, config.latency)
        m.d.comb += [self.m_axis.tvalid.eq(leaves), self.m_axis.tlast.eq(last)]
        return turn

    def _wait_for_addends(self, m: Module, free: Value, enters: Value) -> "_Turn":
        """Remember which beats add an operand that is due later."""
        due = self.config.lane.addend_latency
        single = self._field("single")
        if not due or not self.config.has(_ADDING):
            none = Const(0, 1)
            return _Turn(moves=free, single=single, late=False, waiting=none, adds=none)
        waits = Signal(due, name="waits_for_addend")
        adds = waits[-1]
        moves = named(m, "moves", 1, free & (self.s_axis_operand.tvalid | ~adds))
        update(m, waits, (moves, Cat(enters & self._is_one_of(_ADDING), waits[:-1])))
        if self.config.operand == "both":
            late = delayed(m, moves, "single", single, due)
            single = named(m, "operand_is_single", 1, Mux(adds, late, single))
        waiting = named(m, "some_wait_for_addend", 1, waits.any())
        return _Turn(moves=moves, single=single, late=True, waiting=waiting, adds=adds)

    def _operand(self, m: Module, lane: int, single: Value) -> Value:
        """The lane's number of the second operand."""
        config = self.config
        if not config.has_operand:
            return Const(0, 32)
        numbers = self.s_axis_operand.tdata
        if config.ragged and lane:
            counts = named(m, f"counts_{lane}", 1, self.s_axis_operand.tuser.last_lane >= lane)
            return named(m, f"operand_{lane}", 32, Mux(counts, numbers[0], _MINUS_ZERO))
        if config.operand == "beat" or not lane:
            return Value.cast(numbers[0])
        if config.operand == "lanes":
            return Value.cast(numbers[lane])
        return named(m, f"operand_{lane}", 32, Mux(single, numbers[0], numbers[lane]))

    def _choose(self, m: Module, lane: int, unit: MultiplyAdd, turn: "_Turn") -> None:
        """Factor and addend of a lane: 1 and -0, which change nothing, where none is given."""
        operand = self._operand(m, lane, turn.single)
        one, minus_zero, factor = Const(_ONE, 32), Const(_MINUS_ZERO, 32), self._field("factor")
        choices = {
            "add": (one, operand),
            "multiply": (operand, minus_zero),
            "axpy": (factor, operand),
            "scale": (factor, minus_zero),
        }
        number = self._field("operation")
        factors, addends = zip(*(choices[name] for name in self.config.operations), strict=True)
        if unit.config.multiply:
            m.d.comb += unit.factor.eq(chosen(m, f"factor_{lane}", number, factors))
        if turn.late:
            always = all(addend is operand for addend in addends)
            m.d.comb += unit.addend.eq(operand if always else Mux(turn.adds, operand, minus_zero))
        elif unit.config.add:
            m.d.comb += unit.addend.eq(chosen(m, f"addend_{lane}", number, addends))
