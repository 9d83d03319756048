"""Bench wrappers with many copies of a combinational unit, for sweeps of millions of operands."""

from verif.manifest import Module, Port
from verif.simulators import SCRATCH

__all__ = ["COPIES", "in_parallel", "side_by_side"]

COPIES = 64


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
        f"  genvar i;\n  generate for (i = 0; i < {COPIES}; i = i + 1) begin : copy\n"
        f"    wire [{low - 1}:0] number = i;\n"
        f"    {module.name} unit ({connect_fixed}.{counted.name}({{high, number}}),\n"
        f"      .{output.name}(results[{output.width} * i +: {output.width}]));\n"
        "  end endgenerate\nendmodule\n"
    )
    wrapper = SCRATCH / f"{name}.v"
    wrapper.write_text(text)
    return Module(name, SCRATCH, (wrapper, *module.sources), {}, 0, ports)


def in_parallel(module: Module) -> Module:
    """A bench wrapper with copies of a unit that have nothing in common.

    Every port of the unit is an array with a field for each copy.
    """
    name = f"{module.name}_in_parallel"
    ports = {
        port.name: Port(
            port.name,
            port.direction,
            port.width * COPIES,
            False,
            tuple((str(i), port.width * i, port.width) for i in range(COPIES)),
        )
        for port in module.ports.values()
    }
    declarations = ", ".join(
        f"{port.direction} [{port.width - 1}:0] {port.name}" for port in ports.values()
    )
    connections = ", ".join(
        f".{port.name}({port.name}[{port.width} * i +: {port.width}])"
        for port in module.ports.values()
    )
    text = (
        f"module {name}({declarations});\n"
        f"  genvar i;\n  generate for (i = 0; i < {COPIES}; i = i + 1) begin : copy\n"
        f"    {module.name} unit ({connections});\n"
        "  end endgenerate\nendmodule\n"
    )
    wrapper = SCRATCH / f"{name}.v"
    wrapper.write_text(text)
    return Module(name, SCRATCH, (wrapper, *module.sources), {}, 0, ports)
