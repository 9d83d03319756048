"""Check of a descriptor by itself, before anything of it runs."""

from collections.abc import Iterator

from amaranth.hdl import Cat, Module, Mux, Value
from amaranth.lib.wiring import In, Out

from mxsafe.machine.description import (
    DESCRIPTOR_BITS,
    DESCRIPTORS,
    ERRORS,
    Condition,
    Descriptor,
    Field,
    Rule,
)
from mxsafe.rtl.arithmetic.bits import any_of, equals, named
from mxsafe.rtl.machine.part import PartConfiguration, differing_sizes
from mxsafe.rtl.machine.ports import ERROR_BITS
from mxsafe.rtl.timing import at, held
from mxsafe.rtl.unit import Ports, Unit


class DescriptorCheckConfiguration(PartConfiguration, eq=False):
    """A `DescriptorCheck`: for an FPGA with a register behind each kind of descriptors."""

    decided_by = (
        "rows",
        "reduction_beats",
        "functions",
        "reductions",
        "conversions",
        "affine",
        "sweeps",
        "anchored",
        "scaled",
        "load_packings",
        "store_packings",
        "target",
    )
    shown_if_not_default = frozenset(
        {"anchored", "scaled", "load_packings", "store_packings", "target"}
    )

    @property
    def latency(self) -> int:
        """Cycles from a descriptor to its error."""
        return at(self, "kinds")

    @property
    def differences(self) -> list[str]:
        return [*differing_sizes(self.decisive | {"target": "asic"}), *self._for_target]


class DescriptorCheck(Unit[DescriptorCheckConfiguration]):
    """Judges a descriptor by the rules of the description: known opcode, values, combinations.

    Combinational, but for an FPGA.

    Attributes
    ----------
    descriptor : In
        The descriptor, its first byte lowest.
    error : Out(4)
        Code of the error, 0 if there is none.
    """

    def ports(self) -> Ports:
        return {"descriptor": In(DESCRIPTOR_BITS), "error": Out(ERROR_BITS)}

    def fill(self, m: Module, platform: object) -> None:
        kinds, broken = [], []
        for kind in DESCRIPTORS.values():
            opcode = self._field(kind, "opcode")
            is_kind = named(m, f"is_{kind.name}", 1, opcode == kind.opcode)
            wrong = named(m, f"{kind.name}_is_malformed", 1, Cat(*self._wrong(m, kind)).any())
            if self.config.latency:
                is_kind, wrong = held(m, f"{kind.name}_found", Cat(is_kind, is_kind & wrong))
            kinds.append(is_kind)
            broken.append(is_kind & wrong)
        is_known = named(m, "is_known", 1, any_of(kinds))
        malformed = named(m, "is_malformed", 1, any_of(broken))
        found = Mux(malformed, ERRORS["malformed"], ERRORS["none"])
        m.d.comb += self.error.eq(Mux(is_known, found, ERRORS["opcode"]))

    def _field(self, kind: Descriptor, name: str) -> Value:
        """Bits of a field."""
        offset = kind.offsets[name]
        return self.descriptor[offset : offset + kind.field(name).width]

    def _wrong(self, m: Module, kind: Descriptor) -> Iterator[Value]:
        """Yield the conditions that make a descriptor of that kind malformed."""
        for reserved in kind.reserved:
            yield self.descriptor[reserved.start : reserved.stop].any()
        for field in kind.fields:
            if field.name != "opcode":
                yield from self._bad_values(m, kind, field)
        for number, rule in enumerate(kind.rules):
            if rule.is_on(self.config.machine):
                yield self._broken(m, kind, number, rule)

    def _bad_values(self, m: Module, kind: Descriptor, field: Field) -> Iterator[Value]:
        """Values that the field must not have."""
        machine = self.config.machine
        value = self._field(kind, field.name)
        name = f"{kind.name}_{field.name}"
        least, most = field.bounds(machine)
        if least:
            yield named(m, f"{name}_is_low", 1, value < least)
        if most < (1 << field.width) - 1:
            yield named(m, f"{name}_is_high", 1, value > most)
        step = field.step(machine)
        if step > 1:
            yield named(m, f"{name}_is_uneven", 1, value[: step.bit_length() - 1].any())
        allowed = field.allowed(machine)
        if allowed is not None and set(allowed) != set(range(1 << field.width)):
            yield named(m, f"{name}_is_none", 1, ~Cat(equals(value, one) for one in allowed).any())

    def _broken(self, m: Module, kind: Descriptor, number: int, rule: Rule) -> Value:
        """Whether a rule is broken."""
        holds = [self._holds(kind, condition) for condition in rule.conditions]
        result = holds[0]
        for one in holds[1:]:
            result = result & one
        return named(m, f"{kind.name}_breaks_{number}", 1, result)

    def _holds(self, kind: Descriptor, condition: Condition) -> Value:
        """Whether a statement about a field is true."""
        part = self._field(kind, condition.field)[condition.low :]
        values = condition.values
        if condition.above is not None:
            found: Value = part > getattr(self.config.machine, condition.above)
        elif isinstance(values, range):
            found = part < values.stop
            if values.start:
                found = found & (part >= values.start)
        else:
            found = Cat(equals(part, one) for one in values).any()
        return ~found if condition.negated else found
