"""Registers between the two ends of a stream, so that no path goes through."""

from collections.abc import Collection
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.arithmetic.bits import named, update
from mxsafe.rtl.unit import Configuration, Ports, Unit, place
from mxsafe.validation import PositiveInteger


class RegisterSliceConfiguration(Configuration):
    """A `RegisterSlice`.

    Parameters
    ----------
    bits : int
        Bits of a beat.
    halved : bool
        It takes a beat every second cycle at most, and has half the registers.
    """

    bits: PositiveInteger = 64
    halved: bool = False

    latency = 1
    """Cycles from a beat to its leaving."""


class RegisterSlice(Unit[RegisterSliceConfiguration]):
    """Beats as they come, a cycle later: all that leaves it comes from registers.

    On an FPGA the wires between two units take longer than the logic in them. A whole slice has
    room for two beats and takes one every cycle; one that is `halved` has room for one.

    Attributes
    ----------
    source : In(stream)
        Beats.
    sink : Out(stream)
        The same beats.
    """

    is_parametric = True

    def ports(self) -> Ports:
        signature = stream.Signature(self.config.bits)
        return {"source": In(signature), "sink": Out(signature)}

    def fill(self, m: Module, platform: object) -> None:
        bits, source, sink = self.config.bits, self.source, self.sink
        held = Signal(bits, name="held", reset_less=True)
        is_held = Signal(name="is_held")
        # ready, from a register of its own, because it goes far; 0 during a reset.
        is_free = Signal(name="is_free")
        arrives = named(m, "arrives", 1, source.valid & is_free)
        m.d.comb += [
            source.ready.eq(is_free),
            sink.valid.eq(is_held),
            sink.payload.eq(held),
        ]
        if self.config.halved:
            # One register: it takes a beat at most every other cycle.
            fills = named(m, "fills", 1, Mux(is_held, ~sink.ready, arrives))
            m.d.sync += [is_held.eq(fills), is_free.eq(~fills)]
            update(m, held, (~is_held, source.payload))
            return
        behind = Signal(bits, name="behind", reset_less=True)
        is_full = Signal(name="is_full")
        # ready goes low a cycle late: a beat that comes while the first one stays waits behind it.
        fills = named(m, "fills", 1, is_held & ~sink.ready & (is_full | arrives))
        m.d.sync += [is_full.eq(fills), is_free.eq(~fills)]
        update(m, behind, (~is_full, source.payload))
        with m.If(~is_held | sink.ready):
            m.d.sync += [
                is_held.eq(is_full | arrives),
                held.eq(Mux(is_full, behind, source.payload)),
            ]


def sliced(
    m: Module,
    platform: object,
    name: str,
    source: Any,
    *,
    halved: bool = False,
    registers: int = 1,
    left_out: Collection[str] = (),
) -> Any:
    """A stream through a `RegisterSlice`.

    Parameters
    ----------
    m : amaranth.hdl.Module
    platform : object
    name : str
        Instance name of the slice.
    source : interface
        What has `valid` and `ready`, or `tvalid` and `tready`; all other members go along.
    halved : bool
        See `RegisterSliceConfiguration`.
    registers : int
        0 for none: then it is the stream itself.
    left_out : Collection of str
        Members that nobody needs.

    Returns
    -------
    interface
        The stream behind it, with the same members.
    """
    if not registers:
        return source
    members = source.signature.members
    valid, ready = ("tvalid", "tready") if "tvalid" in members else ("valid", "ready")
    others = [member for member in members if member not in (valid, ready, *left_out)]
    sink = source.signature.create(path=(name,))
    payload = Cat(Value.cast(getattr(source, member)) for member in others)
    unit = place(m, platform, name, RegisterSlice(bits=len(payload), halved=halved))
    m.d.comb += [
        unit.source.valid.eq(getattr(source, valid)),
        unit.source.payload.eq(payload),
        getattr(source, ready).eq(unit.source.ready),
        getattr(sink, valid).eq(unit.sink.valid),
        Cat(Value.cast(getattr(sink, member)) for member in others).eq(unit.sink.payload),
        unit.sink.ready.eq(getattr(sink, ready)),
    ]
    return sink
