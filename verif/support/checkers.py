"""Comparing what a simulator logged with what the model says, item by item."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verif.bench.difference import difference, shown
from verif.support.manifest import Module, Words

COMPARED: Counter[str] = Counter()
"""How many items a test has compared, by the kind of comparison."""


def assert_equal(
    what: str,
    got: NDArray[np.integer[Any]],
    expected: NDArray[np.integer[Any]],
    *,
    fields: Sequence[str] = (),
    **context: NDArray[Any],
) -> int:
    """Every item equal, and more than zero of them; returns how many.

    The error is a line about the first that is not.

    Parameters
    ----------
    what : str
        The unit or its port.
    got, expected : ndarray
        A row for each item.
    fields : sequence of str
        Names of what stands in a row.
    **context : ndarray
        What belongs to items, such as operands: a row each. Of what has the shape of a result the
        place that differs is shown.
    """
    __tracebackhide__ = True
    assert got.shape == expected.shape, f"{what}: {got.shape} results for {expected.shape}"
    assert got.size > 0, f"{what}: nothing was compared"
    wrong = np.flatnonzero((got != expected).reshape(len(got), -1).any(axis=1))
    if len(wrong):
        first = int(wrong[0])
        place: tuple[int, ...] = ()
        if got.ndim > 1:
            place = tuple(int(each[0]) for each in np.nonzero(got[first] != expected[first]))
        at = first, *place
        name = f".{fields[place[0]]}" if fields and place else "".join(f"[{i}]" for i in place)
        inputs = [
            f"{key} = {_shown(values[at if np.shape(values)[1:] == got.shape[1:] else first])}"
            for key, values in context.items()
        ]
        raise AssertionError(
            f"{what}: {len(wrong)} of {len(got)} differ; the first is item {first}{name}: "
            f"got {_shown(got[at])}, expected {_shown(expected[at])}"
            + (f", for {', '.join(inputs)}" if inputs else "")
        )
    COMPARED["items"] += int(got.size)
    return int(got.size)


def _shown(value: Any) -> str:
    return shown(value.item() if np.ndim(value) == 0 and hasattr(value, "item") else value)


def assert_same(what: str, got: Any, expected: Any) -> None:
    """Lists or mappings are the same; the error is a line about the first difference."""
    __tracebackhide__ = True
    found = difference(got, expected, what)
    if found:
        raise AssertionError(f"{what} differ: {found}")


def _integers(values: NDArray[Any]) -> NDArray[Any]:
    """As int64, unless they are Python's integers because that does not hold them."""
    return values if values.dtype == object else np.asarray(values).astype(np.int64)


def check_mac(
    module: Module,
    log: dict[str, Words],
    output: str,
    model: Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[Any]],
) -> int:
    """Check a clocked unit with inputs `a`, `w`, `en`, `rst` against its model on every cycle.

    A result is expected `latency` enabled cycles after its operands, stays while `en` is low, and
    a reset makes the pipeline hold the result of zeros.

    Returns
    -------
    int
        Operand vectors whose result was compared, each counted once.
    """
    en = module.ports["en"].numbers(log["en"]).astype(bool)
    rst = module.ports["rst"].numbers(log["rst"]).astype(bool)
    a, w = (module.ports[name].split(log[name]) for name in ("a", "w"))
    got = module.ports[output].numbers(log[output])

    accepted = en & ~rst
    # Enabled cycles before each cycle, in total and up to the last reset.
    count = np.concatenate([[0], np.cumsum(accepted)])[:-1]
    last_reset = np.maximum.accumulate(np.where(rst, np.arange(len(rst)) + 1, 0))
    last_reset = np.concatenate([[0], last_reset])[:-1]
    before_reset = np.concatenate([[0], np.cumsum(accepted)])[last_reset]
    filled = count - before_reset >= module.latency

    operands = np.flatnonzero(accepted)
    results = _integers(model(a[operands], w[operands]))
    index = np.where(filled, count - module.latency, 0)
    zero = np.zeros((1, a.shape[1]), np.int64)
    idle = _integers(model(zero, zero))[0]
    expected = np.where(filled, results[index], idle)
    source = operands[index]
    assert_equal(f"{module.name}.{output}", got, expected, a=a[source], w=w[source])

    assert not accepted[-1], (
        f"{module.name}: the last operands of the log have no row to come out in"
    )
    compared = np.unique(index[filled])
    runs = np.bincount(np.cumsum(rst)[operands])  # operands accepted between two resets
    never_out = int(np.minimum(runs, module.latency - 1).sum())
    assert len(operands) - len(compared) == never_out, (
        f"{module.name}: {len(compared)} of {len(operands)} operand vectors came out, "
        f"and {never_out} could not"
    )
    return len(compared)
