"""Functions of binary32 numbers, on every number of a beat: activations and their like."""

from collections.abc import Mapping
from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Module, Mux, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Member, Out

from mxsafe.rtl.arithmetic.bits import named
from mxsafe.rtl.arithmetic.pipeline import delayed
from mxsafe.rtl.configuration import Configuration
from mxsafe.rtl.unit import Unit, place
from mxsafe.rtl.vector.elementary_lane import (
    ELEMENTARY_FUNCTIONS,
    MOST_ELEMENTARY_STAGES,
    ElementaryLane,
)
from mxsafe.rtl.vector.table_lane import (
    MOST_TABLE_STAGES,
    TABLE_FUNCTIONS,
    TableLane,
    check_functions,
    short_name,
)
from mxsafe.validation import require_integer, require_positive_integer

__all__ = ["ACTIVATIONS", "FUNCTIONS", "Activation", "ActivationConfiguration"]

ACTIVATIONS = ("relu", "gelu", "silu", "tanh", "sigmoid")
"""Functions that results of a layer can pass."""
FUNCTIONS = (*TABLE_FUNCTIONS, *ELEMENTARY_FUNCTIONS)
"""All functions."""
_USUAL = "relu+gelu+silu+tanh"
_EXPONENT = slice(23, 31)
_MANTISSA = slice(0, 23)


def _relu(m: Module, lane: int, word: Value) -> Value:
    """Negative numbers, -0 and -Inf to +0; NaN of either sign stays what it is."""
    special = named(m, f"has_top_exponent_{lane}", 1, word[_EXPONENT].all())
    some = named(m, f"has_mantissa_{lane}", 1, word[_MANTISSA].any())
    nan = named(m, f"is_nan_{lane}", 1, special & some)
    negative = named(m, f"is_negative_{lane}", 1, word[-1] & ~nan)
    return Mux(negative, Const(0, 32), word)


@dataclass(frozen=True, kw_only=True)
class ActivationConfiguration(Configuration):
    """An `Activation`.

    Parameters
    ----------
    functions : str or sequence of str
        Of `FUNCTIONS`, joined by ``+``.
    width : int
        Numbers in a beat.
    pipeline : int, optional
        Registers on the way: by default none for `relu` alone; else 3, or 6 with a function of
        `mxsafe.rtl.vector.elementary_lane`, for 500 MHz in 45 nm. Up to 4 or 6; as many more as are
        given stand at the end.

    Raises
    ------
    ValueError
        If there is no such function, or another parameter is not as above.
    """

    unnamed = frozenset({"functions"})

    functions: str = "relu"
    width: int = 16
    pipeline: int | None = None

    def __post_init__(self) -> None:
        self._set(functions=check_functions(self.functions, FUNCTIONS))
        self._set(width=require_positive_integer("width", self.width))
        usual = 0 if self.functions == "relu" else 6 if self.elementary else 3
        self._settle(pipeline=usual)
        most = MOST_ELEMENTARY_STAGES if self.elementary else MOST_TABLE_STAGES
        self._set(pipeline=require_integer("pipeline", self.pipeline, 0, most))

    @property
    def base(self) -> str:
        """Name of the module in its usual configuration."""
        names = {_USUAL: "activation", "+".join(FUNCTIONS): "every_function"}
        return names.get(self.functions, short_name(self.functions))

    @property
    def latency(self) -> int:
        """Enabled clocks from numbers to results."""
        assert self.pipeline is not None
        return self.pipeline

    @property
    def names(self) -> list[str]:
        """The functions, in the order of their codes."""
        return self.functions.split("+")

    @property
    def elementary(self) -> list[str]:
        """Those of `ELEMENTARY_FUNCTIONS`."""
        return [name for name in self.names if name in ELEMENTARY_FUNCTIONS]

    @property
    def code_bits(self) -> int:
        """Bits of a function's code: its place in `functions`."""
        return (len(self.names) - 1).bit_length()


class Activation(Unit[ActivationConfiguration]):
    """A function on every number of a beat, one of several if there are several.

    ``relu``: what has a sign bit, -0 and -Inf included, becomes +0, except NaN; everything
    else keeps its bits. So a NaN of either sign makes a NaN block. What the others give is in
    `mxsafe.model.functions`.

    Attributes
    ----------
    en : In(1)
        Clock enable, if there are registers.
    code : In
        Place of the function in `functions`, if there are several; beyond the last, anything comes
        out.
    values : In(array of 32)
        Binary32 numbers.
    results : Out(array of 32)
    """

    def ports(self) -> Mapping[str, Member]:
        """Numbers, their function, and results."""
        config = self.config
        numbers = data.ArrayLayout(32, config.width)
        enable = {"en": In(1)} if config.latency else {}
        code = {"code": In(config.code_bits)} if config.code_bits else {}
        return {**enable, **code, "values": In(numbers), "results": Out(numbers)}

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        if config.functions == "relu" and not config.latency:
            for lane in range(config.width):
                m.d.comb += self.results[lane].eq(_relu(m, lane, self.values[lane]))
            return m
        enable = self.en if config.latency else Const(1)
        chosen = self._chosen(m)
        table = [name for name in config.names if name in TABLE_FUNCTIONS]
        from_table = None
        if table and config.elementary:
            flag = named(m, "is_from_table", 1, Cat(*(chosen[name] for name in table)).any())
            from_table = delayed(m, enable, "is_from_table", flag, config.latency)
        for lane in range(config.width):
            results = []
            if table:
                stages = min(config.latency, MOST_TABLE_STAGES)
                unit = TableLane(functions="+".join(table), pipeline=stages)
                result = self._lane(m, platform, f"table_{lane}", unit, lane, chosen, table)
                late = config.latency - stages
                results.append(delayed(m, enable, f"table_{lane}_result", result, late))
            if config.elementary:
                names = config.elementary
                part = ElementaryLane(functions="+".join(names), pipeline=config.latency)
                results.append(
                    self._lane(m, platform, f"elementary_{lane}", part, lane, chosen, names)
                )
            result = results[0] if from_table is None else Mux(from_table, *results)
            m.d.comb += self.results[lane].eq(result)
        return m

    def _chosen(self, m: Module) -> dict[str, Value]:
        """By name whether a function is chosen."""
        names = self.config.names
        if len(names) == 1:
            return {names[0]: Const(1, 1)}
        return {
            name: named(m, f"is_{name}", 1, self.code == code if code else ~self.code.any())
            for code, name in enumerate(names)
        }

    def _lane(
        self,
        m: Module,
        platform: object,
        name: str,
        unit: TableLane | ElementaryLane,
        lane: int,
        chosen: Mapping[str, Value],
        names: list[str],
    ) -> Value:
        place(m, platform, name, unit, reset=False)
        m.d.comb += unit.value.eq(self.values[lane])
        if len(names) > 1:
            m.d.comb += unit.chosen.eq(Cat(*(chosen[n] for n in names)))
        if unit.latency:
            m.d.comb += unit.en.eq(self.en)
        return unit.result
