"""Executors: in this process, in others, and their refusals."""

import os
import sys
import time
import types
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
