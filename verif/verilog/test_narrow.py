"""Bits that nothing reads are left out, and what stays is what Amaranth wrote."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

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
    signed,
)
from amaranth.lib import data, enum
from amaranth.lib.memory import Memory

from mxsafe.verilog.convert import to_verilog
from mxsafe.verilog.narrow import narrow
from verif.support.proof import compared, run_yosys


def _written(m: Module, *ports: Signal) -> str:
    """A module as Amaranth writes it."""
    fragment = Fragment.get(m, None)
    domain = ClockDomain("sync")
    fragment.add_domains(domain)
    signals = {signal.name: (signal, None) for signal in (domain.clk, domain.rst, *ports)}
    assert len(signals) == 2 + len(ports)
    return rtlil.convert(fragment, name="unit", ports=signals, emit_src=False)


_Colour = enum.Enum("_Colour", {"RED": 1, "BLUE": 2})
_FIELDS = data.StructLayout(
    {"colour": _Colour, "low": signed(3), "pairs": data.ArrayLayout(data.ArrayLayout(1, 2), 3)}
)
_PART = "module part(input [8:0] x, input rst, output [6:0] y); assign y = x ^ {8{rst}}; endmodule"


def _everything(*, cut: bool) -> str:
    """Every kind of expression, statement and cell.

    Where results are cut, some of their highest bits are read, or not all of them.
    """
    m = Module()
    a, b, c, d = (
        Signal(shape, name=name)
        for name, shape in {"a": 7, "b": signed(5), "c": 3, "d": signed(6)}.items()
    )
    total = a + b
    outputs: list[Signal] = []
    for number, value in enumerate(
        [
            *(a + b, a - c, b - d, a * b, a // c, b // d, a % c, b % d, -a, -b, ~a, ~d, abs(d)),
            *(a << c, b << c, a >> c, b >> c, a & b, a | c, b ^ d, total & total, total[2:]),
            *(a == b, a != c, a < b, b <= d, a > c, d >= b, a.any(), a.all(), a.xor(), a.bool()),
            *(a.bit_select(c, 2), b.word_select(c[:2], 2), Cat(a, b, Const(5, 3), b), Cat()),
            *(Mux(a, b, c), Mux(c[0], d, a), Array([a, b, c])[c], a.as_signed(), b.as_unsigned()),
            *(ResetSignal() | c[0], a.matches(3, "1-----0"), Const(-3, signed(4))),
            *(a.rotate_left(2), b.shift_right(1), Const(0, 0), a.replicate(2), a[3:3]),
        ]
    ):
        result = Signal(Value.cast(value).shape(), name=f"result_{number}")
        m.d.comb += result.eq(value)
        read = result[: (len(result) + 1) // 2] if cut else result
        held = Signal(len(read), name=f"held_{number}")
        m.d.sync += held.eq(read)
        outputs += [held] if len(held) else []
    m.d.comb += Signal(1, name="clock").eq(ClockSignal())
    fields, kept = Signal(_FIELDS, name="fields"), Signal(_FIELDS, init={"low": -1}, name="kept")
    parts, places = Signal(8, name="parts"), Signal(8, name="places")
    bits = Signal(4, attrs={"keep": 1}, name="bits")
    m.d.comb += [fields.low.eq(b), fields.pairs[1].eq(c), parts.bit_select(c + 1, 2).eq(a)]
    m.d.sync += [kept.eq(fields), Array([places[:4], places[4:]])[total[0]][1:3].eq(d)]
    with m.Switch(total):
        with m.Case(1, "11-------"):
            m.d.sync += kept.pairs[c[:2]][0].eq(1)
            m.d.comb += Cat(bits, fields.colour).eq(a)
        with m.Case():
            m.d.comb += bits.eq(3)
        with m.Default():
            with m.If(b > 2):
                m.d.sync += kept.low.eq(0)
            with m.Elif(c):
                m.d.comb += bits.word_select(c[0], 2).eq(d)
    with m.FSM():
        with m.State("one"):
            m.next = "two"
        with m.State("two"), m.If(a == 2):
            m.next = "one"
    found, wide = Signal(4, name="found"), Signal(9, name="wide")
    m.submodules.part = Instance(
        "part", ("i", "x", total), ("i", "rst", ResetSignal()), ("o", "y", Cat(found, wide[2:5]))
    )
    shown = Signal(5, name="shown")
    m.d.comb += shown.eq(Cat(kept.low[:2] if cut else kept.low, kept.pairs[1]))
    return _written(m, a, b, c, d, *outputs, shown, parts, places, bits, found, wide)


@pytest.mark.yosys
@pytest.mark.parametrize("cut", [False, True])
def test_everything_is_the_same(cut: bool, tmp_path: Path) -> None:
    """Outputs of registers and of all else, at all times."""
    before = _everything(cut=cut)
    after = narrow(before)
    assert _bits(after) < _bits(before) * (0.9 if cut else 1)
    _prove(before, after, tmp_path)


def test_results_are_those_of_amaranth(tmp_path: Path) -> None:
    """For random inputs, where results are cut; for all of them see the proofs."""
    before = _everything(cut=True)
    ports = re.findall(r"wire width (\d+) (input|output) \d+ +(?:signed )?\\(\S+)", before)
    texts = [
        # Icarus takes a function whose name begins with $ for one of the system.
        to_verilog(text.replace("module \\unit", f"module \\{name}")).replace("\\$proc", "\\proc")
        for name, text in {"written": before, "narrowed": narrow(before)}.items()
    ]
    declared, outputs = [], []
    for width, way, name in ports:
        net = f"[{int(width) - 1}:0] "
        if way == "input":
            declared.append(f"  reg {net}{name} = 0;")
        else:
            declared.append(f"  wire {net}{name}_0, {name}_1;")
            outputs.append(name)
    pins = [
        ", ".join(
            f".{name}({name}{'' if way == 'input' else f'_{number}'})" for _, way, name in ports
        )
        for number in range(2)
    ]
    given = [name for _, way, name in ports if way == "input" and name not in ("clk", "rst")]
    bench = [
        *(_PART, *texts, "module bench;", *declared, "  integer seed = 1, differ = 0, i;"),
        f"  written one ({pins[0]});\n  narrowed other ({pins[1]});",
        "  initial begin\n    for (i = 0; i < 3000; i = i + 1) begin",
        "      rst = i < 2 || i % 100 == 0;",
        *(f"      {name} = $random(seed);" for name in given),
        "      #1 clk = 0; #1 clk = 1; #1;",
        *(f"      if ({name}_0 !== {name}_1) differ = differ + 1;" for name in outputs),
        '    end\n    $display("%0d of %0d differ", differ, i);\n  end\nendmodule\n',
    ]
    (tmp_path / "bench.v").write_text("\n".join(bench))
    words = ["iverilog", "-g2012", "-s", "bench", "-o", "bench", "bench.v"]
    subprocess.run(words, cwd=tmp_path, check=True)
    ended = subprocess.run(["vvp", "-n", "bench"], cwd=tmp_path, capture_output=True, check=True)
    assert ended.stdout.decode() == "0 of 3000 differ\n"
    assert len(outputs) > 40


def _bits(text: str) -> int:
    """Bits of all wires."""
    return sum(map(int, re.findall(r"wire width (\d+)", text)))


def _prove(before: str, after: str, folder: Path) -> None:
    """Prove that two modules are the same."""
    (folder / "part.v").write_text(_PART)
    script = []
    for name, text in {"before": before, "after": after}.items():
        (folder / f"{name}.il").write_text(text)
        script += [
            f"read_verilog part.v; read_rtlil {name}.il",
            "hierarchy -top unit; proc; flatten; opt_clean",
            f"rename unit {name}; design -stash {name}",
        ]
    script += [
        *compared("before", "after", clocked=True),
        "tee -o proof.log sat -verify -prove trigger 0 -tempinduct miter",
    ]
    (folder / "prove.ys").write_text("\n".join(script))
    run_yosys(folder, "script prove.ys")
    assert "SUCCESS!" in (folder / "proof.log").read_text()


def _sum_and_register(m: Module) -> tuple[Signal, ...]:
    a, b, y = Signal(8, name="a"), Signal(3, name="b"), Signal(4, name="y")
    kept = Signal(9, name="kept")
    m.d.sync += kept.eq(a + b)
    m.d.comb += y.eq(kept)
    return a, b, y


def _choice(m: Module) -> tuple[Signal, ...]:
    a, b, y = Signal(8, name="a"), Signal(3, name="b"), Signal(4, name="y")
    chosen = Signal(9, name="chosen")
    with m.If(b[0]):
        m.d.comb += chosen.eq(a + b)
    with m.Elif(b[1]):
        m.d.comb += chosen[4:].eq(a)
    m.d.comb += y.eq(chosen)
    return a, b, y


@pytest.mark.parametrize("build", [_sum_and_register, _choice])
def test_operands_are_as_wide_as_what_is_read(build: Callable) -> None:
    """Of a sum and its register the bits that nothing reads are not there."""
    m = Module()
    text = _written(m, *build(m))
    assert "width 9 " in text
    after = narrow(text)
    (added,) = (part for part in after.split("  cell ") if part.startswith("$add "))
    assert re.findall(r"\\(\w+) (4)\n", added) == [
        ("A_WIDTH", "4"),
        ("B_WIDTH", "4"),
        ("Y_WIDTH", "4"),
    ]
    assert "width 9 " not in after


def test_a_name_has_no_gap() -> None:
    """A bit in the middle of a name stays; those above what is read do not."""
    m = Module()
    a, b, y, z = (Signal(4, name=name) for name in "abyz")
    sums = Signal(10, name="sums")
    m.d.comb += [sums.eq(Cat(a + b, a - b)), y.eq(sums[:2]), z.eq(sums[5:7])]
    after = narrow(_written(m, a, b, y, z))
    assert "wire width 7 \\sums" in after
    (added,) = (part for part in after.split("  cell ") if part.startswith("$add "))
    assert "parameter \\Y_WIDTH 5" in added
    (subtracted,) = (part for part in after.split("  cell ") if part.startswith("$sub "))
    assert "parameter \\Y_WIDTH 2" in subtracted


def test_ports_and_assignments_without_bits() -> None:
    m = Module()
    a, y, none = Signal(4, name="a"), Signal(4, name="y"), Signal(0, name="none")
    with m.If(a[0]):
        m.d.comb += y.bit_select(a[:2], 0).eq(a)
    after = narrow(_written(m, a, y, none))
    assert re.findall(r"width (\d) \w+put \d +\\(\w+)", after)[3:] == [("0", "none"), ("4", "y")]


def test_what_nothing_reads_is_not_there() -> None:
    m = Module()
    a, y, lost = Signal(4, name="a"), Signal(4, name="y"), Signal(4, name="lost")
    m.d.comb += y.eq(a)
    m.d.sync += lost.eq(a * 3)
    with m.If(a == 3):
        m.d.comb += Signal(name="nowhere").eq(1)
    after = narrow(_written(m, a, y))
    assert not re.search("lost|nowhere|cell|process|switch", after)
    assert "connect \\y \\a [3:0]\n" in after


def test_a_memory_has_no_contents_at_power_up() -> None:
    m = Module()
    m.submodules.beats = beats = Memory(shape=8, depth=64, init=[1, 2])
    write, read = beats.write_port(), beats.read_port()
    text = _written(m, write.en, write.addr, write.data, read.en, read.addr, read.data)
    assert "$meminit" in text
    after = narrow(text)
    assert "memory width 8 size 64" in after
    assert "$memwr_v2" in after
    assert "$meminit" not in after
