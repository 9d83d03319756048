"""The command where its surroundings are unkind: output, names, sizes and files that are there."""

import os
import signal
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import mxsafe as mx
from mxsafe.atomic import write_atomically, write_together
from verif.cli.command import run, run_in

COMMAND = (sys.executable, "-m", "mxsafe")


def _process(*words: str | bytes, **options: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*COMMAND, *words], stderr=subprocess.PIPE, check=False, **options)


@pytest.mark.parametrize(
    ("words", "unbuffered"),
    [("formats", ""), ("--help", "1"), ("run --help", "1"), ("--version", "1")],
)
def test_full_output(words: str, unbuffered: str) -> None:
    with Path("/dev/full").open("wb") as full:
        environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
        result = _process(*words.split(), stdout=full, env=environment)
    assert result.returncode == 1
    message = b"mxsafe: cannot write to standard output: No space left on device\n"
    assert result.stderr == message


def test_closed_output() -> None:
    result = _process("formats", preexec_fn=lambda: os.close(1))
    assert result.returncode == 1
    assert result.stderr == b"mxsafe: cannot write to standard output: it is closed\n"


@pytest.mark.parametrize(
    ("words", "file"),
    [
        ("formats", None),
        ("verilog decoder --out out", "mxsf_decoder.v"),
        ("analyse --format mxsf --out out", "errors.json"),
        ("vectors --unit decoder --out out", "vectors.json"),
    ],
)
def test_nobody_reads_the_output(words: str, file: str | None, tmp_path: Path) -> None:
    """Files are written all the same."""
    if words.startswith("analyse"):
        pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    ours, theirs = os.pipe()
    os.close(ours)
    environment = {**os.environ, "PYTHONUNBUFFERED": "1" if file else ""}
    result = _process(*words.split(), stdout=theirs, cwd=tmp_path, env=environment)
    os.close(theirs)
    assert result.returncode == 128 + signal.SIGPIPE
    assert result.stderr == b""
    assert file is None or (tmp_path / "out" / file).is_file()


def test_interrupted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> list[str]:
        raise KeyboardInterrupt

    monkeypatch.setattr("mxsafe.analysis.inspection.format_tables", interrupted)
    assert run("formats") == 128 + signal.SIGINT
    assert capsys.readouterr().err == "mxsafe: interrupted\n"


@pytest.mark.parametrize(
    ("handler", "code", "message"),
    [
        (signal.SIG_DFL, 128 + signal.SIGINT, b"mxsafe: interrupted\n"),
        (signal.SIG_IGN, 7, b""),  # as shells start what runs in the background
    ],
)
def test_interrupted_in_the_imports(
    handler: signal.Handlers, code: int, message: bytes, tmp_path: Path
) -> None:
    """NumPy is the first that takes long; this one has Ctrl-C pressed."""
    (tmp_path / "numpy.py").write_text(
        "import os, signal, sys\nos.kill(os.getpid(), signal.SIGINT)\nsys.exit(7)\n"
    )
    places = os.pathsep.join([str(tmp_path), *sys.path])
    result = _process(
        "formats",
        env={**os.environ, "PYTHONPATH": places},
        preexec_fn=lambda: signal.signal(signal.SIGINT, handler),
    )
    assert result.returncode == code
    assert result.stderr == message


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    words = ("quantize", "a.npy", "b.npz")
    result = _process(*words, cwd=folder, preexec_fn=lambda: folder.rmdir())
    assert result.returncode == 1
    assert result.stderr == b"mxsafe: cannot read a.npy: No such file or directory\n"


def test_headers_that_are_damaged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither the header is shown nor what Python's parser says of it."""
    for text in ("[" * 9000, "{1: ", "f(x)", ")"):
        header = text.encode().ljust(54) + b"\n"
        content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
        (tmp_path / "a.npy").write_bytes(content)
        assert run_in(tmp_path, "quantize", "a.npy", "b.npz") == 1
        error = capsys.readouterr().err
        assert error == "mxsafe: cannot read a.npy: the header of an array is damaged\n"


