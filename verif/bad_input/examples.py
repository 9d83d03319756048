"""Good values of parameters: a call with one bad value among them shows what that one does."""

from collections.abc import Callable, Mapping
from functools import cache
from inspect import Parameter
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import numpy as np

import mxsafe as mx
from mxsafe.analysis.errors import gap_error, tensor_error
from mxsafe.codec.nvfp4_profiles import NVFP4_PROFILES
from mxsafe.codec.profiles import PROFILES, Profile
from mxsafe.formats import (
    FORMAT_SETS,
    FP12_E4M7,
    MX_FORMATS,
    FloatFields,
    FloatFormat,
    FormatSet,
    MXFormat,
)
from mxsafe.host.host import Backend, Host
from mxsafe.host.interpreter import Interpreted
from mxsafe.machine.assembler import Assembler, Instruction
from mxsafe.machine.compiled import Compiled, compile_graph
from mxsafe.machine.compiler.timing import Times
from mxsafe.machine.configuration import SMALL_MACHINE, MachineConfiguration
from mxsafe.machine.description import REGISTERS, Register, constant_registers
from mxsafe.machine.energy import Work, work_of
from mxsafe.machine.energy_tables import EnergyTables
from mxsafe.machine.graph import Graph
from mxsafe.machine.layout import Float32Layout, OperandLayout
from mxsafe.machine.program import Program
from mxsafe.machine.trace import Traced
from mxsafe.model.converter import ConvertedBeats, convert_beats
from mxsafe.model.layer import OperandBeats, operand_beats
from mxsafe.model.machine import Machine
from mxsafe.model.schedule import Beats, Schedule
from mxsafe.products import OperandFormats
from mxsafe.rtl.array.arithmetic import Arithmetic
from mxsafe.rtl.array.exact import Exact
from mxsafe.rtl.mac.decoder import Decoder
from mxsafe.rtl.stream.operand_packer import OperandPackerConfiguration
from mxsafe.tables import Table, load
from mxsafe.vectors.build import VectorSet, decoder
from verif.bad_input.interface import Target
from verif.support.manifest import GEN

_MXSF = MX_FORMATS["mxsf"]
_FORMATS = OperandFormats(_MXSF, _MXSF)
Make = Callable[[], Any]


def _numbers(*shape: int) -> Any:
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


def _codes(*shape: int) -> Any:
    return np.random.default_rng(1).integers(0, 128, shape, np.uint8)


def _tiles() -> mx.QuantizedTensor:
    return mx.quantize(_numbers(16, 16), block=(8, 8))


def _figure() -> Any:
    from mxsafe.analysis.figures import new_figure

    return new_figure(2, 2)


def _rows() -> mx.QuantizedTensor:
    return mx.quantize(_numbers(8, 64))


def _last(count: int) -> Any:
    return np.arange(count) == count - 1


def _converted() -> ConvertedBeats:
    return convert_beats(_numbers(8, 8), _last(8), block=(8, 8))


def _instruction() -> Instruction:
    return Assembler(SMALL_MACHINE).load(buffer="a_codes", address=0, count_0=1)


@cache
def _graph() -> Graph:
    graph = Graph()
    graph.output("y", graph.scale(graph.input("x", (8, 64)), 2.0))
    return graph


def _compiled() -> Compiled:
    return compile_graph(_graph(), SMALL_MACHINE)


def _register() -> Register:
    return next(register for register in REGISTERS if register.fields)


def _operand_layout() -> OperandLayout:
    return OperandLayout(configuration=SMALL_MACHINE, rows=8, columns=64)


def _float32_layout() -> Float32Layout:
    return Float32Layout(configuration=SMALL_MACHINE, rows=8, columns=32)


def _memory() -> Any:
    return np.zeros((64, SMALL_MACHINE.word_bytes), np.uint8)


def _beats() -> Beats:
    return next(iter(Schedule(_tiles(), _tiles(), rows=8, columns=8)))


