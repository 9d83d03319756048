"""Copies of cells: none drives more registers than it may, and all pins see the same bit."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from mxsafe.synthesis.copies import copy_cells, main

KIND = "TRELLIS_FF"
OUTPUTS = {KIND: "Q", "LUT4": "Z"}


def gate(number: int, bit: int) -> dict[str, Any]:
    """A look-up table whose output is not used."""
    return {
        "type": "LUT4",
        "port_directions": {"A": "input", "Z": "output"},
        "connections": {"A": [bit], "Z": [1000 + number]},
    }


def register(data: int, output: int, enable: int | str = "1") -> dict[str, Any]:
    """A flip-flop."""
    return {
        "type": KIND,
        "port_directions": {"DI": "input", "CE": "input", "CLK": "input", "Q": "output"},
        "connections": {"DI": [data], "CE": [enable], "CLK": [2], "Q": [output]},
    }


def netlist(pins: int) -> dict[str, Any]:
    """Two flip-flops and a gate in a row, so many gates behind them, and registers enabled."""
    chain = {f"chain_{number}": register(10 + number, 11 + number) for number in range(2)}
    chain["chain_2"] = {**gate(0, 12), "connections": {"A": [12], "Z": [13]}}
    gates = {f"unit.part_{number}.gate": gate(number, 13) for number in range(pins)}
    enabled = {
        f"unit.part_{number}.held": register(3000 + number, 2000 + number, enable=13)
        for number in range(pins)
    }
    bits = [2, 10, 11, 12, 13, *(start + n for start in (1000, 2000, 3000) for n in range(pins))]
    return {"netnames": {"all": {"bits": bits}}, "cells": {**gates, **chain, **enabled}}


def loads(module: dict[str, Any]) -> Counter[int]:
    """Pins of registers on each net but the clock."""
    kinds = {name: cell["type"] for name, cell in module["cells"].items()}
    return Counter(
        bit
        for name, pin, bit in inputs(module)
        if kinds[name] == KIND and pin != "CLK" and bit != "1"
    )


def inputs(module: dict[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Cells with their inputs and what is connected there."""
    for name, cell in module["cells"].items():
        for pin, direction in cell["port_directions"].items():
            if direction == "input":
                yield name, pin, cell["connections"][pin][0]


def origin(name: str) -> str:
    """The cell that one is a copy of, or itself."""
    return name.split("$copy$")[0]


@pytest.mark.parametrize("pins", [1, 4, 5, 16, 17, 100, 700])
def test_copies(pins: int) -> None:
    module = netlist(pins)
    before = deepcopy(module)
    added = copy_cells(module, OUTPUTS, 8)
    assert len(module["cells"]) == len(before["cells"]) + added.total()
    assert max(loads(module).values()) <= 8
    # A copy is connected as its original is, to that or to copies: so all have the same bits.
    drivers = {
        cell["connections"][pin][0]: origin(name)
        for name, cell in module["cells"].items()
        for pin in ("Q", "Z")
        if pin in cell["connections"]
    }
    wanted = {(name, pin): drivers.get(bit, bit) for name, pin, bit in inputs(before)}
    for name, pin, bit in inputs(module):
        assert drivers.get(bit, bit) == wanted[origin(name), pin]
        # Logic stays with the cell that it was behind.
        if module["cells"][name]["type"] == "LUT4":
            assert bit == before["cells"][origin(name)]["connections"][pin][0]
    outputs = [cell["connections"].get("Q", [None])[0] for cell in module["cells"].values()]
    assert max(Counter(bit for bit in outputs if bit is not None).values()) == 1


def test_a_copy_serves_neighbours() -> None:
    module = netlist(16)
    copy_cells(module, OUTPUTS, 8)
    # By value: part_10 does not stand between part_1 and part_2.
    served: dict[int, list[int]] = defaultdict(list)
    for name, cell in module["cells"].items():
        if name.endswith(".held"):
            served[cell["connections"]["CE"][0]].append(int(name.split("_")[1].split(".")[0]))
    assert len(served) > 1
    for parts in served.values():
        assert sorted(parts) == list(range(min(parts), max(parts) + 1))


def test_a_loop_ends() -> None:
    loop = {"first": register(11, 10), "second": register(10, 11)}
    enabled = {f"held_{n}": register(3000 + n, 1000 + n, enable=10) for n in range(20)}
    bits = [2, 10, 11, *(start + number for start in (1000, 3000) for number in range(20))]
    module = {"netnames": {"all": {"bits": bits}}, "cells": {**loop, **enabled}}
    assert copy_cells(module, OUTPUTS, 8) == {KIND: 2}
    assert max(loads(module).values()) <= 8


def test_files(tmp_path: Path) -> None:
    """As the flow calls it: what is a cell of the technology itself stays as it is."""
    source, target, copies = (tmp_path / name for name in ("in.json", "out.json", "copies.json"))
    whole = {"attributes": {}, **netlist(40)}
    cell = {"attributes": {"blackbox": "1"}, "cells": {}, "netnames": {}}
    source.write_text(json.dumps({"modules": {"top": whole, "LUT4": cell}}))
    main(str(source), str(target), str(copies), "8", *(".".join(k) for k in OUTPUTS.items()))
    made = json.loads(target.read_text())["modules"]
    assert made["LUT4"] == cell
    assert max(loads(made["top"]).values()) <= 8 < max(loads(whole).values())
    added = len(made["top"]["cells"]) - len(whole["cells"])
    assert sum(json.loads(copies.read_text()).values()) == added > 0


def test_a_file_that_is_no_netlist(tmp_path: Path) -> None:
    source, target = tmp_path / "in.json", tmp_path / "out.json"
    # Cells of the module have no pins.
    source.write_text(
        '{"modules": {"top": {"attributes": {}, "netnames": {}, "cells": {"a": {}}}}}'
    )
    with pytest.raises(SystemExit) as error:
        main(str(source), str(target), str(target), "8", "LUT4.Z")
    assert error.value.code == f"{source} is no netlist in JSON"
    assert not target.exists()
