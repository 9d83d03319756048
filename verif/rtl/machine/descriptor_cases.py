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
    Rule,
)

_TRIES = 4000
_OF_PIECES = ("sweep", "ends")
"""Fields that most combinations with others are malformed for."""
_SEARCH = 40
"""Descriptors that are looked at for one that breaks a single rule."""


def _good_value(rng: np.random.Generator, field: Field, machine: MachineConfiguration) -> int:
    allowed = field.allowed(machine)
    if field.name in _OF_PIECES and rng.random() < 0.6:
        return 0
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
    for rule in kind.rules:
        # A field of which some machines take one value alone.
        only = rule.conditions[0]
        if rule.is_on(machine) and len(rule.conditions) == 1 and only.negated:
            values[only.field] = only.values[0]
    return values | {"opcode": kind.opcode}


def _good_values(
    rng: np.random.Generator, kind: Descriptor, machine: MachineConfiguration
) -> dict[str, int]:
    values = _values(rng, kind, machine)
    for _ in range(_TRIES):
        broken = [rule for rule in kind.rules if rule.broken(values, machine)]
        if not broken:
            return values
        # Few combinations break no rule, so one field of one rule alone is drawn anew.
        conditions = broken[int(rng.integers(0, len(broken)))].conditions
        name = conditions[int(rng.integers(0, len(conditions)))].field
        values[name] = _values(rng, kind, machine)[name]
    raise AssertionError(f"no {kind.name} without a fault was found")


def good_descriptor(rng: np.random.Generator, name: str, machine: MachineConfiguration) -> int:
    """A descriptor of a kind without a fault."""
    kind = DESCRIPTORS[name]
    return _word(kind, _good_values(rng, kind, machine))


def single_faults(
    rng: np.random.Generator, machine: MachineConfiguration
) -> Iterator[tuple[str, int]]:
    """Every way in which a descriptor can be wrong, at its borders; a name and the descriptor.

    Each has one fault alone, but where a fault brings another one with it.
    """
    for name, kind in DESCRIPTORS.items():
        for bits in kind.reserved:
            for bit in bits:
                yield f"{name} bit {bit}", good_descriptor(rng, name, machine) | 1 << bit
        for field in kind.fields[1:]:
            for value in _wrong_values(field, machine):
                values = _good_values(rng, kind, machine) | {field.name: value}
                yield f"{name} {field.name} {value}", _word(kind, values)
        for rule in kind.rules:
            if rule.is_on(machine):
                yield from _broken_rules(rng, kind, rule, machine)
    opcodes = range(1 << DESCRIPTORS["load"].field(OPCODES.name).width)
    for opcode in sorted(set(opcodes) - set(OPCODES.members.values())):
        word = good_descriptor(rng, str(rng.choice(list(DESCRIPTORS))), machine)
        yield f"opcode {opcode}", word // len(opcodes) * len(opcodes) + opcode


def _wrong_values(field: Field, machine: MachineConfiguration) -> list[int]:
    """Values that a field must not have: all of those with names, else those at the borders."""
    everything = range(1 << field.width)
    allowed = field.allowed(machine)
    if allowed is not None:
        return [value for value in everything if value not in allowed]
    least, most = field.bounds(machine)
    step = field.step(machine)
    low_bits = [1 << bit for bit in range(step.bit_length() - 1)]
    outside = {least - 1, most + 1, everything[-1] // step * step}
    return [*low_bits, *sorted(v for v in outside if v in everything and not least <= v <= most)]


def _broken_rules(
    rng: np.random.Generator, kind: Descriptor, rule: Rule, machine: MachineConfiguration
) -> Iterator[tuple[str, int]]:
    """Descriptors that break a rule, with each condition at each of its borders."""
    borders = {c.field: _borders(kind, c, machine) for c in rule.conditions}
    if not all(borders.values()):
        return  # no machine of these sizes can meet it
    for condition in rule.conditions:
        for value in borders[condition.field]:
            least, best = len(kind.rules) + 1, {}
            for _ in range(_SEARCH):
                values = _good_values(rng, kind, machine)
                values |= {name: int(rng.choice(some)) for name, some in borders.items()}
                values[condition.field] = value
                broken = sum(other.broken(values, machine) for other in kind.rules)
                if broken < least:
                    least, best = broken, values
                if broken == 1:
                    break
            assert rule.broken(best, machine)
            yield f"{kind.name} {rule.meaning}: {condition.field} {value}", _word(kind, best)


def _borders(kind: Descriptor, condition: Condition, machine: MachineConfiguration) -> list[int]:
    """Values of a field for which a condition just holds, among those that the field may have."""
    field = kind.field(condition.field)
    allowed = field.allowed(machine)
    near: Sequence[int] = condition.values
    if condition.above is not None:
        near = [getattr(machine, condition.above)]
    elif isinstance(near, range):
        near = [near[0], near[-1]]
    parts = {value + side for value in near for side in (-1, 0, 1)}
    parts |= {0, (1 << field.width) - 1 >> condition.low}
    values = [part << condition.low for part in sorted(parts) if part >= 0]
    least, most = field.bounds(machine)
    return [
        value
        for value in values
        if condition.holds(value, machine)
        and (value in allowed if allowed is not None else least <= value <= most)
    ]


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