_BY_TYPE: Mapping[Any, Make] = {
    mx.QuantizedTensor: _tiles,
    MXFormat: lambda: _MXSF,
    FormatSet: lambda: FORMAT_SETS["multi"],
    FloatFormat: lambda: FP12_E4M7,
    FloatFields: lambda: FP12_E4M7.fields,
    OperandFormats: lambda: _FORMATS,
    MachineConfiguration: lambda: SMALL_MACHINE,
    Backend: lambda: Interpreted(SMALL_MACHINE),
    Interpreted: lambda: Interpreted(SMALL_MACHINE),
    Host: lambda: Host(Interpreted(SMALL_MACHINE)),
    Assembler: lambda: Assembler(SMALL_MACHINE),
    Instruction: _instruction,
    Program: lambda: Program(_instruction().encoded(), SMALL_MACHINE),
    Register: _register,
    OperandLayout: _operand_layout,
    Float32Layout: _float32_layout,
    Machine: lambda: Machine(SMALL_MACHINE),
    EnergyTables: EnergyTables,
    Times: Times,
    Work: lambda: work_of([_BY_TYPE[Program]()], Times()),
    Schedule: lambda: Schedule(_rows(), _rows().T, rows=8, columns=8),
    Profile: lambda: next(iter(PROFILES.values())),
    ConvertedBeats: _converted,
    OperandBeats: lambda: operand_beats(_rows().T, columns=8),
    Beats: _beats,
    Table: lambda: load("exp2_fine"),
    VectorSet: lambda: decoder(count=4),
    Arithmetic: lambda: Exact(formats=_FORMATS),
    OperandPackerConfiguration: lambda: OperandPackerConfiguration(format=_MXSF),
    np.ndarray: lambda: _numbers(8, 8),
    bytes: bytes,
    bool: bool,
    int: lambda: 8,
    float: lambda: 1.0,
    str: lambda: "mxsf",
    tuple: tuple,
    Mapping: dict,
}
"""By the class in an annotation."""

_BY_NAME: Mapping[str, Make] = {
    "codes": lambda: _codes(4, 8),
    "fmt": lambda: _MXSF,
    "a": lambda: _codes(4, 4),
    "w": lambda: _codes(4, 4),
    "x": lambda: _numbers(8, 32),
    "y": lambda: _numbers(8, 32),
    "high": lambda: _codes(4),
    "low": lambda: _codes(4),
    "scale_a": lambda: 127,
    "scale_w": lambda: 127,
    "last": lambda: _last(8),
    "block": lambda: 8,
    "folder": lambda: Path("folder"),
    "name": lambda: "name",
    "number": lambda: 1.5,
    "errors": lambda: [gap_error("mxsf", gaps=[0], samples=16)],
    "words": lambda: np.arange(8, dtype=np.uint32),
    "rows": lambda: 8,
    "axis": lambda: -1,
    "tensor_scale": lambda: None,
}
"""By the name of a parameter, where its annotation does not say enough."""

_TENSORS = {"a": _rows, "w": lambda: _rows().T}
_OPERANDS = {"values": lambda: _numbers(8, 8), "last": lambda: _last(8)}
_TABLE = {
    "table": lambda: load("exp2_fine"),
    "segment": lambda: np.zeros(4, np.int64),
    "offset": lambda: np.arange(4),
    "segments": lambda: np.zeros(4, np.int64),
    "offsets": lambda: np.arange(4),
}
_REPORTS = {"mxsf": [tensor_error(_numbers(8, 32))]}

