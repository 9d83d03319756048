"""Frames of a serial line: bytes written down by hand, and what is refused."""

from pathlib import Path

import pytest

from mxsafe.machine.frames import BOARD_WORDS, COMMANDS, STATUSES, WORD_BYTES, checksum, request
from mxsafe.rtl.board.serial_machine import LIGHTS
from mxsafe.rtl.board.ulx3s import PINS

PAGE = Path(__file__).parents[2] / "docs" / "board.md"

CHECK = bytes.fromhex("2639f4cb")
"""CRC-32 of the nine digits, lowest byte first, as catalogues of checksums have it."""


def test_checksum() -> None:
    assert checksum(b"123456789") == CHECK


def test_request() -> None:
    frame = request("write_memory", 7, 0x1234, 2, bytes(range(8)))
    assert frame[:8].hex() == "a50307013412" + "0000"
    assert frame[8:16] == bytes(range(8))
    assert frame[16:] == checksum(frame[1:16])
    assert request("read_registers", 1, 4, 256)[:4].hex() == "a50001ff"
    assert [COMMANDS[name] & 1 for name in COMMANDS.members] == [0, 1, 0, 1, 0]
    assert STATUSES["done"] == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("read", 0, 0, 1), "command must be one of read_registers, write_registers, "),
        (("read_memory", 256, 0, 1), "number must be an integer from 0 to 255, not 256"),
        (("read_memory", 0, -4, 1), "address must be an integer from 0 to 4294967295, not -4"),
        (("read_memory", 0, 0, 257), "words must be an integer from 1 to 256, not 257"),
        (("write_memory", 0, 0, 1, b"abc"), "data must be 4 bytes of write_memory, not 3"),
        (("read_memory", 0, 0, 1, b"abcd"), "data must be 0 bytes of read_memory, not 4"),
    ],
)
def test_requests_that_are_refused(given: tuple[object, ...], message: str) -> None:
    with pytest.raises(ValueError) as error:
        request(*given)
    assert str(error.value).startswith(message)


def test_the_page_says_the_same() -> None:
    lines = PAGE.read_text().splitlines()
    wanted = [
        *(
            f"| {n} | `{name}` | {COMMANDS.meanings[name]} |"
            for name, n in COMMANDS.members.items()
        ),
        *(
            f"| {n} | `{name}` | {STATUSES.meanings[name]} |"
            for name, n in STATUSES.members.items()
        ),
        *(
            f"| {WORD_BYTES * at} | `{name}` | {meaning} |"
            for at, (name, meaning) in enumerate(BOARD_WORDS.items())
        ),
        *(f"| {at} | {meaning} |" for at, meaning in enumerate(LIGHTS.values())),
        *(f"| `{pin.name}` | {' '.join(pin.sites)} | {pin.meaning} |" for pin in PINS),
    ]
    assert [line for line in wanted if line not in lines] == []
