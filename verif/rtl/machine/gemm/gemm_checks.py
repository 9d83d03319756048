"""Checks of the GEMM engine: random descriptors over random buffers, and `matmul`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe.formats import MX_FORMATS
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import DESCRIPTORS, ERRORS, HEADER_BITS
from mxsafe.model.gemm import ProductArithmetic, matmul
from mxsafe.rtl.machine.gemm.gemm_engine import LANES, GemmEngine
from verif.support.checkers import assert_equal
from verif.support.manifest import Module
from verif.support.simulators import run_bench
from verif.support.units import generated

Descriptor = dict[str, int]
_GEMM = DESCRIPTORS["gemm"]
_LONGEST_BLOCK = 16
_MANY_STRIPS = 3
_PATIENCE = 4000
"""Cycles with neither a write nor the end of a descriptor after which neither comes."""


def gemm_engine(arithmetic: ProductArithmetic, format_w: str = "mxsf", **others: Any) -> Module:
    """An engine with an array of 2x2 units of 2x2 MACs and small buffers, in `folder`."""
    sizes: dict[str, Any] = {"rows": 4, "unit_rows": 2, "conversions": ()}
    buffers = {"a_beats": 64, "w_beats": 96, "vector_banks": 1, "bank_beats": 64}
    machine = MachineConfiguration(
        arithmetic=arithmetic, format_w=format_w, **sizes, **buffers, **others
    )
    return generated(GemmEngine(machine=machine))


@dataclass
class Case:
    """Buffers and descriptors.

    Attributes
    ----------
    formats : tuple of str
        Of `a` and `w`.
    codes, scales : dict of ndarray of uint8
        By side: (beats, rows, lanes) and (entries, rows).
    """

    arithmetic: ProductArithmetic
    formats: tuple[str, str]
    rows: int
    codes: dict[str, NDArray[np.uint8]]
    scales: dict[str, NDArray[np.uint8]]
    vector: NDArray[np.uint32]
    descriptors: list[Descriptor]

    def image(self, count: int | None = None) -> NDArray[np.uint32]:
        """The vector buffer after so many descriptors, by default after all."""
        vector = self.vector.copy()
        tile = np.zeros((self.rows, self.rows), np.float32)
        for one in self.descriptors[:count]:
            tile = self._run(one, vector, tile)
        return vector

    def _run(
        self, one: Descriptor, vector: NDArray[np.uint32], tile: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        for j in range(one["strips_w"]):
            w = self._strip(one, "w", j)
            for i in range(one["strips_a"]):
                tile = matmul(
                    self._strip(one, "a", i),
                    w.T,
                    arithmetic=self.arithmetic,
                    lanes=LANES,
                    start=None if one["clear"] else tile,
                )
                first = one["result"] + i * one["result_stride_a"] + j * one["result_stride_w"]
                rows = one["last_rows"] if i == one["strips_a"] - 1 else self.rows
                if one["write"]:
                    vector[first : first + rows] = tile.view(np.uint32)[:rows]
        return tile

    def _strip(self, one: Descriptor, side: str, number: int) -> mx.QuantizedTensor:
        fmt = MX_FORMATS[self.formats["aw".index(side)]]
        beat = one[f"{side}_codes"] + number * one[f"{side}_stride"]
        entry = one[f"{side}_scales"] + number * one[f"{side}_scale_stride"]
        codes = self.codes[side][beat : beat + one["beats"]].swapaxes(0, 1)
        blocks = -(-one["beats"] // one["block"])
        scales = self.scales[side][entry : entry + blocks].T
        mask = np.uint8((1 << fmt.element.width) - 1)
        return mx.QuantizedTensor(
            codes.reshape(self.rows, -1) & mask, scales.copy(), fmt, one["block"] * LANES, -1
        )

    def job(self) -> dict[str, Any]:
        """The case as the bench wants it."""
        memories = {}
        for side in "aw":
            memories[f"{side}_codes"] = _words(self.codes[side])
            memories[f"{side}_scales"] = _words(self.scales[side])
        words = [
            sum(value << _GEMM.offsets[name] for name, value in one.items()) >> HEADER_BITS
            for one in self.descriptors
        ]
        return memories | {"descriptors": words}


def _words(entries: NDArray[np.uint8]) -> list[int]:
    return [int.from_bytes(entry.tobytes(), "little") for entry in entries]


def _begin(rng: np.random.Generator, room: int, need: int, count: int) -> tuple[int, int]:
    """A first place and a stride of some strips that a memory has room for."""
    stride = int(rng.integers(0, (room - need) // (count - 1) + 1)) if count > 1 else 0
    first = int(rng.integers(0, room - need - stride * (count - 1) + 1))
    return first, stride if count > 1 else int(rng.integers(0, 1 << 12))


def random_descriptor(rng: np.random.Generator, module: Module) -> Descriptor:
    """Strips, strides, blocks and edges of any kind, within the buffers."""
    sizes = module.parameters
    rows = sizes["pu_rows"] * sizes["rows"]
    continues = rng.random() >= 0.7 and sizes["arithmetic"] != "window"
    one = {"opcode": _GEMM.opcode, "clear": int(not continues)}
    one["write"] = int(rng.random() < 0.8)
    for side in "aw":
        strips = int(rng.integers(1, _MANY_STRIPS + 1)) if one["clear"] else 1
        one[f"strips_{side}"] = strips
    one["beats"] = int(rng.integers(1, 25)) if rng.random() < 0.7 else int(rng.integers(1, 4))
    one["block"] = int(rng.choice([2, _LONGEST_BLOCK, rng.integers(1, _LONGEST_BLOCK + 1)]))
    blocks = -(-one["beats"] // one["block"])
    for side in "aw":
        for kind, need, room in (
            ("", one["beats"], sizes[f"{side}_beats"]),
            ("scale_", blocks, sizes[f"{side}_beats"] // 2),
        ):
            base = f"{side}_{'scales' if kind else 'codes'}"
            place = _begin(rng, room, need, one[f"strips_{side}"])
            one[base], one[f"{side}_{kind}stride"] = place
    one["last_rows"] = int(rng.integers(1, rows + 1))
    room = sizes["vector_beats"] - (one["strips_w"] - 1) * rows
    one["result"], one["result_stride_a"] = _begin(rng, room, rows, one["strips_a"])
    one["result_stride_w"] = rows if one["strips_w"] > 1 else int(rng.integers(0, 1 << 14))
    return one


def random_case(
    seed: int, count: int, module: Module, arithmetic: ProductArithmetic, format_w: str = "mxsf"
) -> Case:
    """Random buffers and descriptors."""
    rng = np.random.default_rng(seed)
    sizes = module.parameters
    rows = sizes["pu_rows"] * sizes["rows"]
    codes, scales = {}, {}
    for side in "aw":
        beats = sizes[f"{side}_beats"]
        codes[side] = rng.integers(0, 256, (beats, rows, LANES)).astype(np.uint8)
        usual = rng.integers(119, 136, (beats // 2, rows))
        rare = rng.integers(0, 256, usual.shape)
        scales[side] = np.where(rng.random(usual.shape) < 0.02, rare, usual).astype(np.uint8)
    shape = (sizes["vector_beats"], rows)
    vector = rng.integers(0, 1 << 32, shape).astype(np.uint32)
    descriptors = [random_descriptor(rng, module) for _ in range(count)]
    return Case(arithmetic, ("mxsf", format_w), rows, codes, scales, vector, descriptors)


def _run(
    simulator: str,
    module: Module,
    case: Case,
    stall: float,
    pause: float,
) -> tuple[dict[str, Any], NDArray[np.uint32]]:
    """Run a case; returns the log, and the vector buffer afterwards."""
    options = {"seed": 1, "stall": stall, "pause": pause}
    options |= {"limit": 200_000, "patience": _PATIENCE}
    log = run_bench(simulator, module, "gemm_engine", case.job() | options)
    vector = case.vector.copy()
    for address, word in log["writes"]:
        assert address < len(vector), f"vector beat {address} is written"
        raw = int(word, 16).to_bytes(4 * case.rows, "little")
        vector[address] = np.frombuffer(raw, np.uint32)
    return log, vector


def check_case(
    simulator: str,
    module: Module,
    case: Case,
    *,
    stall: float = 0.0,
    pause: float = 0.0,
    gaps: Sequence[int] | None = None,
) -> int:
    """The vector buffer is as `matmul` has it; returns how many rows were written.

    If `gaps` are given, the array waits no more often than that, and each time so many cycles.
    """
    log, vector = _run(simulator, module, case, stall, pause)
    assert log["error"] == 0, f"error {log['error']}"
    assert len(log["done"]) == len(case.descriptors)
    assert_equal("vector beats", vector, case.image(), beat=np.arange(len(vector)))
    rows = beats = 0
    for one in case.descriptors:
        strips = one["strips_a"] * one["strips_w"]
        beats += strips * one["beats"]
        last = one["strips_w"] * (case.rows - one["last_rows"])
        rows += one["write"] * (strips * case.rows - last)
    assert len(log["writes"]) == rows > 0, f"{len(log['writes'])} rows were written, not {rows}"
    assert len(log["busy"]) == beats, f"the array took {len(log['busy'])} beats, not {beats}"
    if gaps is not None:
        waits = np.diff(log["busy"]) - 1
        assert waits[waits > 0].tolist() == list(gaps), f"after beats {np.flatnonzero(waits)}"
    return rows


def check_outside(
    simulator: str,
    module: Module,
    case: Case,
    number: int,
) -> None:
    """The descriptor of that number reaches outside: it fails, and all before it are done."""
    log, vector = _run(simulator, module, case, 0.2, 0.0)
    assert log["error"] == ERRORS["address"], f"error {log['error']} of descriptor {number}"
    done = len(log["done"])
    assert done == number, f"{done} descriptors were done before the error of {number}"
    before = case.image(number)
    # What the one that fails has written is not compared: it may be anything within its tiles.
    kept = np.ones(len(vector), bool)
    one = case.descriptors[number]
    for j in range(one["strips_w"]):
        for i in range(one["strips_a"]):
            first = one["result"] + i * one["result_stride_a"] + j * one["result_stride_w"]
            kept[first : first + case.rows] = False
    beats = np.flatnonzero(kept)
    assert_equal("vector beats", vector[beats], before[beats], beat=beats)
