"""`mxsafe vectors`: what it refuses and writes; the vectors themselves are in `verif.vectors`."""

from pathlib import Path

import pytest

from mxsafe import vectors
from verif.cli.command import run
from verif.support.tests import INTEGERS


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "v"
    options = "--unit converter --format mxfp4_e2m1 --block 8 --input bfloat16 --count 40 --seed 5"
    assert run("vectors", *options.split(), "--out", out) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"  {out}/x.hex: 40 words, width 128",
        f"  {out}/codes.hex: 40 words, width 32",
        f"  {out}/scale.hex: 40 words, width 8",
        f"  {out}/vectors.json",
    ]
    built = vectors.converter("mxfp4_e2m1", block=8, input="bfloat16", count=40, seed=5)
    vectors.write(built, tmp_path / "again")
    assert contents(out) == contents(tmp_path / "again")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--unit", "mac", "--count", "0"], "count must be a positive integer, not 0"),
        (["--unit", "converter", "--count", "-3"], "count must be a positive integer, not -3"),
        (
            ["--unit", "decoder", "--count", "0"],
            "count must lie in 1..256, the codes of mxsf, not 0",
        ),
        (
            ["--unit", "decoder", "--format", "mxfp4_e2m1", "--count", "17"],
            "count must lie in 1..16, the codes of mxfp4_e2m1, not 17",
        ),
        (["--unit", "mac", "--format", "mxint8"], INTEGERS),
        (["--unit", "mac", "--lanes", "3"], "lanes must be a power of two, not 3"),
        (
            ["--unit", "mac", "--arithmetic", "exact", "--lanes", "16384"],
            "lanes must keep the codes of a row within 65536 bits, not 16384",
        ),
        (["--unit", "converter", "--block", "0"], "block must be a positive integer, not 0"),
        (
            ["--unit", "converter", "--block", "2049"],
            "block must keep the elements of a row within 65536 bits, not 2049",
        ),
        (
            ["--unit", "decoder", "--lanes", "4"],
            "lanes is not a parameter of decoder, but 4 was given",
        ),
        (
            ["--unit", "mac", "--input", "bfloat16"],
            "input is not a parameter of mac, but bfloat16 was given",
        ),
    ],
)
def test_command_lines_that_cannot_work(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("vectors", *arguments, "--out", tmp_path / "new" / "v") == 2
    assert capsys.readouterr().err == f"mxsafe: {message}\n"
    assert not list(tmp_path.iterdir())


def test_folders_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("mine")
    assert run("vectors", "--unit", "mac", "--out", tmp_path / "file" / "v") == 1
    out = tmp_path / "file" / "v"
    assert capsys.readouterr().err == f"mxsafe: cannot write to {out}: Not a directory\n"
    (tmp_path / "v" / "w.hex").mkdir(parents=True)
    assert run("vectors", "--unit", "mac", "--out", tmp_path / "v") == 1
    out = tmp_path / "v"
    assert capsys.readouterr().err == (
        f"mxsafe: cannot write to {out}: {out / 'w.hex'} is not a regular file\n"
    )
    assert [path.name for path in (tmp_path / "v").iterdir()] == ["w.hex"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "v"]
