"""Shared parts of the masters that read and write memory.

Tested by `verif/rtl/machine/dma/test_axi_reader.py`.
"""

from mxsafe.rtl.machine.axi import ADDRESS_BITS, require_burst, require_data_bits
from mxsafe.rtl.machine.dma.burst_splitter import BurstSplitter
from mxsafe.rtl.machine.dma.tag_queue import TagQueue
from mxsafe.rtl.machine.ports import RUN_BITS
from mxsafe.rtl.timing import Target
from mxsafe.rtl.unit import Configuration, Part
from mxsafe.validation import PowerOfTwo, about


class AxiMasterConfiguration(Configuration):
    """A master of one AXI4 port, to which runs of words are given.

    Parameters
    ----------
    word_bytes : int
        Bytes of a word, a power of two.
    data_bits : int
        Bits of the data channel: a power of two, at most a word.
    burst : int
        Most beats of a burst: a power of two up to 256, and no more than 4 KiB.
    bursts : int
        Most bursts outstanding, a power of two.
    target : {"asic", "fpga"}
        What it is built for, see `mxsafe.rtl.timing`.
    """

    word_bytes: PowerOfTwo = 32
    data_bits: int = 256
    burst: int = 32
    bursts: int = 32
    target: Target = "asic"

    def __post_init__(self) -> None:
        self._set(data_bits=require_data_bits("data_bits", self.data_bits, 8 * self.word_bytes))
        self._set(burst=require_burst("burst", self.burst, self.data_bits // 8))
        with about(depth="bursts"):
            self._set(bursts=self.tags.depth)

    @property
    def latency(self) -> int:
        """Cycles from a run to the address of its first burst, without waiting."""
        return 1 + self.splitter.latency

    @property
    def beats_of_word(self) -> int:
        """Beats of the data channel that make up a word."""
        return 8 * self.word_bytes // self.data_bits

    splitter = Part(
        BurstSplitter,
        beat_bytes=lambda master: master.data_bits // 8,
        beats_bits=lambda master: RUN_BITS + master.beats_of_word.bit_length() - 1,
    )
    tags = Part(TagQueue, depth=lambda master: master.bursts)

    @property
    def run_fields(self) -> dict[str, int]:
        """A run: address of the first word, in words, and number of words."""
        first_bits = ADDRESS_BITS - (self.word_bytes.bit_length() - 1)
        return {"first": first_bits, "words": RUN_BITS}
