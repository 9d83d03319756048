"""Beats of packed element codes, unpacked to beats of a code in each place.

Tested by `verif/rtl/array/test_operand_formats.py`.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.formats import FormatSet
from mxsafe.rtl.arithmetic.bits import gated_or, named, noted, truncated, update
from mxsafe.rtl.stream.axi_stream import AxiStream, operand_beat
from mxsafe.rtl.unit import Configuration, Ports, Unit
from mxsafe.validation import Alike


def operand_user(format: FormatSet | None, *, begins: bool) -> data.StructLayout | None:
    """`tuser` of an operand stream: flags of tiles and blocks, and the mode of a set of formats."""
    flags = {"first": 1, "block_last": 1} if begins else {}
    mode = {"format": format.mode_bits} if format is not None else {}
    return data.StructLayout({**flags, **mode}) if flags or mode else None


class CodeUnpackerConfiguration(Configuration):
    """A `CodeUnpacker`.

    Parameters
    ----------
    format : FormatSet
        Formats of the codes. The first has codes as wide as a place, for what is no mode.
    lanes : int
        Codes of each row or column that leave in a beat.
    count : int
        Rows or columns.
    begins : bool
        Whether `tuser` has ``first`` and ``block_last``.

    Raises
    ------
    ValueError
        If no format of the set has codes that are packed.
    """

    format: FormatSet
    lanes: Alike = 4
    count: Alike = 16
    begins: bool = False

    def __post_init__(self) -> None:
        if max(self.format.packed) == 1:
            raise ValueError(
                f"format must have a member with codes of at most {self.format.width // 2} bits, "
                f"not {self.format.name}"
            )

    clocked = True
    """It counts the parts of a beat."""

    @property
    def beat(self) -> data.StructLayout:
        """Layout of a beat."""
        return operand_beat(
            code_width=self.format.width,
            scale_width=self.format.scale.width,
            lanes=self.lanes,
            count=self.count,
        )

    @property
    def stream(self) -> AxiStream:
        """Both streams."""
        return AxiStream(self.beat, user=operand_user(self.format, begins=self.begins))


class CodeUnpacker(Unit[CodeUnpackerConfiguration]):
    """Operand beats of several formats, narrow codes packed, to beats of `lanes` codes a row.

    A row or column has `lanes` places of the widest code in a beat. Codes of a format that is half
    as wide come two in each place (a quarter as wide, four): those of the next beat behind those of
    this one, the first code lowest. Such a beat stays for as many beats as it holds; only the last
    of them ends a block or a packet, and only the first begins a tile. So there are no registers
    but for the count.

    Attributes
    ----------
    s_axis : In(AxiStream)
        Codes and scales of an operand; `tuser.format` is the mode, see `FormatSet`.
    m_axis : Out(AxiStream)
        The same with every code in the low bits of its place. Combinational.

    Notes
    -----
    Formats of 6 bits lie one in each place: four of them in three places would need registers for
    parts of beats, and a shifter, to save a quarter of the beats.
    """

    def ports(self) -> Ports:
        return {"s_axis": In(self.config.stream), "m_axis": Out(self.config.stream)}

    def fill(self, m: Module, platform: object) -> None:
        config, into, out_of = self.config, self.m_axis, self.s_axis
        format = config.format
        most = max(format.packed)
        part = Signal(range(most), name="part")
        packed = self._packed(m, out_of.tuser.format)
        lasts = ((gate, Const(many - 1, len(part))) for (_, many), gate in packed.items())
        last = gated_or(m, "last_part", lasts)
        ends = noted(
            named(m, "is_last_part", 1, part == last),
            "A beat of packed codes stays for as many beats as it holds: it is taken with its last "
            "part, which alone ends a block or a packet.",
        )
        taken = named(m, "part_taken", 1, into.tvalid & into.tready)
        following = truncated(m, "next_part", len(part), part + 1)
        update(m, part, (taken, Mux(ends, 0, following)))
        ways = self._ways(m, packed, part)
        for index in range(config.count):
            places = out_of.tdata.codes[index].as_value()
            codes = []
            for lane in range(config.lanes):
                choices = (
                    (gate, places[first + step * lane :][:step]) for gate, first, step in ways
                )
                codes.append(gated_or(m, f"code_{index}_{lane}", choices))
            # At once: Amaranth looks at all bits of a port in each assignment to some of them.
            m.d.comb += into.tdata.codes[index].as_value().eq(Cat(*codes))
        m.d.comb += [
            into.tdata.scales.as_value().eq(out_of.tdata.scales.as_value()),
            into.tvalid.eq(out_of.tvalid),
            into.tlast.eq(out_of.tlast & ends),
            into.tuser.format.eq(out_of.tuser.format),
            out_of.tready.eq(into.tready & ends),
        ]
        if config.begins:
            m.d.comb += [
                into.tuser.first.eq(out_of.tuser.first & (part == 0)),
                into.tuser.block_last.eq(out_of.tuser.block_last & ends),
            ]

    def _packed(self, m: Module, mode: Value) -> dict[tuple[int, int], Signal]:
        """Flags by width of codes and codes in a place: the mode has such codes."""
        format = self.config.format
        modes: dict[tuple[int, int], list[Value]] = {}
        for number, (fmt, many) in enumerate(zip(format.members, format.packed, strict=True)):
            if many > 1:
                modes.setdefault((fmt.width, many), []).append(mode == number)
        return {
            (width, many): named(m, f"has_{many}_of_{width}_bits", 1, Cat(*gates).any())
            for (width, many), gates in modes.items()
        }

    def _ways(
        self, m: Module, packed: dict[tuple[int, int], Signal], part: Signal
    ) -> list[tuple[Value, int, int]]:
        """Places of the codes of a row: condition, first bit, and bits from one to the next."""
        format, lanes = self.config.format, self.config.lanes
        single = named(m, "is_single", 1, ~Cat(*packed.values()).any())
        ways: list[tuple[Value, int, int]] = [(single, 0, format.width)]
        for (width, many), gate in packed.items():
            for number in range(many):
                here = named(m, f"is_part_{number}_of_{many}", 1, gate & (part == number))
                ways.append((here, width * lanes * number, width))
        return ways
