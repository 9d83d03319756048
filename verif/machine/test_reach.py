"""The predicted addresses are those that the interpreter finds."""

from typing import Any

import numpy as np
import pytest

from mxsafe.machine.assembler import Assembler, Instruction
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import DESCRIPTORS
from mxsafe.machine.reach import address_fault
from mxsafe.model.machine import Machine
from verif.machine.machine_sizes import ROWS, machine_of

SIZES = [
    *(
        machine_of(rows, a_beats=32, w_beats=48, out_beats=16, vector_banks=2, bank_beats=64)
        for rows in ROWS
    ),
    machine_of(
        16, arithmetic="bf16", a_beats=16, w_beats=24, out_beats=8, vector_banks=2, bank_beats=64
    ),
]
LARGEST = {
    "load": {"to": 60, "step_0": 3, "step_1": 9, "step_2": 9, "step_3": 9},
    "store": {"from": 60, "step_0": 3, "step_1": 9, "step_2": 9, "step_3": 9},
    "gemm": {
        "a_codes": 24, "a_stride": 8, "a_scales": 8, "a_scale_stride": 4, "w_codes": 24,
        "w_stride": 12, "w_scales": 12, "w_scale_stride": 4, "strips_a": 3, "strips_w": 3,
        "beats": 12, "block": 4, "result": 60, "result_stride_a": 24, "result_stride_w": 24,
        "last_rows": 8, "write": 1,
    },
    "vector": {
        "x": 60, "y": 100, "d": 60, "x_stride": 24, "y_stride": 8, "d_stride": 24, "out": 14,
        "out_stride": 4, "out_scales": 9, "out_scale_stride": 2, "beats": 40, "rows": 3,
        "arithmetic": 4, "y_mode": 2, "reduction": 3, "convert": 2, "target": 2,
        "to_vector": 1, "affine": 1,
    },
}  # fmt: skip


def random_fields(
    kind: str, rng: np.random.Generator, configuration: MachineConfiguration
) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, most in LARGEST[kind].items():
        least = DESCRIPTORS[kind].field(name).least
        fields[name] = int(rng.integers(least, most + 1))
    if kind in ("load", "store"):
        fields |= {f"count_{at}": int(rng.integers(1, 4)) for at in range(4)}
        fields["buffer"] = int(rng.integers(5 if kind == "load" else 3))
        vector = fields["buffer"] == (4 if kind == "load" else 2)
        if kind == "load" and not vector and rng.integers(2):
            fields |= {"transpose": 1, "count_0": 8 if rng.integers(2) else 4}
        fields["widen" if kind == "load" else "narrow"] = int(rng.integers(2)) if vector else 0
    if kind == "vector":
        fields["parameter"] = 1.0
    if not configuration.scaled:
        fields = {name: value for name, value in fields.items() if "scale" not in name}
        if kind == "gemm":
            fields["block"] = 1
        if kind == "vector":
            fields["convert"] = 3 if fields["convert"] else 0
    return fields


@pytest.mark.parametrize("configuration", SIZES, ids=lambda c: f"{c.rows}_{c.arithmetic}")
@pytest.mark.parametrize("kind", DESCRIPTORS)
def test_what_is_predicted_is_so(kind: str, configuration: MachineConfiguration) -> None:
    rng = np.random.default_rng(11)
    assembler, machine = Assembler(configuration), Machine(configuration)
    memory = np.zeros(4096, np.uint8)
    found = {"none": 0, "address": 0}
    while min(found.values()) < 25:
        try:
            made = assembler.instruction(kind, **random_fields(kind, rng, configuration))
        except ValueError:
            continue
        outcome = machine.run(made.encoded(), memory)
        fault = address_fault(made, configuration)
        assert outcome.error == (fault.error if fault else "none"), str(made)
        found[outcome.error] += 1


def test_the_last_entry_is_within() -> None:
    """Each limit, met and missed by one."""
    assembler = Assembler(MachineConfiguration())
    sizes = assembler.configuration
    cases: list[tuple[Instruction, Instruction, str]] = [
        (
            assembler.load(buffer="a_scales", to=sizes.a_beats // 4 - 4, count_0=4),
            assembler.load(buffer="a_scales", to=sizes.a_beats // 4 - 3, count_0=4),
            f"load: to must reach up to {sizes.a_beats // 4 - 1}, not {sizes.a_beats // 4}",
        ),
        (
            assembler.vector(convert="blocks", beats=65, out_scales=sizes.out_entries - 2),
            assembler.vector(convert="blocks", beats=65, out_scales=sizes.out_entries - 1),
            f"vector: out_scales must reach up to {sizes.out_entries - 1}, not {sizes.out_entries}",
        ),
        (
            assembler.gemm(result=sizes.vector_beats - 5, last_rows=5),
            assembler.gemm(result=sizes.vector_beats - 5, last_rows=6),
            f"gemm: result must reach up to {sizes.vector_beats - 1}, not {sizes.vector_beats}",
        ),
    ]
    for good, bad, message in cases:
        assert address_fault(good, sizes) is None
        fault = address_fault(bad, sizes)
        assert fault is not None
        assert (fault.error, fault.reason) == ("address", message)
