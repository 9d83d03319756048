"""Programs as bytes and as text: descriptors with names for what their bits mean, checked."""

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from types import MappingProxyType

from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import (
    DESCRIPTOR_BYTES,
    DESCRIPTORS,
    OPCODES,
    QUEUES,
    Descriptor,
    Field,
)
from mxsafe.machine.tokens import Deadlock, Header, deadlock_of
from mxsafe.validation import Form, checked, one_of, require_integer, require_one_of, shown

Value = int | float | str | Sequence[str]
_VALUE = Form.of(Value)

_QUEUE_FIELDS = ("wait", "signal")
_ON_BY_DEFAULT = ("load step_0", "store step_0", "gemm clear", "gemm write")


@dataclass(frozen=True)
class Fault:
    """Reason for which the machine refuses a descriptor.

    Attributes
    ----------
    error : str
        Name of the error in `mxsafe.machine.description.ERRORS`.
    reason : str
        What must be otherwise.
    """

    error: str
    reason: str


@checked
@dataclass(frozen=True)
class Instruction:
    """A descriptor as the values of its fields.

    Parameters
    ----------
    kind : str
        One of `mxsafe.machine.description.DESCRIPTORS`.
    values : Mapping of str to int
        The fields' values; those that are not named are 0.

    Raises
    ------
    ValueError
        If there is no such kind or field, or a value does not fit into its field.
    """

    kind: str
    values: Mapping[str, int]

    def __post_init__(self) -> None:
        require_one_of("kind", self.kind, DESCRIPTORS)
        known = {field.name: field for field in self.descriptor.fields}
        _require_known(self.kind, self.values, known)
        values = {
            name: require_integer(
                f"{self.kind}: {name}", self.values.get(name, 0), 0, (1 << field.width) - 1
            )
            for name, field in known.items()
            if name != "opcode"
        }
        self._keep(self.kind, {"opcode": self.descriptor.opcode, **values})

    def _keep(self, kind: str, values: Mapping[str, int]) -> None:
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "values", MappingProxyType(values))

    @classmethod
    def _of(cls, kind: str, values: Mapping[str, int]) -> "Instruction":
        """The instruction of values of all fields in their order; nothing is checked."""
        made = cls.__new__(cls)
        made._keep(kind, values)
        return made

    @property
    def descriptor(self) -> Descriptor:
        """Descriptor that defines the fields."""
        return DESCRIPTORS[self.kind]

    @property
    def header(self) -> Header:
        """Its queue and its tokens."""
        return Header(self.descriptor.queue, self["wait"], self["signal"])

    def __getitem__(self, name: str) -> int:
        return self.values[name]

    def encoded(self) -> bytes:
        """Its bytes."""
        offsets = self.descriptor.offsets
        word = 0
        for name, value in self.values.items():
            word |= value << offsets[name]
        return word.to_bytes(DESCRIPTOR_BYTES, "little")

    @classmethod
    @checked
    def decoded(cls, data: bytes) -> "Instruction":
        """The descriptor that bytes are; bits that no field has are dropped.

        Raises
        ------
        TypeError, ValueError
            If they are not bytes, there are not as many, or the opcode is unknown.
        """
        if len(data) != DESCRIPTOR_BYTES:
            raise ValueError(f"data must have {DESCRIPTOR_BYTES} bytes, not {len(data)}")
        word = int.from_bytes(data, "little")
        kind = _KINDS.get(word % 16)
        if kind is None:
            raise ValueError(f"opcode must be {one_of(OPCODES.members.values(), word % 16)}")
        return cls._of(kind, {name: word >> low & mask for name, low, mask in _PLACES[kind]})

    @checked
    def fault(self, configuration: MachineConfiguration) -> Fault | None:
        """The fault of the descriptor; None if a machine takes it.

        Raises
        ------
        TypeError
            If the machine is no configuration.
        """
        return _demands(self.kind, configuration).fault(self.values)

    def __str__(self) -> str:
        words = [f"{self.kind:<6}"]
        for field in self.descriptor.fields[1:]:
            if value := self.values[field.name]:
                words.append(f"{field.name}={_text(field, value)}")
        return " ".join(words).rstrip()


