"""Executors: in this process, in others, and their refusals."""

import os
import signal
import subprocess
import sys
import time
import types
from pathlib import Path
from typing import Any

import pytest

from mxsafe.executors import workers


def test_in_this_process() -> None:
    with workers() as found:
        assert found.count == 1
        assert found.executor.submit(os.getpid).result() == os.getpid()
        assert isinstance(found.executor.submit(int, "x").exception(), ValueError)


def test_in_others_which_an_error_ends() -> None:
    start = time.monotonic()

    def fail() -> None:
        with workers(2) as found:
            assert found.count == 2
            assert found.executor.submit(os.getpid).result() != os.getpid()
            found.executor.submit(time.sleep, 60)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert time.monotonic() - start < 30


_INTERRUPTED = """
import os, sys, time
from mxsafe.executors import processes

if __name__ != "__main__":  # which a process imports before it works
    os.write(1, b"starts\\n")
    time.sleep(0.5)
else:
    try:
        with processes(2) as pool:
            try:
                job = pool.submit(time.sleep, 60)
                pool.submit(os.getpid).result()
                os.write(1, b"works\\n")
                job.result()
            finally:
                time.sleep(0.5)  # others would say something, and are ended soon
    except KeyboardInterrupt:
        sys.exit(7)
"""


@pytest.mark.parametrize("when", ["starts", "works"])
def test_interrupts_are_not_for_others(when: str, tmp_path: Path) -> None:
    """Ctrl-C goes to all processes of a terminal, those that still import packages among them."""
    script = tmp_path / "interrupted.py"
    script.write_text(_INTERRUPTED)
    with subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # not as in a background
    ) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        said = iter(run.stdout.readline, b"")
        assert any(line == f"{when}\n".encode() for line in said), run.stderr.read().decode()
        os.killpg(run.pid, signal.SIGINT)
        _, errors = run.communicate(timeout=50)
    assert (run.returncode, errors) == (7, b"")


def test_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError) as wrong, workers(0):
        pass
    assert str(wrong.value) == "jobs must be a positive integer, not 0"
    monkeypatch.setitem(sys.modules, "dask.distributed", None)
    with pytest.raises(ImportError) as missing, workers(dask="tcp://127.0.0.1:1"):
        pass
    assert str(missing.value).startswith(
        "a Dask cluster needs the package, pip install distributed: "
    )


def test_on_a_cluster() -> None:
    distributed = pytest.importorskip("dask.distributed", reason="distributed is not installed")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
        ) as cluster,
        workers(dask=cluster.scheduler_address) as found,
    ):
        assert found.count == 2
        futures = [found.executor.submit(pow, value, 2) for value in range(5)]
        assert [future.result() for future in futures] == [0, 1, 4, 9, 16]


def test_a_cluster_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def client(address: str, timeout: int) -> Any:
        raise OSError("timed out")

    module: Any = types.ModuleType("dask.distributed")
    module.Client = client
    monkeypatch.setitem(sys.modules, "dask.distributed", module)
    with pytest.raises(ConnectionError) as silent, workers(dask="tcp://127.0.0.1:1"):
        pass
    assert str(silent.value) == "no Dask scheduler answers at tcp://127.0.0.1:1: timed out"
