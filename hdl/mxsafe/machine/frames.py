"""Frames of bytes between a host and a board: what their bytes mean, for both ends of the line.

A request has the bytes

``mark, command, number, words - 1, address (4), data (4 * words, of a write), checksum (4)``

and its answer

``mark, status, number, data (4 * words, of a read that was done), checksum (4)``.

Numbers of several bytes begin with the lowest. The checksum is the CRC-32 of zlib of all bytes
between the mark and itself. `docs/board.md` says who does what when.
"""

import zlib
from typing import Annotated

from mxsafe.machine.description import Enumeration
from mxsafe.validation import checked, require_one_of, within

FRAMES_VERSION = 1
REQUEST_MARK = 0xA5
ANSWER_MARK = 0x5A
REQUEST_HEADER_BYTES = 7
"""Bytes of a request from its mark to its data."""
ANSWER_HEADER_BYTES = 2
"""Bytes of an answer from its mark to its data."""
CHECKSUM_BYTES = 4
WORD_BYTES = 4
"""Bytes of a word, the unit of all data."""
MOST_WORDS = 256
"""Words of the longest frame."""
INTERRUPT_BIT = 7
"""Bit of a status that shows the machine's interrupt; the others are its number in `STATUSES`."""

COMMANDS = Enumeration.of(
    "command",
    {
        "read_registers": "words of the machine's registers",
        "write_registers": "the same; each word is a write of its own",
        "read_memory": "words of the board's memory",
        "write_memory": "the same",
        "read_board": "words of what the board is, from address 0 on alone: see below",
    },
)
"""Commands of a request: bit 0 says that it writes."""
STATUSES = Enumeration.of(
    "answer_status",
    {
        "done": "it is done",
        "checksum": "the checksum is wrong; nothing was done",
        "command": "there is no such command; nothing was done",
        "address": "the address is not a multiple of 4, or words are beyond the end; "
        "nothing was done",
        "bus": "a register answered with an error",
    },
)
"""Status codes of an answer."""
BOARD_WORDS = {
    "version": "version of these frames",
    "memory_bytes": "bytes of memory",
    "broken_frames": "requests given up or with a wrong checksum, since the reset, up to 65,535",
    "broken_bytes": "bytes without a stop bit, since the reset, up to 65,535",
}
"""Words that `read_board` reads. It is refused unless its address is 0, so a word is read with all
that are in front of it."""


@checked
def checksum(data: bytes) -> bytes:
    """Return the checksum that ends a frame with these bytes behind its mark."""
    return zlib.crc32(data).to_bytes(CHECKSUM_BYTES, "little")


@checked
def request(
    command: str,
    number: Annotated[int, within(0, 0xFF)],
    address: Annotated[int, within(0, (1 << 32) - 1)],
    words: Annotated[int, within(1, MOST_WORDS)],
    data: bytes = b"",
) -> bytes:
    """A request.

    Parameters
    ----------
    command : str
        One of `COMMANDS`.
    number : int
        0 to 255: another one than that of the request before, unless it is the same again.
    address : int
        Of the first word.
    words : int
        How many are read or written.
    data : bytes
        What is written.

    Raises
    ------
    ValueError
        If there is no such command, or a number is not as above.
    """
    require_one_of("command", command, COMMANDS.members)
    wanted = WORD_BYTES * words if COMMANDS[command] & 1 else 0
    if len(data) != wanted:
        raise ValueError(f"data must be {wanted} bytes of {command}, not {len(data)}")
    body = bytes([COMMANDS[command], number, words - 1]) + address.to_bytes(4, "little") + data
    return bytes([REQUEST_MARK]) + body + checksum(body)
