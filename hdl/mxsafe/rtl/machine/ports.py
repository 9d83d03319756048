"""Signatures between the units of the machine: queues and engines, engines and buffers.

Tested by `verif/rtl/machine/test_part.py`.
"""

from amaranth.hdl import ShapeLike
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from mxsafe.machine.description import DESCRIPTORS

ERROR_BITS = 4
"""Bits of an error code; 0 is no error."""
WIDTHS = {
    kind: {field.name: field.width for field in each.own} for kind, each in DESCRIPTORS.items()
}
"""Bits of the fields of each kind of descriptor."""
RUN_BITS = WIDTHS["load"]["count_0"]
"""Bits of the number of words that stand one after the other in memory."""
KINDS = ("codes", "scales")
"""Kinds of memories of operands; without scales there are the first alone."""


class EnginePort(wiring.Signature):
    """A queue and its engine, seen from the queue.

    Parameters
    ----------
    descriptor : ShapeLike
        What a descriptor holds above its header.

    Attributes
    ----------
    valid : Out(1)
        There is a descriptor whose tokens have been taken: it may run.
    descriptor : Out
        It stays as it is while `valid` is set, until `ready`.
    ready : In(1)
        The engine needs it no longer; the next one may be shown.
    done : In(1)
        The oldest descriptor that is not done is: all that it writes is written. One cycle for each
        descriptor, with its `ready` or later.
    error : In(4)
        Instead of `done`: the oldest descriptor that is not done has this error. It stays.
    stop : Out(1)
        The machine has stopped: the engine drops its work. It stays until the reset.
    """

    def __init__(self, descriptor: ShapeLike) -> None:
        super().__init__(
            {
                "valid": Out(1),
                "descriptor": Out(descriptor),
                "ready": In(1),
                "done": In(1),
                "error": In(ERROR_BITS),
                "stop": Out(1),
            }
        )


class BufferWrite(wiring.Signature):
    """A port to write to a buffer, seen from who writes.

    Parameters
    ----------
    depth : int
        Entries of the buffer.
    bits : int
        Bits of an entry.
    parts : int
        Words of an entry that are written by themselves: two halves, unless it says otherwise.

    Attributes
    ----------
    valid : Out(1)
        There is something to write; it stays as it is until it is taken.
    ready : In(1)
        It is taken.
    address : Out
        Number of an entry.
    halves : Out(parts)
        Which parts of it are written.
    data : Out
        The entry; a part that is not written does not matter.
    """

    def __init__(self, depth: int, bits: int, parts: int = 2) -> None:
        super().__init__(
            {
                "valid": Out(1),
                "ready": In(1),
                "address": Out(range(depth)),
                "halves": Out(parts),
                "data": Out(bits),
            }
        )


class BufferRead(wiring.Signature):
    """A port to read from a buffer that others read too, seen from who reads.

    Parameters
    ----------
    depth : int
        Entries of the buffer.
    bits : int
        Bits of an entry.

    Attributes
    ----------
    valid : Out(1)
        An entry is wanted.
    ready : In(1)
        The entry is read: `data` holds it from the next cycle on, for an FPGA from the cycle behind
        that.
    address : Out
        Number of the entry.
    hold : Out(1)
        What `data` holds is still needed after this cycle: no other reader may read that bank. Who
        holds must not wait for somebody who reads the same bank.
    data : In
        The entry that was read last, in the cycle after `ready` and as long as `hold` has been set
        since; for an FPGA a cycle later.
    """

    def __init__(self, depth: int, bits: int) -> None:
        super().__init__(
            {
                "valid": Out(1),
                "ready": In(1),
                "address": Out(range(depth)),
                "hold": Out(1),
                "data": In(bits),
            }
        )


class MemoryRead(wiring.Signature):
    """A port to read from a memory that nobody else reads, seen from who reads.

    Parameters
    ----------
    depth : int
        Entries of the memory.
    bits : int
        Bits of an entry.

    Attributes
    ----------
    en : Out(1)
        An entry is read.
    address : Out
        Number of the entry.
    data : In
        The entry that was read last, from the cycle after `en` on.
    """

    def __init__(self, depth: int, bits: int) -> None:
        super().__init__({"en": Out(1), "address": Out(range(depth)), "data": In(bits)})