def test_texts_of_tensors_that_are_damaged(tmp_path: Path) -> None:
    path = tmp_path / "q.npz"
    for text in ("[" * 100_000, "no JSON"):
        np.savez(path, mxsafe=np.array(text))
        with pytest.raises(ValueError, match="quantised tensors: its text is no JSON"):
            mx.load(path)


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_names_that_a_terminal_cannot_show(encoding: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((2, 64), np.float32))
    result = _process(
        "quantize",
        "x.npy",
        b"\xff\xe9.npz",
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONIOENCODING": encoding},
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == b"\\udcff\\udce9.npz: 128 elements of mxsf in 2 blocks\n"
    assert os.listdir(os.fsencode(tmp_path)).count(b"\xff\xe9.npz") == 1  # noqa: PTH208


def test_the_input_is_not_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "q.npz"
    mx.save(file, mx.quantize(np.ones((2, 64), np.float32)))
    before = file.read_bytes()
    assert run("dequantize", file, file) == 2
    assert capsys.readouterr().err == f"mxsafe: cannot write to {file}: it is the input\n"
    link = tmp_path / "link.npz"
    link.symlink_to(file)
    assert run("dequantize", link, file) == 2
    assert run("quantize", file, link) == 2
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("words", "out"),
    [
        (["quantize", "x.npy", "new.npz"], "new.npz"),
        (["dequantize", "q.npz", "new.npy"], "new.npy"),
        (["run", "program.bin", "memory.bin", "--out", "new.bin"], "new.bin"),
    ],
    ids=lambda words: words[0] if isinstance(words, list) else "",
)
def test_a_file_that_exists_is_kept(
    words: list[str], out: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x = np.ones((2, 64), np.float32)
    np.save(tmp_path / "x.npy", x)
    mx.save(tmp_path / "q.npz", mx.quantize(x))
    (tmp_path / "program.bin").write_bytes(b"")
    (tmp_path / "memory.bin").write_bytes(bytes(32))
    (tmp_path / out).write_bytes(b"kept")
    assert run_in(tmp_path, *words) == 1
    message = f"mxsafe: cannot write to {out}: it exists; --force overwrites it\n"
    assert capsys.readouterr() == ("", message)
    assert (tmp_path / out).read_bytes() == b"kept"
    assert run_in(tmp_path, *words, "--force") == 0
    assert (tmp_path / out).read_bytes() != b"kept"


def test_a_file_keeps_its_mode(tmp_path: Path) -> None:
    def mode(path: Path) -> int:
        return stat.S_IMODE(path.stat().st_mode)

    file = tmp_path / "file"
    write_atomically(file, lambda new: new.write(b"1"))
    plain = mode(file)
    for wanted in (0o600, 0o444, 0o664):
        file.chmod(wanted)
        write_atomically(file, lambda new: new.write(b"2"))
        assert mode(file) == wanted
        write_together(tmp_path, {"file": b"3", "other": b"4"})
        assert mode(file) == wanted
    assert mode(tmp_path / "other") == plain


def test_members_that_nobody_needs_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "q.npz"
    mx.save(file, mx.quantize(np.ones((2, 64), np.float32)))
    with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("more.npy", bytes(1 << 20))
    read = []
    whole = zipfile.ZipFile.open

    def noted(self: zipfile.ZipFile, name: str, *rest: object) -> object:
        read.append(name)
        return whole(self, name, *rest)

    monkeypatch.setattr(zipfile.ZipFile, "open", noted)
    assert mx.load(file).shape == (2, 64)
    assert sorted(map(str, read)) == ["mxsafe.npy", "tensor.codes.npy", "tensor.scales.npy"]


def test_members_that_are_too_long_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "q.npz"
    mx.save(file, mx.quantize(np.ones((2, 64), np.float32)))
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["tensor.codes.npy"] += bytes(1 << 20)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(ValueError, match=r"tensor\.codes must have at most 65664 bytes, not \d+$"):
        mx.load(file)


def test_bits_behind_the_last_code_are_zero() -> None:
    assert mx.packing.unpack_codes([0x21, 0x03], 4, 3).tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match=r"^packed must have zeros behind the last code, not 0x1$"):
        mx.packing.unpack_codes([0x21, 0x13], 4, 3)


def test_masks_and_words_for_truth_are_refused() -> None:
    with pytest.raises(TypeError, match=r"^x must be an array without a mask, not MaskedArray$"):
        mx.quantize(np.ma.masked_array(np.ones(4, np.float32), mask=[0, 1, 0, 0]))
    with pytest.raises(TypeError, match=r"^saturate must be True or False, not 'no'$"):
        mx.e8m0.encode(np.float32(1), saturate="no")
    with pytest.raises(TypeError, match=r"^dtype must be float32 or float64, not None$"):
        mx.dequantize(mx.quantize(np.ones(4, np.float32)), dtype=None)
    with pytest.raises(TypeError, match=r"^random must be a numpy Generator"):
        mx.quantize(np.ones(4, np.float32), random="yes")
