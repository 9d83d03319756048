"""The manifest beside the Verilog: short, of the shape of its schema, and with words for ports."""

import json
from pathlib import Path
from typing import Any

import pytest
from amaranth.lib import data

from mxsafe.formats import MX_FORMATS
from mxsafe.verilog import manifest, presets
from mxsafe.verilog.generate import generate
from mxsafe.verilog.manifest import MANIFEST, SCHEMA, flat_fields, schema_text
from verif.support.manifest import GEN

COMMITTED: dict[str, Any] = json.loads((GEN / MANIFEST).read_text())


def test_it_is_short() -> None:
    assert len((GEN / MANIFEST).read_text().splitlines()) < 8000


def test_it_has_the_shape_of_its_schema() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    assert (GEN / SCHEMA).read_text() == schema_text()
    schema = json.loads(schema_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    check = jsonschema.Draft202012Validator(schema)
    check.validate(COMMITTED)
    port = COMMITTED["modules"]["safe_mac"]["ports"][0]
    for wrong in ({**port, "role": "clocks"}, {**port, "lanes": 4}, {"name": "clk"}):
        module = {**COMMITTED["modules"]["safe_mac"], "ports": [wrong]}
        assert not check.is_valid({**COMMITTED, "modules": {"safe_mac": module}})


def test_every_port_says_what_it_is() -> None:
    silent = [
        f"{name}.{port['name']}"
        for name, module in COMMITTED["modules"].items()
        for port in module["ports"]
        if not port.keys() & {"role", "meaning"}
    ]
    assert not silent, "docstrings of units say nothing under Attributes of these ports"


def test_words_of_ports() -> None:
    def said(module: str, port: str) -> list[str | None]:
        (found,) = (p for p in COMMITTED["modules"][module]["ports"] if p["name"] == port)
        return [found.get(key) for key in ("bus", "role", "meaning")]

    assert said("safe_mac", "clk") == [None, "clock", None]
    assert said("safe_mac", "w") == [None, None, "Lane i in bits [width*i +: width]."]
    assert said("transposer", "s_axis_tvalid")[:2] == ["s_axis", "AXI4-Stream TVALID"]
    small = "mxsf_accelerator_small"
    assert said(small, "s_axi_awaddr")[:2] == ["s_axi", "AXI4-Lite AWADDR"]
    assert said(small, "m_axi_rlast")[:2] == ["m_axi", "AXI4 RLAST"]
    # The first names of a series stand for all of it, and an interface for its signals.
    walk = "mxsafe_address_generator"
    assert said(walk, "count_2") == said(walk, "count_0") != said(walk, "step_2")
    assert said("mxsafe_mxsf_vector_engine", "y_address")[2] == (
        "Operands from the vector buffer; gains and biases come through y too."
    )


LAYOUT = data.StructLayout(
    {
        "flag": 1,
        "pairs": data.ArrayLayout(data.StructLayout({"a": 3, "b": data.ArrayLayout(2, 2)}), 2),
        "codes": data.ArrayLayout(data.ArrayLayout(4, 3), 2),
    }
)


def test_fields_are_those_of_the_layout() -> None:
    fields = manifest._fields(LAYOUT)
    assert fields[2] == {"name": "codes", "offset": 15, "width": 4, "count": [2, 3]}
    assert list(flat_fields(fields)) == [
        ("flag", 0, 1),
        ("pairs.0.a", 1, 3),
        ("pairs.0.b.0", 4, 2),
        ("pairs.0.b.1", 6, 2),
        ("pairs.1.a", 8, 3),
        ("pairs.1.b.0", 11, 2),
        ("pairs.1.b.1", 13, 2),
        *((f"codes.{i}.{j}", 15 + 12 * i + 4 * j, 4) for i in range(2) for j in range(3)),
    ]
    assert list(flat_fields(manifest._fields(data.ArrayLayout(8, 2)))) == [("0", 0, 8), ("1", 8, 8)]
    assert manifest._fields(8) == []


def test_what_another_version_wrote_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "old.v").write_text("module old; endmodule\n")
    older = {"modules": {"old": {"file": "old.v"}}, "tops": ["old"]}
    (tmp_path / MANIFEST).write_text(json.dumps(older))
    decoder = presets.build("decoder", MX_FORMATS["mxsf"])
    assert generate([decoder], tmp_path)["tops"] == ["mxsf_decoder"]
    assert (tmp_path / "old.v").exists()
