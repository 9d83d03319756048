"""Every public function and constructor, found by walking the modules."""

import inspect
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, get_type_hints

import mxsafe
from mxsafe.rtl.unit import Options

EXCEPT: Mapping[str, str] = {
    "mxsafe.validation": "is what the others are checked with",
    "mxsafe.cli": "takes command lines, which have a trial of their own",
    "mxsafe.torch": "needs PyTorch, and has tests of its own",
    "mxsafe.synthesis": "drives other people's tools and reads what they write",
    "mxsafe.machine.compiler": "takes networks, whose refusals have tests of their own",
    "mxsafe.machine.compiled": "takes networks, whose refusals have tests of their own",
    "mxsafe.machine.graph": "builds networks, whose refusals have tests of their own",
    "mxsafe.machine.composed": "builds networks, whose refusals have tests of their own",
    "mxsafe.machine.stages": "takes networks, whose refusals have tests of their own",
    "mxsafe.model.host": "is a part of compiled networks, behind their checks",
    "mxsafe.onnx": "needs ONNX, and has tests of its own",
    "mxsafe.machine.assembler.maker": "is told a configuration by the compiler",
    "mxsafe.machine.assembler.split": "is given a program that callers have checked",
    "mxsafe.machine.description.run_place": "takes fields of descriptors that have been checked",
    "mxsafe.machine.description.run_words": "takes fields of descriptors that have been checked",
    "mxsafe.machine.tokens": "takes headers of descriptors that have been checked",
    "mxsafe.codec.numpy_engine": "takes parts of a tensor that the codec has checked",
    "mxsafe.codec.numba_engine": "takes parts of a tensor that the codec has checked",
    "mxsafe.model.machine_buffers": "is a part of the interpreter, behind its checks",
    "mxsafe.model.machine_gemm": "is a part of the interpreter, behind its checks",
    "mxsafe.model.machine_transfer": "is a part of the interpreter, behind its checks",
    "mxsafe.model.machine_vector": "is a part of the interpreter, behind its checks",
    "mxsafe.formats.named": "is given a catalogue by those who look a name up in it",
    "mxsafe.model.normalisation.NormRows": "is a part of norms, behind their checks",
    "mxsafe.model.softmax.SoftmaxRows": "is a part of softmax, behind its checks",
    "mxsafe.model.sums": "is a part of `matmul`, behind its checks",
    "mxsafe.model.window.Window": "is a part of `matmul`, behind its checks",
    "mxsafe.verilog.convert": "takes parts of a design that is being built",
    "mxsafe.verilog.ecp5.either": "takes parts of a design that is being built",
    "mxsafe.verilog.manifest.flat_fields": "takes parts of a manifest",
    "mxsafe.verilog.manifest.manifest_text": "takes a manifest that is being written",
    "mxsafe.verilog.readme": "takes a manifest that is being written",
    "mxsafe.verilog.narrow": "takes parts of a design that is being built",
    "mxsafe.verilog.unread": "takes parts of a design that is being built",
    "mxsafe.verilog.nets": "takes parts of a design that is being built",
    "mxsafe.verilog.notes": "takes parts of a design that is being built",
    "mxsafe.verilog.yosys": "drives other people's tools and reads what they write",
    "mxsafe.host.simulated.Simulated": "compiles a simulator, whose sources are no input",
    "mxsafe.host.serial": "talks to a board",
    "mxsafe.rtl.machine.dma.axi_master.AxiMasterConfiguration": "is a base of two units",
    "mxsafe.rtl.machine.part.PartConfiguration": "is a base of the parts of a machine",
    "mxsafe.rtl.board.line.LineConfiguration": "is a base of two units",
    "mxsafe.rtl.unit": "has the bases of all units",
    "mxsafe.rtl.vector.softmax_stages.SoftmaxPartConfiguration": "is a base of three units",
    "mxsafe.rtl.vector.softmax_stages.SoftmaxRowsConfiguration": "is a base of two units",
    "mxsafe.host.verilator": "drives other people's tools and reads what they write",
}
"""Omissions and their reasons. Of `mxsafe.rtl` functions are left out: they take signals."""


@dataclass(frozen=True)
class Target:
    """A public function or class.

    Attributes
    ----------
    name : str
        Its module and name.
    call : callable
        It itself.
    """

    name: str
    call: Callable[..., Any]

    @property
    def is_hardware(self) -> bool:
        """Whether it makes the configuration of a hardware unit, or a part of one."""
        return isinstance(self.call, type) and issubclass(self.call, Options)

    @cached_property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """Parameters that a call can name."""
        named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        return {
            name: parameter
            for name, parameter in inspect.signature(self.call).parameters.items()
            if parameter.kind in named
        }

    @cached_property
    def annotations(self) -> dict[str, Any]:
        """Return the annotations of the parameters, as far as they can be found out."""
        function = self.call.__init__ if isinstance(self.call, type) else self.call  # type: ignore[misc]
        try:
            return get_type_hints(function)
        except NameError:
            return {}


def targets() -> Iterator[Target]:
    """All of them: what modules have in their ``__all__``, or without one under a public name."""
    for info in pkgutil.walk_packages(mxsafe.__path__, "mxsafe."):
        if _is_left_out(info.name):
            continue
        if any(part.startswith("_") for part in info.name.split(".")):
            continue
        module = import_module(info.name)
        public = (name for name in vars(module) if not name.startswith("_"))
        for name in getattr(module, "__all__", sorted(public)):
            found = getattr(module, name)
            if getattr(found, "__module__", None) != info.name or not _is_tried(info.name, found):
                continue
            if not _is_left_out(f"{info.name}.{name}"):
                yield Target(f"{info.name}.{name}", found)


def _is_left_out(name: str) -> bool:
    return any(name == left or name.startswith(f"{left}.") for left in EXCEPT)


def _is_tried(module: str, found: object) -> bool:
    if inspect.isclass(found):
        if issubclass(found, BaseException) or inspect.isabstract(found):
            return False
        is_protocol = getattr(found, "_is_protocol", False)
        in_rtl = module.startswith("mxsafe.rtl")
        return not is_protocol and (not in_rtl or issubclass(found, Options))
    return inspect.isfunction(found) and not module.startswith("mxsafe.rtl")
