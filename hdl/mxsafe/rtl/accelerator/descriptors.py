"""What an engine sees of a descriptor."""

from amaranth.lib import data

from mxsafe.machine.description import DESCRIPTOR_BITS, DESCRIPTORS, HEADER_BITS

__all__ = ["PAYLOAD_BITS", "descriptor_layout"]

PAYLOAD_BITS = DESCRIPTOR_BITS - HEADER_BITS
"""Bits of a descriptor above its header."""


def descriptor_layout(queue: str) -> data.StructLayout:
    """Fields of a kind of descriptor after its header, as the description has them."""
    own = DESCRIPTORS[queue].own
    fields = {field.name: field.width for field in own}
    unused = PAYLOAD_BITS - sum(fields.values())
    return data.StructLayout(fields | ({"reserved": unused} if unused else {}))
