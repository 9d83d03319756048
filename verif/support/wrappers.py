"""Bench wrappers: many copies of a unit for sweeps of millions of operands, or different units."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from verif.support.manifest import Module, Port
from verif.support.simulators import SCRATCH

__all__ = ["COPIES", "SHARED", "beside", "in_parallel", "prefixed", "side_by_side"]

COPIES = 256
"""Of a unit in `side_by_side`."""


def side_by_side(module: Module, fixed: Port | None, counted: Port, output: Port) -> Module:
    """A bench wrapper with many copies of a combinational unit, one for each value of the low bits.

    All copies see the same `fixed` input; the input `counted` has the copy's number in its low
    bits and ``high`` above them. ``results`` is the output of all copies.
    """
    name = f"{module.name}_side_by_side"
    low = COPIES.bit_length() - 1
    high = Port("high", "input", counted.width - low, False, ())
    fields = tuple((str(i), output.width * i, output.width) for i in range(COPIES))
    results = Port("results", "output", output.width * COPIES, False, fields)
    ports = {port.name: port for port in (fixed, high, results) if port}
    declarations = ", ".join(
        f"{port.direction} [{port.width - 1}:0] {port.name}" for port in ports.values()
    )
    connect_fixed = f".{fixed.name}({fixed.name}), " if fixed else ""
    text = (
        f"module {name}({declarations});\n"
        + "".join(
            f"  {module.instance} unit_{i} ({connect_fixed}.{counted.name}({{high, {low}'d{i}}}), "
            f".{output.name}(results[{output.width * i} +: {output.width}]));\n"
            for i in range(COPIES)
        )
        + "endmodule\n"
    )
    wrapper = SCRATCH / f"{name}.v"
    wrapper.write_text(text)
    return Module(name, SCRATCH, (wrapper, *module.sources), {}, 0, ports)


def in_parallel(module: Module, copies: int) -> Module:
    """A bench wrapper with copies of a unit that have nothing in common.

    Every port of the unit is an array with a field for each copy.
    """
    name = f"{module.name}_in_parallel_{copies}"
    ports = {
        port.name: Port(
            port.name,
            port.direction,
            port.width * copies,
            False,
            tuple((str(i), port.width * i, port.width) for i in range(copies)),
        )
        for port in module.ports.values()
    }
    declarations = ", ".join(
        f"{port.direction} [{port.width - 1}:0] {port.name}" for port in ports.values()
    )
    instances = []
    for i in range(copies):
        connections = ", ".join(
            f".{port.name}({port.name}[{port.width * i} +: {port.width}])"
            for port in module.ports.values()
        )
        instances.append(f"  {module.instance} unit_{i} ({connections});\n")
    text = f"module {name}({declarations});\n{''.join(instances)}endmodule\n"
    wrapper = SCRATCH / f"{name}.v"
    wrapper.write_text(text)
    return Module(name, SCRATCH, (wrapper, *module.sources), {}, 0, ports)


SHARED = ("clk", "rst", "en")
"""Ports that are the same for all units of `beside`."""


def beside(folder: Path, name: str, modules: Mapping[str, Module]) -> Module:
    """A bench wrapper, written to `folder`, of different units that are simulated together.

    `SHARED` ports are those of all units. The others are fields of the one input ``inputs`` and
    the one output ``outputs``, called ``<key>.<port>``: two wide pins are faster than many.
    """
    packed: dict[str, list[tuple[str, int, int]]] = {"input": [], "output": []}
    widths = {"input": 0, "output": 0}
    instances = []
    for index, (key, module) in enumerate(modules.items()):
        connections = []
        for port in module.ports.values():
            if port.name in SHARED:
                connections.append(f".{port.name}({port.name})")
                continue
            offset = widths[port.direction]
            packed[port.direction].append((f"{key}.{port.name}", offset, port.width))
            widths[port.direction] += port.width
            bus = f"{port.direction}s"
            connections.append(f".{port.name}({bus}[{offset} +: {port.width}])")
        instances.append(f"  {module.instance} unit_{index} ({', '.join(connections)});\n")
    ports = {name: Port(name, "input", 1, False, ()) for name in SHARED} | {
        f"{way}s": Port(f"{way}s", way, widths[way], False, tuple(packed[way])) for way in packed
    }
    wrapper = folder / f"{name}.v"
    wrapper.write_text(
        f"module {name}({_declarations(ports.values())});\n{''.join(instances)}endmodule\n"
    )
    sources = dict.fromkeys(source for module in modules.values() for source in module.sources)
    return Module(name, folder, (wrapper, *sources), {}, 0, ports)


def prefixed(folder: Path, name: str, modules: Mapping[str, Module]) -> Module:
    """A bench wrapper, written to `folder`, of different units whose ports have prefixes.

    A port is called ``<key><port>``; ``clk`` and ``rst`` are those of all units.
    """
    shared = ("clk", "rst")
    ports = {port: Port(port, "input", 1, False, ()) for port in shared}
    instances = []
    for index, (key, module) in enumerate(modules.items()):
        own = [port for port in module.ports.values() if port.name not in shared]
        ports |= {f"{key}{port.name}": replace(port, name=f"{key}{port.name}") for port in own}
        connections = [f".{port}({port})" for port in shared]
        connections += [f".{port.name}({key}{port.name})" for port in own]
        instances.append(f"  {module.instance} unit_{index} ({', '.join(connections)});\n")
    wrapper = folder / f"{name}.v"
    wrapper.write_text(
        f"module {name}({_declarations(ports.values())});\n{''.join(instances)}endmodule\n"
    )
    sources = dict.fromkeys(source for module in modules.values() for source in module.sources)
    return Module(name, folder, (wrapper, *sources), {}, 0, ports)


def _declarations(ports: Iterable[Port]) -> str:
    """Ports of a Verilog module; those of one bit are no vectors."""
    return ", ".join(
        f"{port.direction} {f'[{port.width - 1}:0] ' if port.width > 1 else ''}{port.name}"
        for port in ports
    )
