"""Public methods with parameters, each called on an object that was made for the call."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from types import FunctionType
from typing import Any

import numpy as np

import mxsafe as mx
from mxsafe.formats import FORMAT_SETS, FormatSet
from mxsafe.host.host import Host
from mxsafe.host.interpreter import Interpreted
from mxsafe.machine.assembler import Assembler, Instruction
from mxsafe.machine.configuration import SMALL_MACHINE
from mxsafe.machine.description import REGISTERS, Register
from mxsafe.machine.layout import NumberLayout, OperandLayout
from mxsafe.machine.program import Program
from mxsafe.model.machine import Machine
from mxsafe.model.schedule import Schedule
from mxsafe.products import OperandFormats
from mxsafe.tables import Table, load
from verif.support.bad_input.interface import Target, targets

__all__ = ["EXCEPT", "methods"]

EXCEPT: Mapping[str, str] = {
    "mxsafe.codec.blocks.QuantizedTensor": "takes slices of itself, as an array does",
    "mxsafe.executors.Here": "calls what it is given",
    "mxsafe.machine.description.Condition": "is a part of the description of descriptors",
    "mxsafe.machine.description.Descriptor": "is a part of the description of descriptors",
    "mxsafe.machine.description.Enumeration": "is a part of the description of descriptors",
    "mxsafe.machine.description.Field": "is a part of the description of descriptors",
    "mxsafe.machine.description.Rule": "is a part of the description of descriptors",
    "mxsafe.vectors.corner_classes.InputFormat": "draws what a set of vectors is made of",
    "mxsafe.verilog.library.ModuleLibrary": "takes parts of a design that is being built",
    "mxsafe.verilog.presets.Preset": "takes options that the command has read",
    "mxsafe.verilog.units.CatalogueEntry": "takes options that the command has read",
}
"""Classes whose methods are left out, and why. So are those of all configurations of hardware,
methods that are inherited, and those of which all arguments are fields, as `Assembler.load`."""


def _tensor() -> mx.QuantizedTensor:
    return mx.quantize(np.ones((8, 64), np.float32))


def _instruction() -> Instruction:
    return Assembler(SMALL_MACHINE).load(buffer="a_codes", address=0, count_0=1)


def _program() -> bytes:
    return Assembler(SMALL_MACHINE).assemble([_instruction()])


def _numbers() -> NumberLayout:
    return NumberLayout(configuration=SMALL_MACHINE, rows=4, columns=8)


def _operand() -> OperandLayout:
    return OperandLayout(configuration=SMALL_MACHINE, rows=8, columns=64)


def _memory() -> Any:
    return np.zeros((64, SMALL_MACHINE.word_bytes), np.uint8)


_MAKE: Mapping[type, Callable[[], Any]] = {
    Host: lambda: Host(Interpreted(SMALL_MACHINE)),
    Interpreted: lambda: Interpreted(SMALL_MACHINE),
    Assembler: lambda: Assembler(SMALL_MACHINE),
    Instruction: _instruction,
    Program: lambda: Program(_program(), SMALL_MACHINE),
    Machine: lambda: Machine(SMALL_MACHINE),
    NumberLayout: _numbers,
    OperandLayout: _operand,
    Register: lambda: next(register for register in REGISTERS if register.fields),
    Schedule: lambda: Schedule(_tensor(), _tensor().T, rows=8, columns=8),
    OperandFormats: lambda: OperandFormats.same(FORMAT_SETS["multi"].members[0]),
    FormatSet: lambda: FORMAT_SETS["multi"],
    Table: lambda: load("exp2"),
}
"""An object of each class."""

_GOOD: Mapping[str, Callable[[], Mapping[str, Any]]] = {
    "Assembler.assemble": lambda: {"program": [_instruction()]},
    "Assembler.instruction": lambda: {"kind": "gemm"},
    "FormatSet.mode": lambda: {"format": FORMAT_SETS["multi"].members[0]},
    "Host.counter": lambda: {"name": "words_read"},
    "Host.read": lambda: {"name": "status"},
    "Host.require": lambda: {"configuration": SMALL_MACHINE},
    "Host.run": lambda: {"program": Program(_program(), SMALL_MACHINE)},
    "Host.write": lambda: {"name": "control", "value": 0},
    "Instruction.decoded": lambda: {"data": _instruction().encoded()},
    "Instruction.fault": lambda: {"configuration": SMALL_MACHINE},
    "Interpreted.place": lambda: {"program": _program()},
    "Interpreted.read_register": lambda: {"address": 0},
    "Interpreted.work": lambda: {"seconds": 0.0},
    "Interpreted.write_register": lambda: {"address": 0, "value": 0},
    "Machine.execute": lambda: {"instruction": _instruction(), "memory": _memory()},
    "Machine.run": lambda: {"program": _program(), "memory": _memory().ravel()},
    "NumberLayout.packed": lambda: {"x": np.ones((4, 8), np.float32)},
    "NumberLayout.unpacked": lambda: {"data": _numbers().packed(np.ones((4, 8), np.float32))},
    "OperandFormats.element_bits": lambda: {"side": "a"},
    "OperandFormats.fp12_format": lambda: {"lanes": 4},
    "OperandFormats.of": lambda: {"side": "w"},
    "OperandFormats.same": lambda: {"format": FORMAT_SETS["multi"]},
    "OperandFormats.sum_bits": lambda: {"products": 4},
    "OperandFormats.window_exponent": lambda: {"window": 32, "inner": 64},
    "OperandLayout.packed": lambda: {"q": _tensor()},
    "OperandLayout.unpacked": lambda: {
        **dict(zip(("codes", "scales"), _operand().packed(_tensor()), strict=True)),
        "format": "mxsf",
    },
    "Program.assembled": lambda: {
        "instructions": [_instruction()],
        "configuration": SMALL_MACHINE,
    },
    "Register.pack": lambda: {"values": {f.name: 1 for f in _MAKE[Register]().fields}},
    "Register.unpack": lambda: {"value": 0},
    "Schedule.assemble": lambda: {"results": np.zeros((8, 8), np.float32)},
    "Table.column": lambda: {"power": 0},
    "Table.only": lambda: {"segments": [0]},
}
"""By a class and its method, a good value for each parameter that needs one."""


def methods() -> Iterator[Target]:
    """Methods of the public classes that `targets` finds, but for those that are left out."""
    for target in targets():
        kind = target.call
        if not isinstance(kind, type) or target.is_hardware or target.name in EXCEPT:
            continue
        for name, member in vars(kind).items():
            is_method = isinstance(member, FunctionType | classmethod | staticmethod)
            if name.startswith("_") or not is_method:
                continue
            method = Target(f"{target.name}.{name}", getattr(kind, name))
            if method.parameters.keys() - {"self"}:
                yield Target(method.name, _on_an_object(kind, name))


def _on_an_object(kind: type, name: str) -> Callable[..., Any]:
    """A method, good arguments of which are its defaults."""
    method = getattr(_MAKE[kind](), name)
    good = _GOOD[f"{kind.__name__}.{name}"]

    @wraps(method)
    def call(**given: Any) -> Any:
        return getattr(_MAKE[kind](), name)(**{**good(), **given})

    fields = inspect.Parameter.VAR_KEYWORD
    parameters = [
        parameter if parameter.kind == fields else parameter.replace(default=None)
        for parameter in inspect.signature(method).parameters.values()
    ]
    call.__signature__ = inspect.Signature(parameters)
    return call
