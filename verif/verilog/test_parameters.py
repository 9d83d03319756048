"""Modules with parameters: what they are with each set of them, and how they are written."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from amaranth.back import verilog

from mxsafe.rtl.stream.beat_memory import BeatMemory
from mxsafe.rtl.stream.register_slice import RegisterSlice
from mxsafe.rtl.unit import Unit
from mxsafe.verilog.generate import generate
from mxsafe.verilog.manifest import read_manifest
from mxsafe.verilog.parameters import fixed, fixed_name, with_fixed, without_parameters
from verif.support.manifest import GEN, Module, load
from verif.support.proof import compared, run_yosys
from verif.support.published import published

_FIELDS = ("beat_bits", "depth", "bits", "halved")
_FREE = ("MEMID", "INIT", "RD_INIT_VALUE")
"""Parameters of a memory's cell: its name, and what it holds at first, which nothing here says."""
_WRONG = {
    "memory": (BeatMemory, "if (read_en) read_data", "read_data"),
    "slice": (RegisterSlice, "is_full | arrives;", "arrives;"),
    "halved slice": (RegisterSlice, "sink_valid ? ~sink_ready :", "sink_valid ? sink_ready :"),
}


def _amaranth(unit: Unit[Any]) -> str:
    """Verilog that Amaranth makes of what `elaborate` says, as a module ``gold``."""
    unit.own_names()
    return str(verilog.convert(unit, name="gold", ports=[s for *_, s in unit.port_signals()]))


def _differing(kind: type[Unit[Any]], modules: list[Module], folder: Path) -> list[str]:
    """Units whose Verilog is not what Amaranth makes of them, for all inputs and all time."""
    script: list[str] = []
    for number, module in enumerate(modules):
        fields = {name: value for name, value in module.parameters.items() if name in _FIELDS}
        (folder / f"gold{number}.v").write_text(_amaranth(kind(**fields)))
        (folder / f"gate{number}.v").write_text(fixed(module.text, {}, "gate"))
        for side in ("gold", "gate"):
            script += [
                "design -reset",
                f"read_verilog {side}{number}.v",
                f"hierarchy -top {side}; proc; flatten; opt -full; opt_clean",
            ]
            if kind.is_memory:
                script += [
                    "memory -nomap; opt_clean -purge; rename -enumerate c:*",
                    f"write_json {side}{number}.json",
                ]
            script.append(f"design -stash {side}")
        if not kind.is_memory:
            script += [
                "design -reset",
                *compared("gold", "gate", clocked=True),
                f"tee -o proof{number}.log sat -tempinduct -maxsteps 4 -set-init-zero "
                "-prove trigger 0 miter",
            ]
    (folder / "compare.ys").write_text("\n".join(script) + "\n")
    run_yosys(folder, "script compare.ys")
    if kind.is_memory:
        same = [
            _cell(folder / f"gold{n}.json") == _cell(folder / f"gate{n}.json") for n in _of(modules)
        ]
    else:
        same = ["SUCCESS!" in (folder / f"proof{n}.log").read_text() for n in _of(modules)]
    return [module.unit for module, is_same in zip(modules, same, strict=True) if not is_same]


def _of(modules: list[Module]) -> Iterator[int]:
    return iter(range(len(modules)))


def _cell(file: Path) -> dict[str, Any]:
    """The only cell of a netlist, with names of ports for the numbers of its nets."""
    (netlist,) = json.loads(file.read_text())["modules"].values()
    (cell,) = netlist["cells"].values()
    bits = {
        bit: f"{name} {place}"
        for name, port in netlist["ports"].items()
        for place, bit in enumerate(port["bits"])
    }
    return {
        "type": cell["type"],
        "parameters": {n: v for n, v in cell["parameters"].items() if n not in _FREE},
        "pins": {
            pin: [bits.get(bit, bit) for bit in own] for pin, own in cell["connections"].items()
        },
    }


