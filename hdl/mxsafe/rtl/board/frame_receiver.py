"""Requests of a host: bytes to frames.

Tested by `verif/rtl/board/test_serial_bridge.py`.
"""

from typing import Annotated

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from mxsafe.machine.frames import MOST_WORDS, REQUEST_HEADER_BYTES, REQUEST_MARK, WORD_BYTES
from mxsafe.rtl.arithmetic.bits import equals, named, update
from mxsafe.rtl.board.crc import CRC_BITS, CRC_START, CRC_WHOLE, crc_after
from mxsafe.rtl.board.steps import Steps
from mxsafe.rtl.unit import Configuration, Ports, Unit
from mxsafe.validation import within

_BYTE = 8


class FrameReceiverConfiguration(Configuration):
    """A `FrameReceiver`.

    Parameters
    ----------
    patience : int
        Cycles without a byte after which a frame is given up, 2 to 2^32.
    """

    patience: Annotated[int, within(2, 1 << 32)] = 1 << 22

    latency = 1
    """Cycles from the last byte of a frame to its request."""


class FrameReceiver(Unit[FrameReceiverConfiguration]):
    """Finds requests among bytes, and checks them.

    Bytes in front of a mark are dropped. A frame is given up when a byte is broken, or none comes
    for so long as the patience says; the next mark begins another one. So a host that has been
    silent for that long is always understood.

    Attributes
    ----------
    byte_valid, byte_value, byte_error : In
        A byte has come; or a broken one.
    word_valid : Out(1), word_index : Out(8), word : Out(32)
        For one cycle: a word of the data of a frame that is not whole yet.
    valid : Out(1)
        A request is whole. Bytes that come now are dropped.
    ready : In(1)
        It is dealt with.
    good : Out(1)
        Its checksum is right.
    command, number, words_less_1, address : Out
        Its header.
    gives_up : Out(1)
        For one cycle: a frame is given up, or has a wrong checksum.
    """

    def ports(self) -> Ports:
        return {
            "byte_valid": In(1),
            "byte_value": In(_BYTE),
            "byte_error": In(1),
            "word_valid": Out(1),
            "word_index": Out(range(MOST_WORDS)),
            "word": Out(_BYTE * WORD_BYTES),
            "valid": Out(1),
            "ready": In(1),
            "good": Out(1),
            "command": Out(_BYTE),
            "number": Out(_BYTE),
            "words_less_1": Out(_BYTE),
            "address": Out(32),
            "gives_up": Out(1),
        }

    def fill(self, m: Module, platform: object) -> None:
        header = Signal(_BYTE * REQUEST_HEADER_BYTES, name="header")
        m.d.comb += Cat(self.command, self.number, self.words_less_1, self.address).eq(header)
        crc = Signal(CRC_BITS, name="crc")
        crc_next = crc_after(m, crc, self.byte_value)
        place = Signal(range(max(REQUEST_HEADER_BYTES, WORD_BYTES)), name="place")
        index = Signal(range(MOST_WORDS), name="index")
        held = Signal(_BYTE * (WORD_BYTES - 1), name="bytes_of_word")
        part = Steps(m, ("mark", "header", "data", "checksum", "request"))
        inside = named(m, "is_inside", 1, part["header"] | part["data"] | part["checksum"])
        comes = named(m, "byte_comes", 1, self.byte_valid & inside)
        is_patient = self._wait(m)
        breaks = named(m, "breaks_off", 1, ~self.byte_valid & (self.byte_error | ~is_patient))
        ends_word = named(m, "ends_word", 1, comes & equals(place, WORD_BYTES - 1))
        ends_header = named(m, "ends_header", 1, comes & equals(place, REQUEST_HEADER_BYTES - 1))
        # Bit 0 of the command, whose byte has moved to its place but one.
        has_data = named(m, "has_data", 1, header[_BYTE])
        is_right = named(m, "is_right", 1, crc_next == CRC_WHOLE)
        is_last = named(m, "is_last", 1, index == self.words_less_1)
        m.d.comb += [
            self.word.eq(Cat(held, self.byte_value)),
            self.word_index.eq(index),
            self.word_valid.eq(part["data"] & ends_word),
            self.valid.eq(part["request"]),
        ]
        part.go("mark", "header", self.byte_valid & (self.byte_value == REQUEST_MARK))
        part.go("header", "data", ends_header & has_data)
        part.go("header", "checksum", ends_header & ~has_data)
        part.go("data", "checksum", ends_word & is_last)
        part.go("checksum", "request", ends_word)
        part.go("request", "mark", self.ready)
        for name in ("header", "data", "checksum"):
            part.go(name, "mark", breaks)
        part.finish()
        with m.If(part["mark"]):
            m.d.sync += [crc.eq(CRC_START), place.eq(0), index.eq(0)]
        with m.Elif(comes):
            ends = Mux(part["header"], ends_header, ends_word)
            m.d.sync += [
                crc.eq(crc_next),
                held.eq(Cat(held[_BYTE:], self.byte_value)),
                place.eq(Mux(ends, 0, place + 1)),
                index.eq(index + self.word_valid),
                self.good.eq(is_right),
            ]
        update(m, header, (part["header"] & comes, Cat(header[_BYTE:], self.byte_value)))
        wrong = named(m, "is_wrong", 1, self.valid & self.ready & ~self.good)
        m.d.sync += self.gives_up.eq(wrong | inside & breaks)

    def _wait(self, m: Module) -> Signal:
        """Whether a byte has come lately."""
        most = self.config.patience - 1
        silent = Signal(range(self.config.patience), name="clocks_of_silence")
        is_patient = named(m, "is_patient", 1, silent != most)
        with m.If(self.byte_valid | ~is_patient):
            m.d.sync += silent.eq(0)
        with m.Else():
            m.d.sync += silent.eq(silent + 1)
        return is_patient