def _require_known(kind: str, values: Iterable[str], known: Mapping[str, Field]) -> None:
    others = [name for name in known if name != "opcode"]
    for name in values:
        require_one_of(f"{kind}: field", name, others)


_KINDS = {number: name for name, number in OPCODES.members.items()}
_PLACES = {
    kind: [(f.name, own.offsets[f.name], (1 << f.width) - 1) for f in own.fields]
    for kind, own in DESCRIPTORS.items()
}
"""Name, lowest bit and mask of each field of a kind."""
_RESERVED = {
    kind: [(bits, sum(1 << bit for bit in bits)) for bits in own.reserved]
    for kind, own in DESCRIPTORS.items()
}


class _Demands:
    """Requirements of a machine on descriptors of a kind, found once for all of them."""

    def __init__(self, kind: str, configuration: MachineConfiguration) -> None:
        own = DESCRIPTORS[kind]
        self._kind, self._configuration = kind, configuration
        self._rules = [rule for rule in own.rules if rule.is_on(configuration)]
        self._fields = []
        for field in own.fields:
            (least, most), step = field.bounds(configuration), field.step(configuration)
            allowed = field.allowed(configuration)
            whole = (least, most) == (0, (1 << field.width) - 1)
            if not whole or step > 1 or allowed is not None:
                self._fields.append((field, least, most, step, allowed))

    def fault(self, values: Mapping[str, int]) -> Fault | None:
        """The first one that values of all fields break."""
        for field, least, most, step, allowed in self._fields:
            value = values[field.name]
            if allowed is not None and value not in allowed:
                assert field.enumeration is not None
                members = field.enumeration.members.items()
                reason = one_of([name for name, number in members if number in allowed], value)
            elif not least <= value <= most:
                reason = f"from {least} to {most}, not {value}"
            elif value % step:
                reason = f"a multiple of {step}, not {value}"
            else:
                continue
            return Fault("malformed", f"{self._kind}: {field.name} must be {reason}")
        for rule in self._rules:
            if rule.broken(values, self._configuration):
                return Fault("malformed", f"{self._kind}: {rule.meaning}")
        return None


_demands = cache(_Demands)


def _text(field: Field, value: int) -> str:
    """A field's value as text that `_value` reads."""
    if field.name in _QUEUE_FIELDS:
        return ",".join(name for bit, name in enumerate(QUEUES) if value >> bit & 1)
    if field.enumeration is not None:
        return field.enumeration.name_of(value) or str(value)
    if field.name in ("parameter", "address"):
        return f"{value:#x}"
    return str(value)


def _value(kind: str, field: Field, given: Value) -> int:
    """A field's value from a number, a name, or names of queues."""
    name = f"{kind}: {field.name}"
    if type(given) is int:  # most are
        return require_integer(name, given, 0, (1 << field.width) - 1)
    given = _VALUE.settled(name, given)
    if not isinstance(given, int | Sequence):  # a fraction or a number of NumPy
        given = float(given)
    if field.name == "parameter" and isinstance(given, float):
        try:
            return int(struct.unpack("<I", struct.pack("<f", given))[0])
        except OverflowError:
            raise ValueError(f"{name} must be within binary32, not {given}") from None
    if isinstance(given, str) and _is_number(given):
        given = int(given, 0)
    if field.name in _QUEUE_FIELDS and not isinstance(given, int | float):
        queues = given.split(",") if isinstance(given, str) else given
        return sum(1 << _index(name, queue) for queue in dict.fromkeys(queues))
    if isinstance(given, str):
        members = field.enumeration.members if field.enumeration is not None else {}
        if not members:
            raise ValueError(f"{name} must be an integer, not {shown(given)}")
        return members[require_one_of(name, given, members)]
    return require_integer(name, given, 0, (1 << field.width) - 1)


def _is_number(text: str) -> bool:
    try:
        int(text, 0)
    except ValueError:
        return False
    return True


def _index(name: str, queue: str) -> int:
    if queue not in QUEUES:
        raise ValueError(f"{name} must be some of {', '.join(QUEUES)}, not {shown(queue)}")
    return QUEUES.index(queue)


