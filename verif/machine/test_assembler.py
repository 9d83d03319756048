"""Assembler: bytes and text there and back, and every descriptor that the machine does not take."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from mxsafe.machine.assembler import (
    Assembler,
    Instruction,
    assemble_text,
    disassemble,
    fault_of,
)
from mxsafe.machine.configuration import (
    BF16_MACHINE,
    FPGA_MACHINE,
    SMALL_MACHINE,
    MachineConfiguration,
)
from mxsafe.machine.description import (
    DESCRIPTOR_BYTES,
    DESCRIPTORS,
    FOLLOWING,
    QUEUES,
    Descriptor,
)
from verif.machine.machine_sizes import machine_of

DEFAULT = MachineConfiguration()
SMALL = MachineConfiguration(rows=8, functions=("relu",), reductions=(), conversions=("tiles",))
ASSEMBLER = Assembler(DEFAULT)

VALID = {
    "load": ASSEMBLER.load(buffer="a_codes"),
    "gemm": ASSEMBLER.gemm(),
    "vector": ASSEMBLER.vector(to_vector=1),
    "store": ASSEMBLER.store(buffer="vector"),
}


def changed(instruction: Instruction, **values: int) -> Instruction:
    """The same with other values, whether the machine takes them or not."""
    own = {name: value for name, value in instruction.values.items() if name != "opcode"}
    return Instruction(instruction.kind, {**own, **values})


def random_instruction(
    descriptor: Descriptor, configuration: MachineConfiguration, rng: np.random.Generator
) -> Instruction:
    """A descriptor whose fields, each by itself, are as they may be."""
    values = {}
    for field in descriptor.fields[1:]:
        allowed = field.allowed(configuration)
        least, most = field.bounds(configuration)
        step = field.step(configuration)
        number = int(rng.integers(least, most + 1)) // step * step
        values[field.name] = int(rng.choice(allowed)) if allowed else max(number, least)
    return Instruction(descriptor.name, values)


def given(instruction: Instruction) -> bytes:
    """Descriptors that give it the tokens which it waits for."""
    signal = 1 << instruction.descriptor.queue
    givers = (VALID[queue] for bit, queue in enumerate(QUEUES) if instruction["wait"] >> bit & 1)
    return b"".join(changed(giver, signal=signal).encoded() for giver in givers)


@pytest.mark.parametrize("name", DESCRIPTORS)
def test_bytes_there_and_back(name: str) -> None:
    rng = np.random.default_rng(3)
    taken = 0
    for _ in range(3000):
        made = random_instruction(DESCRIPTORS[name], DEFAULT, rng)
        data = made.encoded()
        assert Instruction.decoded(data) == made
        word = int.from_bytes(data, "little")
        for field in made.descriptor.fields:
            at = made.descriptor.offsets[field.name]
            assert word >> at & ((1 << field.width) - 1) == made[field.name]
        fault = made.fault(DEFAULT)
        assert fault_of(data, DEFAULT) == fault
        if fault is None:
            program = given(made) + data
            assert assemble_text(disassemble(program)) == program
            taken += 1
        else:
            assert fault.error == "malformed"
    assert taken > 0


@pytest.mark.parametrize("name", DESCRIPTORS)
def test_the_first_bit_is_the_lowest_of_the_first_byte(name: str) -> None:
    assert VALID[name].encoded()[0] & 15 == DESCRIPTORS[name].opcode
    assert fault_of(VALID[name].encoded(), DEFAULT) is None


@pytest.mark.parametrize("name", DESCRIPTORS)
def test_every_reserved_bit_is_looked_at(name: str) -> None:
    word = int.from_bytes(VALID[name].encoded(), "little")
    bits = [bit for reserved in DESCRIPTORS[name].reserved for bit in reserved]
    assert bits
    for bit in bits:
        fault = fault_of((word | 1 << bit).to_bytes(DESCRIPTOR_BYTES, "little"), DEFAULT)
        assert fault is not None
        assert fault.error == "malformed"
        assert fault.reason.endswith("must be 0")


@pytest.mark.parametrize("name", DESCRIPTORS)
def test_every_value_that_a_field_must_not_have(name: str) -> None:
    refused = 0
    for configuration in (DEFAULT, SMALL):
        base = Assembler(configuration).instruction(
            name, **({"to_vector": 1} if name == "vector" else {})
        )
        for field in DESCRIPTORS[name].fields[1:]:
            allowed = field.allowed(configuration)
            least, most = field.bounds(configuration)
            candidates = {0, least - 1, most + 1, (1 << field.width) - 1}
            candidates |= {field.step(configuration) // 2}
            if allowed is not None:
                candidates |= set(range(1 << field.width)) - set(allowed)
            for value in sorted(candidates & set(range(1 << min(field.width, 20)))):
                good = least <= value <= most and value % field.step(configuration) == 0
                if good and (allowed is None or value in allowed):
                    continue
                fault = changed(base, **{field.name: value}).fault(configuration)
                assert fault is not None
                assert fault.reason.startswith(f"{name}: {field.name} must be ")
                refused += 1
    assert refused > 3


@pytest.mark.parametrize("opcode", [0, *range(5, 16)])
def test_unknown_opcodes(opcode: int) -> None:
    fault = fault_of(bytes([opcode]) + bytes(31), DEFAULT)
    assert fault is not None
    assert (fault.error, fault.reason) == (
        "opcode",
        f"opcode must be one of 1, 2, 3, 4, not {opcode}",
    )


MALFORMED: list[tuple[str, dict[str, Any], str]] = [
    ("load", {"wait": "load"}, "load: wait must not have the bit of the own queue"),
    ("gemm", {"wait": ["load", "gemm"]}, "gemm: wait must not have the bit of the own queue"),
    ("vector", {"signal": "vector"}, "vector: signal must not have the bit of the own queue"),
    ("store", {"signal": "store"}, "store: signal must not have the bit of the own queue"),
    ("load", {"count_0": 0}, "load: count_0 must be from 1 to 4095, not 0"),
    ("load", {"address": 16}, "load: address must be a multiple of 32, not 16"),
    ("load", {"buffer": 5}, "load: buffer must be one of a_codes, a_scales, w_codes, w_scales, "),
    ("load", {"buffer": "vector", "transpose": 1}, "load: transpose is for codes and scales"),
    ("load", {"buffer": "w_codes", "widen": 1}, "load: widen is for the vector buffer"),
    (
        "load",
        {"buffer": "w_codes", "transpose": 1, "count_0": 3},
        "load: count_0 must be 4 when codes of a byte are transposed",
    ),
    (
        "load",
        {"buffer": "w_scales", "transpose": 1},
        "load: packing must be tiles where scales are transposed",
    ),
    ("load", {"packing": "tiles"}, "load: packing tiles is for scales"),
    ("load", {"buffer": "vector", "packing": 1}, "load: packing nibbles is for codes"),
    ("load", {"packing": 3}, "load: packing must be one of none, nibbles, tiles, not 3"),
    ("store", {"packing": "tiles"}, "store: packing tiles is for scales"),
    (
        "store",
        {"buffer": "out_scales", "packing": "nibbles"},
        "store: packing nibbles is for codes",
    ),
    ("store", {"buffer": "out_codes", "narrow": 1}, "store: narrow is for the vector buffer"),
    ("store", {"unused": 1}, "store: unused must be from 0 to 0, not 1"),
    ("gemm", {"clear": 0, "strips_a": 2}, "gemm: strips_a must be 1 without clear"),
    ("gemm", {"clear": 0, "strips_w": 2}, "gemm: strips_w must be 1 without clear"),
    ("gemm", {"last_rows": 17}, "gemm: last_rows must be from 1 to 16, not 17"),
    ("gemm", {"block": 17}, "gemm: block must be from 1 to 16, not 17"),
    ("vector", {}, "vector: results must go to the vector buffer, or be converted, or both"),
    ("vector", {"to_vector": 1, "lanes": 17}, "vector: lanes must be from 1 to 16, not 17"),
    (
        "vector",
        {"to_vector": 1, "arithmetic": "scale", "reduction": "rms_norm"},
        "vector: axpy and scale, which take parameter, exclude softmax and norms, which do so too",
    ),
    (
        "vector",
        {"to_vector": 1, "causal": 1, "reduction": "layer_norm"},
        "vector: causal is for softmax",
    ),
    (
        "vector",
        {
            "to_vector": 1,
            "causal": 1,
            "reduction": "softmax",
            "parameter": 1.0,
            "arithmetic": "add",
        },
        "vector: arithmetic must be none with causal, which takes y as a number",
    ),
    (
        "vector",
        {"to_vector": 1, "reduction": "softmax", "parameter": 1.0, "beats": 513},
        "vector: a row that is reduced must not be longer than the machine's longest",
    ),
    *(
        ("vector", {"to_vector": 1, "affine": 1, **fields}, "vector: affine is for norms")
        for fields in ({}, {"reduction": "softmax", "parameter": 1.0})
    ),
    (
        "vector",
        {"to_vector": 1, "affine": 1, "reduction": "layer_norm", "arithmetic": "add"},
        "vector: arithmetic must be none with affine, which is arithmetic too and takes y",
    ),
    *(
        (
            "vector",
            {"to_vector": 1, "reduction": "softmax", "parameter": parameter},
            "vector: parameter of softmax must be from 2^-120 to below 2^121",
        )
        for parameter in (0.0, -1.0, 2.0**-121, 2.0**121, float("inf"), float("nan"))
    ),
    *(
        (
            "vector",
            {"to_vector": 1, "reduction": reduction, "parameter": parameter},
            "vector: parameter of a norm must be finite and not negative",
        )
        for reduction in ("layer_norm", "rms_norm")
        for parameter in (-1.0, -0.0, float("inf"), float("nan"))
    ),
    ("vector", {"sweep": "largest"}, "vector: sweep is for reductions"),
    *(
        (
            "vector",
            {"reduction": reduction, "sweep": sweep, "parameter": 1.0, "to_vector": 1},
            f"vector: {reduction} has the sweeps {', '.join(FOLLOWING[reduction])}",
        )
        for reduction, sweep in (("softmax", "squares"), ("rms_norm", "sums"), ("sum", "results"))
    ),
    (
        "vector",
        {"reduction": "sum", "sweep": "largest", "rows": 2},
        "vector: rows must be 1 with a sweep",
    ),
    *(
        (
            "vector",
            {"to_vector": 1, "reduction": "layer_norm", "sweep": sweep, name: 1},
            f"vector: {name} is for a sweep for {kinds}",
        )
        for name, sweep, kinds in (
            ("clear", "whole", "largest"),
            ("clear", "results", "largest"),
            ("ends", "whole", "largest or sums or squares"),
            ("ends", "results", "largest or sums or squares"),
        )
    ),
    *(
        (
            "vector",
            {"reduction": reduction, "sweep": sweep, field: 1},
            f"vector: {field} must be 0 in a sweep without results",
        )
        for field in ("to_vector", "convert")
        for reduction, sweep in (
            ("sum", "largest"),
            ("sum", "sums"),
            ("layer_norm", "sums"),
            ("layer_norm", "squares"),
        )
    ),
    (
        "vector",
        {"reduction": "rms_norm", "sweep": "squares", "affine": 1},
        "vector: affine must be 0 in a sweep without results",
    ),
    (
        "vector",
        {"reduction": "rms_norm", "sweep": "results", "beats": 600},
        "vector: results must go to the vector buffer, or be converted, or both",
    ),
]


@pytest.mark.parametrize(("kind", "fields", "message"), MALFORMED)
def test_malformed(kind: str, fields: dict[str, Any], message: str) -> None:
    """On a machine that packs in all ways."""
    assembler = Assembler(MachineConfiguration(format_w="mxfp4_e2m1"))
    with pytest.raises(ValueError) as caught:
        assembler.instruction(kind, **fields)
    assert str(caught.value).startswith(message)


def test_every_rule_is_broken_once() -> None:
    """No rule is there that the cases above would not miss."""
    messages = {message.partition(": ")[2] for _, _, message in MALFORMED}
    for descriptor in DESCRIPTORS.values():
        for rule in descriptor.rules:
            of_some = rule.rows or rule.lacks or rule.has
            assert rule.meaning in messages or of_some or "own queue" in rule.meaning


def test_machines_in_parts_have_no_sweeps() -> None:
    for machine in (FPGA_MACHINE, replace(SMALL_MACHINE, vector_parts=2)):
        with pytest.raises(ValueError, match="vector: sweep must be one of whole, not 1"):
            Assembler(machine).vector(reduction="sum", sweep="largest")


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        ("load", {"buffer": "a_scales"}, "load: buffer must be one of a_codes, w_codes, vector, "),
        ("load", {"buffer": "w_codes", "packing": "tiles"}, "load: packing must be one of none, "),
        ("load", {"part": 1}, "load: part must be from 0 to 0, not 1"),
        ("store", {"buffer": "out_scales"}, "store: buffer must be one of out_codes, vector, "),
        (
            "load",
            {"transpose": 1, "count_0": 4},
            "load: count_0 must be 8 when codes of two bytes are transposed",
        ),
        ("gemm", {"block": 2}, "gemm: block must be from 1 to 1, not 2"),
        *(
            ("gemm", {name: 1}, f"gemm: {name} must be 0 on a machine without scales")
            for name in ("a_scales", "a_scale_stride", "w_scales", "w_scale_stride")
        ),
        *(
            (
                "vector",
                {"convert": "numbers", name: 1},
                f"vector: {name} must be 0 on a machine without scales",
            )
            for name in ("out_scales", "out_scale_stride")
        ),
        ("vector", {"convert": "blocks"}, "vector: convert must be one of none, numbers, not 1"),
        ("vector", {"convert": "tiles"}, "vector: convert must be one of none, numbers, not 2"),
    ],
)
def test_a_machine_without_scales_refuses_them(
    kind: str, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        Assembler(BF16_MACHINE).instruction(kind, **fields)


def test_others_have_no_numbers_to_convert_to() -> None:
    with pytest.raises(ValueError, match=r"^vector: convert must be one of none, blocks, tiles, "):
        Assembler(DEFAULT).vector(convert="numbers")


def test_a_machine_refuses_what_it_lacks() -> None:
    small = Assembler(SMALL)
    with pytest.raises(ValueError, match="function must be one of none, relu, not 3"):
        small.vector(to_vector=1, function="gelu")
    with pytest.raises(ValueError, match="reduction must be one of none, not 1"):
        small.vector(to_vector=1, reduction="softmax")
    with pytest.raises(ValueError, match="convert must be one of none, tiles, not 1"):
        small.vector(convert="blocks")
    plain = Assembler(MachineConfiguration(affine=False))
    with pytest.raises(ValueError, match="affine is for machines whose norms have gain and bias"):
        plain.vector(to_vector=1, reduction="layer_norm", affine=1)
    plain.vector(to_vector=1, reduction="layer_norm")
    for affine in (0, 1):
        ASSEMBLER.vector(to_vector=1, reduction="layer_norm", affine=affine)
    for buffer in ("a_scales", "w_scales"):
        with pytest.raises(ValueError, match="scales are not transposed on a machine of 8 rows"):
            small.load(buffer=buffer, transpose=1)
        ASSEMBLER.load(buffer=buffer, transpose=1, packing="tiles")
    with pytest.raises(ValueError, match="packing must be one of none, tiles, not 1"):
        ASSEMBLER.load(packing="nibbles")
    with pytest.raises(ValueError, match="packing must be one of none, tiles, not 1"):
        Assembler(MachineConfiguration(format_a="mxfp4_e2m1")).store(packing="nibbles")
    with pytest.raises(ValueError, match="packing must be one of none, not 2"):
        Assembler(machine_of(4)).store(buffer="out_scales", packing="tiles")
    with pytest.raises(ValueError, match="part must be from 0 to 3, not 4"):
        Assembler(machine_of(4)).load(buffer="a_scales", packing="tiles", part=4)
    smallest = Assembler(machine_of(4))
    for buffer in ("a_codes", "w_codes", "a_scales", "w_scales"):
        with pytest.raises(ValueError, match="nothing is transposed on a machine of 4 rows"):
            smallest.load(buffer=buffer, transpose=1, count_0=4)


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        ("move", {}, "kind must be one of load, gemm, vector, store, not 'move'"),
        ("load", {"speed": 1}, "load: field must be one of wait, .*, not 'speed'"),
        ("load", {"opcode": 1}, "load: field must be one of .*, not 'opcode'"),
        ("load", {"wait": ["dma"]}, "load: wait must be some of load, gemm, vector, store, not"),
        ("load", {"buffer": "b_codes"}, "load: buffer must be one of a_codes, .*, not 'b_codes'"),
        ("load", {"count_1": 1024}, "load: count_1 must be an integer from 0 to 1023, not 1024"),
        ("load", {"count_1": "many"}, "load: count_1 must be an integer, not 'many'"),
        ("gemm", {"beats": 1.5}, "gemm: beats must be an integer from 0 to 8191, not 1.5"),
        ("load", {"wait": np.float32(2)}, "load: wait must be an integer from 0 to 15, not 2.0"),
        ("load", {"wait": Fraction(2)}, "load: wait must be an integer from 0 to 15, not 2.0"),
        ("gemm", {"beats": -1}, "gemm: beats must be an integer from 0 to 8191, not -1"),
    ],
)
def test_what_the_assembler_refuses(kind: str, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        ASSEMBLER.instruction(kind, **fields)


def test_values_by_name() -> None:
    made = ASSEMBLER.vector(
        wait=["gemm", "store"],
        signal="load,store",
        function="gelu",
        parameter=0.5,
        arithmetic="axpy",
        convert="tiles",
        target="w",
    )
    assert (made["wait"], made["signal"]) == (0b1010, 0b1001)
    assert made["parameter"] == 0x3F000000
    assert (made["function"], made["arithmetic"], made["convert"], made["target"]) == (3, 3, 2, 2)
    assert (made["lanes"], made["beats"], made["rows"]) == (16, 1, 1)
    assert ASSEMBLER.vector(to_vector="1", x="0x10")["x"] == 16
    for half in (np.float32(0.5), Fraction(1, 2)):
        assert ASSEMBLER.vector(to_vector=1, parameter=half)["parameter"] == 0x3F000000


def test_a_program_with_a_fault_says_where() -> None:
    wrong = changed(VALID["gemm"], beats=0)
    with pytest.raises(ValueError, match=r"^descriptor 2: gemm: beats must be from 1 to"):
        ASSEMBLER.assemble([VALID["load"], VALID["gemm"], wrong])


def test_a_program_that_never_ends_says_where() -> None:
    program = [changed(VALID["load"], signal=4), changed(VALID["gemm"], wait=1)]
    message = r"^descriptor 1: it waits for a token of load for ever$"
    with pytest.raises(ValueError, match=message):
        ASSEMBLER.assemble(program)
    with pytest.raises(ValueError, match=message):
        assemble_text("\n".join(map(str, program)))


def test_text() -> None:
    program = ASSEMBLER.assemble(
        [
            ASSEMBLER.load(buffer="w_scales", address=0x4000, count_0=8, signal="gemm"),
            ASSEMBLER.gemm(beats=96, block=16, wait="load", signal=["load", "vector"]),
        ]
    )
    assert disassemble(program).splitlines() == [
        "    0  load   signal=gemm buffer=w_scales address=0x4000 count_0=8 count_1=1 count_2=1 "
        "count_3=1 step_0=1",
        "    1  gemm   wait=load signal=load,vector strips_a=1 strips_w=1 beats=96 block=16 "
        "last_rows=16 clear=1 write=1",
    ]
    waits = changed(VALID["gemm"], wait=1)
    first, second = disassemble(VALID["load"].encoded() + waits.encoded()).splitlines()
    assert "#" not in first
    assert second.endswith("write=1  # it waits for a token of load for ever")
    broken = bytes(32) + changed(VALID["gemm"], beats=0).encoded()
    first, second = disassemble(broken).splitlines()
    assert first == f"    0  # {'00' * 32}: opcode must be one of 1, 2, 3, 4, not 0"
    assert second.endswith("write=1  # gemm: beats must be from 1 to 8191, not 0")
    assert assemble_text("# nothing\n\n") == b""
    with pytest.raises(ValueError, match="program must have a multiple of 32 bytes, not 33"):
        disassemble(bytes(33))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("jump to=3", "kind must be one of load, gemm, vector, store, not 'jump'"),
        ("load fast", "load must be followed by NAME=VALUE, not 'fast'"),
        ("load speed=3", "load: field must be one of .*, not 'speed'"),
        ("load count_0=1", "load: count_1 must be from 1 to 1023, not 0"),
    ],
)
def test_text_that_is_none(line: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^line 2: {message}"):
        assemble_text(f"# a program\n{line}\n")


def test_bytes_of_another_length() -> None:
    for call in (Instruction.decoded, lambda data: fault_of(data, DEFAULT)):
        with pytest.raises(ValueError, match="data must have 32 bytes, not 31"):
            call(bytes(31))
    with pytest.raises(ValueError, match="kind must be one of load, gemm, vector, store, not 'x'"):
        Instruction("x", {})
