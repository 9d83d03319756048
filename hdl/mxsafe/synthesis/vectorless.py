"""Energy of a netlist without operands: a sum over the cell library, at given activities.

Nothing is simulated, and there are no glitches. Every net is 1 half of the time, whatever others
are, and changes as often as an activity says: 0.1 is once in ten cycles. So a clock gate is open in
half of the cycles, unless all are said to be open always, and a register behind it stores another
bit than it held as often as makes that activity.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mxsafe.synthesis.gates import Instance
from mxsafe.synthesis.liberty import LibertyError
from mxsafe.synthesis.switching import Bits, Circuit, Nets, Times

ACTIVITIES = (0.1, 0.2)
"""Changes of a net in a cycle: a usual default of tools that are told nothing, and twice that."""
_MOST = 0.5
"""An activity at which a register behind a clock gate stores another bit at every edge."""
_ROWS = np.arange(8)
_HELD, _NEXT, _LATER = (_ROWS >> place & 1 == 1 for place in range(3))
"""What a register holds and what it is to store before a rising edge of the clock, and its input
before the falling one: all there is, a row each. A clock gate has the last two of its enable."""


class _Supposed(Nets):
    """Nets that change as often as activities say.

    Cycles are eight rows for each activity, which have weights.
    """

    def __init__(self, circuit: Circuit, activities: Sequence[float], *, gates_open: bool) -> None:
        super().__init__(circuit, len(_ROWS) * len(activities))
        self.open = 1.0 if gates_open else 0.5
        self.activity = np.repeat(np.array(activities), len(_ROWS))
        gates = [one for one in self.instances if self.cells[one.kind].clock_gate]
        self.gated = {gate.pins[self.cells[gate.kind].outputs[0]] for gate in gates}
        self.held, self.next, self.later = (
            np.tile(bits, len(activities)) for bits in (_HELD, _NEXT, _LATER)
        )
        self.values: dict[str, tuple[Bits, Bits]] = {}
        self.times: dict[str, tuple[Times, Times]] = {}

    def look_at(self, instance: Instance) -> None:
        """Be asked about nets of this instance from now on."""
        cell = self.cells[instance.kind]
        self.values, self.times = {}, {}
        if not cell.is_sequential:
            return
        data = [pin for pin in cell.inputs if pin != cell.clock]
        if len(data) != 1:
            raise LibertyError(f"{cell.name} must have one input beside its clock, not {data}")
        clock, given = instance.pins[cell.clock], instance.pins[data[0]]
        share = self.open if clock in self.gated else 1.0
        if cell.clock_gate:
            changing = self.activity if self.open < 1.0 else 0.0 * self.activity
            enabled = np.where(self.next, self.open, 1.0 - self.open)
            weights = 0.5 * enabled * np.where(self.next == self.later, 1.0 - changing, changing)
        else:
            changing = self.activity / share
            stores = np.where(self.held == self.next, 1.0 - changing, changing)
            changes = np.where(self.next == self.later, 1.0 - self.activity, self.activity)
            weights = 0.5 * stores * changes
        self.times[clock] = share * weights, share * weights
        self._change(given, self.next, self.later, weights)
        for pin in cell.outputs:
            net = instance.pins.get(pin)
            if not net:
                continue
            if cell.clock_gate:
                self.values[net] = np.zeros(self.cycles, bool), self.next
                self.times[net] = self.next * weights, self.next * weights
            elif cell.state and cell.pins[pin].function == cell.state.arguments[0]:
                self._change(net, self.held, self.next, share * weights)
            else:
                self._change(net, ~self.held, ~self.next, share * weights)

    def _change(self, net: str, before: Bits, after: Bits, weights: NDArray[np.float64]) -> None:
        """Let a net change from one value to another."""
        self.values[net] = before, after
        self.times[net] = weights * (after & ~before), weights * (before & ~after)

    def before(self, net: str, edge: str) -> Bits:
        """Values of a net just before each rising or falling edge of the clock."""
        if net in self.values:
            return self.values[net][edge == "fall"]
        return np.full(self.cycles, edge == "fall")  # a clock

    def counts(self, net: str) -> tuple[Times, Times]:
        """Rises and falls of a net in a cycle, spread over the rows of an activity."""
        if net in self.times:
            return self.times[net]
        times = np.full(self.cycles, 1.0) if net == "clk" else self.activity / 2
        return times / len(_ROWS), times / len(_ROWS)


def vectorless_energies(
    circuit: Circuit,
    activities: Sequence[float] = ACTIVITIES,
    *,
    gates_open: bool,
    period: float,
) -> list[float]:
    """Mean energy of a cycle at each activity, pJ.

    Parameters
    ----------
    circuit : Circuit
    activities : sequence of float
        Changes of a net in a cycle, up to 0.5.
    gates_open : bool
        Clock gates are open in all cycles, and not in half of them.
    period : float
        Of the clock, ns.

    Raises
    ------
    ValueError
        If an activity is out of range.
    LibertyError
        If a register has more inputs than its clock and one more.
    """
    for activity in activities:
        if not 0.0 <= activity <= _MOST:
            raise ValueError(f"activity must be from 0 to {_MOST}, not {activity}")
    sums = _Supposed(circuit, activities, gates_open=gates_open).sums().values()
    leakage = sum(part.leakage for part in sums) * period * 1e-6
    rows = sum(part.internal + part.switching for part in sums) / 1000
    return [float(part.sum()) + leakage for part in np.split(rows, len(activities))]
