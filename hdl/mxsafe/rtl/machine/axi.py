"""AXI4 and AXI4-Lite as signatures: the channels of a port are one member of a unit.

Tested by `verif/rtl/machine/test_accelerator.py`.
"""

from typing import Any

from amaranth.hdl import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import Flow, In, Member, Out

from mxsafe.rtl.stream.register_slice import RegisterSlice
from mxsafe.rtl.unit import place
from mxsafe.validation import require_integer, require_power_of_two

ADDRESS_BITS = 64
"""Bits of an address in memory."""
BYTES_OF_PAGE = 4096
"""A burst never crosses an address that is a multiple of this."""
LONGEST_BURST = 256
"""Most beats of an incrementing burst."""
_LEAST_DATA_BITS = 8
_MOST_DATA_BITS = 1024
_INCR = 1
_NORMAL_MEMORY = 0b0011  # modifiable and bufferable, as memory controllers want it


def require_data_bits(name: str, value: object, word_bits: int) -> int:
    """Bits of a data channel whose beats make up whole words.

    Raises
    ------
    ValueError
        If `value` is not a power of two from 8 to 1,024, or is more than a word.
    """
    bits = require_integer(name, value, _LEAST_DATA_BITS, _MOST_DATA_BITS)
    require_power_of_two(name, bits)
    if bits > word_bits:
        raise ValueError(f"{name} must be at most {word_bits}, the bits of a word, not {bits}")
    return bits


def require_burst(name: str, value: object, beat_bytes: int) -> int:
    """Most beats of a burst.

    Raises
    ------
    ValueError
        If `value` is not a power of two from 1 to 256, or so many beats exceed 4 KiB.
    """
    beats = require_integer(name, value, 1, LONGEST_BURST)
    require_power_of_two(name, beats)
    if beats * beat_bytes > BYTES_OF_PAGE:
        raise ValueError(
            f"{name} must be at most {BYTES_OF_PAGE // beat_bytes} beats of {beat_bytes} bytes, "
            f"not {beats}"
        )
    return beats


def _channel(name: str, flow: Flow, **widths: int) -> dict[str, Member]:
    """A channel whose payload goes one way, with its handshake."""
    forward = {**widths, "valid": 1}
    members = {f"{name}{member}": flow(width) for member, width in forward.items()}
    return {**members, f"{name}ready": flow.flip()(1)}


def _address_channel(name: str) -> dict[str, Member]:
    return _channel(name, Out, addr=ADDRESS_BITS, len=8, size=3, burst=2, cache=4, prot=3)


def burst_constants(prefix: str, data_bits: int) -> dict[str, int]:
    """Return the constants of an address channel: bursts of whole beats, addresses that go up."""
    return {
        f"{prefix}size": (data_bits // 8).bit_length() - 1,
        f"{prefix}burst": _INCR,
        f"{prefix}cache": _NORMAL_MEMORY,
        f"{prefix}prot": 0,
    }


def _read_channels(data_bits: int) -> dict[str, Member]:
    return {**_address_channel("ar"), **_channel("r", In, data=data_bits, resp=2, last=1)}


def _write_channels(data_bits: int) -> dict[str, Member]:
    words = _channel("w", Out, data=data_bits, strb=data_bits // 8, last=1)
    return {**_address_channel("aw"), **words, **_channel("b", In, resp=2)}


class Axi4Read(wiring.Signature):
    """The read channels of AXI4 without identifiers, seen from the master.

    Parameters
    ----------
    data_bits : int
        Bits of `rdata`.
    """

    def __init__(self, data_bits: int) -> None:
        super().__init__(_read_channels(data_bits))


class Axi4Write(wiring.Signature):
    """The write channels of AXI4 without identifiers, seen from the master.

    Parameters
    ----------
    data_bits : int
        Bits of `wdata`.
    """

    def __init__(self, data_bits: int) -> None:
        super().__init__(_write_channels(data_bits))


class Axi4(wiring.Signature):
    """All channels of AXI4 without identifiers, seen from the master.

    Parameters
    ----------
    data_bits : int
        Bits of `rdata` and `wdata`.
    """

    def __init__(self, data_bits: int) -> None:
        super().__init__({**_read_channels(data_bits), **_write_channels(data_bits)})


class AxiLite(wiring.Signature):
    """AXI4-Lite with 32 bits of data, seen from the master.

    Parameters
    ----------
    address_bits : int
        Bits of the addresses of bytes.
    """

    def __init__(self, address_bits: int) -> None:
        super().__init__(
            {
                **_channel("aw", Out, addr=address_bits, prot=3),
                **_channel("w", Out, data=32, strb=4),
                **_channel("b", In, resp=2),
                **_channel("ar", Out, addr=address_bits, prot=3),
                **_channel("r", In, data=32, resp=2),
            }
        )


_CHANNELS = {"ar": True, "r": False, "aw": True, "w": False, "b": True}
"""Channels, and whether a beat in two cycles is enough: data have a beat every cycle."""


def sliced_axi(m: Module, platform: object, name: str, master: Any) -> Any:
    """The channels of a master, each through a `RegisterSlice`.

    Parameters
    ----------
    m : amaranth.hdl.Module
    platform : object
    name : str
        Of the signals behind the slices.
    master : interface
        `Axi4Read`, `Axi4Write` or `Axi4` of a unit that is placed in the module.

    Returns
    -------
    interface
        The same channels, seen from the master.
    """
    members = master.signature.members
    outside = master.signature.create(path=(name,))
    for channel, halved in _CHANNELS.items():
        valid, ready = f"{channel}valid", f"{channel}ready"
        if valid not in members:
            continue
        names = [each for each in members if each.startswith(channel)]
        names = [each for each in names if each not in (valid, ready)]
        source, sink = master, outside
        if members[valid].flow == In:
            source, sink = outside, master
        unit = RegisterSlice(bits=sum(len(getattr(source, each)) for each in names), halved=halved)
        place(m, platform, f"slice_{channel}", unit)
        m.d.comb += [
            unit.source.valid.eq(getattr(source, valid)),
            unit.source.payload.eq(Cat(getattr(source, each) for each in names)),
            getattr(source, ready).eq(unit.source.ready),
            getattr(sink, valid).eq(unit.sink.valid),
            Cat(getattr(sink, each) for each in names).eq(unit.sink.payload),
            unit.sink.ready.eq(getattr(sink, ready)),
        ]
    return outside
