"""The largest of several exponent fields."""

from collections.abc import Sequence

from amaranth.hdl import Cat, Const, Module, Mux, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.arithmetic.bits import named, noted
from mxsafe.rtl.timing import Target
from mxsafe.rtl.unit import Configuration, Ports, Unit, place
from mxsafe.validation import Alike


class LargestExponentConfiguration(Configuration):
    """A `LargestExponent`; the default one is that of a beat of 16 values and of what came before.

    Parameters
    ----------
    count : int
        Numbers that are compared.
    bits : int
        Bits of each.
    target : {"asic", "fpga"}
        What it is built for, see `mxsafe.rtl.timing`.
    """

    count: Alike = 17
    bits: Alike = 8
    target: Target = "asic"


class LargestExponent(Unit[LargestExponentConfiguration]):
    """The largest of several unsigned numbers. Combinational.

    Nothing is subtracted: bit by bit from the top, those numbers drop out that lack a bit that
    others have.

    Attributes
    ----------
    fields : In(array of numbers)
        Exponents without a sign.
    largest : Out(bits)
        The largest of them.

    Notes
    -----
    By target: on an FPGA, where a carry chain is faster than that, pairs are compared.
    """

    def ports(self) -> Ports:
        bits, count = self.config.bits, self.config.count
        return {"fields": In(data.ArrayLayout(bits, count)), "largest": Out(bits)}

    def fill(self, m: Module, platform: object) -> None:
        if self.config.target == "fpga":
            m.d.comb += self.largest.eq(self._of_pairs(m))
            return
        bits, count = self.config.bits, self.config.count
        left: Value = Const((1 << count) - 1, count)  # the numbers that may still be the largest
        for bit in reversed(range(bits)):
            at_bit = Cat(field[bit] for field in self.fields)
            have = named(m, f"have_{bit}", count, at_bit & left)
            some = named(m, f"some_{bit}", 1, have.any())
            noted(
                have,
                "The largest of several numbers, bit by bit from the top: if any of those left "
                "has the bit so has the largest, and those without it drop out.",
            )
            m.d.comb += self.largest[bit].eq(some)
            if bit:
                left = named(m, f"left_{bit}", count, Mux(some, have, left))

    def _of_pairs(self, m: Module) -> Value:
        """The largest, by rounds of comparisons; one that is left over enters the next round."""
        numbers: list[Value] = [Value.cast(field) for field in self.fields]
        while len(numbers) > 1:
            count, pairs = len(numbers), zip(numbers[0::2], numbers[1::2], strict=False)
            larger = [
                named(m, f"larger_of_{count}_{at}", self.config.bits, Mux(a > b, a, b))
                for at, (a, b) in enumerate(pairs)
            ]
            numbers = larger + numbers[2 * len(larger) :]
        return numbers[0]


def largest_of(
    m: Module, platform: object, name: str, fields: Sequence[Value], target: Target = "asic"
) -> Value:
    """The largest of several numbers that are equally wide; of one that itself."""
    if len(fields) == 1:
        return fields[0]
    unit = LargestExponent(count=len(fields), bits=len(fields[0]), target=target)
    place(m, platform, name, unit)
    m.d.comb += unit.fields.as_value().eq(Cat(*fields))
    return unit.largest
