"""Softmax, norms and sums of rows by one unit: bit for bit what the models give."""

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from mxsafe.model import window_sum
from mxsafe.rtl.timing import TARGETS, Target
from mxsafe.rtl.vector.rows import Rows, RowsConfiguration
from mxsafe.tables import Grade
from verif.rtl.vector.normalise_checks import check_rows, edge_rows, random_rows
from verif.rtl.vector.softmax_checks import check_softmax, corner_rows
from verif.rtl.vector.softmax_checks import random_rows as random_softmax_rows
from verif.support.checkers import assert_equal
from verif.support.manifest import Module
from verif.support.simulators import lint
from verif.support.stream_job import check_stream
from verif.support.tests import refused
from verif.support.units import generated, published

STALLS: dict[str, Any] = {"stall_in": 0.2, "stall_out": 0.2}
_RESETS = (5, 60, 150)


def _kinds(module: Module) -> tuple[RowsConfiguration, dict[str, dict[str, int]]]:
    """What a unit computes, each with what its pins have to be."""
    names = [each.name for each in fields(RowsConfiguration) if each.name != "target"]
    given = {name: module.parameters[name] for name in names}
    config = RowsConfiguration(**given, target=module.parameters.get("target", "asic"))
    found = {
        "softmax": {"is_softmax": 1, "centred": 1, "summing": 0, "epsilon": 0},
        "layer_norm": {"is_softmax": 0, "centred": 1, "summing": 0},
        "rms_norm": {"is_softmax": 0, "centred": 0, "summing": 0},
        "sum": {"is_softmax": 0, "centred": 1, "summing": 1, "epsilon": 0},
    }
    there = {
        "softmax": config.softmax,
        "layer_norm": config.norms and config.centre,
        "rms_norm": config.norms and (config.optional or not config.centre),
        "sum": config.norms and config.sums,
    }
    pins = {
        name: {pin: value for pin, value in each.items() if pin in module.ports}
        | ({"sweep": 0} if "sweep" in module.ports else {})
        for name, each in found.items()
        if there[name]
    }
    return config, pins


def _check_sums(simulator: str, module: Module, pins: dict[str, int], **options: Any) -> None:
    """A beat for each of several rows."""
    rows = random_rows(module, 13, 30, longest=5)
    last = np.concatenate([np.arange(len(row)) == len(row) - 1 for row in rows])
    values = np.concatenate(rows)
    given = "s_axis_tuser" in module.ports
    user = {"s_axis_tuser": np.zeros(len(values), np.int64)} if given else {}
    streamed = check_stream(
        simulator,
        module,
        {
            "s_axis_tdata": values,
            "s_axis_tlast": last,
        }
        | user,
        {"m_axis_tlast": np.ones(len(rows), np.uint8)},
        clocks=3 * len(values) + len(rows) * module.latency,
        probe=(len(rows[0]), 1),
        steady=pins,
        **options,
    )
    grade = module.parameters["grade"]
    expected = [
        window_sum(row.view(np.float32), axis=0, grade=grade).view(np.uint32) for row in rows
    ]
    got = module.ports["m_axis_tdata"].split(streamed.words["m_axis_tdata"])
    assert_equal("sums", got, np.array(expected, np.int64).reshape(got.shape))


def _check(simulator: str, module: Module, count: int, **options: Any) -> None:
    """All that the unit computes, on rows of all kinds."""
    config, kinds = _kinds(module)
    for name, pins in kinds.items():
        if name == "softmax":
            rows = random_softmax_rows(module, 3, count, beats=6) + corner_rows(module)[::8]
            check_softmax(simulator, module, rows, steady=pins, **options)
        elif name == "sum":
            _check_sums(simulator, module, pins, **options)
        else:
            centre = name == "layer_norm"
            norm_rows = random_rows(module, 7, count, longest=min(8, config.depth))
            norm_rows += edge_rows(module, 9, 2, 8, epsilon=1e-5, centre=centre)
            centred = bool(pins["centred"]) if "centred" in pins else None
            check_rows(
                simulator,
                module,
                norm_rows,
                centred=centred,
                steady=pins,
                rest_known=False,
                **options,
            )


@pytest.mark.parametrize("grade", ["compact", pytest.param("fine", marks=pytest.mark.variant)])
@pytest.mark.parametrize("target", TARGETS)
def test_all_kinds(target: Target, grade: Grade, simulator: str) -> None:
    module = generated(Rows(lanes=2, dividers=1, depth=16, target=target, grade=grade))
    assert lint(module) == ""
    _check(simulator, module, 24, resets_after=_RESETS, **STALLS)


@pytest.mark.variant
@pytest.mark.parametrize(
    "parameters",
    [
        {"norms": False},
        {"softmax": False},
        {"softmax": False, "sweeps": True},
        {"centre": False, "optional": False, "sums": False},
        {"optional": False, "sums": False, "registered": True},
    ],
    ids=["softmax", "norms", "norms in sweeps", "RMS and softmax", "layer and softmax"],
)
def test_some_kinds(parameters: dict[str, Any]) -> None:
    module = generated(Rows(**{"lanes": 2, "dividers": 1, "depth": 16} | parameters))
    assert lint(module) == ""
    _check("icarus", module, 12, **STALLS)


@pytest.mark.variant
@pytest.mark.parametrize("name", published(Rows))
def test_published_ones(name: str) -> None:
    _check("icarus", published(Rows)[name], 4, still=True, **STALLS)


@pytest.mark.full
@pytest.mark.parametrize("name", published(Rows))
def test_many_rows_of_published_ones(name: str) -> None:
    _check("verilator", published(Rows)[name], 60, resets_after=range(1, 400, 80), **STALLS)


test_configurations_that_cannot_work = refused(
    Rows,
    [
        ({"softmax": False, "norms": False}, "softmax must be set without norms"),
        ({"dividers": 3}, "dividers must divide the 16 rows side by side, not 3"),
        ({"depth": 48}, "depth must be a power of two, not 48"),
        (
            {"along": "lanes"},
            "along must be beats in sweeps, and with both softmax and norms, not lanes",
        ),
        (
            {"gain": True},
            "softmax must not be set with gain, bias or statistics",
        ),
    ],
)
