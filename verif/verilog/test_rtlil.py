"""RTLIL of Amaranth: the same without the slow parts, and no cycle goes unseen."""

import pytest
from amaranth.back import rtlil
from amaranth.hdl import (
    Array,
    Cat,
    ClockDomain,
    ClockSignal,
    Const,
    Fragment,
    Instance,
    Module,
    Mux,
    ResetSignal,
    Signal,
    Value,
    _ir,
    _nir,
    signed,
)
from amaranth.lib import data, enum
from amaranth.lib.memory import Memory

from mxsafe.rtl.stream.transposer import Transposer
from mxsafe.rtl.unit import Unit
from mxsafe.verilog.library import ModuleLibrary
from mxsafe.verilog.rtlil import convert


def _ports(*signals: Signal) -> dict[str, tuple[Value, None]]:
    return {signal.name: (signal, None) for signal in signals}


def _fragment(unit: Unit) -> tuple[Fragment, dict[str, tuple[Value, None]]]:
    fragment = Fragment.get(unit, ModuleLibrary())
    ports = {name: (signal, None) for name, _, signal in unit.port_signals()}
    return fragment, _clock(fragment) | ports


def _clock(fragment: Fragment) -> dict[str, tuple[Value, None]]:
    """Ports of the clock and the reset that a fragment gets."""
    domain = ClockDomain("sync")
    fragment.add_domains(domain)
    return _ports(domain.clk, domain.rst)


def test_a_unit_reads_as_amaranth_writes_it() -> None:
    found = []
    for write in (convert, lambda f, **given: rtlil.convert(f, emit_src=False, **given)):
        fragment, ports = _fragment(Transposer())
        found.append(write(fragment, name="unit", ports=ports))
    assert found[0] == found[1]
    assert "cell $" in found[0]


_Colour = enum.Enum("_Colour", {"RED": 1, "BLUE": 2})
_FIELDS = data.StructLayout(
    {"colour": _Colour, "low": signed(3), "pairs": data.ArrayLayout(data.ArrayLayout(1, 2), 3)}
)


