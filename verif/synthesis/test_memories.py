"""Memories leave a netlist: what they were connected to becomes ports."""

import json
from pathlib import Path
from typing import Any

import pytest

from mxsafe.synthesis import memories
from mxsafe.synthesis.memories import Macro, detach, read_macros
from verif.support.tests import raises


def netlist() -> dict[str, Any]:
    """A register in front of a memory, whose output leaves the module."""
    return {
        "attributes": {},
        "ports": {
            "clk": {"direction": "input", "bits": [2]},
            "result": {"direction": "output", "bits": [6, 7]},
        },
        "cells": {
            "held": {
                "type": "DFF_X1",
                "port_directions": {"D": "input", "CK": "input", "Q": "output"},
                "connections": {"D": [3], "CK": [2], "Q": [4]},
            },
            "replay.memory": {
                "type": "beat_memory",
                "port_directions": {
                    "clk": "input",
                    "rst": "input",
                    "write_data": "input",
                    "read_data": "output",
                },
                "connections": {
                    "clk": [2],
                    "rst": ["0"],
                    "write_data": [4, 5],
                    "read_data": [6, 7],
                },
            },
        },
        "netnames": {},
    }


MACRO = Macro(
    path="replay.memory",
    name="replay_memory",
    module="beat_memory",
    inputs={"write_data": 2},
    outputs={"read_data": 2},
)


def test_what_a_memory_takes_is_an_output_and_what_it_gives_an_input() -> None:
    module = netlist()
    before = dict(module["ports"])
    assert detach(module, ["beat_memory"]) == [MACRO]
    assert list(module["cells"]) == ["held"]
    assert module["ports"] == {
        **before,
        "replay_memory_write_data": {"direction": "output", "bits": [4, 5]},
        "replay_memory_read_data": {"direction": "input", "bits": [6, 7]},
    }
    assert MACRO.out_of_unit == {"replay_memory_write_data": 2}
    assert MACRO.into_unit == {"replay_memory_read_data": 2}


def test_other_cells_stay() -> None:
    module = netlist()
    assert detach(module, ["other"]) == []
    assert module == netlist()


def test_a_name_that_is_taken_is_refused() -> None:
    module = netlist()
    module["ports"]["replay_memory_read_data"] = {"direction": "input", "bits": [9, 10]}
    with raises(
        ValueError, "replay_memory_read_data is a port already, but should be one of replay.memory"
    ):
        detach(module, ["beat_memory"])


def test_files_are_read_and_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    modules = {"top": netlist(), "beat_memory": {"attributes": {"blackbox": "1"}}}
    Path("mapped.json").write_text(json.dumps({"modules": modules}))
    memories.main("mapped.json", "without.json", "macros.json", "top", "beat_memory")
    written = json.loads(Path("without.json").read_text())["modules"]
    assert list(written) == ["top"]
    assert list(written["top"]["cells"]) == ["held"]
    assert read_macros(Path("macros.json").read_text()) == [MACRO]