_BY_TARGET: Mapping[str, Mapping[str, Make]] = {
    "analysis.errors.draw_tensor": {"distribution": lambda: "normal"},
    "analysis.errors.error_of_slabs": {"slabs": lambda: [_numbers(4, 32)]},
    "analysis.figures.draw_tensor_errors": {"errors": lambda: _REPORTS},
    "analysis.inspection.decode_table": {"codes": lambda: [1, 2]},
    "analysis.report.aligned": {"rows": lambda: [("a", "b")]},
    "analysis.report.markdown": {"rows": lambda: [("a", "b")]},
    "analysis.report.tensor_rows": {"errors": lambda: _REPORTS},
    "analysis.report.write_report": {
        "gaps": lambda: [gap_error("mxsf", gaps=[0], samples=16)],
        "tensors": lambda: _REPORTS,
    },
    "atomic.write_atomically": {
        "path": lambda: Path("file"),
        "content": lambda: lambda file: file.write(b""),
    },
    "atomic.write_together": {"files": lambda: {"file": b""}},
    "codec.blocks.QuantizedTensor": {
        "codes": lambda: _codes(4, 8),
        "scales": lambda: np.full((4, 1), 127, np.uint8),
    },
    "codec.gguf": {
        "path": lambda: "tensor.gguf",
        "tensors": lambda: {"x": _numbers(4, 8)},
    },
    "codec.nvfp4_profiles.quantize_nvfp4_like": {
        "profile": lambda: next(iter(NVFP4_PROFILES.values())),
        "block": lambda: 16,
    },
    "codec.packing.from_bytes": {
        "data": lambda: bytes(36),
        "shape": lambda: (4, 8),
    },
    "codec.packing.unpack_codes": {"packed": lambda: _codes(4, 8)},
    "codec.profiles.divergence": {"profile": lambda: next(iter(PROFILES))},
    "codec.profiles.quantize_like": {"profile": lambda: next(iter(PROFILES))},
    "codec.scalar.decode": {"format": lambda: "fp16"},
    "codec.scalar.encode": {"format": lambda: "fp16"},
    "codec.scalar.fields": {"format": lambda: "fp16"},
    "codec.storage.load": {"path": lambda: "tensor.npz"},
    "codec.storage.load_all": {"path": lambda: "tensor.npz"},
    "codec.storage.save": {"path": lambda: "saved.npz"},
    "codec.views.from_ml_dtypes": {
        "elements": lambda: mx.to_ml_dtypes(mx.quantize(_numbers(4, 8), "mxfp8_e4m3"))[0],
        "scales": lambda: mx.to_ml_dtypes(mx.quantize(_numbers(4, 8), "mxfp8_e4m3"))[1],
    },
    "codec.views.to_ml_dtypes": {"q": lambda: mx.quantize(_numbers(4, 8), "mxfp8_e4m3")},
    "formats.FloatFields": {"exponent_bits": lambda: 4, "mantissa_bits": lambda: 3},
    "formats.IntFormat": {"fraction_bits": lambda: 6},
    "formats.MXFormat": {"element": lambda: _MXSF.element},
    "formats.FormatSet": {"members": lambda: FORMAT_SETS["multi"].members},
    "formats.ScaleFormat": {"bias": lambda: 127, "nan_code": lambda: 255},
    "formats.scalar_format": {"format": lambda: "fp16"},
    "host.host.Host": {"name": lambda: "status"},
    "host.host.Host.counter": {"name": lambda: "words_read"},
    "host.host.Host.memory": {"memory": lambda: _memory().ravel()},
    "machine.assembler.Assembler": {
        "kind": lambda: "gemm",
        "program": lambda: [_instruction()],
    },
    "machine.assembler.Instruction.decoded": {"data": lambda: _instruction().encoded()},
    "machine.assembler.assemble_text": {"text": lambda: ""},
    "machine.energy.Work": {
        "counters": lambda: dict(_BY_TYPE[Work]().counters),
    },
    "machine.energy.work_of": {"programs": lambda: [_BY_TYPE[Program]()]},
    "machine.energy_tables.own_tables": {"text": lambda: "{}"},
    "machine.reach.result_beats": {"fields": lambda: {"beats": 3}},
    "machine.configuration.MachineConfiguration.operand_block": {"block": lambda: 64},
    "machine.description.configuration_of": {"values": lambda: constant_registers(SMALL_MACHINE)},
    "machine.description.Register.pack": {
        "values": lambda: {field.name: 1 for field in _register().fields}
    },
    "machine.frames.request": {
        "command": lambda: "read_memory",
        "number": lambda: 1,
        "address": lambda: 0,
        "words": lambda: 1,
    },
    "machine.layout.Float32Layout.unpacked": {
        "data": lambda: _float32_layout().packed(_numbers(8, 32))
    },
    "machine.layout.OperandLayout": {
        "q": _rows,
        "codes": lambda: _operand_layout().packed(_rows())[0],
        "scales": lambda: _operand_layout().packed(_rows())[1],
    },
    "machine.layout.transposed_codes": {"groups": lambda: _codes(2, 4, 16)},
    "machine.layout.narrowed": {"words": lambda: np.arange(8, dtype=np.uint32)},
    "machine.layout.widened_words": {"words": lambda: np.arange(8, dtype=np.uint16)},
    "machine.layout.transposed_scales": {"words": lambda: _codes(2, 32)},
    "machine.layout.packed_words": {"words": lambda: _codes(2, 16), "packing": lambda: "tiles"},
    "machine.layout.unpacked_words": {"words": lambda: _codes(2, 16), "packing": lambda: "tiles"},
    "machine.program.Program.assembled": {"instructions": lambda: [_instruction()]},
    "machine.flat.flat_files": {"model": _compiled},
    "machine.gradients.gradients": {
        "graph": _graph,
        "seeds": lambda: {_graph().outputs["y"]: _graph().outputs["y"]},
        "wanted": lambda: [_graph().values[0]],
    },
    "machine.trace": {"programs": lambda: [Traced(_BY_TYPE[Program]())]},
    "model.accumulate.canonical": {"values": lambda: _numbers(4)},
    "model.accumulate.scale_and_accumulate": {
        "acc": lambda: _numbers(4),
        "partial": lambda: _numbers(4),
    },
    "model.accumulate.scaled": {"partial": lambda: _numbers(4)},
    "model.converter.convert_beats": _OPERANDS,
    "model.converter.converted_tensor": {
        "shape": lambda: (8, 8),
        "block": lambda: (8, 8),
    },
    "model.float_arithmetic": {"a": lambda: _numbers(4), "b": lambda: _numbers(4)},
    "model.float_arithmetic.encode_float": {"values": lambda: np.zeros(4, np.float32)},
    "model.gemm.inner_block": {**_TENSORS, "lanes": lambda: 4},
    "model.gemm.matmul": _TENSORS,
    "model.window.anchors": {"inner": lambda: 1},
    "model.graph.GraphModel": {"graph": _graph},
    "model.layer.LayerSchedule": {"weights": _rows, "samples": lambda: _rows().T},
    "model.layer.layer_beats": {"weights": _rows, "samples": lambda: _rows().T},
    "model.layer.layer_output": {"weights": _rows, "samples": lambda: _rows().T},
    "model.layer.bias_beats": {"bias": lambda: _numbers(8)},
    "model.layer.residual_beats": {"residual": lambda: _numbers(8, 8)},
    "model.layer.operand_beats": {"q": lambda: _rows().T},
    "model.layer.operand_tensor": {
        "shape": lambda: (64, 8),
        "block": lambda: 64,
    },
    "model.machine.Machine.execute": {"memory": _memory},
    "model.machine.Machine.run": {"memory": lambda: _memory().ravel()},
    "model.polynomial": _TABLE,
    "model.row_replay.replay_rows": {"passes": lambda: 2},
    "model.safe_mac.partial_sums": {
        "values_a": lambda: [_numbers(4), _numbers(4)],
        "values_w": lambda: [_numbers(4), _numbers(4)],
    },
    "model.schedule.Schedule": _TENSORS,
    "model.schedule.inner_indices": {"inner": lambda: 16, "lanes": lambda: 4},
    "model.softmax": {
        "factor": lambda: np.float32(1),
    },
    "model.training.pass_traffic": {"block": lambda: (8, 8)},
    "model.transposer.transpose_beats": {"rows": lambda: _codes(8, 8)},
    "model.vector_arithmetic": {"a": lambda: _numbers(8, 32)},
    "products.OperandFormats": {"a": lambda: _MXSF, "w": lambda: _MXSF},
    "products.OperandFormats.window_exponent": {"window": lambda: 32},
    "products.signed_name": {"number": lambda: 3},
    "rtl.arithmetic.rounder": {"width": lambda: 20},
    "tables.Table": {"segments": lambda: [0], "power": lambda: 0},
    "tables.from_parameters": {
        "parameters": lambda: {
            "name": "t",
            "offset_bits": 4,
            "high_bits": 4,
            "fraction_bits": 4,
            "slope_bits": 4,
            "curvature_bits": 4,
            "coefficients": [],
            "bounds": [],
            "error": 0.0,
        }
    },
    "vectors.build.build": {"unit": lambda: "decoder"},
    "verilog.fusesoc.with_files": {
        "core": lambda: (GEN.parent / "mxsafe.core").read_text(),
        "manifest": lambda: {"modules": {}, "tops": []},
    },
    "verilog.ecp5": {"names": list},
    "verilog.generate.generate": {"tops": list, "out": lambda: Path("gen")},
    "verilog.manifest.manifest_entry": {"files": lambda: ["a.v"]},
    "verilog.manifest.read_manifest": {"out": lambda: GEN},
    "verilog.manifest": {"unit": lambda: Decoder(format=_MXSF)},
    "verilog.presets": {
        "name": lambda: "decoder",
        "unit": lambda: Decoder(format=_MXSF),
    },
    "verilog.presets.Preset": {"unit": lambda: Decoder, "kind": lambda: "arithmetic"},
    "verilog.sources": {"modules": list, "files": list},
    "analysis.figures.new_figure": {"width": lambda: 2.0, "height": lambda: 2.0},
    "analysis.figures.render": {"figure": _figure, "suffix": lambda: ".svg"},
    "analysis.figures.save": {"figure": _figure, "path": lambda: Path("figure.svg")},
    "codec.profiles.profile_named": {"profile": lambda: next(iter(PROFILES))},
    "machine.assembler.Instruction": {"kind": lambda: "load"},
    "machine.assembler.fault_of": {"data": lambda: bytes(32)},
}
"""By the target or its module, and the name of the parameter."""


def good_object(kind: type) -> Any:
    """One of a class, to call a method on."""
    return _BY_TYPE[kind]()


@cache
def good_arguments(target: Target) -> Mapping[str, Any]:
    """A good value for each parameter without a default."""
    return {
        name: _good(target, name, parameter)
        for name, parameter in target.parameters.items()
        if parameter.default is Parameter.empty
    }


def _good(target: Target, name: str, parameter: Parameter) -> Any:
    short = target.name.removeprefix("mxsafe.")
    for scope in (short, short.rpartition(".")[0]):
        if (make := _BY_TARGET.get(scope, {}).get(name)) is not None:
            return make()
    annotation = target.annotations.get(name)
    if name in _BY_NAME and not target.is_hardware:
        return _BY_NAME[name]()
    return _of(annotation)


def _of(annotation: Any) -> Any:
    """A value of a type, or of the first of several."""
    origin = get_origin(annotation)
    if origin is Literal:
        return get_args(annotation)[0]
    for kind in (annotation, origin, *get_args(annotation)):
        if kind in _BY_TYPE:
            return _BY_TYPE[kind]()
    return None
