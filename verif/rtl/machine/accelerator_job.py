"""Running programs on the simulated machine with a memory beside it."""

import hashlib
import json
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mxsafe.machine.description import COUNTERS
from mxsafe.rtl.machine.dma.axi_reader import AxiReaderConfiguration
from mxsafe.rtl.machine.dma.axi_writer import AxiWriterConfiguration
from verif.support.manifest import Module
from verif.support.simulators import SCRATCH, simulate

MEMORY = Path(__file__).parents[2] / "bench" / "axi_memory.v"
RULES = (
    "a read request stays until it is taken",
    "a write request stays until it is taken",
    "a beat stays until it is taken",
    "valid and ready are known",
    "what is valid is known",
    "reads are of whole beats, in bursts that go up",
    "writes are of whole beats, in bursts that go up",
    "no read crosses 4 KiB",
    "no write crosses 4 KiB",
    "wlast is set with the last beat of a burst",
    "nothing is valid in a reset",
    "a beat is written whole or not at all",
    "no more reads are outstanding than there may be",
    "no more writes are outstanding than there may be",
)
"""Rules that the memory watches, in the order of their bits; the last three are the machine's own.
"""
_READER, _WRITER = AxiReaderConfiguration(), AxiWriterConfiguration()
"""All machines have as many bursts and beats outstanding."""
_STARTS = 0x3C5A_A57D_FFFF_F000, 0xA5C3_5A7F_FFFF_F000, 0x5A3C_A580_FFFF_F000
"""Where memory begins: each bit of the upper half is 0 in one of them and 1 in another, both there
and behind the first 4 KiB, where a carry goes into it. Seeds take them in turn."""
_HEX = re.compile("[0-9a-f]+").fullmatch
_OWN = {
    "latency": 16,
    "spread": 16,
    "pause": 8,
    "seed": 32,
    "start": 64,
    "errors_from": 64,
    "errors_to": 64,
    "most_reads": 16,
    "most_read_beats": 16,
    "most_writes": 16,
}
"""Inputs of the memory, and their widths."""
_TOLD = {"broken": len(RULES), "outside": 32, "pending": 1, "in_burst": 1}
"""Outputs of the memory, and their widths."""
_LEAST_BYTES = 1 << 17
"""Of a memory that is built: so that few sizes of it are."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """A program that is run.

    Attributes
    ----------
    program, length : int
        Address of its first byte in memory, and its descriptors.
    base : int
        What addresses in it are relative to.
    limit : int
        Cycles after which it must have ended.
    reset_after : int, optional
        Cycles after which it is reset instead.
    reset_again : int, optional
        Cycles after which the reset is written once more.
    in_burst : bool
        The reset waits for a burst of writes to be outstanding.
    pin_clocks : int, optional
        The reset is one by the pin, set for so many cycles, and memory is reset beside the machine.
    start_again : bool
        The start is written once more while it runs, which is to change nothing.
    errors : range, optional
        Addresses that memory answers with errors.
    """

    program: int
    length: int
    base: int = 0
    limit: int = 1_000_000
    reset_after: int | None = None
    reset_again: int | None = None
    in_burst: bool = False
    pin_clocks: int | None = None
    start_again: bool = False
    errors: range | None = None


@dataclass(frozen=True)
class Ended:
    """Outcome of programs.

    Attributes
    ----------
    runs : list of dict
        Of each the registers and counters by name.
    registers : dict
        What could be read before the first one, by name.
    """

    memory: NDArray[np.uint8]
    runs: list[dict[str, int]]
    registers: dict[str, int]


def run_programs(
    simulator: str,
    module: Module,
    memory: NDArray[np.uint8],
    runs: Sequence[Run],
    *,
    latency: int | tuple[int, int] = 20,
    pause: float = 0.0,
    seed: int = 1,
    counters: Sequence[str] = tuple(COUNTERS),
) -> Ended:
    """Run programs one after the other on a simulated machine.

    Parameters
    ----------
    memory : ndarray of uint8
        Before the first of them, programs included.
    latency : int or tuple of int
        Cycles from a request to its answer; or fewest and most, so that each has its own.
    pause : float
        How often each channel of memory pauses. Where it does, there are times in which addresses
        of writes are taken only while a beat is offered.
    seed : int
        Of pauses and latencies, of what registers and buffers hold at first, and of where memory
        begins: addresses here are relative to that.
    counters : sequence of str
        Counters that are read behind each.
    """
    fewest, most = (latency, latency) if isinstance(latency, int) else latency
    size = module.ports["m_axi_rdata"].width // 8
    beats = -(-len(memory) // size)
    start = _STARTS[seed % len(_STARTS)]
    image = np.zeros(beats * size, np.uint8)
    image[: len(memory)] = memory
    SCRATCH.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=SCRATCH, prefix="machine-") as name:
        folder = Path(name)
        # Verilog's files have the highest byte of a word first.
        lines = [row.tobytes().hex() for row in image.reshape(beats, size)[:, ::-1]]
        (folder / "memory.hex").write_text("\n".join(lines) + "\n")
        job = {
            "memory": str(folder / "memory.hex"),
            "memory_out": str(folder / "after.hex"),
            "results": str(folder / "results.json"),
            "latency": fewest,
            "spread": most - fewest,
            "pause": round(256 * pause),
            "seed": seed,
            "start": start,
            "most_reads": _READER.bursts,
            "most_read_beats": _READER.window - 1 + _READER.burst,
            "most_writes": _WRITER.bursts,
            "counters": list(counters),
            "runs": [_described(run, start) for run in runs],
        }
        top, bench = _bench(module, beats)
        simulate(
            simulator,
            top,
            (bench, MEMORY, *(module.sources)),
            "verif.bench.accelerator",
            {"MXSAFE_JOB": json.dumps(job)},
            power_up=seed + 1,
        )
        results = json.loads((folder / "results.json").read_text())
        # Icarus writes comments with addresses in between.
        lines = (folder / "after.hex").read_text().splitlines()
        words = " ".join(line for line in lines if not line.startswith("//")).split()
    unknown = [at for at, word in enumerate(words[:beats]) if not _HEX(word)]
    assert not unknown, (
        f"{len(unknown)} beats of memory are unknown, the first of them {unknown[:4]}"
    )
    after = np.array([np.frombuffer(bytes.fromhex(word), np.uint8)[::-1] for word in words[:beats]])
    registers = results.pop()
    watched = results.pop()
    broken = [rule for bit, rule in enumerate(RULES) if watched["broken"] >> bit & 1]
    assert not broken, f"rules were broken: {'; '.join(broken)}"
    assert watched["outside"] == 0, f"{watched['outside']} beats were written outside of memory"
    assert len(results) == len(runs)
    return Ended(after.reshape(-1)[: len(memory)].copy(), results, registers)


def _described(run: Run, start: int) -> dict[str, int]:
    described = {n: getattr(run, n) for n in ("program", "length", "base", "limit")}
    described["program"] += start
    described["base"] += start
    for name in ("reset_after", "reset_again", "pin_clocks"):
        if (clocks := getattr(run, name)) is not None:
            described[name] = clocks
    described |= {name: int(getattr(run, name)) for name in ("start_again", "in_burst")}
    if run.errors is not None:
        described["errors_from"] = run.errors.start + start
        described["errors_to"] = run.errors.stop + start
    return described


def _bench(module: Module, beats: int) -> tuple[str, Path]:
    """A module with the machine and its memory, whose other ports are those of the machine."""
    bits = module.ports["m_axi_rdata"].width
    depth = 1 << (max(beats, _LEAST_BYTES * 8 // bits) - 1).bit_length()
    # Verilator cannot find a top module by a name as long as that of a machine may be.
    name = f"machine_{hashlib.sha256(module.name.encode()).hexdigest()[:8]}_with_memory_{depth}"
    # What the memory does not look at is for the bench.
    apart = ("cache", "prot")
    bus = [
        p
        for p in module.ports.values()
        if p.name.startswith("m_axi_") and not p.name.endswith(apart)
    ]
    ours = [p for p in module.ports.values() if p not in bus]
    ports = [
        f"{p.direction} [{p.width - 1}:0] {p.name}" for p in ours if p.name not in ("clk", "rst")
    ]
    ports += [f"input [{width - 1}:0] {own}" for own, width in _OWN.items()]
    ports += ["input clk", "input rst", "input load", "input dump"]
    ports += [f"output [{width - 1}:0] {told}" for told, width in _TOLD.items()]
    wires = "".join(f"  wire [{p.width - 1}:0] {p.name};\n" for p in bus)
    machine = ", ".join(f".{p.name}({p.name})" for p in module.ports.values())
    memory = ", ".join(
        [f".{own}({own})" for own in (*_OWN, *_TOLD, "clk", "rst", "load", "dump")]
        + [f".{p.name[6:]}({p.name})" for p in bus]
    )
    text = (
        f"module {name}({', '.join(ports)});\n{wires}"
        f"  {module.name} machine (\n    {machine});\n"
        f"  axi_memory #(.DATA_BITS({bits}), .BEATS({depth})) memory (\n    {memory});\n"
        "endmodule\n"
    )
    path = SCRATCH / f"{name}.v"
    path.write_text(text)
    return name, path
