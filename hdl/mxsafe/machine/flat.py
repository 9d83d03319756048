"""Compiled models as files for firmware: bytes for memory, and C that says what is where."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mxsafe.machine.compiled import Compiled, Port
from mxsafe.machine.description import REGISTERS, constant_registers
from mxsafe.machine.header import HEADER_FILE, c_header
from mxsafe.validation import checked, require_identifier

Indices = NDArray[np.int64]
_LOADER = ("mxsafe_model.h", "mxsafe_model.c")
_HERE = Path(__file__).parent
_BYTES = 4
"""Of a number."""


@checked
def flat_files(model: Compiled, name: str = "model") -> dict[str, bytes]:
    """Files by name: the bytes, a header and a source of the model, and the loader.

    Parameters
    ----------
    model : Compiled
        Of one program, whose inputs and outputs are those of the model. Inputs that it does not
        need are left out.
    name : str
        Of the files, and of the ``mxsafe_model`` in them.

    Raises
    ------
    ValueError
        If the host computes something, if an input stays in memory in MX format as well, which the
        loader does not convert, or the name is no identifier.
    """
    require_identifier("name", name)
    computed = [v.name for v in model.host.values if v.op not in ("input", "result")]
    computed += [name for name, value in model.host.outputs.items() if value.op != "result"]
    if len(model.parts) != 1 or computed:
        raise ValueError(
            f"model must be one program and nothing that the host computes, not {len(model.parts)} "
            f"and {', '.join(computed) or 'nothing'}"
        )
    [part] = model.parts
    machine = part.program.configuration
    fed = [model.host.values[number] for number in part.feeds]
    starts = np.cumsum([0, *(value.size for value in fed)])
    both = {one.start for one in part.codes}
    if names := [value.name for value, start in zip(fed, starts, strict=False) if start in both]:
        raise ValueError(
            f"model must update nothing in memory that it multiplies with, not {', '.join(names)}"
        )
    inputs = []
    for value, first, stop in zip(fed, starts, starts[1:], strict=False):
        own = np.flatnonzero((part.sources >= first) & (part.sources < stop))
        strides = _strided_runs(part.sources[own] - first, part.places[own])
        inputs.append((Port(value.name, value.shape), strides))
    wanted = [port.name for port in model.inputs]
    inputs.sort(key=lambda one: wanted.index(one[0].name))
    outputs = []
    for port, value in zip(model.outputs, model.host.outputs.values(), strict=True):
        places = part.results[value.numbers[1]]
        outputs.append((port, _strided_runs(np.arange(len(places)), places)))
    step = max(machine.word_bytes, machine.data_width // 8)
    data = _padded(part.image.tobytes(), step)
    program = len(data)
    data = _padded(data + part.program.data, step)
    fields = {
        "bytes": len(data),
        "program": program,
        "descriptors": part.program.length,
        "expected_count": len(constant_registers(machine)),
        "inputs_count": len(inputs),
        "outputs_count": len(outputs),
    }
    lines = [f'#include "{name}.h"', "", *_ports(name, "inputs", inputs)]
    lines += _ports(name, "outputs", outputs)
    addresses = {register.name: register.address for register in REGISTERS}
    lines.append(f"static const mxsafe_expected {name}_expected[] = {{")
    lines += [
        f"    {{0x{addresses[register]:02X}u, 0x{value:08X}u}}, /* {register} */"
        for register, value in constant_registers(machine).items()
    ]
    lines += ["};", "", f"const mxsafe_model {name} = {{"]
    lines += [f"    {value}u, /* {field} */" for field, value in fields.items()]
    lines += [f"    {name}_expected, {_or_null(name, 'inputs', inputs)}, {name}_outputs,", "};", ""]
    return {
        f"{name}.bin": data,
        f"{name}.h": _header(name, fields, inputs, outputs).encode(),
        f"{name}.c": "\n".join(lines).encode(),
        HEADER_FILE: c_header().encode(),
        **{file: (_HERE / file).read_bytes() for file in _LOADER},
    }


_Strides = tuple[int, int, int, int, int]
"""Number, place, count, and steps of both."""
_Placed = Sequence[tuple[Port, Sequence[_Strides]]]
"""Ports, and where in memory their numbers are."""


def _padded(data: bytes, step: int) -> bytes:
    return data + bytes(-len(data) % step)


def _or_null(name: str, what: str, ports: _Placed) -> str:
    return f"{name}_{what}" if ports else "0"


def _header(name: str, fields: dict[str, int], inputs: _Placed, outputs: _Placed) -> str:
    """Declaration of the model, with names for its sizes and ports."""
    prefix = name.upper()
    lines = [f"/* Inputs and outputs of the model in {name}.bin. Written by mxsafe export. */"]
    lines += [f"#ifndef {prefix}_H", f"#define {prefix}_H", '#include "mxsafe_model.h"', ""]
    lines.append(f"#define {prefix}_BYTES {fields['bytes']}u")
    for what, ports in (("INPUT", inputs), ("OUTPUT", outputs)):
        for number, (port, _) in enumerate(ports):
            shape = " x ".join(map(str, port.shape)) or "1"
            lines.append(f"/* {what.lower()} {number}: {_plain(port.name)}, {shape} */")
            size = int(np.prod(port.shape))
            lines.append(f"#define {prefix}_{what}_{number}_NUMBERS {size}u")
    lines += ["", f"extern const mxsafe_model {name};", "", "#endif", ""]
    return "\n".join(lines)


def _plain(name: str) -> str:
    """A name that ends neither a comment nor a string of C."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "._- ") else "_" for c in name)


def _ports(name: str, what: str, ports: _Placed) -> Iterator[str]:
    for at, (_, strides) in enumerate(ports):
        yield f"static const mxsafe_strides {name}_{what}_{at}[] = {{"
        for run in strides:
            yield f"    {{{', '.join(f'{one}u' for one in run)}}},"
        yield "};"
    if ports:
        yield f"static const mxsafe_port {name}_{what}[] = {{"
        for at, (port, strides) in enumerate(ports):
            size = int(np.prod(port.shape))
            yield f'    {{"{_plain(port.name)}", {size}u, {len(strides)}u, {name}_{what}_{at}}},'
        yield "};"
        yield ""


def _strided_runs(numbers: Indices, places: Indices) -> list[_Strides]:
    """Runs of numbers that are as far apart in memory, each as long as it can be.

    Numbers that are in memory more than once come once more behind all others.
    """
    order = np.lexsort((places, numbers))
    numbers, places = numbers[order], places[order]
    first = np.searchsorted(numbers, numbers)  # where the same number begins
    order = np.lexsort((numbers, np.arange(len(numbers)) - first))
    pairs = np.stack([numbers[order], places[order]], axis=1)
    steps = np.diff(pairs, axis=0)
    changes = 1 + np.flatnonzero((steps[1:] != steps[:-1]).any(axis=1))
    found: list[_Strides] = []
    at = 0
    while at < len(pairs):
        number, place = pairs[at].tolist()
        number_step = place_step = 0
        count = 1
        if at < len(steps) and (steps[at] > 0).all():
            number_step, place_step = steps[at].tolist()
            following = np.searchsorted(changes, at, side="right")
            count = (changes[following] if following < len(changes) else len(steps)) - at + 1
        found.append((number, place, int(count), number_step, place_step))
        at += count
    return found
