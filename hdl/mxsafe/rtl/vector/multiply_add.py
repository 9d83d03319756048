"""One lane of arithmetic on binary32 numbers: a product, a sum, or one after the other."""

from amaranth.hdl import Module, Value
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.arithmetic.bits import delayed, kept
from mxsafe.rtl.arithmetic.float32_adder import Float32Adder
from mxsafe.rtl.arithmetic.float32_multiplier import Float32Multiplier
from mxsafe.rtl.timing import Target, at, stages_of
from mxsafe.rtl.unit import Configuration, Ports, Unit, place

_UNITS = {"multiply_stages": "Float32Multiplier", "add_stages": "Float32Adder"}


class MultiplyAddConfiguration(Configuration):
    """A `MultiplyAdd`.

    Parameters
    ----------
    multiply, add : bool
        Whether there is a multiplier, an adder.
    multiply_stages, add_stages : int, optional
        Registers within them, 0 to 4, by default 2 and 1; for an FPGA 5, and 0 to 23, by default 6.
        No matter without the one or the other. Each has one more behind it.
    late_addend : bool
        With both: the addend comes a cycle before its product is there, instead of with `x`.
    target : {"asic", "fpga"}
        What it is built for, see `mxsafe.rtl.timing`.

    Raises
    ------
    ValueError
        If there is neither, or there cannot be so many registers.
    """

    multiply: bool = True
    add: bool = True
    multiply_stages: int | None = None
    add_stages: int | None = None
    late_addend: bool = False
    target: Target = "asic"

    def __post_init__(self) -> None:
        if not self.multiply and not self.add:
            raise ValueError("multiply or add must be set")
        default = {name: at(self, name) for name in _UNITS}
        self._settle(**default)
        for name, unit in _UNITS.items():
            self._set(**{name: stages_of(self, of=unit).require(name, getattr(self, name))})
        # What is not there has the default number, so that equal hardware has one name.
        if not self.multiply:
            self._set(multiply_stages=default["multiply_stages"])
        if not self.add:
            self._set(add_stages=default["add_stages"])
        # Of one register there is none to be saved.
        self._set(late_addend=self.late_addend and self.add and self.multiply_latency > 1)

    @property
    def multiply_latency(self) -> int:
        """Cycles from a number to its product."""
        assert self.multiply_stages is not None
        return self.multiply_stages + 1 if self.multiply else 0

    @property
    def addend_latency(self) -> int:
        """Enabled cycles from a number to its addend, which then waits for the product."""
        return self.multiply_latency - 1 if self.late_addend else 0

    @property
    def latency(self) -> int:
        """Enabled cycles from the operands to the result."""
        assert self.add_stages is not None
        return self.multiply_latency + (self.add_stages + 1 if self.add else 0)


class MultiplyAdd(Unit[MultiplyAddConfiguration]):
    """``x * factor + addend`` in binary32, rounded to nearest even after each operation.

    It is not fused: a product and a sum are what they are by themselves, ``x * 1`` is x and
    ``x + -0`` is x in every bit, except that every NaN becomes ``0x7fc00000``.

    Attributes
    ----------
    en : In(1)
        Clock enable of all registers.
    x : In(32)
        A binary32 number.
    factor : In(32)
        If there is a multiplier.
    addend : In(32)
        If there is an adder. It comes `addend_latency` enabled cycles after `x`.
    result : Out(32)
        From a register.
    """

    synthesised_once = True

    def ports(self) -> Ports:
        factor = {"factor": In(32)} if self.config.multiply else {}
        addend = {"addend": In(32)} if self.config.add else {}
        return {"en": In(1), "x": In(32), **factor, **addend, "result": Out(32)}

    def fill(self, m: Module, platform: object) -> None:
        config = self.config
        value: Value = self.x
        if config.multiply:
            multiply = Float32Multiplier(pipeline=config.multiply_stages, target=config.target)
            place(m, platform, "multiply", multiply)
            m.d.comb += [multiply.a.eq(self.factor), multiply.b.eq(value)]
            if multiply.latency:
                m.d.comb += multiply.en.eq(self.en)
            value = kept(m, self.en, "product", multiply.product)
        if config.add:
            waits = config.multiply_latency - config.addend_latency
            addend = delayed(m, self.en, "addend", self.addend, waits)
            add = Float32Adder(pipeline=config.add_stages, target=config.target)
            place(m, platform, "add", add)
            m.d.comb += [add.a.eq(value), add.b.eq(addend)]
            if add.latency:
                m.d.comb += add.en_last.eq(self.en)
            if add.latency > 1:
                m.d.comb += add.en.eq(self.en)
            value = kept(m, self.en, "total", add.sum)
        m.d.comb += self.result.eq(value)
