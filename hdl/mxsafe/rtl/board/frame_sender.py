"""Answers of a board: frames to bytes.

Tested by `verif/rtl/board/test_serial_bridge.py`.
"""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from mxsafe.machine.frames import ANSWER_MARK, MOST_WORDS, WORD_BYTES
from mxsafe.rtl.arithmetic.bits import chosen, equals, gated_or, named, update
from mxsafe.rtl.board.crc import CRC_BITS, CRC_START, crc_after
from mxsafe.rtl.board.steps import Steps
from mxsafe.rtl.unit import Configuration, Ports, Unit

_BYTE = 8


class FrameSenderConfiguration(Configuration):
    """A `FrameSender`."""

    latency = 1
    """Cycles from the start to the first byte."""


class FrameSender(Unit[FrameSenderConfiguration]):
    """Sends an answer, with its checksum.

    Attributes
    ----------
    start : In(1)
        An answer begins; not while `busy` is set.
    status, number, words : In
        Its header, and how many words of data it has. They stay until it is sent.
    busy : Out(1)
        It is not yet sent; set from the cycle after the start on.
    read_en, read_index, read_data : Out, Out, In
        The words: `read_data` is word `read_index` from the second cycle after `read_en` on.
    valid, byte_value, ready : Out, Out, In
        The bytes.
    """

    def ports(self) -> Ports:
        return {
            "start": In(1),
            "status": In(_BYTE),
            "number": In(_BYTE),
            "words": In(range(MOST_WORDS + 1)),
            "busy": Out(1),
            "read_en": Out(1),
            "read_index": Out(range(MOST_WORDS)),
            "read_data": In(_BYTE * WORD_BYTES),
            "valid": Out(1),
            "byte_value": Out(_BYTE),
            "ready": In(1),
        }

    def fill(self, m: Module, platform: object) -> None:
        crc = Signal(CRC_BITS, name="crc")
        # Between block RAM and checksum stands a register. The sum is whole in time: the step
        # "read" comes between the last byte that counts and the first one of the checksum.
        held, is_counted = Signal(_BYTE, name="byte_held"), Signal(name="is_counted")
        crc_next = crc_after(m, crc, held)
        lane = Signal(range(WORD_BYTES), name="byte_of_word")
        index = Signal(range(MOST_WORDS + 1), name="index")
        steps = ("rest", "mark", "status_byte", "number_byte", "read", "show", "data", "checksum")
        part = Steps(m, steps)
        taken = named(m, "is_taken", 1, self.valid & self.ready)
        ends = named(m, "ends_word", 1, taken & equals(lane, WORD_BYTES - 1))
        is_over = named(m, "is_over", 1, index == self.words)
        part.go("rest", "mark", self.start)
        part.go("mark", "status_byte", self.ready)
        part.go("status_byte", "number_byte", self.ready)
        part.go("number_byte", "read", self.ready)
        part.go("read", "show", ~is_over)
        part.go("show", "data")
        part.go("read", "checksum", is_over)
        part.go("data", "read", ends)
        part.go("checksum", "rest", ends)
        part.finish()
        of_word = named(m, "is_of_word", 1, part["data"] | part["checksum"])
        own = named(m, "is_of_header", 1, part["status_byte"] | part["number_byte"])
        word = named(m, "word_sent", CRC_BITS, Mux(part["data"], self.read_data, ~crc))
        lanes = [word.word_select(number, _BYTE) for number in range(WORD_BYTES)]
        choices = [
            (part["mark"], Const(ANSWER_MARK, _BYTE)),
            (part["status_byte"], self.status),
            (part["number_byte"], self.number),
            (of_word, chosen(m, "lane_sent", lane, lanes)),
        ]
        m.d.comb += [
            self.valid.eq(part["mark"] | own | of_word),
            self.byte_value.eq(gated_or(m, "byte_of", choices)),
            self.read_index.eq(index),
            self.read_en.eq(part["read"] & ~is_over),
            self.busy.eq(~part["rest"]),
        ]
        m.d.sync += [
            held.eq(self.byte_value),
            is_counted.eq(taken & (own | part["data"])),
        ]
        with m.If(part["rest"]):
            m.d.sync += [crc.eq(CRC_START), index.eq(0)]
        with m.Elif(is_counted):
            m.d.sync += crc.eq(crc_next)
        update(m, index, (self.read_en, index + 1))
        update(m, lane, (taken & of_word, lane + 1))
