"""Descriptors that are good, and descriptors that are wrong in one way or in many."""

from collections.abc import Iterator, Sequence

import numpy as np

from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import (
    DESCRIPTOR_BITS,
    DESCRIPTORS,
    OPCODES,
    QUEUES,
    Condition,
    Descriptor,
    Field,
)

__all__ = ["good_descriptor", "wrong_descriptors"]


def _good_value(rng: np.random.Generator, field: Field, machine: MachineConfiguration) -> int:
    allowed = field.allowed(machine)
    if allowed is not None:
        return int(rng.choice(allowed))
    least, most = field.bounds(machine)
    step = field.step(machine)
    kind = rng.random()
    value = most if kind < 0.1 else least if kind < 0.3 else int(rng.integers(least, most + 1))
    return max(value // step * step, least)


def _word(kind: Descriptor, values: dict[str, int]) -> int:
    return sum(value << kind.offsets[name] for name, value in values.items())


def _values(
    rng: np.random.Generator, kind: Descriptor, machine: MachineConfiguration
) -> dict[str, int]:
    values = {field.name: _good_value(rng, field, machine) for field in kind.fields}
    own = 1 << QUEUES.index(kind.name)
    for name in ("wait", "signal"):
        values[name] &= ~own
    return values | {"opcode": kind.opcode}


def good_descriptor(rng: np.random.Generator, name: str, machine: MachineConfiguration) -> int:
    """A descriptor of a kind without a fault."""
    kind = DESCRIPTORS[name]
    for _ in range(1000):
        values = _values(rng, kind, machine)
        if not any(rule.broken(values, machine) for rule in kind.rules):
            return _word(kind, values)
    raise AssertionError(f"no {name} without a fault was found")


def _satisfying(
    rng: np.random.Generator, kind: Descriptor, condition: Condition, machine: MachineConfiguration
) -> int:
    """A value at a border of what a condition says, or any."""
    field = kind.field(condition.field)
    values: Sequence[int] = condition.values
    if condition.above is not None:
        values = [getattr(machine, condition.above)]
    near = int(rng.choice(values)) if rng.random() < 0.5 else int(values[-1])
    part = near + int(rng.integers(-1, 2))
    low = int(rng.integers(0, 1 << condition.low))
    return ((part << condition.low) | low) % (1 << field.width)


def wrong_descriptors(
    rng: np.random.Generator, count: int, machine: MachineConfiguration
) -> Iterator[int]:
    """Descriptors near the borders of what is allowed; some of them are good."""
    kinds = list(DESCRIPTORS.values())
    for number in range(count):
        kind = kinds[number % len(kinds)]
        values = _values(rng, kind, machine)
        way = rng.random()
        word = 0
        if way < 0.2:
            field = kind.fields[int(rng.integers(1, len(kind.fields)))]
            values[field.name] = int(rng.integers(0, 1 << field.width))
        elif way < 0.4:
            field = kind.fields[int(rng.integers(1, len(kind.fields)))]
            least, most = field.bounds(machine)
            near = int(rng.choice([least, most])) + int(rng.integers(-1, 2))
            values[field.name] = near % (1 << field.width)
        elif way < 0.8:
            rule = kind.rules[int(rng.integers(0, len(kind.rules)))]
            for condition in rule.conditions:
                values[condition.field] = _satisfying(rng, kind, condition, machine)
        elif way < 0.9:
            word = 1 << int(rng.integers(0, DESCRIPTOR_BITS))
        elif way < 0.92:
            values["opcode"] = int(
                rng.integers(0, 1 << DESCRIPTORS["load"].field(OPCODES.name).width)
            )
        yield word ^ _word(kind, values)
