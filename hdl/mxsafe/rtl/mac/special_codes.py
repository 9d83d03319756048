"""Element codes for NaN and Inf, turned into NaN block scales at the edge of an array.

Tested by `verif/rtl/mac/test_operand_decoder.py`.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.formats import FloatFormat, IntFormat, MXFormat, element_format
from mxsafe.rtl.arithmetic.bits import named, noted, update
from mxsafe.rtl.unit import Configuration, Ports, Unit
from mxsafe.validation import Alike


def is_special(element: FloatFormat | IntFormat, code: Value) -> Value:
    """Whether a code stands for NaN or Inf; a constant 0 if no code of the format does."""
    if isinstance(element, IntFormat) or element.finite_only:
        return Const(0, 1)
    # As in IEEE 754 the top exponent field has them all; otherwise there is one NaN, all ones.
    magnitude = code[:-1]
    if element.specials == "ieee":
        return magnitude[element.fields.mantissa_bits :].all()
    return magnitude.all()


class SpecialCodesConfiguration(Configuration):
    """A `SpecialCodes`.

    Parameters
    ----------
    format : MXFormat
        Format of the codes, with codes for NaN or Inf.
    lanes : int
        Codes a beat of each row or column.
    count : int
        Rows or columns.
    held : bool
        A code counts from its beat until a tile starts: the end of its block, when scales are
        applied, is among these beats, and after it the accumulators are NaN anyway. Otherwise it
        counts in its own beat alone, which is enough where scales are applied every beat.
    """

    format: MXFormat
    lanes: Alike = 4
    count: Alike = 4
    held: bool = False

    @property
    def clocked(self) -> bool:
        return self.held


class SpecialCodes(Unit[SpecialCodesConfiguration]):
    """Scale bytes that are NaN where a block has a code for NaN or Inf.

    It stands once at each edge of an array, so that nothing behind it has to know of such codes:
    to the accumulators they are blocks whose scale is NaN.

    Attributes
    ----------
    en : In(1)
        Clock enable of every register. Only with `held`, as are the next two.
    valid, first : In(1)
        Flags of the beat, see `Token`.
    codes : In(array of array of codes)
    scales : In(array of 8)
        E8M0 bytes of the rows or columns.
    guarded : Out(array of 8)
        The same, or 255. Combinational.
    """

    def ports(self) -> Ports:
        config = self.config
        codes = data.ArrayLayout(element_format(config.format).width, config.lanes)
        scales = data.ArrayLayout(config.format.scale.width, config.count)
        return {
            **({name: In(1) for name in ("en", "valid", "first")} if config.held else {}),
            "codes": In(data.ArrayLayout(codes, config.count)),
            "scales": In(scales),
            "guarded": Out(scales),
        }

    def fill(self, m: Module, platform: object) -> None:
        element, count = self.config.format.element, self.config.count
        now = [Cat(is_special(element, code) for code in self.codes[i]).any() for i in range(count)]
        here = named(m, "is_special", count, Cat(now))
        if self.config.held:
            earlier = Signal(count, name="special_before")
            here = named(m, "special_so_far", count, here | Mux(self.first, 0, earlier))
            noted(here, "The first beat of a tile forgets what came before it, not its own codes.")
            update(m, earlier, (self.en & self.valid, here))
        noted(
            self.guarded.as_value(),
            "A scale of NaN is all ones, so an OR makes one of any scale: NaN and Inf of elements "
            "go on as NaN scales of their block.",
        )
        m.d.comb += [
            self.guarded[i].eq(self.scales[i] | here[i].replicate(len(self.scales[i])))
            for i in range(count)
        ]
