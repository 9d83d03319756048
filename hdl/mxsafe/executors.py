"""Executors of independent jobs: this process, processes of this machine, or a Dask cluster.

All three are executors of `concurrent.futures`.
"""

import multiprocessing
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


class Here(Executor):
    """Runs a job when it is submitted, in this process."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """The future of a job that has been done."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


@dataclass(frozen=True)
class Workers:
    """An executor, and how many jobs keep it busy.

    Attributes
    ----------
    executor : concurrent.futures.Executor
        Takes jobs.
    count : int
        Jobs that it runs side by side.
    """

    executor: Executor
    count: int


@contextmanager
def workers(jobs: int = 1, dask: str | None = None) -> Iterator[Workers]:
    """Open an executor; jobs that still run when an error leaves the context are ended.

    Parameters
    ----------
    jobs : int
        Processes of this machine; one is this process itself. They start afresh, so functions and
        their arguments must be such as can be pickled.
    dask : str, optional
        Address of a Dask scheduler, such as ``tcp://10.0.0.1:8786``, whose workers then run the
        jobs; they need the same packages and, for functions of a checkout, the checkout.

    Yields
    ------
    Workers

    Raises
    ------
    ValueError
        If `jobs` is not positive.
    ImportError
        If `dask` is given, and the package is not installed.
    ConnectionError
        If no scheduler answers.
    """
    if jobs < 1:
        raise ValueError(f"jobs must be a positive integer, not {jobs}")
    if dask is not None:
        with _cluster(dask) as found:
            yield found
    elif jobs == 1:
        yield Workers(Here(), 1)
    else:
        with processes(jobs) as pool:
            yield Workers(pool, jobs)


@contextmanager
def processes(jobs: int, begin: Callable[[], object] = int) -> Iterator[Executor]:
    """Open processes of this machine; jobs that still run when an error leaves the context end.

    Ctrl-C interrupts this process, and programs that jobs have started, but not the others.

    Parameters
    ----------
    jobs : int
        How many. They start afresh: a fork of a process with threads, which NumPy has, can hang.
    begin : callable
        What each calls at first.
    """
    context = multiprocessing.get_context("spawn")
    pool = _Processes(jobs, context, initializer=_begin, initargs=(begin,))
    try:
        yield pool
    except BaseException:
        for process in list((pool._processes or {}).values()):
            process.terminate()
        pool.shutdown(cancel_futures=True)
        raise
    pool.shutdown()


class _Processes(ProcessPoolExecutor):
    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        # A process that starts here inherits what is blocked: it would be interrupted in imports.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return super().submit(fn, *args, **kwargs)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(begin: Callable[[], object]) -> None:
    # Programs that jobs start inherit neither a function that handles a signal nor a blocked one.
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    begin()


@contextmanager
def _cluster(address: str) -> Iterator[Workers]:
    try:
        from dask.distributed import Client
    except ImportError as error:
        raise ImportError(
            f"a Dask cluster needs the package, pip install distributed: {error}"
        ) from None
    try:
        client: Any = Client(address, timeout=10)
    except (OSError, ValueError, TypeError) as error:
        raise ConnectionError(f"no Dask scheduler answers at {address}: {error}") from None
    with client, client.get_executor(pure=False) as executor:
        yield Workers(executor, max(1, sum(client.nthreads().values())))
