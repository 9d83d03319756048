"""Steps of a unit, one after the other: a register for each, one of which is set.

Tested by `verif/rtl/board/test_serial_bridge.py`.
"""

from collections.abc import Iterable

from amaranth.hdl import Const, Module, Signal, Value

from mxsafe.rtl.arithmetic.bits import any_of, named


class Steps:
    """Steps of a unit and the ways between them; the first one comes behind a reset.

    Parameters
    ----------
    module : amaranth.hdl.Module
    names : iterable of str
        The steps; their registers are called ``is_<name>``.
    """

    def __init__(self, module: Module, names: Iterable[str]) -> None:
        self._m = module
        self._steps = {
            name: Signal(name=f"is_{name}", init=int(not number))
            for number, name in enumerate(names)
        }
        self._comes: dict[str, list[Value]] = {name: [] for name in self._steps}
        self._goes: dict[str, list[Value]] = {name: [] for name in self._steps}

    def __getitem__(self, name: str) -> Signal:
        """Whether it is that step."""
        return self._steps[name]

    def go(self, start: str, end: str, when: Value | None = None) -> None:
        """Go from a step to another; at most one way out of a step is open in a cycle."""
        here = self._steps[start]
        way = here if when is None else named(self._m, f"{start}_to_{end}", 1, here & when)
        self._goes[start].append(way)
        self._comes[end].append(way)

    def finish(self) -> None:
        """Make the registers change: to be called when all ways are known."""
        for name, step in self._steps.items():
            comes = any_of(self._comes[name]) if self._comes[name] else Const(0, 1)
            self._m.d.sync += step.eq(comes | step & ~any_of(self._goes[name]))
