"""The C header: it compiles without a warning, and C makes the same bytes as the assembler."""

import shutil
import subprocess
from pathlib import Path

import pytest

from mxsafe.machine.assembler import Assembler
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import DESCRIPTORS, REGISTERS
from mxsafe.machine.header import HEADER_FILE, c_header
from verif.support.manifest import GEN

PROGRAM = f"""\
#include <stdio.h>
#include "{HEADER_FILE}"

int main(void)
{{
    mxsafe_descriptor d;
    mxsafe_clear(&d, MXSAFE_OPCODE_GEMM);
    mxsafe_set(&d, MXSAFE_FIELD(GEMM, WAIT), MXSAFE_QUEUE_LOAD | MXSAFE_QUEUE_STORE);
    mxsafe_set(&d, MXSAFE_FIELD(GEMM, A_CODES), 0xffff);
    mxsafe_set(&d, MXSAFE_FIELD(GEMM, A_CODES), 1000);
    mxsafe_set(&d, MXSAFE_FIELD(GEMM, W_SCALE_STRIDE), 0xabc);
    mxsafe_set(&d, MXSAFE_FIELD(GEMM, STRIPS_A), 3);
    mxsafe_set(&d, MXSAFE_FIELD(GEMM, STRIPS_W), 5);
    mxsafe_set(&d, MXSAFE_FIELD(GEMM, BEATS), 96);
    mxsafe_set(&d, MXSAFE_FIELD(GEMM, BLOCK), 16);
    mxsafe_set(&d, MXSAFE_FIELD(GEMM, LAST_ROWS), 16);
    mxsafe_set(&d, MXSAFE_FIELD(GEMM, CLEAR), 1);
    mxsafe_set(&d, MXSAFE_FIELD(GEMM, WRITE), 1);
    if (mxsafe_get(&d, MXSAFE_FIELD(GEMM, W_SCALE_STRIDE)) != 0xabc)
        return 1;
    return fwrite(d.bytes, sizeof d.bytes, 1, stdout) != 1;
}}
"""


def test_every_name_is_there() -> None:
    text = c_header()
    names = [line.split()[1] for line in text.splitlines() if line.startswith("#define MXSAFE_")]
    assert len(names) == len(set(names)) > 300
    for register in REGISTERS:
        assert f"MXSAFE_REG_{register.name.upper()}" in names
    for descriptor in DESCRIPTORS.values():
        for field in descriptor.fields:
            assert f"MXSAFE_{descriptor.name}_{field.name}_OFFSET".upper() in names


def test_the_committed_header_is_fresh() -> None:
    assert (GEN / HEADER_FILE).read_text() == c_header(), "run `make verilog`"


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
@pytest.mark.parametrize("standard", ["c99", "c11"])
def test_c_makes_the_same_bytes(standard: str, tmp_path: Path) -> None:
    (tmp_path / HEADER_FILE).write_text(c_header())
    (tmp_path / "program.c").write_text(PROGRAM)
    options = [f"-std={standard}", "-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror"]
    subprocess.run(["cc", *options, "program.c", "-o", "program"], cwd=tmp_path, check=True)
    made = subprocess.run([tmp_path / "program"], check=True, capture_output=True).stdout
    expected = Assembler(MachineConfiguration()).gemm(
        wait=["load", "store"],
        a_codes=1000,
        w_scale_stride=0xABC,
        strips_a=3,
        strips_w=5,
        beats=96,
        block=16,
    )
    assert made == expected.encoded()
