"""The description as a C header, for drivers."""

from collections.abc import Iterable, Iterator

from mxsafe.machine.description import (
    ACCESS_REGISTERS,
    DESCRIPTOR_BYTES,
    DESCRIPTORS,
    ENUMERATIONS,
    FORMATS,
    IDENTITY,
    QUEUES,
    REGISTERS,
    VERSION,
    Descriptor,
    Enumeration,
    Register,
)

HEADER_FILE = "mxsafe_machine.h"

_PREFIX = "MXSAFE"

_INTRODUCTION = f"""\
/* Registers and descriptors of the MX-SAFE machine, version {VERSION}.
 *
 * Generated from mxsafe.machine.description; do not edit.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A field X of a descriptor K has its lowest bit at {_PREFIX}_K_X_OFFSET and {_PREFIX}_K_X_WIDTH
 * bits: mxsafe_set(d, {_PREFIX}_FIELD(K, X), value).
 */
#ifndef {_PREFIX}_MACHINE_H
#define {_PREFIX}_MACHINE_H

#include <stdint.h>
#include <string.h>

/* Offset and width of a field, for the functions below. */
#define {_PREFIX}_FIELD(kind, field) \\
    {_PREFIX}_##kind##_##field##_OFFSET, {_PREFIX}_##kind##_##field##_WIDTH
"""

_FUNCTIONS = f"""\
/* A descriptor: bytes in memory, the lowest bits first. */
typedef struct {{
    uint8_t bytes[{_PREFIX}_DESCRIPTOR_BYTES];
}} mxsafe_descriptor;

/* Makes a descriptor of a kind, with all other fields 0. */
static inline void mxsafe_clear(mxsafe_descriptor *d, uint32_t opcode)
{{
    memset(d->bytes, 0, sizeof d->bytes);
    d->bytes[0] = (uint8_t)opcode;
}}

/* Gives a field a value, of which bits beyond the field's width are dropped. */
static inline void mxsafe_set(mxsafe_descriptor *d, unsigned offset, unsigned width, uint32_t value)
{{
    unsigned i;
    for (i = 0; i < width; i++) {{
        uint8_t mask = (uint8_t)(1u << ((offset + i) & 7u));
        if (value >> i & 1u)
            d->bytes[(offset + i) >> 3] |= mask;
        else
            d->bytes[(offset + i) >> 3] &= (uint8_t)~mask;
    }}
}}

/* The value of a field. */
static inline uint32_t mxsafe_get(const mxsafe_descriptor *d, unsigned offset, unsigned width)
{{
    uint32_t value = 0;
    unsigned i;
    for (i = 0; i < width; i++)
        value |= (uint32_t)(d->bytes[(offset + i) >> 3] >> ((offset + i) & 7u) & 1u) << i;
    return value;
}}
"""


def c_header() -> str:
    """Text of the header."""
    sections = [
        _INTRODUCTION,
        _defines(
            "Identity",
            {
                "IDENTITY": f"0x{IDENTITY:08X}u",
                "VERSION": f"{VERSION}u",
                "DESCRIPTOR_BYTES": f"{DESCRIPTOR_BYTES}u",
            },
        ),
        _defines("Registers: byte offsets, and their fields", dict(_registers(REGISTERS))),
        _defines(
            "Registers of machines that count accesses",
            dict(_registers(ACCESS_REGISTERS)),
        ),
        _defines(
            "Queues, as bits of wait and signal",
            {f"QUEUE_{name}": f"{1 << bit}u" for bit, name in enumerate(QUEUES)},
        ),
        _defines(
            "Formats of operands, as registers show them",
            {f"FORMAT_{name}": f"{number}u" for number, name in enumerate(FORMATS)},
        ),
        *(_defines(f"Values of {e.name}", dict(_members(e))) for e in ENUMERATIONS),
        *(_defines(f"Fields of {d.name}", dict(_fields(d))) for d in DESCRIPTORS.values()),
        _FUNCTIONS,
        f"#endif /* {_PREFIX}_MACHINE_H */\n",
    ]
    return "\n".join(sections)


def _defines(title: str, values: dict[str, str]) -> str:
    names = {f"{_PREFIX}_{name}".upper(): value for name, value in values.items()}
    width = max(map(len, names))
    lines = [f"#define {name:<{width}} {value}\n" for name, value in names.items()]
    return f"/* {title}. */\n{''.join(lines)}"


def _registers(registers: Iterable[Register]) -> Iterator[tuple[str, str]]:
    for register in registers:
        yield f"REG_{register.name}", f"0x{register.address:02X}u"
        yield from _bit_fields(register)


def _bit_fields(register: Register) -> Iterator[tuple[str, str]]:
    for field in register.fields:
        yield f"REG_{register.name}_{field.name}_OFFSET", f"{field.offset}u"
        yield f"REG_{register.name}_{field.name}_WIDTH", f"{field.width}u"


def _members(enumeration: Enumeration) -> Iterator[tuple[str, str]]:
    for name, number in enumeration.members.items():
        yield f"{enumeration.name}_{name}", f"{number}u"


def _fields(descriptor: Descriptor) -> Iterator[tuple[str, str]]:
    for name, offset in descriptor.offsets.items():
        yield f"{descriptor.name}_{name}_OFFSET", f"{offset}u"
        yield f"{descriptor.name}_{name}_WIDTH", f"{descriptor.field(name).width}u"
