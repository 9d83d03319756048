"""RTLIL of Amaranth: the same without the slow parts, and no cycle goes unseen."""

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Array, Cat, Const, Fragment, Module, Signal, Value, _nir
from amaranth.lib.memory import Memory

from mxsafe.rtl.stream.transposer import Transposer
from mxsafe.rtl.unit import Unit
from mxsafe.verilog.library import ModuleLibrary
from mxsafe.verilog.rtlil import convert


def _ports(*signals: Signal) -> dict[str, tuple[Value, None]]:
    return {signal.name: (signal, None) for signal in signals}


def _fragment(unit: Unit) -> tuple[Fragment, dict[str, tuple[Value, None]]]:
    fragment = Fragment.get(unit, ModuleLibrary())
    return fragment, {name: (signal, None) for name, _, signal in unit.port_signals()}


def test_a_unit_reads_as_amaranth_writes_it() -> None:
    found = []
    for write in (convert, lambda f, **given: rtlil.convert(f, emit_src=False, **given)):
        fragment, ports = _fragment(Transposer())
        found.append(write(fragment, name="unit", ports=ports))
    assert found[0] == found[1]
    assert "cell $" in found[0]


def test_a_memory_has_no_contents_at_power_up() -> None:
    m = Module()
    m.submodules.beats = beats = Memory(shape=8, depth=64, init=[1, 2])
    write, read = beats.write_port(), beats.read_port()
    ports = _ports(write.en, write.addr, write.data, read.en, read.addr, read.data)
    text = convert(Fragment.get(m, None), name="unit", ports=ports)
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


@pytest.mark.parametrize("build", [_loop, _late_loop])
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
