"""Operators, passes and values of descriptor fields that programs of models reach."""

from collections import Counter
from collections.abc import Iterator

from torch.export import ExportedProgram

from mxsafe.machine.compiled import Compiled
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import DESCRIPTOR_BYTES, DESCRIPTORS, OPCODES, Descriptor, Field

Said = tuple[str, str, str]
"""A descriptor, a field of it, and a name of its value; of a number whether it is the least one."""


class Reached:
    """Counts over programs.

    Attributes
    ----------
    operators : Counter of str
        Nodes of exported models.
    passes : Counter of str
        Parts of VECTOR that one descriptor does together.
    values : Counter of tuple
        What fields say.
    """

    def __init__(self) -> None:
        self.operators: Counter[str] = Counter()
        self.passes: Counter[str] = Counter()
        self.values: Counter[Said] = Counter()

    def add(self, program: ExportedProgram, compiled: Compiled) -> None:
        """Count a model and its program."""
        for node in program.graph.nodes:
            if node.op == "call_function" and str(node.target).startswith("aten."):
                self.operators[str(node.target).split(".")[1].strip("_")] += 1
        for part in compiled.parts:
            data = part.program.data
            for at in range(0, len(data), DESCRIPTOR_BYTES):
                self._descriptor(int.from_bytes(data[at : at + DESCRIPTOR_BYTES], "little"))

    def _descriptor(self, word: int) -> None:
        descriptor = DESCRIPTORS[str(OPCODES.name_of(word % 16))]
        said = {}
        for field, offset in zip(descriptor.fields, descriptor.offsets.values(), strict=True):
            value = word >> offset & (1 << field.width) - 1
            said[field.name] = _class(field, value)
            self.values[descriptor.name, field.name, said[field.name]] += 1
        if descriptor.name == "vector":
            steps = [said[name] for name in ("arithmetic", "function", "reduction", "convert")]
            self.passes[" ".join(step for step in steps if step != "none") or "copy"] += 1

    def __str__(self) -> str:
        lines = []
        for name in ("operators", "passes", "values"):
            counts = getattr(self, name)
            lines.append(f"{len(counts)} {name}:")
            keys = {key: key if isinstance(key, str) else " ".join(key) for key in counts}
            lines += [f"  {counts[key]:8} {keys[key]}" for key in sorted(counts)]
        return "\n".join(lines)


def _class(field: Field, value: int) -> str:
    if field.enumeration is not None:
        return str(field.enumeration.name_of(value))
    return "least" if value == field.least else "more"


def expected(configuration: MachineConfiguration) -> set[Said]:
    """All that descriptors can say, but for what the compiler has no use for."""
    return {
        (descriptor.name, field.name, one)
        for descriptor in DESCRIPTORS.values()
        for field in descriptor.fields
        for one in _classes(descriptor, field, configuration)
        if (descriptor.name, field.name, one) not in UNUSED
    }


def _classes(
    descriptor: Descriptor, field: Field, configuration: MachineConfiguration
) -> Iterator[str]:
    if field.name == "opcode":
        yield descriptor.name
    elif field.enumeration is not None:
        numbers = field.allowed(configuration) or ()
        yield from (str(field.enumeration.name_of(number)) for number in numbers)
    else:
        yield from ("least", "more")


def _unused(reason: str, descriptor: str, fields: str, one: str) -> dict[Said, str]:
    return {(descriptor, field, one): reason for field in fields.split()}


UNUSED: dict[Said, str] = {
    **_unused(
        "strips and blocks follow one another",
        "gemm",
        "a_stride a_scale_stride w_stride w_scale_stride block",
        "least",
    ),
    **_unused("words follow one another", "load", "step_0", "least"),
    **_unused("words and strips follow one another", "store", "step_0 step_1 stride_1", "least"),
    **_unused("rows follow one another", "vector", "x_stride", "least"),
    **_unused("only gradients have such sums", "vector", "reduction", "sum"),
    **_unused(
        "results are stored in two loops",
        "store",
        "count_2 count_3 step_2 step_3 stride_2 stride_3",
        "more",
    ),
    **_unused("its one value is 0", "store", "unused", "more"),
    **_unused("constants lie first in memory", "store", "address", "least"),
    **_unused("tensors are of binary32", "load", "widen", "more"),
    **_unused("tensors are of binary32", "store", "narrow", "more"),
    **_unused("scales of strips begin with a word", "load", "part", "more"),
    **_unused("what is broadcast to all lanes is written out", "vector", "y_mode", "numbers"),
    **{
        ("vector", "function", f"{name}_derivative"): "graphs have no backward pass"
        for name in ("relu", "gelu", "silu", "tanh")
    },
    **_unused("operands go through memory", "vector", "target", "a"),
    **_unused("operands go through memory", "vector", "target", "w"),
}
"""What no program of a graph says, and why."""
