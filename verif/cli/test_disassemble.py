"""`mxsafe disassemble`."""

from pathlib import Path

import pytest

from mxsafe.machine.assembler import Assembler
from mxsafe.machine.configuration import MachineConfiguration
from verif.cli.command import run_in


def test_disassemble(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assembler = Assembler(MachineConfiguration())
    program = assembler.assemble(
        [
            assembler.load(buffer="vector", address=0x1000, count_0=12, signal="vector"),
            assembler.vector(beats=6, function="gelu", to_vector=1, wait="load", d=6),
        ]
    )
    (tmp_path / "program.bin").write_bytes(program + bytes(32))
    assert run_in(tmp_path, "disassemble", "program.bin") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "    0  load   signal=vector buffer=vector address=0x1000 count_0=12 count_1=1 count_2=1 "
        "count_3=1 step_0=1",
        "    1  vector wait=load d=6 beats=6 rows=1 function=gelu to_vector=1 lanes=16",
        f"    2  # {'00' * 32}: opcode must be one of 1, 2, 3, 4, not 0",
    ]
    assert run_in(tmp_path, "disassemble", "program.bin", "--functions", "none") == 0
    marked = capsys.readouterr().out.splitlines()[1]
    assert marked.endswith("  # vector: function must be one of none, not 3")


@pytest.mark.parametrize(
    ("content", "seems"),
    [
        (b"\x93NUMPY\x01\x00", ", not an array of NumPy"),
        (b"PK\x03\x04", ", not a damaged archive"),
        (b"\x7fELF\x02\x01\x01\x00", ": it begins with none"),
        (b"\x1f\x8b\x08", ": it begins with none"),
        (b"    0  load   signal=vector", ": it begins with none"),
        (b'{"results": 1}', ": it begins with none"),
        (b"", ": it begins with none"),
    ],
)
def test_a_file_that_is_no_program(
    content: bytes, seems: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assembler = Assembler(MachineConfiguration())
    good = assembler.assemble([assembler.load(buffer="vector", address=0x1000, count_0=12)])
    (tmp_path / "file").write_bytes(content.ljust(32, b"\0") + good)
    assert run_in(tmp_path, "disassemble", "file") == 1
    message = f"mxsafe: file must be a file of descriptors{seems}\n"
    assert capsys.readouterr() == ("", message)


def test_a_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("0  load   signal=vector\n")
    assert run_in(tmp_path, "disassemble", "file") == 1
    assert capsys.readouterr() == ("", "mxsafe: file must be a file of descriptors, not text\n")


def test_an_empty_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert run_in(tmp_path, "disassemble", "file") == 0
    assert capsys.readouterr() == ("", "")
