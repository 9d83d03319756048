"""Chain of vector units that rows pass, each of which can be bypassed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out, connect, flipped

from mxsafe.rtl.arithmetic.bits import any_of, chosen, equals, gated_or, named
from mxsafe.rtl.machine.vector.narrow_function import NarrowFunction, NarrowFunctionConfiguration
from mxsafe.rtl.stream.axi_stream import AxiStream
from mxsafe.rtl.stream.register_slice import sliced
from mxsafe.rtl.timing import Target, at, domain, held
from mxsafe.rtl.unit import Configuration, Part, Ports, Unit, place
from mxsafe.rtl.vector.activation import ActivationConfiguration
from mxsafe.rtl.vector.function_lane import FUNCTIONS, check_functions, most_stages, short_name
from mxsafe.rtl.vector.lane_front import POWERS, ROOTS
from mxsafe.rtl.vector.rows import Rows, RowsConfiguration
from mxsafe.rtl.vector.sweeps import SWEEP
from mxsafe.rtl.vector.vector_arithmetic import OPERATIONS, VectorArithmetic
from mxsafe.rtl.vector.vector_function import VectorFunction, VectorFunctionConfiguration
from mxsafe.tables import Grade
from mxsafe.tables.softmax import LENGTH_BITS
from mxsafe.validation import AlikePower, PowerOfTwo

REDUCTIONS = ("softmax", "layer_norm", "rms_norm", "sum")
"""Row reductions, in the order of their numbers, from 1."""
SWEEPS = ("whole", "largest", "sums", "squares", "results")
"""Kinds of sweeps of a row, in the order of their numbers."""
AFFINE = ("s_axis_gain", "s_axis_bias")
"""Streams of what norms apply."""
_NARROW = frozenset({*POWERS, *ROOTS})
"""Functions of which a lane is several times as large as one of all others."""
_NARROW_LANES = 4
_LENGTH = range(1 << LENGTH_BITS)
_START_BITS = 14
"""Bits of the number of keys before the first query: those of an address of the vector buffer."""


class VectorChainConfiguration(Configuration):
    """A `VectorChain`.

    Parameters
    ----------
    columns : int
        Numbers of a beat, a power of two.
    functions : str
        Of `mxsafe.rtl.vector.function_lane.FUNCTIONS`, joined by ``+``; empty for none.
    reductions : tuple of str
        Of `REDUCTIONS`.
    depth : int
        Beats of the longest row that is reduced, a power of two.
    sweeps : bool
        Whether rows can be reduced in sweeps, see `SWEEP`.
    affine : bool
        Whether norms can be multiplied by a gain, and a bias added: by the unit of arithmetic,
        which stands behind them then. Without norms there is neither.
    dividers : int
        Of norms, see `NormaliseCore`: with fewer of them a norm waits longer for what each of its
        rows needs than it takes for the rows themselves.
    grade : {"compact", "fine"}
        How exact functions, softmax and norms are.
    target : {"asic", "fpga"}
        What it is built for, see `mxsafe.rtl.timing`.
    """

    unnamed = frozenset({"functions"})
    columns: AlikePower = 16
    functions: str = "+".join(FUNCTIONS)
    reductions: tuple[str, ...] = REDUCTIONS
    depth: PowerOfTwo = 512
    sweeps: bool = False
    affine: bool = False
    dividers: int = 4
    grade: Grade = "compact"
    target: Target = "asic"

    def __post_init__(self) -> None:
        if self.functions:
            self._set(functions=check_functions(self.functions, FUNCTIONS))
        known = [name for name in REDUCTIONS if name in self.reductions]
        if len(known) != len(self.reductions):
            raise ValueError(
                f"reductions must be different ones of {', '.join(REDUCTIONS)}, "
                f"not {', '.join(self.reductions)}"
            )
        self._set(reductions=tuple(known))
        self._set(
            affine=self.affine and any(name.endswith("_norm") for name in known),
            sweeps=self.sweeps and bool(known),
        )

    @property
    def base(self) -> str:
        """Name of the module in its default configuration, but with its functions."""
        if self.functions == "+".join(FUNCTIONS):
            return "vector_chain"
        return f"vector_chain_{short_name(self.functions) or 'no_functions'}"

    @property
    def latency(self) -> int:
        """Cycles from a beat to its results through arithmetic and function."""
        units = (self.function, self.narrow)
        function = max((unit.latency for unit in units if unit), default=0)
        return self.arithmetic.latency + function + self.slices

    @property
    def slices(self) -> int:
        """Register slices in the way of a beat."""
        units = (self.arithmetic, self.functions, self.reductions)
        return sum(map(bool, units)) * at(self, "units")

    @property
    def controls(self) -> data.StructLayout:
        """Controls for the beats of all rows."""
        return data.StructLayout(
            {
                "operation": range(len(OPERATIONS) + 1),
                "single": 1,
                "function": range(len(FUNCTIONS) + 1),
                "reduction": range(len(REDUCTIONS) + 1),
                "causal": 1,
                "affine": 1,
                "before": _START_BITS,
                "parameter": 32,
                **({"sweep": range(len(SWEEPS)), "clear": 1, "ends": 1} if self.sweeps else {}),
            }
        )

    @property
    def beat(self) -> data.ArrayLayout:
        """Layout of a beat."""
        return data.ArrayLayout(32, self.columns)

    arithmetic = Part(
        VectorArithmetic,
        operations=lambda _: OPERATIONS,
        lanes=lambda c: c.columns,
        operand=lambda _: "both",
        multiply_stages=lambda c: at(c, "multiply_stages"),
    )

    @property
    def narrow_functions(self) -> list[str]:
        """Functions that have fewer lanes than a beat has numbers."""
        names = self.functions.split("+") if self.columns > _NARROW_LANES else []
        return [name for name in names if name in _NARROW]

    @property
    def function(self) -> VectorFunctionConfiguration | None:
        """The second one, if there is one."""
        names = self.functions.split("+") if self.functions else []
        return self._functions(
            [name for name in names if name not in self.narrow_functions], self.columns
        )

    @property
    def narrow(self) -> NarrowFunctionConfiguration | None:
        """The same for functions that have fewer lanes."""
        function = self._functions(self.narrow_functions, _NARROW_LANES)
        if function is None:
            return None
        parts = self.columns // _NARROW_LANES
        return NarrowFunctionConfiguration(function=function, parts=parts)

    def _functions(self, names: list[str], width: int) -> VectorFunctionConfiguration | None:
        if not names:
            return None
        functions = "+".join(names)
        stages = most_stages(functions) if at(self, "all of a function") else None
        lanes = ActivationConfiguration(
            functions=functions, width=width, pipeline=stages, grade=self.grade
        )
        return VectorFunctionConfiguration(lanes=lanes)

    @property
    def rows(self) -> RowsConfiguration | None:
        """The last unit, if it is there: if it has both kinds of norms, the mean is an option."""
        if not self.reductions:
            return None
        kinds = [name for name in self.reductions if name != "softmax"]
        return self.part(
            RowsConfiguration,
            lanes=self.columns,
            softmax="softmax" in self.reductions,
            norms=bool(kinds),
            centre=kinds != ["rms_norm"],
            optional="rms_norm" in kinds and len(kinds) > 1,
            sums="sum" in kinds,
            registered=self.affine,
        )

    @property
    def has_start(self) -> bool:
        """Whether it is told that rows begin."""
        return "softmax" in self.reductions or self.sweeps


class VectorChain(Unit[VectorChainConfiguration]):
    """Arithmetic, then a function, then a reduction along each lane; each of them if it is wanted.

    Gain and bias of a norm are arithmetic too: the same unit stands behind the norm then, and not
    in front. It has a multiplier and an adder for each lane, so that norms need none.

    Attributes
    ----------
    start : In(1)
        With softmax or sweeps: rows begin, and nothing is in flight. Controls are there already.
    controls : In(struct)
        What is done; steady until the last result has left. ``operation``: 0 for none, else one
        more than its place in `OPERATIONS`; ``single``: the second operand is the number of lane 0
        for all lanes. ``function`` and ``reduction``: 0 for none, else one more than their place in
        `FUNCTIONS` and `REDUCTIONS`. ``affine``: a norm is multiplied by a gain, and a bias is
        added; then ``operation`` is 0. ``causal``, with softmax: of lane i of row j only the first
        ``before + 1 + columns * j + i`` numbers count. ``parameter``: binary32, factor of ``axpy``,
        ``scale`` and softmax, epsilon of normalisations. With `sweeps` ``sweep``, which number of
        `SWEEPS` it is; ``clear``: rows before are forgotten; ``ends``: the sweep ends.
    s_axis_tdata : In(array)
        A beat.
    s_axis_tlast : In(1)
        It ends its row. A row that is reduced has `depth` beats at most.
    s_axis_operand_tdata : In(array)
        A beat of second operands, taken for each beat of operations that have one.
    s_axis_gain_tdata, s_axis_bias_tdata : In(array)
        If norms are `affine`: a number of each for a beat of their results.
    m_axis_tdata : Out(array)
        Results.
    m_axis_tlast : Out(1)
        They end their row.

    Notes
    -----
    What is passed by keeps every bit. `m_axis_tready` reaches `s_axis_tready` combinationally, and
    so do `tvalid` of both inputs each other's `tready`. For an FPGA a register slice stands behind
    each unit: of these paths that between the inputs is left.
    """

    def ports(self) -> Ports:
        config = self.config
        number = data.ArrayLayout(32, 1)
        return {
            **({"start": In(1)} if config.has_start else {}),
            "controls": In(config.controls),
            "s_axis": In(AxiStream(config.beat)),
            "s_axis_operand": In(AxiStream(config.beat, last=False)),
            **(
                {name: In(AxiStream(number, last=False)) for name in AFFINE}
                if config.affine
                else {}
            ),
            "m_axis": Out(AxiStream(config.beat)),
        }

    def fill(self, m: Module, platform: object) -> None:
        stream: Any = flipped(self.s_axis)
        before, behind = self._arithmetic(m, platform)
        wanted = named(m, "operates", 1, self.controls.operation.any())
        stream = self._switch(m, platform, "operated", stream, [(wanted, before)])
        if self.config.functions:
            stream = self._switch(m, platform, "functions", stream, self._functions(m, platform))
        units = self._reductions(m, platform, behind)
        stream = self._switch(m, platform, "reduced", stream, units)
        connect(m, stream, flipped(self.m_axis))

    def _arithmetic(self, m: Module, platform: object) -> tuple["_Ends", "_Ends | None"]:
        """The unit of arithmetic; return how it is reached in front of functions, and behind norms.

        It is in one of these places as long as controls are steady.
        """
        config = self.config
        unit = place(m, platform, "arithmetic", VectorArithmetic(config.arithmetic))
        operation = self.controls.operation - 1
        # For an FPGA from registers: controls are steady before the first beat comes.
        registers = at(config, "controls")
        user = data.View(
            unit.s_axis.tuser.shape(),
            Signal(unit.s_axis.tuser.shape().size, name="user", reset_less=True),
        )
        when = domain(m, registers)
        when += [
            user.operation.eq(operation[: len(user.operation)]),
            user.single.eq(self.controls.single),
            user.factor.eq(self.controls.parameter),
        ]
        m.d.comb += unit.s_axis.tuser.eq(user)
        if not config.affine:
            connect(m, flipped(self.s_axis_operand), unit.s_axis_operand)
            return _Ends(unit.s_axis, unit.m_axis), None
        return self._shared(m, unit)

    def _shared(self, m: Module, unit: VectorArithmetic) -> tuple["_Ends", "_Ends"]:
        """Two places of one unit: of beats with their operand, and of norms with gain and bias."""
        affine = held(m, "affine_held", self.controls.affine, at(self.config, "controls"))
        signature = AxiStream(self.config.beat)
        before, behind = (
            _Ends(
                signature.create(path=(f"{name}_in",)),
                signature.create(path=(f"{name}_out",)),
            )
            for name in ("before", "behind")
        )
        gain, bias, operand = self.s_axis_gain, self.s_axis_bias, self.s_axis_operand
        scaled = named(m, "gain_is_there", 1, behind.s_axis.tvalid & gain.tvalid)
        taken = named(m, "norm_is_taken", 1, affine & unit.s_axis.tready)
        m.d.comb += [
            Cat(unit.s_axis.tdata.as_value(), unit.s_axis.tlast).eq(
                Mux(affine, _data(behind.s_axis), _data(before.s_axis))
            ),
            unit.s_axis.tvalid.eq(Mux(affine, scaled, before.s_axis.tvalid)),
            before.s_axis.tready.eq(unit.s_axis.tready & ~affine),
            behind.s_axis.tready.eq(taken & gain.tvalid),
            gain.tready.eq(taken & behind.s_axis.tvalid),
            unit.s_axis_operand.tdata.as_value().eq(operand.tdata.as_value()),
            unit.s_axis_operand.tvalid.eq(Mux(affine, bias.tvalid, operand.tvalid)),
            operand.tready.eq(unit.s_axis_operand.tready & ~affine),
            bias.tready.eq(unit.s_axis_operand.tready & affine),
            unit.m_axis.tready.eq(Mux(affine, behind.m_axis.tready, before.m_axis.tready)),
        ]
        with m.If(affine):
            m.d.comb += [
                unit.s_axis.tuser.operation.eq(OPERATIONS.index("axpy")),
                unit.s_axis.tuser.single.eq(1),
                unit.s_axis.tuser.factor.eq(gain.tdata[0]),
                unit.s_axis_operand.tdata[0].eq(bias.tdata[0]),
            ]
        for ends, wanted in ((before, ~affine), (behind, affine)):
            m.d.comb += [
                Cat(ends.m_axis.tdata.as_value(), ends.m_axis.tlast).eq(_data(unit.m_axis)),
                ends.m_axis.tvalid.eq(unit.m_axis.tvalid & wanted),
            ]
        return before, behind

    def _functions(self, m: Module, platform: object) -> list[tuple[Value, Unit[Any]]]:
        """Units that compute a function of each number, and when they are wanted."""
        config, number = self.config, self.controls.function
        units: list[tuple[Value, Unit[Any]]] = []
        codes_of = (FUNCTIONS.index(each) + 1 for each in config.narrow_functions)
        any_narrow = any_of([Const(0, 1), *(equals(number, code) for code in codes_of)])
        narrow = named(m, "is_narrow", 1, any_narrow)
        for name, part, wanted in (
            ("function", config.function, number.any() & ~narrow),
            ("narrow", config.narrow, narrow),
        ):
            if part is None:
                continue
            unit: VectorFunction | NarrowFunction
            if isinstance(part, NarrowFunctionConfiguration):
                unit, names = NarrowFunction(part), part.function.lanes.names
            else:
                unit, names = VectorFunction(part), part.lanes.names
            place(m, platform, name, unit)
            if len(names) > 1:
                # Numbers are those of all functions, whichever of them there are.
                bits = len(unit.s_axis.tuser.function)
                codes = [Const(0, bits)] + [
                    Const(names.index(each) if each in names else 0, bits) for each in FUNCTIONS
                ]
                code = chosen(m, f"{name}_code", number, codes)
                # It is steady before the first beat comes.
                code = held(m, f"{name}_held", code, at(config, "controls"))
                m.d.comb += unit.s_axis.tuser.function.eq(code)
            units.append((named(m, f"has_{name}", 1, wanted), unit))
        return units

    def _reductions(
        self, m: Module, platform: object, behind: "_Ends | None"
    ) -> "list[tuple[Value, Unit[Any] | _Ends]]":
        """Units that take rows, and when they are wanted."""
        config = self.config
        if config.rows is None:
            return []
        rows = place(m, platform, "rows", Rows(config.rows))
        is_kind = {
            name: named(m, f"is_{name}", 1, self.controls.reduction == number)
            for number, name in enumerate(REDUCTIONS, start=1)
        }
        if config.sweeps:
            m.d.comb += rows.sweep.eq(self._sweep(m))
        if config.rows.softmax:
            user = rows.s_axis.tuser
            m.d.comb += [
                user.factor.eq(self.controls.parameter),
                user.length.eq(self._length(m, rows)),
                user.causal.eq(self.controls.causal),
            ]
        if config.rows.norms:
            m.d.comb += rows.epsilon.eq(self.controls.parameter)
            if config.rows.softmax:
                m.d.comb += rows.is_softmax.eq(is_kind["softmax"])
            if config.rows.optional:
                m.d.comb += rows.centred.eq(~is_kind["rms_norm"])
            if config.rows.sums:
                m.d.comb += rows.summing.eq(is_kind["sum"])
        ends = _Ends(rows.s_axis, rows.m_axis)
        if behind is not None:
            scales = [(self.controls.affine, behind)]
            ends = _Ends(rows.s_axis, self._switch(m, platform, "scaled", rows.m_axis, scales))
        return [(named(m, "reduces", 1, self.controls.reduction.any()), ends)]

    def _sweep(self, m: Module) -> data.View:
        """Controls of a sweep for the units."""
        controls = self.controls
        sweep = data.View(SWEEP, Signal(SWEEP.size, name="sweep"))
        is_kind = {
            name: named(m, f"sweep_is_{name}", 1, equals(controls.sweep, number))
            for number, name in enumerate(SWEEPS)
        }
        number: Value = Const(0, 2)
        if self.config.rows and self.config.rows.norm_core:
            last = self.config.rows.norm_core.passes - 1
            number = Mux(is_kind["results"], last, Mux(is_kind["squares"], last - 1, 0))
        m.d.comb += [
            sweep.begins.eq(self.start & controls.clear),
            sweep.largest.eq(is_kind["largest"]),
            sweep.streams.eq(~is_kind["whole"] & ~is_kind["largest"]),
            sweep.ends.eq(controls.ends),
            sweep.number.eq(number),
        ]
        return sweep

    def _length(self, m: Module, rows: Rows) -> Value:
        """How many numbers of lane 0 count; without a mask as many as a row can have."""
        most = _LENGTH[-1]
        length = Signal(_LENGTH, name="length", reset_less=True)
        enters = rows.s_axis.tvalid & rows.s_axis.tready & rows.s_axis.tlast
        ends = named(m, "row_enters", 1, enters)
        first = self.controls.before + 1
        grown = named(m, "length_grown", None, length + self.config.columns)
        with m.If(self.start):
            masked = self.controls.causal & (first < most)
            m.d.sync += length.eq(Mux(masked, first, most))
        with m.Elif(ends):
            m.d.sync += length.eq(Mux(grown > most, most, grown))
        return length

    def _switch(
        self,
        m: Module,
        platform: object,
        name: str,
        stream: Any,
        units: "Sequence[tuple[Value, Unit[Any] | _Ends]]",
    ) -> Any:
        """A stream through the unit that is wanted, if any; return what follows."""
        if not units:
            return stream
        if not at(self.config, "units"):
            return _switched(m, name, stream, units)
        # Controls are steady before the first beat comes.
        units = [
            (held(m, f"{name}_{number}_wanted", wanted), unit)
            for number, (wanted, unit) in enumerate(units)
        ]
        follows = _switched(m, name, stream, units, gated=False)
        return sliced(m, platform, f"slice_{name}", follows)


@dataclass(frozen=True)
class _Ends:
    """Streams into a unit and out of it."""

    s_axis: Any
    m_axis: Any


def _switched(
    m: Module,
    name: str,
    stream: Any,
    units: "Sequence[tuple[Value, Unit[Any] | _Ends]]",
    *,
    gated: bool = True,
) -> Any:
    """A stream through one of several units, or past them; return what follows.

    Unless `gated` those that are not wanted, and have nothing, may put out what they like.
    """
    follows = stream.signature.create(path=(name,))
    passed = named(m, f"{name}_passes", 1, ~Cat(wanted for wanted, _ in units).any())
    choices: list[tuple[Value, Value]] = [(passed, _beat(stream))]
    ready: Value = passed & follows.tready
    for wanted, unit in units:
        m.d.comb += [
            unit.s_axis.tdata.eq(stream.tdata),
            unit.s_axis.tlast.eq(stream.tlast),
            unit.s_axis.tvalid.eq(stream.tvalid & wanted),
            unit.m_axis.tready.eq(follows.tready & wanted if gated else follows.tready),
        ]
        choices.append((wanted, _beat(unit.m_axis)))
        ready = ready | (wanted & unit.s_axis.tready)
    m.d.comb += stream.tready.eq(ready)
    if len(choices) == 2:
        found: Value = named(m, f"{name}_beat", None, Mux(passed, choices[0][1], choices[1][1]))
    else:
        found = gated_or(m, f"{name}_beat", choices)
    m.d.comb += Cat(follows.tvalid, follows.tlast, follows.tdata.as_value()).eq(found)
    return follows


def _data(stream: Any) -> Value:
    """A beat, and whether it ends its row."""
    return Cat(Value.cast(stream.tdata), stream.tlast)


def _beat(stream: Any) -> Value:
    """A beat, whether it ends its row, and whether it is there."""
    return Cat(stream.tvalid, stream.tlast, Value.cast(stream.tdata))