@checked
def fault_of(data: bytes, configuration: MachineConfiguration) -> Fault | None:
    """The fault in the bytes of a descriptor; None if a machine takes it.

    Raises
    ------
    ValueError
        If they are not as many as a descriptor has.
    """
    if len(data) != DESCRIPTOR_BYTES:
        raise ValueError(f"data must have {DESCRIPTOR_BYTES} bytes, not {len(data)}")
    [found] = decoded(data, configuration)
    return found if isinstance(found, Fault) else None


@checked
def decoded(program: bytes, configuration: MachineConfiguration) -> list[Instruction | Fault]:
    """The descriptors of a program; in place of one that the machine does not take, why.

    Raises
    ------
    ValueError
        If the bytes are not a whole number of descriptors.
    """
    demands = {kind: _demands(kind, configuration) for kind in DESCRIPTORS}
    found: list[Instruction | Fault] = []
    for data in split(program):
        try:
            one = Instruction.decoded(data)
        except ValueError as error:
            found.append(Fault("opcode", str(error)))
            continue
        word = int.from_bytes(data, "little")
        for bits, mask in _RESERVED[one.kind]:
            if word & mask:
                reason = f"{one.kind}: bits {bits.start} to {bits.stop - 1} must be 0"
                found.append(Fault("malformed", reason))
                break
        else:
            found.append(demands[one.kind].fault(one.values) or one)
    return found


class Assembler:
    """Makes descriptors for a machine, and refuses what it would refuse.

    Fields that are not given are 0, but counts, `step_0`, `clear` and `write` of GEMM are 1, and
    `lanes` and `last_rows` all that there are. Fields with names take names, `wait` and `signal`
    names of queues, and `parameter` takes a float as well as its bits.

    Parameters
    ----------
    configuration : MachineConfiguration
    """

    def __init__(self, configuration: MachineConfiguration) -> None:
        self.configuration = configuration

    @cached_property
    def _make(self) -> Callable[[str, Mapping[str, int]], Instruction]:
        return maker(self.configuration)

    def load(self, **fields: Value) -> Instruction:
        """Memory to a buffer; see `instruction`."""
        return self.instruction("load", **fields)

    def gemm(self, **fields: Value) -> Instruction:
        """Products of strips; see `instruction`."""
        return self.instruction("gemm", **fields)

    def vector(self, **fields: Value) -> Instruction:
        """Arithmetic on rows; see `instruction`."""
        return self.instruction("vector", **fields)

    def store(self, **fields: Value) -> Instruction:
        """A buffer to memory; see `instruction`."""
        return self.instruction("store", **fields)

    @checked
    def instruction(self, kind: str, **fields: Value) -> Instruction:
        """A descriptor that the machine takes.

        Raises
        ------
        TypeError, ValueError
            If it would not take it; the message names the field, the requirement and the value.
        """
        require_one_of("kind", kind, DESCRIPTORS)
        known = {field.name: field for field in DESCRIPTORS[kind].fields}
        _require_known(kind, fields, known)
        values = {name: _value(kind, known[name], given) for name, given in fields.items()}
        made = self._make(kind, values)
        fault = made.fault(self.configuration)
        if fault is not None:
            raise ValueError(fault.reason)
        return made

    @checked
    def assemble(self, program: Iterable[Instruction]) -> bytes:
        """The bytes of a program.

        Raises
        ------
        TypeError
            If it holds anything else.
        ValueError
            If the machine does not take a descriptor, or waits for ever; the message gives the
            number of the descriptor.
        """
        data = bytearray()
        program = list(program)
        demands = {kind: _demands(kind, self.configuration) for kind in DESCRIPTORS}
        for number, instruction in enumerate(program):
            if not isinstance(instruction, Instruction):
                raise TypeError(f"program must hold instructions, not {shown(instruction)}")
            fault = demands[instruction.kind].fault(instruction.values)
            if fault is not None:
                raise ValueError(f"descriptor {number}: {fault.reason}")
            data += instruction.encoded()
        if deadlock := _deadlock(program, self.configuration):
            raise ValueError(f"descriptor {deadlock.descriptor}: {deadlock.reason}")
        return bytes(data)


