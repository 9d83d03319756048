"""Energies: tables that follow the netlists, sums by hand, and files that are none."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from mxsafe.machine.assembler import Assembler
from mxsafe.machine.compiler.timing import Times, predict
from mxsafe.machine.configuration import (
    BF16_MACHINE,
    BOARD_MACHINE,
    FPGA_MACHINE,
    SMALL_MACHINE,
    MachineConfiguration,
)
from mxsafe.machine.description import ACCESSES
from mxsafe.machine.energy import COUNTED, GROUPS, Part, Work, energy_of, work_of
from mxsafe.machine.energy_tables import (
    BUFFER_FIELDS,
    BUFFERS,
    GRADED,
    NETLISTS,
    NODES,
    SRAM_FILE,
    UNIT_FILE,
    UNITS,
    EnergyTables,
    assumptions_of,
    buffer_figure,
    dram_bit,
    in_use,
    leaked,
    memory_figure,
    memory_size,
    own_tables,
    unit_energy,
)
from mxsafe.machine.program import Program
from verif.support.tests import raises

DEFAULT = MachineConfiguration()
SYNTHESIS = Path(__file__).parents[2] / "docs" / "synthesis.json"


def test_units_are_those_of_netlists() -> None:
    """Each figure is that of a row of `docs/synthesis.json`."""
    results = json.loads(SYNTHESIS.read_text())["results"]
    units = json.loads(UNIT_FILE.read_text())["units"]
    assert len(units) > 20
    for name, unit in units.items():
        (row,) = (
            one
            for one in results
            if one["configuration"] == unit["configuration"]
            and one["format"] == unit["format"]
            and one.get("power")
        )
        power = row["power"]
        found = power["multiply_pj"] if name.startswith("product ") else power["result"]["total_pj"]
        assert unit["pj"] == found, name


def test_memories_that_are_known() -> None:
    rows = json.loads(SRAM_FILE.read_text())["rows"]
    assert {row[0] for row in rows} == set(NODES)
    for node, width, size, *figures in rows:
        found = [memory_figure(node, width, size // width, what) for what in BUFFER_FIELDS]
        assert found == pytest.approx(figures)


def test_memories_between_those_that_are_known() -> None:
    for node in NODES:
        few, some, many = (memory_figure(node, 32, depth, "read") for depth in (2048, 3000, 4096))
        assert few < some < many
        narrow, wide = (memory_figure(node, width, 2048, "read") for width in (16, 32))
        assert narrow < memory_figure(node, 24, 2048, "read") < wide
        # Smaller ones than all that are known are taken for the smallest.
        assert memory_figure(node, 4, 16, "read") == memory_figure(node, 8, 128, "read")
    with raises(
        ValueError,
        "a memory must have at most 524288 bytes in words of at most 64, for which there are "
        "figures, not 1048576 in words of 32",
    ):
        memory_figure(28, 32, 1 << 15, "read")


def test_sizes_are_those_of_the_hardware() -> None:
    found = {name: width * depth for name, (width, depth) in _sizes(DEFAULT).items()}
    beat = DEFAULT.beat_bytes
    for owner in ("a", "w", "out"):
        assert 2 * found[f"{owner}_codes"] == getattr(DEFAULT, f"{owner}_beats") * beat
        entries = getattr(DEFAULT, f"{owner}_entries")
        assert 2 * found[f"{owner}_scales"] == entries * DEFAULT.entry_bytes
    assert 2 * DEFAULT.vector_banks * found["vector"] == DEFAULT.vector_beats * 64
    assert found["rows"] == DEFAULT.reduction_beats * 64


def _sizes(machine: MachineConfiguration) -> dict[str, tuple[int, int]]:
    return {name: memory_size(name, machine) for name in BUFFERS}


def test_a_program_by_hand() -> None:
    """16 words of vectors go through a softmax and to memory."""
    make = Assembler(DEFAULT)
    program = make.assemble(
        [
            make.load(buffer="vector", count_0=16, signal="vector"),
            make.vector(
                beats=8, reduction="softmax", parameter=1.0, to_vector=1, d=8, wait="load",
                signal="store",
            ),
            make.store(buffer="vector", count_0=16, wait="vector", **{"from": 16}),
        ]
    )  # fmt: skip
    tables = EnergyTables(dram="ddr3", sram=65)
    energy = energy_of(work_of([Program(program, DEFAULT)], Times()), tables)
    found = {part.name: part for part in energy.parts if part.count}
    read = 15.8 + 0.44
    vector = [buffer_figure(tables, "vector", way, DEFAULT) for way in ("read", "write")]
    rows = [buffer_figure(tables, "rows", way, DEFAULT) for way in ("read", "write")]
    softmax = unit_energy(tables, "softmax", DEFAULT) / 2
    assert found == {
        part.name: part
        for part in (
            Part("off chip", "DRAM read", "bits", 16 * 256, pytest.approx(read)),
            Part("off chip", "DRAM written", "bits", 16 * 256, pytest.approx(read + 0.6)),
            Part("off chip", "descriptors", "bits", 3 * 256, pytest.approx(read)),
            # Beats are two words, of which STORE, which takes a word, reads both.
            Part("on chip", "vector, read", "accesses", 16 + 32, vector[0]),
            Part("on chip", "vector, written", "accesses", 16 + 16, vector[1]),
            Part("on chip", "rows, read", "accesses", 16, rows[0]),
            Part("on chip", "rows, written", "accesses", 8, rows[1]),
            Part("core", "softmax", "numbers in a pass", 2 * 8 * 16, softmax),
        )
    }
    assert energy.total == pytest.approx(sum(energy.groups[name] for name in GROUPS))
    assert energy.total == pytest.approx(sum(part.count * part.each for part in energy.parts))


def test_static_power() -> None:
    """Each memory leaks, and a channel of DRAM takes its background, as long as it takes."""
    known = {
        (width, size): leakage
        for node, width, size, _, _, leakage in json.loads(SRAM_FILE.read_text())["rows"]
        if node == 45
    }
    memories = [(32, 1 << 16), (32, 1 << 17), (32, 1 << 14)] * 2  # codes
    memories += [(16, 1 << 13), (16, 1 << 14), (16, 1 << 11)] * 2  # scales
    memories += [(32, 1 << 15)] * 8 + [(64, 1 << 15)]  # vectors, rows
    tables = EnergyTables(dram="ddr3", sram=45, static_power=True, clock_mhz=250)
    leaks = sum(known[one] for one in memories)
    assert leaked(tables, DEFAULT) == pytest.approx(leaks)
    work = Work(DEFAULT, {**dict.fromkeys(COUNTED, 0), "cycles": 10})
    energy = energy_of(work, tables)
    assert [part for part in energy.parts if part.count] == [
        Part("off chip", "DRAM, background", "cycles", 10, 582 * 4),
        Part("on chip", "leakage", "cycles", 10, pytest.approx(leaks * 4)),
    ]
    (told,) = (one for one in energy.assumptions if one.startswith("static power"))
    assert told == (
        f"static power: memories on the chip leak {leaks:.4g} mW, a channel of DRAM takes 582 mW "
        "in the background; all the time that is predicted"
    )
    assert "leakage of memories" not in " ".join(energy.assumptions)
    assert energy_of(work, replace(tables, static_power=False)).total == 0


def test_static_power_of_ones_own() -> None:
    """Each of two memories of codes leaks 5 mW, of DRAM without a figure nothing is counted."""
    both = {"read": 1, "write": 1}
    buffers = {name: {**both, "leakage_mw": 5 * (name == "a_codes")} for name in BUFFERS}
    tables = EnergyTables(own={"dram": both, "buffers": buffers}, static_power=True)
    assert leaked(tables, DEFAULT) == 2 * 5
    assert leaked(tables, BF16_MACHINE) == BF16_MACHINE.beat_words * 5 == 4 * 5
    work = Work(DEFAULT, {**dict.fromkeys(COUNTED, 0), "cycles": 3})
    energy = energy_of(work, tables)
    assert energy.groups == {"off chip": 0, "on chip": 3 * 10 * 2, "core": 0}
    assert any("DRAM is in the energy of a bit or not counted" in one for one in energy.assumptions)


def test_cycles_of_a_memory() -> None:
    """They are those of the times that are given, and the sentence on memory says which."""
    make = Assembler(DEFAULT)
    program = Program(make.assemble([make.load(buffer="vector", count_0=16)]), DEFAULT)
    slow = Times(memory=300)
    energy = energy_of(work_of([program, program], slow), EnergyTables())
    assert energy.cycles == 2 * predict(program, slow).cycles > 2 * predict(program).cycles
    assert energy.assumptions[-1] == "cycles: with a memory that answers after 300"


def test_more_work_takes_more_energy() -> None:
    """Each counter but that of cycles that is larger by one makes the energy larger."""
    counters = dict.fromkeys(("cycles", "array_busy", "words_read", "words_written"), 0)
    work = Work(DEFAULT, {**counters, **dict.fromkeys(ACCESSES, 0)})
    nothing = energy_of(work, EnergyTables())
    assert (nothing.total, nothing.milliseconds, nothing.bandwidth) == (0, 0, 0)
    for name in (*counters, *ACCESSES):
        more = energy_of(Work(DEFAULT, {**work.counters, name: 1}), EnergyTables()).total
        assert (more > 0) == (name != "cycles"), name


def test_a_product_without_a_netlist() -> None:
    window = replace(SMALL_MACHINE, arithmetic="window")
    with raises(
        ValueError,
        "units must have product in a table of your own for arithmetic window of mxsf, of which "
        "there is no netlist's energy",
    ):
        unit_energy(EnergyTables(), "product", window)
    assert unit_energy(EnergyTables(own={"units": {"product": 1.5}}), "product", window) == 1.5


def test_netlists_are_of_what_is_said() -> None:
    """What other machines are compared with is what the netlists were made of."""
    units = json.loads(UNIT_FILE.read_text())["units"]
    rows = {(unit["configuration"], unit["format"]): name for name, unit in units.items()}
    seen = set()
    for row in json.loads(SYNTHESIS.read_text())["results"]:
        name = rows.get((row["configuration"], row["format"]))
        if name is None or not row.get("power"):
            continue
        made, kind = row["parameters"], name.split()[0]
        assert row["technology"] == "nangate45"
        if kind == "product":
            assert {made["rows"], made["columns"]} == {NETLISTS["unit_rows"]}
            assert made["lanes"] == NETLISTS["array_lanes"]
        else:
            assert made.get("lanes", made.get("width")) == NETLISTS["vector_lanes"]
        assert made.get("grade", NETLISTS["grade"]) == NETLISTS["grade"]
        assert ("grade" in made) == (kind in GRADED)
        seen.add(name)
    assert seen == set(units)


def stand_ins(machine: MachineConfiguration, **own: object) -> list[str]:
    """What is assumed of a machine beside what is of the default one."""
    usual = assumptions_of(EnergyTables(), DEFAULT)
    told = assumptions_of(EnergyTables(own=own), machine)
    usual_heads = ("a product: ", "taken for others: ")
    return [one for one in told if one not in usual and not one.startswith(usual_heads)]


VECTORS = "arithmetic, function, softmax, layer_norm, rms_norm, sum, convert"


@pytest.mark.parametrize(
    ("machine", "sentences"),
    [
        (DEFAULT, []),
        (
            replace(DEFAULT, grade="fine"),
            ["grade fine is taken for compact: function, softmax, layer_norm, rms_norm"],
        ),
        (
            replace(DEFAULT, grade="fine", functions=(), reductions=("softmax",)),
            ["grade fine is taken for compact: softmax"],
        ),
        (
            BF16_MACHINE,
            ["a conversion to bf16 is taken for one to mxsf"],
        ),
        (
            MachineConfiguration(format_a="mxfp4_e2m1", format_w="mxfp4_e2m1"),
            ["a conversion to mxfp4_e2m1 is taken for one to mxsf"],
        ),
        (
            replace(DEFAULT, unit_rows=8),
            [
                "a sub-matrix unit of 8x8 MACs with array_lanes 4 is taken for one of 4x4 MACs "
                "with array_lanes 4"
            ],
        ),
        (
            FPGA_MACHINE,
            [
                f"units for an FPGA are taken for those of standard cells: product, {VECTORS}",
                "a sub-matrix unit of 4x4 MACs with array_lanes 2 is taken for one of 4x4 MACs "
                "with array_lanes 4",
                f"vector units 1 wide are taken for those 16 wide: {VECTORS}",
                "memories smaller than all that are known are taken for such: a_scales, 512 bytes "
                "in words of 8, for 1024 in words of 8; out_scales, 128 bytes in words of 8, for "
                "1024 in words of 8",
            ],
        ),
    ],
)
def test_what_is_taken_for_something_else(
    machine: MachineConfiguration, sentences: list[str]
) -> None:
    assert stand_ins(machine) == sentences


def test_units_that_are_not_there_stand_in_for_nothing() -> None:
    bare = replace(DEFAULT, functions=(), reductions=())
    (taken,) = (one for one in assumptions_of(EnergyTables(), bare) if one.startswith("taken"))
    assert taken == "taken for others: every operation of arithmetic for one of all kinds"


def test_nothing_stands_in_for_ones_own() -> None:
    converted = ["a conversion to bf16 is taken for one to mxsf"]
    assert stand_ins(BF16_MACHINE, units={"product": 1}) == converted
    units = dict.fromkeys(UNITS, 1)
    scales = {"a_scales": {"read": 1, "write": 1}}
    (memories,) = stand_ins(FPGA_MACHINE, units=units, buffers=scales)[1:]
    assert "a_scales" not in memories
    assert "out_scales, 128 bytes" in memories


def test_words_narrower_than_all_that_are_known() -> None:
    machine = replace(BOARD_MACHINE, a_beats=2048)
    assert "a_scales, 2048 bytes in words of 4, for 2048 in words of 8;" in stand_ins(machine)[-1]


def test_a_buffer_that_is_larger_than_all_that_are_known() -> None:
    large = replace(DEFAULT, w_beats=1 << 16)
    with raises(
        ValueError,
        "buffers must have w_codes in a table of your own: a memory must have at most 524288 "
        "bytes in words of at most 64, for which there are figures, not 2097152 in words of 32",
    ):
        buffer_figure(EnergyTables(), "w_codes", "read", large)
    own = {"buffers": {"w_codes": {"read": 90, "write": 80}}}
    assert buffer_figure(EnergyTables(own=own), "w_codes", "read", large) == 90


def test_tables_of_ones_own() -> None:
    own = {
        "dram": {"read": 4, "write": 5.5, "activate": 1, "background_mw": 7},
        "buffers": {"vector": {"read": 1, "write": 2}},
        "units": {"softmax": 0},
    }
    tables = EnergyTables(own=own_tables(json.dumps(own), "own.json"))
    assert (dram_bit(tables, "read"), dram_bit(tables, "write")) == (5, 6.5)
    assert buffer_figure(tables, "vector", "write", DEFAULT) == 2
    assert buffer_figure(tables, "rows", "write", DEFAULT) == buffer_figure(
        EnergyTables(), "rows", "write", DEFAULT
    )
    assert unit_energy(tables, "softmax", DEFAULT) == 0
    told = assumptions_of(tables, DEFAULT)
    assert told[0].startswith("DRAM: 5 pJ a bit read, 6.5 written (the table given)")
    assert all("; some from the table given" in told[at] for at in (1, 2))


def test_a_whole_table_of_ones_own_leaves_nothing_assumed() -> None:
    """One that has all but a unit does."""
    both = {"read": 1.0, "write": 1.0}
    own = {"dram": both, "buffers": dict.fromkeys(BUFFERS, both), "units": dict.fromkeys(UNITS, 1)}
    told = assumptions_of(EnergyTables(own=own), replace(DEFAULT, grade="fine"))
    assert [one.split(";")[0] for one in told[:3]] == [
        "DRAM: 1 pJ a bit read, 1 written (the table given)",
        "memories on the chip: the table given",
        "a product: 1 pJ",
    ]
    assert told[2].endswith("; units: the table given")
    assert [one.split(":")[0] for one in told[3:]] == ["not counted"]
    nothing = {"dram": None, "sram": None, "units": {}, "static_power": False, "clock_mhz": 500}
    assert in_use(EnergyTables(own=own), DEFAULT) == {**nothing, "own": own}
    own["units"].pop("sum")
    told = assumptions_of(EnergyTables(own=own), DEFAULT)
    taken = {"configuration": "rms_norm, no gain", "format": "mxsf"}
    assert in_use(EnergyTables(own=own), DEFAULT)["units"] == {"sum": taken}
    assert told[2].endswith("; some from the table given")
    assert told[3] == "taken for others: a sum of rows for RMS normalisation"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1]", "its content must be an object, not [1]"),
        (
            '{"ram": {}}',
            "a field of its content must be one of dram, buffers, units, not 'ram'; "
            "did you mean 'dram'?",
        ),
        ('{"dram": 4}', "dram must be an object, not 4"),
        ('{"dram": {"read": 4}}', "dram must have write"),
        (
            '{"dram": {"read": 4, "write": -1}}',
            "dram.write must be a number of pJ from 0 to 1e+09, not -1",
        ),
        (
            '{"dram": {"read": Infinity, "write": 1}}',
            "dram.read must be a number of pJ from 0 to 1e+09, not Infinity",
        ),
        (
            '{"units": {"product": true}}',
            "units.product must be a number of pJ from 0 to 1e+09, not true",
        ),
        (
            '{"units": {"product": 1' + "0" * 400 + "}}",
            "units.product must be a number of pJ from 0 to 1e+09, not 1" + "0" * 79 + "...",
        ),
        ('{"buffers": {"vector": {"read": 4}}}', "buffers.vector must have write"),
        (
            '{"dram": {"read": 4, "write": 4, "background_mw": null}}',
            "dram.background_mw must be a number of mW from 0 to 1e+09, not null",
        ),
    ],
)
def test_tables_that_are_none(content: str, message: str) -> None:
    with raises(ValueError, f"own.json: {message}"):
        own_tables(content, "own.json")


def test_fields_that_are_there_twice() -> None:
    """The last one would go before the others."""
    with raises(
        ValueError,
        "own.json must be JSON of energies: the field 'sum' must be there once in an object, not "
        "twice",
    ):
        own_tables('{"units": {"sum": 1, "product": 1, "sum": 2}}', "own.json")


def test_sources_that_there_are_not() -> None:
    with raises(ValueError, "dram must be one of bitmod, ddr3, lpddr4, not 'ddr9'"):
        EnergyTables(dram="ddr9")
    with raises(ValueError, "sram must be one of 65, 45, 28, not 7"):
        EnergyTables(sram=7)
    for clock in (0, -5, 1e-300, 1e6, float("inf"), float("nan")):
        with raises(ValueError, f"clock_mhz must be from 0.001 to 100000, not {clock}"):
            EnergyTables(clock_mhz=clock)
    with raises(ValueError, "own: dram must have write"):
        EnergyTables(own={"dram": {"read": 1}})
    with raises(ValueError, "own: units.product must be a number of pJ from 0 to 1e+09, not -1"):
        EnergyTables(own={"units": {"product": -1}})
    with raises(ValueError, "programs must have one descriptor at least"):
        work_of([], Times())
    with raises(ValueError, "programs must have one descriptor at least"):
        work_of([Program(b"", DEFAULT)] * 2, Times())
    with raises(ValueError, "programs must be of one machine, not of several"):
        work_of([Program(bytes(32), DEFAULT), Program(b"", SMALL_MACHINE)], Times())
    with raises(ValueError, "counters must have array_busy"):
        Work(DEFAULT, {"cycles": 1})