@pytest.mark.yosys
@pytest.mark.parametrize("kind", [BeatMemory, RegisterSlice])
def test_all_published_ones_are_what_amaranth_makes(kind: type[Unit[Any]], tmp_path: Path) -> None:
    modules = list(published(kind).values())
    assert len(modules) > 20
    assert _differing(kind, modules, tmp_path) == []


@pytest.mark.parametrize("kind", [BeatMemory, RegisterSlice])
def test_the_smallest_are_what_amaranth_makes(kind: type[Unit[Any]], tmp_path: Path) -> None:
    least = (
        [{"beat_bits": 1, "depth": 3}]
        if kind.is_memory
        else [{"bits": 1, "halved": halved} for halved in (False, True)]
    )
    generate([kind(**fields) for fields in least], tmp_path)
    modules = list(load(tmp_path).values())
    assert len(modules) == len(least)
    assert _differing(kind, modules, tmp_path) == []


@pytest.mark.parametrize("fault", _WRONG)
def test_another_text_differs(fault: str, tmp_path: Path) -> None:
    kind, right, wrong = _WRONG[fault]
    unit = kind(beat_bits=2, depth=2) if kind.is_memory else kind(bits=2, halved="halved" in fault)
    generate([unit], tmp_path)
    (module,) = load(tmp_path).values()
    text = module.sources[0].read_text()
    assert right in text
    module.sources[0].write_text(text.replace(right, wrong))
    assert _differing(kind, [module], tmp_path) == [unit.module_name]


def test_the_manifest_names_what_instances_have(tmp_path: Path) -> None:
    entries = read_manifest(GEN)["modules"]
    given = {name: set() for name, entry in entries.items() if "instances" in entry}
    assert set(given) == {"mxsafe_beat_memory", "mxsafe_register_slice"}
    for file in GEN.rglob("*.v"):
        for name, values in re.findall(r"^  (\w+) #\((.*)\) \w+ \($", file.read_text(), re.M):
            given[name].add(values)
    for name, own in given.items():
        listed = entries[name]["instances"].values()
        said = {", ".join(f".{n}({v})" for n, v in one.items()) for one in listed}
        assert said == own


def test_instances_of_several_calls_are_all_listed(tmp_path: Path) -> None:
    for depth in (4, 8):
        generate([BeatMemory(beat_bits=3, depth=depth)], tmp_path)
    found = load(tmp_path)
    assert list(found) == ["beat_memory_beat_bits3_depth4", "beat_memory_beat_bits3_depth8"]
    assert [module.ports["read_address"].width for module in found.values()] == [2, 3]
    assert {module.name for module in found.values()} == {"beat_memory"}


def test_another_prefix(tmp_path: Path) -> None:
    from mxsafe.formats import MX_FORMATS
    from mxsafe.verilog import presets

    generate([presets.build("row_replay", MX_FORMATS["mxsf"])], tmp_path, prefix="own_")
    assert (tmp_path / "parts" / "own_beat_memory.v").exists()
    assert "\n  own_beat_memory #(.BEAT_BITS(" in (tmp_path / "row_replay.v").read_text()


def test_parameters_that_are_fixed() -> None:
    text = "module a #(\n  parameter X = 1,\n  parameter Y = 2\n) (\n);\nendmodule\n"
    assert fixed(text, {"Y": 3}, "b") == text.replace("Y = 2", "Y = 3").replace(" a ", " b ")
    assert fixed(text, {}) == text
    with pytest.raises(ValueError, match=r"^parameters must be of the module, not Z$"):
        fixed(text, {"Z": 3})
    assert fixed_name("a", {"X": 5, "Y": 6}) == "a_x5_y6"
    assert fixed_name("a", {}) == "a"
    instances = "  a #(.X(5), .Y(6)) one (\n  );\n  b two (\n  );\n"
    own = "  a_x5_y6 one (\n  );\n  b two (\n  );\n"
    assert with_fixed(instances) == own
    made = without_parameters({"c": instances, "a": text})
    assert made == {"c": own, "a_x5_y6": fixed(text, {"X": 5, "Y": 6}, "a_x5_y6")}
