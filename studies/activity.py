"""``python -m studies.activity FOLDER [CASE...]``: a real layer at the pins of units.

Writes ``<module>.npz`` for every MAC, sub-matrix unit and vector unit of `STANDARD` and
`CARRY_SAVE` that is synthesised for the NanGate library, or of those whose names match;
``mxsafe synth --activity FOLDER`` simulates the netlists with them.

Vector units get what enters the functions of the same layer (`studies.vector_activity`).

Operands are the MiniLM slice of `verif.data.minilm`, quantised in the format of the unit,
at full rate. A MAC gets four outputs of the layer one after the other. A sub-matrix unit gets what
it has as the only one of an array, whose Verilog is simulated for that: after a short tile four
tokens by four features and so on, as many cycles as a tile takes.
"""

import os
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from amaranth.lib.wiring import In
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe.executors import workers
from mxsafe.formats import FORMAT_SETS, MX_FORMATS
from mxsafe.model.schedule import Beats, Schedule
from mxsafe.rtl.array.bf16 import Bf16
from mxsafe.rtl.array.sub_matrix_unit import SubMatrixUnit
from mxsafe.rtl.array.systolic_array import SystolicArray
from mxsafe.rtl.unit import Unit
from mxsafe.synthesis.cases import CARRY_SAVE, STANDARD, Case, select
from mxsafe.synthesis.power import RESET, Stimulus
from mxsafe.verilog import presets
from mxsafe.verilog.generate import generate
from studies import vector_activity
from verif.data import minilm
from verif.support import manifest
from verif.support.manifest import Module, Port, Words
from verif.support.simulators import SCRATCH, run_lockstep

_SETTLE = 8


def operands(
    format: str,
    block: int | tuple[int, int],
    depth: int | None = None,
    *,
    format_w: str | None = None,
) -> tuple[mx.QuantizedTensor, mx.QuantizedTensor]:
    """The layer's activations and weights, as deep as they are or less, in one format or two."""
    activations, weights = minilm.load()
    activations, weights = activations[:, :depth], weights[:depth]
    return (
        mx.quantize(activations, format, block=block, axis=-1),
        mx.quantize(weights, format_w or format, block=block, axis=-2),
    )


Operand = mx.QuantizedTensor | NDArray[np.uint16]


def _operands_of(
    configuration: Case, block: int | tuple[int, int], depth: int | None = None
) -> tuple[Operand, Operand]:
    """The layer as a unit takes it: bfloat16 numbers, or elements and scales of its format."""
    if presets.PRESETS[configuration.unit].arithmetic is not Bf16:
        return operands(configuration.format, block, depth, format_w=configuration.format_w)
    activations, weights = minilm.load()
    a, w = (mx.scalar.encode(x, "bf16") for x in (activations[:, :depth], weights[:depth]))
    return a.astype(np.uint16), w.astype(np.uint16)


def _codes(operand: Operand) -> NDArray[np.integer]:
    return operand.codes if isinstance(operand, mx.QuantizedTensor) else operand


def stimulus(configuration: Case) -> Stimulus | None:
    """Return the stimulus of a MAC, sub-matrix unit or vector unit; None for other units."""
    unit = configuration.build()
    if isinstance(unit, vector_activity.VECTOR_UNITS):
        return vector_activity.stimulus(unit)
    if configuration.format in FORMAT_SETS:
        return None  # what its pins carry depends on the modes
    if isinstance(unit, SubMatrixUnit):
        return _of_unit_in_array(configuration, unit)
    ports = {name for name, _, _ in unit.port_signals()}
    if {"a", "w", "en"} <= ports and "lanes" in unit.config.parameters:
        return _of_mac(configuration, unit)
    return None


def _of_mac(configuration: Case, unit: Unit) -> Stimulus:
    """Products of one output after the other."""
    a, w = (_codes(operand) for operand in _operands_of(configuration, 64))
    lanes = int(unit.config.parameters["lanes"])
    skipped = RESET + unit.latency + _SETTLE
    ports = configuration.build().signature.members
    beats = {
        name: _packed(
            np.pad(codes.reshape(-1, lanes), ((skipped, 0), (0, 0))),
            ports[name].shape.size // lanes,
        )
        for name, codes in (("a", a[:4]), ("w", np.ascontiguousarray(w[:, :4].T)))
    }
    return Stimulus(
        rows={
            **beats,
            "en": np.ones((len(beats["a"]), 1), np.uint8),
        },
        skipped=skipped,
    )


def _packed(lanes: NDArray[np.integer], width: int) -> Words:
    """Codes of each row as bytes of a bus, lane 0 lowest."""
    bits = lanes[:, :, None].astype(np.int64) >> np.arange(width) & 1
    return np.packbits(bits.reshape(len(lanes), -1).astype(np.uint8), axis=1, bitorder="little")


