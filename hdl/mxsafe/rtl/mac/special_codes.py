"""Element codes for NaN and Inf, turned into NaN block scales at the edge of an array."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.formats import E8M0, MXFormat, element_format
from mxsafe.rtl.arithmetic.bits import named
from mxsafe.rtl.mac.decoder import is_special
from mxsafe.rtl.unit import Unit

__all__ = ["SpecialCodes"]


class SpecialCodes(Unit):
    """Scale bytes that are NaN where a block has a code for NaN or Inf.

    It stands once at each edge of an array, so that nothing behind it has to know of such codes:
    to the accumulators they are blocks whose scale is NaN.

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

    def __init__(self, *, format: MXFormat, lanes: int, count: int, held: bool) -> None:
        self._element = element_format(format)
        self._held = held
        self._count = count
        scales = data.ArrayLayout(E8M0.width, count)
        extent = "tiles" if held else "beats"
        super().__init__(
            {
                **({name: In(1) for name in ("en", "valid", "first")} if held else {}),
                "codes": In(data.ArrayLayout(data.ArrayLayout(self._element.width, lanes), count)),
                "scales": In(scales),
                "guarded": Out(scales),
            },
            module_name=f"{format.name}_special_{extent}_{count}x{lanes}",
            parameters={
                "format": format.name,
                "lanes": lanes,
                "count": count,
                "held": held,
            },
        )

    @property
    def clocked(self) -> bool:
        """Whether the module has the ports ``clk`` and ``rst``."""
        return self._held

    def elaborate(self, platform: object) -> Module:
        m = Module()
        now = [
            Cat(is_special(self._element, code) for code in self.codes[i]).any()
            for i in range(self._count)
        ]
        special = named(m, "is_special", self._count, Cat(now))
        if self._held:
            earlier = Signal(self._count)
            special = named(m, "spoilt", self._count, special | Mux(self.first, 0, earlier))
            with m.If(self.en & self.valid):
                m.d.sync += earlier.eq(special)
        m.d.comb += [
            self.guarded[i].eq(self.scales[i] | special[i].replicate(E8M0.width))
            for i in range(self._count)
        ]
        return m