def maker(configuration: MachineConfiguration) -> Callable[[str, Mapping[str, int]], Instruction]:
    """Return what makes descriptors of fields within their bounds; `assemble` checks the rest."""
    defaults = {kind: _defaults(kind, configuration) for kind in DESCRIPTORS}
    return lambda kind, values: Instruction._of(kind, {**defaults[kind], **values})


def _defaults(kind: str, configuration: MachineConfiguration) -> Mapping[str, int]:
    """Values of fields that are not given."""
    found = {"opcode": DESCRIPTORS[kind].opcode}
    for field in DESCRIPTORS[kind].fields:
        if field.name in ("lanes", "last_rows"):
            found[field.name] = field.bounds(configuration)[1]
        elif field.name != "opcode":
            found[field.name] = int(f"{kind} {field.name}" in _ON_BY_DEFAULT) or field.least
    return found


def _deadlock(
    program: Iterable[Instruction], configuration: MachineConfiguration
) -> Deadlock | None:
    """Message about the place where a machine waits for ever."""
    return deadlock_of((i.header for i in program), configuration.queue_depth)


def split(program: bytes) -> list[bytes]:
    """The descriptors of a program.

    Raises
    ------
    ValueError
        If it is not a whole number of them.
    """
    if len(program) % DESCRIPTOR_BYTES:
        raise ValueError(
            f"program must have a multiple of {DESCRIPTOR_BYTES} bytes, not {len(program)}"
        )
    return [program[at : at + DESCRIPTOR_BYTES] for at in range(0, len(program), DESCRIPTOR_BYTES)]


@checked
def disassemble(program: bytes, configuration: MachineConfiguration | None = None) -> str:
    """A program as text: a line for each descriptor, with its number and the fields that are not 0.

    Parameters
    ----------
    program : bytes
    configuration : MachineConfiguration, optional
        Machine that it is for; by default `MachineConfiguration()`. What it does not take is
        marked, and where a program of descriptors that it takes would wait for ever.

    Raises
    ------
    ValueError
        If the bytes are not a whole number of descriptors.
    """
    configuration = configuration or MachineConfiguration()
    found = decoded(program, configuration)
    marks = {n: one.reason for n, one in enumerate(found) if isinstance(one, Fault)}
    taken = [one for one in found if isinstance(one, Instruction)]
    if not marks and (deadlock := _deadlock(taken, configuration)):
        marks[deadlock.descriptor] = deadlock.reason
    lines = []
    for number, (data, one) in enumerate(zip(split(program), found, strict=True)):
        if isinstance(one, Fault) and one.error == "opcode":
            lines.append(f"{number:5d}  # {data.hex()}: {one.reason}")
            continue
        mark = f"  # {marks[number]}" if number in marks else ""
        lines.append(f"{number:5d}  {Instruction.decoded(data)}{mark}")
    return "".join(f"{line}\n" for line in lines)


@checked
def assemble_text(text: str, configuration: MachineConfiguration | None = None) -> bytes:
    """The program of a text as `disassemble` writes it; fields that are not named are 0.

    A number in front of a descriptor and all after ``#`` are passed over.

    Raises
    ------
    ValueError
        If a line is something else, or the machine does not take it; the message gives the line.
        If the machine would wait for ever; the message gives the number of the descriptor.
    """
    configuration = configuration or MachineConfiguration()
    program = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        if words and words[0].isdigit():
            del words[0]
        if not words:
            continue
        try:
            made = _from_words(words)
            fault = made.fault(configuration)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
        if fault is not None:
            raise ValueError(f"line {number}: {fault.reason}")
        program.append(made)
    return Assembler(configuration).assemble(program)


def _from_words(words: Sequence[str]) -> Instruction:
    kind, *assignments = words
    require_one_of("kind", kind, DESCRIPTORS)
    known = {field.name: field for field in DESCRIPTORS[kind].fields}
    values = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise ValueError(f"{kind} must be followed by NAME=VALUE, not {shown(assignment)}")
        _require_known(kind, [name], known)
        values[name] = _value(kind, known[name], value)
    return Instruction(kind, values)
