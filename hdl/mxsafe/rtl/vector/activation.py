"""Functions of binary32 numbers, on every number of a beat: activations and their like."""

from amaranth.hdl import Cat, Const, Module, Mux, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.arithmetic.bits import delayed, named
from mxsafe.rtl.unit import Configuration, Part, Ports, Unit, place
from mxsafe.rtl.vector.function_lane import (
    FUNCTIONS,
    FunctionLane,
    check_functions,
    default_stages,
    function_flags,
    short_name,
)
from mxsafe.tables import Grade
from mxsafe.validation import Alike, Names

ACTIVATIONS = ("relu", "gelu", "silu", "tanh", "sigmoid")
"""Functions that results of a layer can pass."""
_DEFAULT = "relu+gelu+silu+tanh"
_EXPONENT = slice(23, 31)
_MANTISSA = slice(0, 23)


def _relu(m: Module, lane: int, word: Value) -> Value:
    """Negative numbers, -0 and -Inf to +0; NaN of either sign stays what it is."""
    special = named(m, f"has_top_exponent_{lane}", 1, word[_EXPONENT].all())
    some = named(m, f"has_mantissa_{lane}", 1, word[_MANTISSA].any())
    nan = named(m, f"is_nan_{lane}", 1, special & some)
    negative = named(m, f"is_negative_{lane}", 1, word[-1] & ~nan)
    return Mux(negative, Const(0, 32), word)


class ActivationConfiguration(Configuration):
    """An `Activation`.

    Parameters
    ----------
    functions : str or sequence of str
        Of `FUNCTIONS`, joined by ``+``.
    width : int
        Numbers in a beat.
    pipeline : int, optional
        Registers on the way: by default none for `relu` alone; else 3, or 4 with `reciprocal` or
        `rsqrt`, or 8 with `exp` or `sigmoid`, for 500 MHz in 45 nm. At most one more than these.
    grade : {"compact", "fine"}
        How exact the functions are, see `mxsafe.model.functions`.

    Raises
    ------
    ValueError
        If there is no such function, or another parameter is not as above.
    """

    unnamed = frozenset({"functions"})

    functions: Names = "relu"
    width: Alike = 16
    pipeline: int | None = None
    grade: Grade = "compact"

    def __post_init__(self) -> None:
        self._set(functions=check_functions(self.functions, FUNCTIONS))
        default = 0 if self.functions == "relu" else default_stages(self.functions)
        self._settle(pipeline=default)
        self._set(pipeline=self.lane.pipeline)

    @property
    def base(self) -> str:
        names = {_DEFAULT: "activation", "+".join(FUNCTIONS): "every_function"}
        return names.get(self.functions, short_name(self.functions))

    @property
    def names(self) -> list[str]:
        """The functions, in the order of their codes."""
        return self.lane.names

    lane = Part(FunctionLane, pipeline=lambda unit: unit.latency)

    @property
    def code_bits(self) -> int:
        """Bits of a function's code: its place in `functions`."""
        return self.lane.code_bits


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
        The function of each of them.
    """

    def ports(self) -> Ports:
        config = self.config
        numbers = data.ArrayLayout(32, config.width)
        enable = {"en": In(1)} if config.latency else {}
        code = {"code": In(config.code_bits)} if config.code_bits else {}
        return {**enable, **code, "values": In(numbers), "results": Out(numbers)}

    def fill(self, m: Module, platform: object) -> None:
        config = self.config
        if config.functions == "relu" and not config.latency:
            for lane in range(config.width):
                m.d.comb += self.results[lane].eq(_relu(m, lane, self.values[lane]))
            return
        late = config.lane.front_latency
        if config.code_bits and late:
            code_next = delayed(m, self.en, "code", self.code, late - 1)
        elif config.code_bits:
            chosen = Cat(*function_flags(m, "is", config.names, self.code).values())
        for number in range(config.width):
            lane = place(m, platform, f"lane_{number}", FunctionLane(config.lane), reset=False)
            m.d.comb += [
                lane.value.eq(self.values[number]),
                self.results[number].eq(lane.result),
            ]
            if config.code_bits and late:
                m.d.comb += lane.code_next.eq(code_next)
                if config.lane.chooses_early:
                    m.d.comb += lane.code.eq(self.code)
            elif config.code_bits:
                m.d.comb += lane.chosen.eq(chosen)
            if config.latency:
                m.d.comb += lane.en.eq(self.en)
