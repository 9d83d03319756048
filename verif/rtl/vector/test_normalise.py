"""Normalisation of rows of all kinds, along lanes and along beats, with gain and bias."""

from typing import Any

import numpy as np
import pytest

from mxsafe.rtl.vector.normalise import Normalise
from verif.rtl.vector.normalise_checks import (
    check_rows,
    edge_rows,
    kinds_of_rows,
    normalise_unit,
    random_rows,
)
from verif.support.simulators import lint
from verif.support.units import published

SHARED: dict[str, Any] = {"lanes": 4, "along": "beats", "dividers": 2, "statistics": True}
FEW: dict[str, dict[str, Any]] = {
    "layer": {},
    "layer with gain, bias and statistics": {"gain": True, "bias": True, "statistics": True},
    "RMS along beats with gain": {"centre": False, "along": "beats", "gain": True},
    "layer along beats with two dividers": SHARED,
}
MORE: dict[str, dict[str, Any]] = {
    "layer along beats": {"along": "beats"},
    "layer with bias": {"bias": True, "lanes": 8, "depth": 4},
    "RMS": {"centre": False, "lanes": 1},
    "RMS with gain and bias": {"centre": False, "gain": True, "bias": True},
    "layer along beats with statistics": {"along": "beats", "statistics": True},
    "RMS with statistics": {"centre": False, "statistics": True},
    "RMS along beats with a divider a lane": {
        "centre": False,
        "along": "beats",
        "bias": True,
        "dividers": 2,
    },
}


_EPSILONS = [float(np.array(word, np.uint32).view(np.float32)) for word in (0x2AAAAAAA, 0x35555555)]
"""Together they have a 0 and a 1 in all bits but the sign and the largest ones."""


def _check(parameters: dict[str, Any], resets: bool = False) -> None:
    module = normalise_unit(**parameters)
    assert lint(module) == ""
    check_rows(
        "icarus",
        module,
        random_rows(module, 7, 16),
        stall_in=0.1,
        stall_out=0.2,
        resets_after=(60, 150) if resets else (),
    )


@pytest.mark.parametrize("name", FEW)
def test_rows_of_all_kinds(name: str) -> None:
    """With pauses on all sides; in one configuration with resets in between."""
    _check(FEW[name], resets=name == "layer")


@pytest.mark.full
@pytest.mark.parametrize("name", MORE)
def test_other_configurations(name: str) -> None:
    _check(MORE[name], resets=True)


@pytest.mark.parametrize(
    ("parameters", "rows"),
    [
        ({"gain": True}, 45),
        pytest.param({"gain": True, "grade": "fine"}, 45, marks=pytest.mark.variant),
        pytest.param(
            {"along": "beats", "gain": True, "bias": True, "target": "fpga"},
            45,
            marks=pytest.mark.variant,
        ),
        pytest.param({"lanes": 16, "depth": 64, "bias": True}, 200, marks=pytest.mark.full),
        pytest.param({"lanes": 4, "along": "beats", "depth": 64}, 200, marks=pytest.mark.full),
        pytest.param({"lanes": 1, "statistics": True}, 600, marks=pytest.mark.full),
    ],
)
def test_many_rows(parameters: dict[str, Any], rows: int) -> None:
    """A beat a cycle, as far as there are results; no `epsilon`."""
    module = normalise_unit(**parameters)
    chosen = random_rows(module, 8, rows) + edge_rows(module, 9, 10, 8, epsilon=0.0)
    check_rows("verilator", module, chosen, epsilon=0.0)


@pytest.mark.variant
@pytest.mark.parametrize("name", FEW)
def test_fine_ones(name: str) -> None:
    _check({**FEW[name], "grade": "fine"}, resets=True)


@pytest.mark.variant
@pytest.mark.parametrize("name", published(Normalise))
def test_published_ones(name: str) -> None:
    """Two rows in all lanes, of numbers of all sizes and of some that are not finite."""
    module = published(Normalise)[name]
    lanes, along = module.parameters["lanes"], module.parameters["along"]
    rng = np.random.default_rng(10)
    if along == "lanes":
        kinds = kinds_of_rows(rng, 1, 2 * lanes)
        rows = [kinds[kind].reshape(2, lanes) for kind in ("wide range", "not finite")]
    else:
        kinds = kinds_of_rows(rng, lanes, 2)
        rows = [np.ascontiguousarray(kinds[kind].T) for kind in ("wide range", "not finite")]
    check_rows(
        "icarus",
        module,
        rows,
        centred=True if module.parameters["optional"] else None,
        stall_in=0.1,
        stall_out=0.2,
        still=True,
    )


@pytest.mark.full
@pytest.mark.parametrize("name", published(Normalise))
def test_many_rows_of_published_ones(name: str) -> None:
    """Rows of all kinds, most of them short, with pauses on all sides, resets in between.

    A row shows but one sum of each kind, of which edges show all bits, and `epsilon` stays as it
    is. One row does not fit.
    """
    module = published(Normalise)[name]
    many, few = (240, 20) if module.parameters["along"] == "lanes" else (60, 8)
    rows = random_rows(module, 11, many, longest=4)
    rows += random_rows(module, 12, few)
    resets = range(1, 4 * module.latency, module.latency)
    stalls = {"stall_in": 0.1, "stall_out": 0.2}
    for centred in [False, True] if module.parameters["optional"] else [None]:
        centre = module.parameters["centre"] if centred is None else centred
        # With an epsilon of 65536 small rows have subnormal results.
        for epsilon in (0.0, *_EPSILONS, 65536.0):
            edges = [
                row
                for beats in (8, 10, 13)
                for row in edge_rows(module, beats, few, beats, epsilon=epsilon, centre=centre)
            ]
            check_rows(
                "verilator",
                module,
                [*edges, *(rows if epsilon else ())],
                centred=centred,
                epsilon=epsilon,
                rest_known=False,
                resets_after=resets,
                **stalls,
            )


@pytest.mark.variant
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("along", ["beats", pytest.param("lanes", marks=pytest.mark.full)])
def test_optional_mean(along: str, centred: bool) -> None:
    """One unit for both kinds: bit for bit what each of the others gives."""
    module = normalise_unit(along=along, optional=True)
    check_rows(
        "icarus",
        module,
        random_rows(module, 9, 24),
        centred=centred,
        stall_in=0.1,
        stall_out=0.2,
        resets_after=(60, 150),
    )
