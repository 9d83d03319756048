"""Words of memory that are several words of a buffer, for LOAD and STORE.

Tested by `verif/rtl/machine/dma/test_load_engine.py`.
"""

from collections.abc import Mapping

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import data

from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import PACKING
from mxsafe.rtl.arithmetic.bits import any_of, equals, named, noted


class Parts:
    """The parts of words of memory, as the words of a buffer go through them.

    Parameters
    ----------
    m : Module
    machine : MachineConfiguration
    packings : tuple of str
        Packings that the engine has.
    fields : View
        The descriptor that comes.
    takes : Value
        It comes in this cycle.

    Attributes
    ----------
    packed : Mapping of str to Signal
        By packing whether it is that of the descriptor.
    run : Value
        Words of memory of a run of the descriptor that comes.
    number : Signal
        The part that is next.
    """

    def __init__(
        self,
        m: Module,
        machine: MachineConfiguration,
        packings: tuple[str, ...],
        fields: data.View,
        takes: Value,
    ) -> None:
        self._m, self._takes = m, takes
        self._of = {name: machine.word_parts[name] for name in packings}
        self.packed: Mapping[str, Signal] = {
            name: Signal(name=f"packs_{name}", reset_less=True) for name in packings
        }
        comes = {name: equals(fields.packing, PACKING[name]) for name in packings}
        most = max(self._of.values(), default=1) - 1
        self.number = Signal(most.bit_length(), name="part_of_word")
        first: Value = Const(0, len(self.number))
        if "part" in fields.shape().members and "tiles" in packings:
            first = Mux(comes["tiles"], fields.part[: len(self.number)], 0)
        self._comes_first = named(m, "first_part", None, first)
        self._first = Signal.like(self.number, name="first_part_held", reset_less=True)
        with m.If(takes):
            m.d.sync += [
                self._first.eq(self._comes_first),
                *(self.packed[name].eq(comes[name]) for name in packings),
            ]
        self.run = self._run(fields.count_0, comes)

    def _run(self, count: Value, comes: Mapping[str, Value]) -> Value:
        """Round up what is left of the first word and the count to whole words."""
        if not comes:
            return count
        above = any_of(Mux(comes[name], self._of[name] - 1, 0) for name in comes)
        total = named(self._m, "run_rounded", None, count + (self._comes_first + above))
        words: Value = count
        for name, parts in self._of.items():
            words = Mux(comes[name], total[parts.bit_length() - 1 :], words)
        return named(self._m, "run_words", len(count), words)

    def step(self, done: Value, ends_run: Value) -> Signal:
        """Go on by a word of the buffer; return whether it is the last one of its word of memory.

        Parameters
        ----------
        done : Value
            It is done in this cycle.
        ends_run : Value
            It is the last one of a run: the next one begins with a word of memory.
        """
        m = self._m
        ends: Value = ends_run | ~any_of([Const(0, 1), *self.packed.values()])
        for name, parts in self._of.items():
            ends = ends | (self.packed[name] & self.number[: parts.bit_length() - 1].all())
        ends_word = named(m, "ends_word", 1, ends)
        noted(ends_word, "What is left of a word of memory at the end of a run is nothing.")
        with m.If(self._takes):
            m.d.sync += self.number.eq(self._comes_first)
        with m.Elif(done):
            following = Mux(ends_run, self._first, 0)
            m.d.sync += self.number.eq(Mux(ends_word, following, self.number + 1))
        return ends_word
