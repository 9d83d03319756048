"""Parts of a board, benched: hardware that is wrong in one place must be found wrong."""

from pathlib import Path

import pytest

from mxsafe.rtl.board.block_memory import BlockMemory
from mxsafe.rtl.board.serial_bridge import SerialBridge
from mxsafe.rtl.board.uart_receiver import UartReceiver
from mxsafe.rtl.board.uart_transmitter import UartTransmitter
from verif.support.block_memory_checks import check_block_memory
from verif.support.bridge_checks import MEMORY_WORDS, PATIENCE, check_bridge
from verif.support.generated import generated
from verif.support.line_checks import check_receiver, check_transmitter
from verif.support.mutation import mutated
from verif.support.tests import available, some

ENDS = {
    "samples at the edge": ("uart_receiver", "6'h18", "6'h31"),
    "takes glitches": ("uart_receiver", "assign is_no_start = ", "assign is_no_start = 0 & "),
    "does not look at the stop bit": ("uart_receiver", "else valid <= \\$5", "else valid <= \\$4"),
    "sends a bit too few": ("uart_transmitter", "4'ha", "4'h9"),
}
BRIDGES = {
    "acts before the checksum": ("serial_bridge", "assign works = ", "assign works = 1 | "),
    "does a write again": ("serial_bridge", "assign repeats = ", "assign repeats = 0 & "),
    "another checksum": ("frame_receiver", "== 32'd3736805603", "== 32'd3736805602"),
    "never gives up": ("frame_receiver", "assign breaks_off = ", "assign breaks_off = 0 & "),
    "one word too many": ("frame_sender", "assign is_over = ", "assign is_over = 0 & "),
}
MEMORIES = {
    "writes beyond its end": ("assign write_is_outside = ", "assign write_is_outside = 0 & "),
    "a word while a beat waits": ("assign lane_0_read_en = ", "assign lane_0_read_en = 1 | "),
    "a beat while a word is written": (
        "assign s_axi_wready = ",
        "assign s_axi_wready = is_writing | ",
    ),
    "one beat too many": ("assign is_last = ", "assign is_last = 0 & "),
}


@pytest.mark.parametrize("mutation", some(ENDS, every=len(ENDS)))
def test_wrong_ends_are_found(mutation: str, tmp_path: Path) -> None:
    name, right, wrong = ENDS[mutation]
    unit = UartReceiver() if name == "uart_receiver" else UartTransmitter()
    check = check_receiver if name == "uart_receiver" else check_transmitter
    module = generated(unit, tmp_path / "right")
    (tmp_path / "wrong").mkdir()
    sources = mutated(module, name, right, wrong, tmp_path / "wrong")
    with pytest.raises(AssertionError, match=r"bytes differ|latency|is wrong|ready is"):
        check(
            available("icarus"), module, 4000 if name == "uart_transmitter" else 60, sources=sources
        )


@pytest.mark.full
@pytest.mark.parametrize("mutation", BRIDGES)
def test_wrong_bridges_are_found(mutation: str, tmp_path: Path) -> None:
    module = generated(
        SerialBridge(memory_bytes=4 * MEMORY_WORDS, patience=PATIENCE), tmp_path / "right"
    )
    (source,) = (s.stem for s in module.sources if s.stem.startswith(BRIDGES[mutation][0]))
    (tmp_path / "wrong").mkdir()
    sources = mutated(module, source, *BRIDGES[mutation][1:], tmp_path / "wrong")
    with pytest.raises(AssertionError, match=r"answer \d+|differ|bridge failed"):
        check_bridge(available("icarus"), module, 60, sources=sources)


@pytest.mark.full
@pytest.mark.parametrize("mutation", MEMORIES)
def test_wrong_memories_are_found(mutation: str, tmp_path: Path) -> None:
    module = generated(BlockMemory(memory_bytes=4 * 4096), tmp_path / "right")
    (tmp_path / "wrong").mkdir()
    sources = mutated(module, module.name, *MEMORIES[mutation], tmp_path / "wrong")
    with pytest.raises(AssertionError, match=r"differ|changed|withdrawn|there are"):
        check_block_memory(available("verilator"), module, 6, sources=sources)
