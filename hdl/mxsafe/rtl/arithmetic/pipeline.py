"""Pipeline registers: where they may stand, and which of those places a configuration uses.

Tested by `verif/rtl/mac/test_safe_mac.py`.
"""

from collections.abc import Sequence

from amaranth.hdl import Const, Module, Signal, Value

from mxsafe.rtl.arithmetic.signed_sum import Term
from mxsafe.validation import require_integer


def check_pipeline(pipeline: object, boundaries: Sequence[str], least: int = 1) -> int:
    """A number of pipeline stages that the boundaries can give.

    Raises
    ------
    ValueError
        If `pipeline` is not an integer from `least` to the number of boundaries.
    """
    try:
        return require_integer("pipeline", pipeline, least, len(boundaries))
    except ValueError:
        raise ValueError(
            f"pipeline must be an integer from {least} to {len(boundaries)} "
            f"({', '.join(boundaries)}), not {pipeline!r}"
        ) from None


class Pipeline:
    """Registers with a clock enable at the last `stages` of a list of boundaries.

    Parameters
    ----------
    m : amaranth.hdl.Module
    en : Signal
        Clock enable of every register.
    boundaries : sequence of str
        Names of the places where registers may stand, in the direction of the data.
    stages : int
        How many of them hold registers, counted from the output.
    reset : bool
        Whether the registers inside are reset.
    en_last : Signal, optional
        Clock enable of the registers of the last boundary, if it is another.
    """

    def __init__(
        self,
        m: Module,
        en: Signal,
        boundaries: Sequence[str],
        stages: int,
        *,
        reset: bool = True,
        en_last: Signal | None = None,
    ) -> None:
        self._reset = reset
        self._m = m
        self._en = en
        self._en_last = en if en_last is None else en_last
        self._last = boundaries[-1] if boundaries else None
        self._registered = frozenset(boundaries[len(boundaries) - stages :])

    def cross(self, boundary: str, name: str, value: Value) -> Value:
        """The value on the far side of a boundary: registered as ``name_boundary``, or itself.

        A constant needs no register.
        """
        if boundary not in self._registered or isinstance(value, Const):
            return value
        # The register before the output may have an enable of its own: a ring of accumulators
        # has it in the adder.
        register = Signal(value.shape(), name=f"{name}_{boundary}", reset_less=not self._reset)
        with self._m.If(self._en_last if boundary == self._last else self._en):
            self._m.d.sync += register.eq(value)
        return register

    def cross_all(self, boundary: str, **values: Value) -> tuple[Value, ...]:
        """Several values by name on the far side of a boundary, in the order given."""
        return tuple(self.cross(boundary, name, value) for name, value in values.items())

    def cross_terms(self, boundary: str, terms: Sequence[Term]) -> list[Term]:
        """All terms of an adder tree on the far side of a boundary."""
        return [
            (
                self.cross(boundary, f"value_{index}", value),
                self.cross(boundary, f"negate_{index}", negate),
            )
            for index, (value, negate) in enumerate(terms)
        ]

    def drive(self, register: Value, value: Value) -> None:
        """Let `register` follow `value` on every enabled cycle."""
        with self._m.If(self._en):
            self._m.d.sync += register.eq(value)


class Sideband:
    """Values that go along while a step of a computation crosses boundaries of its own.

    A step such as a shifter names its boundaries and what it has to take across; who calls it has
    other values that must arrive with the result.

    Parameters
    ----------
    pipe : Pipeline, optional
        Which of the boundaries hold registers; without it none does.
    **along : Value
        What goes along, by name; index the sideband for its current stage.
    """

    def __init__(self, pipe: Pipeline | None = None, **along: Value) -> None:
        self._pipe = pipe
        self._along = along

    def __getitem__(self, name: str) -> Value:
        return self._along[name]

    @property
    def all(self) -> tuple[Value, ...]:
        """Sideband values in the current stage, in the order given."""
        return tuple(self._along.values())

    def add(self, **along: Value) -> None:
        """Let more values go along from here."""
        self._along.update(along)

    def one(self, boundary: str, name: str, value: Value) -> Value:
        """A value on the far side of a boundary, by itself."""
        return value if self._pipe is None else self._pipe.cross(boundary, name, value)

    def cross(self, boundary: str, **values: Value) -> tuple[Value, ...]:
        """Values on the far side of a boundary, in the order given; all others go along."""
        crossed = tuple(self.one(boundary, name, value) for name, value in values.items())
        for name, value in self._along.items():
            self._along[name] = self.one(boundary, name, value)
        return crossed
