"""Netlists in files: what is wrong with one is told in a line, and it stays."""

from pathlib import Path

import pytest

from mxsafe.synthesis.netlist_json import in_order, read_netlist, write_json

CELL = {"type": "LUT4", "attributes": {}, "connections": {}, "port_directions": {}}
NETLIST = {"modules": {"top": {"attributes": {}, "netnames": {}, "cells": {"a": CELL}}}}


def test_a_netlist_is_read_and_written(tmp_path: Path) -> None:
    file = tmp_path / "netlist.json"
    write_json(file, NETLIST)
    assert read_netlist(file, of_modules=("netnames",), of_cells=("attributes",)) == NETLIST


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xff",
        b"[" * 9000,
        b"[]",
        b'{"modules": []}',
        b'{"modules": {"top": {"netnames": {}}}}',
        b'{"modules": {"top": {"cells": {}}}}',
        b'{"modules": {"top": {"netnames": 7, "cells": {}}}}',
        b'{"modules": {"top": {"netnames": {}, "cells": {"a": {"attributes": {}}}}}}',
        b'{"modules": {"top": {"netnames": {}, "cells": {"a": {"type": "LUT4"}}}}}',
        b'{"modules": {"top": {"netnames": {}, "cells": {"a": {"type": "FF", "attributes": 7}}}}}',
    ],
)
def test_a_file_that_is_no_netlist(text: bytes, tmp_path: Path) -> None:
    file = tmp_path / "netlist.json"
    file.write_bytes(text)
    with pytest.raises(SystemExit) as error:
        read_netlist(file, of_modules=("netnames",), of_cells=("attributes",))
    assert error.value.code == f"{file} is no netlist in JSON"
    assert file.read_bytes() == text


def test_a_file_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as error:
        read_netlist(tmp_path / "none.json")
    assert error.value.code == f"{tmp_path / 'none.json'}: No such file or directory"
    file = tmp_path / "no folder" / "netlist.json"
    with pytest.raises(SystemExit) as error:
        write_json(file, NETLIST)
    assert error.value.code == f"{file}: No such file or directory"


def test_numbers_in_names_are_ordered_by_value() -> None:
    names = ["a_2.b", "a_10", "a_2.c_3", "b_1", "a_2.c_12"]
    assert sorted(names, key=in_order) == ["a_2.b", "a_2.c_3", "a_2.c_12", "a_10", "b_1"]
