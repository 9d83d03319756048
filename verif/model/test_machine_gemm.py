"""GEMM descriptors against products of single tiles."""

from typing import Any

import numpy as np
import pytest

import mxsafe as mx
from mxsafe.codec import QuantizedTensor
from mxsafe.machine.assembler import Assembler
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.layout import OperandLayout
from mxsafe.model.machine import Machine
from verif.machine.machine_sizes import ROWS, machine_of

NOTHING = np.zeros(0, np.uint8)


def filled(configuration: MachineConfiguration, seed: int) -> Machine:
    """A machine whose operand buffers are full of ordinary numbers, and the vector buffer too."""
    rng = np.random.default_rng(seed)
    machine = Machine(configuration)
    for side in ("a", "w"):
        buffer = machine.buffers.operand(side)
        buffer.codes[...] = rng.integers(0, 256, buffer.codes.shape)
        buffer.scales[...] = rng.integers(120, 134, buffer.scales.shape)
    machine.buffers.vector[...] = rng.integers(0, 1 << 32, machine.buffers.vector.shape)
    return machine


def tile(
    machine: Machine, a: tuple[int, int], w: tuple[int, int], beats: int, block: int, **options: Any
) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Product of two strips, each from a beat and an entry on."""
    configuration = machine.configuration
    entries = -(-beats // block)
    operands = []
    for side, (beat, entry) in (("a", a), ("w", w)):
        buffer = machine.buffers.operand(side)
        operands.append(
            QuantizedTensor(
                buffer.codes[beat : beat + beats].swapaxes(0, 1).reshape(configuration.rows, -1),
                np.ascontiguousarray(buffer.scales[entry : entry + entries].T),
                mx.MX_FORMATS["mxsf"],
                4 * block,
                -1,
            )
        )
    left, right = operands
    return mx.matmul(left, right.T, arithmetic=configuration.arithmetic, **options)


@pytest.mark.parametrize("arithmetic", ["fp12", "exact", "window"])
@pytest.mark.parametrize("rows", ROWS)
def test_every_tile_is_where_it_belongs(arithmetic: Any, rows: int) -> None:
    configuration = machine_of(rows, arithmetic=arithmetic)
    machine, rng = filled(configuration, 1), np.random.default_rng(2)
    compared = 0
    for _ in range(6):
        beats, block = int(rng.integers(1, 40)), int(rng.integers(1, 17))
        fields = {
            "strips_a": int(rng.integers(1, 4)),
            "strips_w": int(rng.integers(1, 4)),
            "beats": beats,
            "block": block,
            "last_rows": int(rng.integers(1, rows + 1)),
            "result": int(rng.integers(0, 100)),
            "result_stride_a": int(rng.integers(rows, 40)),
            "result_stride_w": 150,
        }
        for side in "aw":
            fields[f"{side}_codes"] = int(rng.integers(0, 50))
            fields[f"{side}_stride"] = int(rng.integers(0, 60))
            fields[f"{side}_scales"] = int(rng.integers(0, 50))
            fields[f"{side}_scale_stride"] = int(rng.integers(0, 60))
        made = Assembler(configuration).gemm(**fields)
        expected = machine.buffers.vector.copy()
        for j in range(made["strips_w"]):
            for i in range(made["strips_a"]):
                a, w = (
                    (
                        made[f"{side}_codes"] + strip * made[f"{side}_stride"],
                        made[f"{side}_scales"] + strip * made[f"{side}_scale_stride"],
                    )
                    for side, strip in (("a", i), ("w", j))
                )
                at = made["result"] + i * made["result_stride_a"] + j * made["result_stride_w"]
                height = made["last_rows"] if i == made["strips_a"] - 1 else rows
                product = tile(machine, a, w, beats, block)[:height]
                expected[at : at + height] = product.view(np.uint32)
                compared += product.size
        assert machine.run(made.encoded(), NOTHING).error == "none"
        assert np.array_equal(machine.buffers.vector, expected)
    assert compared > 0


def bf16_tile(machine: Machine, a: int, w: int, beats: int) -> Any:
    """Product of two strips of numbers: beat after beat into sums of binary32, in rows of pairs."""
    left, right = (
        machine.buffers.operand(side).codes[beat : beat + beats].astype(np.uint32) << 16
        for side, beat in (("a", a), ("w", w))
    )
    sums = np.zeros((machine.configuration.rows, machine.configuration.rows), np.float32)
    for x, y in zip(left.view("f4"), right.view("f4"), strict=True):
        p = x[:, None, :] * y[None, :, :]
        sums = sums + ((p[..., 0] + p[..., 1]) + (p[..., 2] + p[..., 3]))
    return sums


def filled_with_numbers(rows: int, seed: int) -> Machine:
    """A machine of bfloat16 whose operand buffers are full of ordinary numbers."""
    rng = np.random.default_rng(seed)
    machine = Machine(machine_of(rows, arithmetic="bf16"))
    for side in ("a", "w"):
        codes = machine.buffers.operand(side).codes
        codes[...] = rng.normal(size=codes.shape).astype("f4").view("u4") >> 16
    return machine


@pytest.mark.parametrize("rows", ROWS)
def test_tiles_of_numbers(rows: int) -> None:
    machine = filled_with_numbers(rows, 6)
    made = Assembler(machine.configuration).gemm(
        strips_a=2, strips_w=3, beats=9, block=1, a_codes=3, a_stride=20, w_codes=7, w_stride=9,
        last_rows=3, result=5, result_stride_a=rows, result_stride_w=40,
    )  # fmt: skip
    expected = machine.buffers.vector.copy()
    for i, j in np.ndindex(2, 3):
        height = (rows, 3)[i]
        tile = bf16_tile(machine, 3 + 20 * i, 7 + 9 * j, 9)[:height]
        expected[5 + rows * i + 40 * j :][:height] = tile.view(np.uint32)
    assert machine.run(made.encoded(), NOTHING).error == "none"
    assert np.array_equal(machine.buffers.vector, expected)


def test_a_tile_of_numbers_is_continued() -> None:
    machine = filled_with_numbers(8, 7)
    assembler = Assembler(machine.configuration)
    parts = [
        assembler.gemm(beats=13, block=1, result=16, write=0),
        assembler.gemm(beats=19, block=1, a_codes=13, w_codes=13, result=32, clear=0),
    ]
    assert machine.run(assembler.assemble(parts), NOTHING).error == "none"
    vector = machine.buffers.vector
    assert np.array_equal(vector[32:40], bf16_tile(machine, 0, 0, 32).view(np.uint32))
    assert not vector[16:24].any()


@pytest.mark.parametrize("arithmetic", ["fp12", "exact"])
def test_a_tile_is_continued(arithmetic: Any) -> None:
    configuration = MachineConfiguration(arithmetic=arithmetic)
    machine, assembler = filled(configuration, 3), Assembler(configuration)
    whole = assembler.gemm(beats=96, block=16, result=0)
    parts = [
        assembler.gemm(beats=32, block=16, result=16, write=0),
        assembler.gemm(beats=48, block=16, a_codes=32, w_codes=32, a_scales=2, w_scales=2,
                       result=32, clear=0),
        assembler.gemm(beats=16, block=16, a_codes=80, w_codes=80, a_scales=5, w_scales=5,
                       result=16, clear=0),
    ]  # fmt: skip
    before = machine.buffers.vector.copy()
    assert machine.run(assembler.assemble([whole, *parts]), NOTHING).error == "none"
    vector = machine.buffers.vector
    assert np.array_equal(vector[16:32], vector[:16])
    assert not np.array_equal(vector[32:48], vector[:16]), "80 of 96 beats"
    assert np.array_equal(vector[48:], before[48:])
    second = tile(machine, (0, 0), (0, 0), 80, 16)
    assert np.array_equal(vector[32:48], second.view(np.uint32))


def test_large_products_through_memory_s_layout_are_close() -> None:
    """Against float64: the machine multiplies what was quantised, in each orientation."""
    configuration = MachineConfiguration()
    rng = np.random.default_rng(4)
    x, w = rng.normal(size=(48, 256)).astype("f4"), rng.normal(size=(256, 32)).astype("f4")
    machine = Machine(configuration)
    for side, matrix in (("a", x), ("w", w.T)):
        q = mx.quantize(matrix)
        layout = OperandLayout(configuration=configuration, rows=len(matrix), columns=256)
        codes, scales = layout.packed(q)
        buffer = machine.buffers.operand(side)
        buffer.codes.reshape(-1)[: len(codes)] = codes
        buffer.scales.reshape(-1)[: len(scales)] = scales
    made = Assembler(configuration).gemm(
        strips_a=3, strips_w=2, beats=64, block=16, a_stride=64, w_stride=64, a_scale_stride=4,
        w_scale_stride=4, result_stride_a=16, result_stride_w=48,
    )  # fmt: skip
    assert machine.run(made.encoded(), NOTHING).error == "none"
    found = machine.buffers.vector[:96].view("f4").reshape(2, 48, 16)
    product = np.concatenate(list(found), axis=1).astype(np.float64)
    left, right = (mx.dequantize(q).astype(np.float64) for q in (mx.quantize(x), mx.quantize(w.T)))
    assert np.allclose(product, left @ right.T, rtol=1e-5, atol=1e-4)
    assert np.linalg.norm(product - x.astype("f8") @ w) < 0.05 * np.linalg.norm(product)
