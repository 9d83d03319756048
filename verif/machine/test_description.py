"""The description: nothing overlaps, everything fits, and names are those that others use."""

import pytest

from mxsafe.machine.configuration import BF16_MACHINE, MachineConfiguration
from mxsafe.machine.description import (
    COUNTERS,
    DESCRIPTOR_BITS,
    DESCRIPTORS,
    ENUMERATIONS,
    FORMATS,
    IDENTITY,
    QUEUES,
    REGISTERS,
    configuration_of,
    constant_registers,
)
from verif.machine.machine_sizes import ROWS, machine_of
from verif.support.tests import raises

DEFAULT = MachineConfiguration()


@pytest.mark.parametrize("name", DESCRIPTORS)
def test_every_bit_is_a_field_s_or_reserved(name: str) -> None:
    descriptor = DESCRIPTORS[name]
    used = [
        bit
        for field in descriptor.fields
        for bit in range(
            descriptor.offsets[field.name], descriptor.offsets[field.name] + field.width
        )
    ]
    reserved = [bit for bits in descriptor.reserved for bit in bits]
    assert sorted(used + reserved) == list(range(DESCRIPTOR_BITS))
    assert descriptor.queue == descriptor.opcode - 1


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("name", DESCRIPTORS)
def test_what_a_field_may_be_fits(name: str, rows: int) -> None:
    configuration = machine_of(rows)
    for field in DESCRIPTORS[name].fields:
        least, most = field.bounds(configuration)
        assert 0 <= least <= most < 1 << field.width
        step = field.step(configuration)
        assert step & (step - 1) == 0
        if (allowed := field.allowed(configuration)) is not None:
            assert 0 < len(allowed) == len(set(allowed))
            assert max(allowed) < 1 << field.width


def test_buffers_can_be_reached() -> None:
    most = MachineConfiguration(
        a_beats=1 << 16, w_beats=1 << 16, out_beats=1 << 16, vector_banks=1, bank_beats=1 << 14
    )
    load, gemm, vector = (DESCRIPTORS[name] for name in ("load", "gemm", "vector"))
    assert 2 * most.a_beats <= 1 << load.field("to").width
    assert most.a_beats <= 1 << gemm.field("a_codes").width
    assert most.a_entries <= 1 << gemm.field("a_scales").width
    assert most.vector_beats <= 1 << gemm.field("result").width
    assert most.vector_beats <= 1 << vector.field("x").width
    assert most.out_beats <= 1 << vector.field("out").width
    assert most.out_entries <= 1 << vector.field("out_scales").width


def test_rules_name_fields() -> None:
    for descriptor in DESCRIPTORS.values():
        assert len(descriptor.rules) >= 2
        for rule in descriptor.rules:
            for condition in rule.conditions:
                assert condition.field in descriptor.offsets
                assert bool(condition.values) != (condition.above is not None)


def test_names_are_unique() -> None:
    for enumeration in ENUMERATIONS:
        assert len(set(enumeration.members.values())) == len(enumeration.members)
        assert enumeration.name_of(99) is None
        for name, number in enumeration.members.items():
            assert enumeration.name_of(number) == name
            assert enumeration.meanings[name]
    assert tuple(DESCRIPTORS) == QUEUES


def test_registers_do_not_overlap() -> None:
    addresses = [register.address for register in REGISTERS]
    assert addresses == sorted(set(addresses))
    assert all(address % 4 == 0 for address in addresses)
    for register in REGISTERS:
        bits = [b for f in register.fields for b in range(f.offset, f.offset + f.width)]
        assert len(bits) == len(set(bits))
        assert not bits or max(bits) < 32
    names = [register.name for register in REGISTERS]
    assert len(names) == len(set(names))
    assert {f"{name}_{half}" for name in COUNTERS for half in ("low", "high")} <= set(names)


def test_a_driver_can_read_what_it_has() -> None:
    values = constant_registers(
        MachineConfiguration(
            rows=8,
            arithmetic="fp12",
            format_w="mxfp4_e2m1",
            data_width=1024,
            functions=("relu", "silu"),
            reductions=("rms_norm",),
            conversions=("tiles",),
        )
    )
    assert values["identity"].to_bytes(4, "little") == b"MXSF"
    assert values["identity"] == IDENTITY
    assert values["array"] == 8 | 8 << 8 | 4 << 16
    assert values["formats"] == FORMATS.index("mxfp4_e2m1") << 12
    assert values["widths"] == 16 | 1024 << 16
    assert values["units"] == 0b1001 | 1 << 15 | 0b100 << 16 | 0b11 << 20 | 0b10 << 24
    assert set(values) <= {r.name for r in REGISTERS if r.access == "read"}
    assert all(0 <= value < 1 << 32 for value in values.values())


@pytest.mark.parametrize(
    "machine",
    [
        DEFAULT,
        MachineConfiguration(
            rows=8,
            arithmetic="fp12",
            format_a="mxfp4_e2m1",
            format_w="mxfp8_e4m3",
            data_width=64,
            a_beats=12,
            w_beats=16,
            out_beats=20,
            vector_banks=2,
            bank_beats=32,
            queue_depth=3,
            reduction_beats=64,
            functions=("relu", "rsqrt"),
            reductions=("softmax",),
            conversions=("tiles",),
        ),
        MachineConfiguration(reductions=("rms_norm",), affine=False, sweeps=False, grade="fine"),
        BF16_MACHINE,
    ],
)
def test_registers_say_what_the_machine_is(machine: MachineConfiguration) -> None:
    assert configuration_of(constant_registers(machine)) == machine


@pytest.mark.parametrize(
    ("register", "value", "message"),
    [
        ("array", 0x040810, "columns must be the 16 rows, not 8"),
        ("formats", 5, "arithmetic must be a number below 4, not 5"),
        ("formats", 99 << 12, f"format_w must be a number below {len(FORMATS)}, not 99"),
        ("queue_depth", 0, "queue_depth must be an integer from 1 to 63, not 0"),
    ],
)
def test_registers_of_no_machine_are_refused(register: str, value: int, message: str) -> None:
    with raises(ValueError, message):
        configuration_of({**constant_registers(DEFAULT), register: value})
