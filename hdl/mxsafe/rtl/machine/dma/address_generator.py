"""Address generator: a strided iterator of nested loops, by additions alone."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.arithmetic.bits import named, noted, truncated, update
from mxsafe.rtl.timing import held
from mxsafe.rtl.unit import Configuration, Ports, Unit
from mxsafe.validation import PositiveInteger


class AddressGeneratorConfiguration(Configuration):
    """An `AddressGenerator`; the default one is for a buffer.

    Parameters
    ----------
    count_bits : tuple of int
        For each loop, the innermost first, bits of the number of its turns.
    step_bits : tuple of int
        Bits of the step from turn to turn, as many.
    start_bits : int
        Bits of the first address.
    address_bits : int
        Bits of an address, at least those of the first one. The highest bit stays set once a sum
        has reached it.
    paced : bool
        `advance` comes two cycles after `begins` or another one at the earliest: which loops end is
        said from registers.
    """

    shown_if_not_default = frozenset({"paced"})

    count_bits: tuple[PositiveInteger, ...] = (12, 10, 10, 8)
    step_bits: tuple[PositiveInteger, ...] = (15, 15, 15, 15)
    start_bits: PositiveInteger = 17
    address_bits: PositiveInteger = 18
    paced: bool = False

    def __post_init__(self) -> None:
        if not self.count_bits or len(self.step_bits) != len(self.count_bits):
            raise ValueError(
                f"step_bits must be {len(self.count_bits)} numbers, one for each of count_bits, "
                f"not {len(self.step_bits)}"
            )
        least = max(self.start_bits, *self.step_bits)
        if self.address_bits < least:
            raise ValueError(f"address_bits must be {least} or more, not {self.address_bits}")

    latency = 1
    """Cycles from `begins` to the first address."""

    @property
    def loops(self) -> int:
        """Loops in each other."""
        return len(self.count_bits)


class AddressGenerator(Unit[AddressGeneratorConfiguration]):
    """The addresses ``start + i0*step_0 + i1*step_1 + ...`` in order, ``i0`` changing fastest.

    Each loop keeps the address at which its turn began. A step adds once: to the address of the
    innermost loop that has turns left, and all loops within it begin there.

    Attributes
    ----------
    begins : In(1)
        The loops begin at `start`.
    start : In
        The first address.
    count_0, count_1... : In
        Turns of each loop, 1 or more: when the loops begin and whenever one begins again.
    step_0, step_1... : In
        Steps; with `advance`.
    advance : In(1)
        On to the next address.
    address : Out
        The current address. Its highest bit is set if the sum does not fit below it.
    ends_run : Out(1)
        It is the last one of the innermost loop.
    last : Out(1)
        This is the last address.
    last_turn : Out(1)
        It is in the last turn of all loops but the innermost one.
    """

    def ports(self) -> Ports:
        config = self.config
        counts = {f"count_{i}": In(bits) for i, bits in enumerate(config.count_bits)}
        steps = {f"step_{i}": In(bits) for i, bits in enumerate(config.step_bits)}
        return {
            "begins": In(1),
            "start": In(config.start_bits),
            **counts,
            **steps,
            "advance": In(1),
            "address": Out(config.address_bits),
            "ends_run": Out(1),
            "last": Out(1),
            "last_turn": Out(1),
        }

    def fill(self, m: Module, platform: object) -> None:
        carries = self._count(m)
        self._add(m, carries)

    def _count(self, m: Module) -> list[Value]:
        """Count turns down; return for each loop whether all loops within it end."""
        carries: list[Value] = []
        carry: Value | None = None
        outer: list[Value] = []
        for i, bits in enumerate(self.config.count_bits):
            count = getattr(self, f"count_{i}")
            left = Signal(bits, name=f"turns_left_{i}", reset_less=True)
            ends: Value = named(m, f"loop_{i}_ends", 1, left == 1)
            if self.config.paced:
                ends = held(m, f"loop_{i}_ended", ends)
            fewer = truncated(m, f"fewer_{i}", bits, (left - 1).as_unsigned())
            turns = self.advance if carry is None else self.advance & carry
            update(
                m,
                left,
                (
                    self.begins | named(m, f"loop_{i}_turns", 1, turns),
                    Mux(self.begins | ends, count, fewer),
                ),
            )
            carry = named(m, f"loops_to_{i}_end", 1, ends if carry is None else carry & ends)
            carries.append(carry)
            outer += [ends] if i else []
        m.d.comb += [
            self.ends_run.eq(carries[0]),
            self.last.eq(carries[-1]),
            self.last_turn.eq(Cat(*outer).all()),
        ]
        return carries

    def _add(self, m: Module, carries: list[Value]) -> None:
        """Step on from the address where the turn of the right loop began."""
        config = self.config
        bits = config.address_bits
        current = Signal(bits, name="current", reset_less=True)
        m.d.comb += self.address.eq(current)
        begins = [
            current,
            *(Signal(bits, name=f"turn_of_{i}", reset_less=True) for i in range(1, config.loops)),
        ]
        origin: Value = begins[-1]
        step: Value = getattr(self, f"step_{config.loops - 1}")
        for i in reversed(range(config.loops - 1)):
            origin = named(m, f"origin_{i}", bits, Mux(carries[i], origin, begins[i]))
            width = max(config.step_bits[i:])
            step = named(
                m, f"step_from_{i}", width, Mux(carries[i], step, getattr(self, f"step_{i}"))
            )
        total = noted(
            named(m, "total", bits, origin[:-1] + step),
            "The next address is a step on from where the turn of the outermost loop that goes on "
            "began; past the end of all of them anything may come.",
        )
        above = named(m, "is_above", 1, origin[-1] | total[-1])
        noted(above, "The top bit says that an address is past the end: once set it stays.")
        following = named(m, "following", bits, Cat(total[:-1], above))
        for i, begin in enumerate(begins):
            turns = self.advance & carries[i - 1] if i else self.advance
            update(m, begin, (self.begins, self.start), (turns, following))