def _everything() -> tuple[Fragment, dict[str, tuple[Value, None]]]:
    """Every kind of expression, statement and cell, written where it is not expected too."""
    m = Module()
    a, b, c, d = Signal(7), Signal(signed(5)), Signal(3), Signal(signed(6))
    total = a + b
    for number, value in enumerate(
        [
            *(a + b, a - c, b - d, a * b, a // c, b // d, a % c, b % d, -a, -b, ~a, ~d, abs(d)),
            *(a << c, b << c, a >> c, b >> c, a & b, a | c, b ^ d, total & total, total[2:]),
            *(a == b, a != c, a < b, b <= d, a > c, d >= b, a.any(), a.all(), a.xor(), a.bool()),
            *(a.bit_select(c, 2), b.word_select(c[:2], 2), Cat(a, b, Const(5, 3), b), Cat()),
            *(Mux(a, b, c), Mux(c[0], d, a), Array([a, b, c])[c], a.as_signed(), b.as_unsigned()),
            *(ClockSignal(), ResetSignal() | c[0], a.matches(3, "1-----0"), Const(-3, signed(4))),
            *(a.rotate_left(2), b.shift_right(1), Const(0, 0), a.replicate(2), a[3:3]),
        ]
    ):
        m.d.comb += Signal(len(value) + 2, name=f"value_{number}").eq(value)
    fields, held = Signal(_FIELDS), Signal(_FIELDS, init={"low": -1})
    parts, places, bits = Signal(8), Signal(8), Signal(4, attrs={"keep": 1})
    m.d.comb += [fields.low.eq(b), fields.pairs[1].eq(c), parts.bit_select(c + 1, 2).eq(a)]
    m.d.sync += [held.eq(fields), Array([places[:4], places[4:]])[total[0]][1:3].eq(d)]
    with m.Switch(total):
        with m.Case(1, "11-------"):
            m.d.sync += held.pairs[c[:2]][0].eq(1)
            m.d.comb += Cat(bits, fields.colour).eq(a)
        with m.Case():
            m.d.comb += bits.eq(3)
        with m.Default():
            with m.If(b > 2):
                m.d.sync += held.low.eq(0)
            with m.Elif(c):
                m.d.comb += bits.word_select(c[0], 2).eq(d)
    with m.FSM():
        with m.State("one"):
            m.next = "two"
        with m.State("two"), m.If(a == 2):
            m.next = "one"
    found, wide = Signal(4), Signal(9)
    m.submodules.part = Instance(
        "part", ("i", "x", total), ("i", "rst", ResetSignal()), ("o", "y", Cat(found, wide[2:5]))
    )
    fragment = Fragment.get(m, None)
    outputs = (held.as_value(), parts, places, bits, found, wide)
    return fragment, _clock(fragment) | _ports(a, b, c, d, *outputs)


def test_everything_reads_as_amaranth_writes_it() -> None:
    found = []
    for write in (convert, lambda f, **given: rtlil.convert(f, emit_src=False, **given)):
        fragment, ports = _everything()
        found.append(write(fragment, name="unit", ports=ports).splitlines())
    assert found[0] == found[1]
    assert len(found[0]) > 1000


def test_a_memory_has_no_contents_at_power_up() -> None:
    m = Module()
    m.submodules.beats = beats = Memory(shape=8, depth=64, init=[1, 2])
    write, read = beats.write_port(), beats.read_port()
    ports = _ports(write.en, write.addr, write.data, read.en, read.addr, read.data)
    fragment = Fragment.get(m, None)
    text = convert(fragment, name="unit", ports=_clock(fragment) | ports)
    assert "memory width 8 size 64" in text
    assert "$memwr_v2" in text
    assert "$meminit" not in text


def _loop(m: Module, a: Signal, b: Signal) -> None:
    """Each decides the other."""
    m.d.comb += [a.eq(b + 1), b.eq(a ^ 3)]


def _late_loop(m: Module, a: Signal, b: Signal) -> None:
    """Through a condition and a choice."""
    table = Array(Const(value, 4) for value in range(4))
    m.d.comb += a.eq(table[b[:2]])
    with m.If(a == 3):
        m.d.comb += b.eq(1)


def _bare_loop(m: Module, a: Signal, b: Signal) -> None:
    """Of names alone, without a cell."""
    c = Signal(4)
    m.d.comb += [a.eq(b), b.eq(c), c.eq(a)]


@pytest.mark.parametrize("build", [_loop, _late_loop, _bare_loop])
def test_cycles_are_found(build) -> None:
    m, a, b = Module(), Signal(4), Signal(4)
    build(m, a, b)
    with pytest.raises(_nir.CombinationalCycle, match="Combinational cycle detected"):
        convert(Fragment.get(m, None), name="unit", ports=_ports(a, b))


def test_bits_may_depend_on_other_bits_of_a_signal() -> None:
    """A cycle of cells that is none of bits."""
    m, x, y = Module(), Signal(2), Signal(2)
    m.d.comb += y.eq(Cat(x[0], y[0]) & 3)
    text = convert(Fragment.get(m, None), name="unit", ports=_ports(x, y))
    assert text.count("module \\unit") == 1


def test_two_drivers_are_found() -> None:
    m, x, y = Module(), Signal(2), Signal(2)
    m.submodules.one = Instance("one", ("o", "y", y))
    m.submodules.other = Instance("other", ("i", "x", x), ("o", "y", y[1]))
    with pytest.raises(
        _ir.DriverConflict, match=r"^Bit 1 of signal \(sig y\) has multiple drivers"
    ):
        convert(Fragment.get(m, None), name="unit", ports=_ports(x, y))


def test_linted_operands_are_as_wide_as_what_is_read() -> None:
    """Of a sum and its register the bits that nothing reads are not there."""
    m = Module()
    a, b, y = Signal(8), Signal(3), Signal(4)
    kept = Signal(9, name="kept")
    m.d.sync += kept.eq(a + b)
    m.d.comb += y.eq(kept)
    fragment = Fragment.get(m, None)
    text = convert(fragment, name="unit", ports=_clock(fragment) | _ports(a, b, y), linted=True)
    widths = dict.fromkeys(("A_WIDTH", "B_WIDTH", "Y_WIDTH"), 4)
    (added,) = (part for part in text.split("  cell ") if part.startswith("$add "))
    assert all(f"parameter \\{name} {width}\n" in added for name, width in widths.items())
    assert "width 9" not in text
