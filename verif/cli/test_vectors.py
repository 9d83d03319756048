"""`mxsafe vectors`: what it refuses and writes; the vectors themselves are in `verif.vectors`."""

from pathlib import Path

import pytest

from mxsafe import vectors
from verif.cli.command import run


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