def _of_unit_in_array(configuration: Case, unit: SubMatrixUnit) -> Stimulus:
    """Return the stimulus of an array's only sub-matrix unit, from a simulation of the array."""
    sizes = {name: getattr(unit.config.shape, name) for name in ("rows", "columns", "lanes")}
    array = presets.build(
        configuration.unit.replace("pu", "sta", 1),
        MX_FORMATS[configuration.format],
        format_w=MX_FORMATS[configuration.format_w] if configuration.format_w else None,
        **{**configuration.options, **sizes, "pu_rows": 1, "pu_columns": 1},
    )
    assert isinstance(array, SystolicArray)
    # A unit that shares less, so as to take a block every two cycles, gets such blocks.
    block: int | tuple[int, int] = (8, 8) if unit.config.block_cycles == 2 else 64
    first, tiles = (
        Schedule(
            *product,
            arithmetic=array.config.parameters["arithmetic"],
            longest_block=array.config.parameters.get("block"),
            **sizes,
        )
        for product in (
            _operands_of(configuration, block, 64),
            _operands_of(configuration, block),
        )
    )
    # Until all results of the short tile have come out, and every accumulator has been written.
    rows_out = unit.config.parameters["rows"] * unit.config.parameters["row_interval"]
    skipped = RESET + first.beats_per_tile + unit.latency + rows_out + _SETTLE
    beats = [next(iter(first)), *tiles]
    with tempfile.TemporaryDirectory(dir=SCRATCH, prefix="activity-") as name:
        folder = Path(name)
        generate([array], folder)
        module = manifest.load(folder)[array.module_name]
        log = run_lockstep(
            "icarus",
            _with_inside(module, unit, folder),
            _streams(module, beats, tiles.beats_per_tile + skipped - RESET),
        )
    ready = np.concatenate([log["ready_a"], log["ready_w"]])
    assert ready.all(), f"{array.module_name} did not take a beat every cycle"
    inputs = [port for port, member, _ in unit.port_signals() if member.flow == In]
    rows = {port: log[f"{port}_inside"] for port in inputs}
    reset = {port: np.repeat(words[:1], RESET, axis=0) for port, words in rows.items()}
    return Stimulus(
        rows={port: np.concatenate([reset[port], words]) for port, words in rows.items()},
        skipped=skipped,
    )


def _streams(module: Module, tiles: Sequence[Beats], beats: int) -> dict[str, Words]:
    """Words on the pins of an array for the first beats of tiles, a beat a cycle."""
    chosen = tiles[: beats // min(map(len, tiles)) + 1]
    ports = module.ports

    def joined(side: str) -> Words:
        fields = []
        for tile in chosen:
            anchors = getattr(tile, f"{side}_anchors")
            parts = [
                getattr(tile, f"{side}_codes").reshape(len(tile), -1),
                getattr(tile, f"{side}_scales"),
                *([] if anchors is None else [anchors]),
            ]
            fields.append(np.concatenate(parts, axis=1))
        return ports[f"s_axis_{side}_tdata"].join(np.concatenate(fields))[:beats]

    first, block_last, last = (
        np.concatenate([getattr(tile, name) for tile in chosen])[:beats].astype(np.int64)
        for name in ("first", "block_last", "last")
    )
    always = np.ones(beats, np.int64)
    return {
        "s_axis_a_tdata": joined("a"),
        "s_axis_w_tdata": joined("w"),
        **{
            name: ports[name].words(values)
            for name, values in {
                "rst": 0 * always,
                "s_axis_a_tvalid": always,
                "s_axis_w_tvalid": always,
                "s_axis_a_tlast": last,
                "s_axis_w_tlast": last,
                "s_axis_a_tuser": first + 2 * block_last,
                "m_axis_c_tready": always,
            }.items()
        },
    }


def _with_inside(module: Module, unit: SubMatrixUnit, folder: Path) -> Module:
    """A wrapper of an array that shows what its sub-matrix unit gets."""
    name = f"{module.name}_inside"
    inputs = [port for port in module.ports.values() if port.direction == "input"]
    shown = {
        f"{port}_inside": (f"array.pu_0_0.{port}", len(signal))
        for port, member, signal in unit.port_signals()
        if member.flow == In
    }
    shown |= {"ready_a": ("array.s_axis_a_tready", 1), "ready_w": ("array.s_axis_w_tready", 1)}
    outputs = [Port(name, "output", width, False, ()) for name, (_, width) in shown.items()]
    declarations = ", ".join(f"{p.direction} [{p.width - 1}:0] {p.name}" for p in inputs + outputs)
    assigned = "\n".join(f"  assign {name} = {origin};" for name, (origin, _) in shown.items())
    connected = ", ".join(f".{port.name}({port.name})" for port in inputs)
    path = folder / f"{name}.v"
    path.write_text(
        f"module {name}({declarations});\n  {module.name} array ({connected});\n"
        f"{assigned}\nendmodule\n"
    )
    ports = {port.name: port for port in inputs + outputs}
    return Module(name, folder, (path, *module.sources), {}, 1, ports)


def write(
    folder: Path, configurations: Iterable[Case] = (*STANDARD, *CARRY_SAVE), *, jobs: int = 1
) -> list[str]:
    """Write the stimuli of configurations in as many processes; returns the names of the files."""
    folder.mkdir(parents=True, exist_ok=True)
    by_name = {
        configuration.build().module_name: configuration
        for configuration in configurations
        if "nangate45" in configuration.technologies
    }
    with workers(jobs) as pool:
        written = pool.executor.map(
            _write, [folder / f"{name}.npz" for name in by_name], by_name.values()
        )
        return [path.name for path in written if path is not None]


def _write(path: Path, configuration: Case) -> Path | None:
    """Write the stimulus of a configuration, if there is one."""
    found = stimulus(configuration)
    if found is None:
        return None
    numbers = {name: getattr(found, name) for name in ("skipped", "results", "windows")}
    arrays = {key: np.array(value) for key, value in numbers.items()}
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays, **found.rows)
    return path


def main(arguments: list[str]) -> None:
    """Write the stimuli and name their files."""
    folder, *names = arguments
    chosen = select(names=names) if names else (*STANDARD, *CARRY_SAVE)
    for name in write(Path(folder), chosen, jobs=os.cpu_count() or 1):
        print(Path(folder) / name)


if __name__ == "__main__":
    main(sys.argv[1:])
