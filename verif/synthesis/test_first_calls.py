"""First calls of wheels, which two processes must not make at once."""

import os
import sys
import threading
from pathlib import Path

import pytest

from mxsafe.synthesis.first_calls import alone, call_first, program_folder
from mxsafe.synthesis.technologies import SynthesisError, command
from verif.support.tests import raises


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs."""
    monkeypatch.setenv("YOWASP_CACHE_DIR", str(tmp_path / "programs"))
    return tmp_path / "programs"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such locks")
def test_one_waits_for_another(folder: Path) -> None:
    called = threading.Event()

    def call(words: list[str]) -> int:
        called.set()
        return 0

    other = threading.Thread(target=call_first, args=(["yosys"], call))
    with alone() as writes:
        assert writes
        other.start()
        assert not called.wait(0.2)
    other.join()
    assert called.is_set()
    assert folder.is_dir()


def test_every_wheel_is_called_once(folder: Path) -> None:
    called: list[list[str]] = []

    def call(words: list[str]) -> int:
        called.append(words)
        return 7

    call_first(["sta", "python", "yosys", "ecppack", "yosys"], call)
    assert called == [[*command(tool), "--version"] for tool in ("yosys", "ecppack")]


def test_nothing_is_locked_without_wheels(folder: Path) -> None:
    call_first(["sta", "iverilog", "python"], lambda words: pytest.fail(words[0]))
    assert not folder.exists()


def test_a_folder_that_cannot_be_written(folder: Path) -> None:
    """Programs may be there already; where they are not, the error names the folder."""
    folder.write_text("no folder")
    call_first(["yosys"], lambda words: 0)
    with raises(
        SynthesisError,
        f"yosys cannot write its program into {folder}: let YOWASP_CACHE_DIR be the name of a "
        "folder that it can write",
    ):
        call_first(["yosys"], lambda words: 1)


def test_the_folder_is_that_of_the_wheels(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("platformdirs", reason="no wheel is installed")
    monkeypatch.delenv("YOWASP_CACHE_DIR", raising=False)
    monkeypatch.setitem(os.environ, "XDG_CACHE_HOME", "/cache")
    if sys.platform == "linux":
        assert program_folder() == Path("/cache/YoWASP")
