"""The decoders: all codes in simulation, and a proof against an independently written table."""

import shutil
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from mxsafe import model
from verif.support.checkers import assert_equal
from verif.support.manifest import Module
from verif.support.proof import run_yosys
from verif.support.simulators import SCRATCH, run_lockstep

ALL_CODES = np.arange(256)


def test_all_codes(simulator: str, modules: dict[str, Module]) -> None:
    module = modules["mxsf_decoder"]
    log = run_lockstep(simulator, module, {"code": ALL_CODES})
    codes = module.ports["code"].numbers(log["code"])
    expected = model.decode_fields(codes)
    for name, values in expected._asdict().items():
        got = module.ports[name].numbers(log[name])
        assert_equal(f"decoder.{name}", got, values.astype(np.int64), code=codes)


def _mxsf_value(code: int) -> tuple[int, Fraction]:
    """Sign and magnitude of an MXSF code, from the sentences of the format's definition."""
    sign, ee, mmmmm = code >> 7, code >> 5 & 3, code & 31
    if ee != 0:
        return sign, Fraction(2) ** (ee - 3) * (1 + Fraction(mmmmm, 32))
    eee, mm = mmmmm >> 2, mmmmm & 3
    if eee != 0:
        return sign, Fraction(2) ** (eee - 10) * (1 + Fraction(mm, 4))
    return sign, Fraction(2) ** -9 * Fraction(mm, 4)


def _normalised(code: int) -> tuple[int, int, int]:
    """E4M5 with bias 15: sign, exponent, significand with the leading one in bit 5."""
    sign, magnitude = _mxsf_value(code)
    if magnitude == 0:
        return sign, 0, 0
    exponent = 15
    while magnitude < 1:
        magnitude, exponent = magnitude * 2, exponent - 1
    significand = magnitude * 32
    assert significand.denominator == 1
    return sign, exponent, int(significand)


@pytest.mark.yosys
def test_equivalence_is_proved(modules: dict[str, Module]) -> None:
    folder = SCRATCH / "formal-decoder"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    rows = [
        f"      8'd{code}: {{sign, exponent, significand}} = {{1'd{s}, 4'd{e}, 6'd{m}}};"
        for code, (s, e, m) in ((code, _normalised(code)) for code in range(256))
    ]
    table = "\n".join(rows)
    (folder / "table.v").write_text(
        "module decoder_table(input [7:0] code, output reg sign, output reg [3:0] exponent,\n"
        f"  output reg [5:0] significand);\n  always @* case (code)\n{table}\n"
        "    default: {sign, exponent, significand} = 11'd0;\n  endcase\nendmodule\n"
    )
    design = modules["mxsf_decoder"]
    for source in design.sources:
        shutil.copy(source, folder)
    _prove(folder, design.name, "decoder_table")
    # A proof that cannot fail proves nothing: one wrong entry must be found.
    text = (folder / "table.v").read_text()
    s, e, m = _normalised(0x1F)
    wrong = text.replace(
        f"8'd31: {{sign, exponent, significand}} = {{1'd{s}, 4'd{e}, 6'd{m}}}",
        f"8'd31: {{sign, exponent, significand}} = {{1'd{s}, 4'd{e}, 6'd{m ^ 8}}}",
    )
    assert wrong != text
    (folder / "table.v").write_text(wrong)
    with pytest.raises(AssertionError, match="proof did fail"):
        _prove(folder, design.name, "decoder_table")


def _prove(folder: Path, design: str, table: str) -> None:
    """Prove two combinational modules equal for every input with Yosys' SAT solver."""
    sources = " ".join(sorted(path.name for path in folder.glob("*.v")))
    output = run_yosys(
        folder,
        f"read_verilog {sources}; proc -norom; opt; "
        f"miter -equiv -flatten -make_assert -make_outputs {design} {table} miter; "
        "hierarchy -top miter; sat -verify -prove-asserts miter",
    )
    assert "SUCCESS!" in output, output[-2000:]
