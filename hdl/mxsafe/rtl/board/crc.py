"""The checksum of frames in gates: CRC-32 as zlib has it, a byte at a time.

Tested by `verif/rtl/board/test_serial_bridge.py`.
"""

from amaranth.hdl import Const, Module, Mux, Signal, Value

from mxsafe.rtl.arithmetic.bits import named

CRC_BITS = 32
CRC_START = (1 << CRC_BITS) - 1
"""Start value of the register; a checksum is the complement of its content."""
CRC_WHOLE = 0xDEBB20E3
"""Content of the register behind bytes and their checksum."""
_POLYNOMIAL = 0xEDB88320


def crc_after(m: Module, crc: Value, byte: Value) -> Signal:
    """The register after another byte; its steps are ``crc_bit_0``, ``crc_bit_1``..."""
    value = named(m, "crc_and_byte", CRC_BITS, crc ^ byte)
    for bit in range(len(byte)):
        taken = Mux(value[0], Const(_POLYNOMIAL, CRC_BITS), 0)
        value = named(m, f"crc_bit_{bit}", CRC_BITS, (value >> 1) ^ taken)
    return value
