"""Units side by side in one simulation: different ones, or copies of one for long sweeps."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxsafe.rtl.unit import Unit
from mxsafe.verilog.generate import generate
from verif.support import manifest
from verif.support.manifest import Module, Port, Words
from verif.support.simulators import SCRATCH, run_lockstep
from verif.support.units import new_folder, published


@dataclass(frozen=True)
class Farm:
    """Units without handshakes by a key of one's own, and the wrapper around them."""

    wrapper: Module
    modules: dict[str, Module]


def farm_of(
    name: str,
    units: Mapping[str, Unit[Any]],
    around: Callable[[Path, str, Mapping[str, Module]], Module] | None = None,
) -> Farm:
    """Different units, generated, in a wrapper: by default that of `beside`."""
    folder = new_folder()
    generate(units.values(), folder)
    loaded = manifest.load(folder)
    modules = {key: loaded[unit.module_name] for key, unit in units.items()}
    return Farm((around or beside)(folder, name, modules), modules)


def published_farm(
    name: str, unit: type[Unit[Any]], wanted: Callable[[Module], bool] = lambda module: True
) -> Farm:
    """Published modules that are wanted, side by side in one simulation."""
    modules = {key: module for key, module in published(unit).items() if wanted(module)}
    return Farm(beside(new_folder(), name, modules), modules)


def copies_of(module: Module, count: int) -> Farm:
    """Copies of a unit: as many rows of a stimulus take one cycle together."""
    modules = {f"copy{number}": module for number in range(count)}
    return Farm(beside(SCRATCH, f"{module.name}_{count}_copies", modules), modules)


def run_farm(
    simulator: str,
    farm: Farm,
    inputs: Mapping[str, Words],
    en: NDArray[np.int64],
    rst: NDArray[np.int64],
    *,
    unsettled: int = 0,
) -> dict[str, dict[str, Words]]:
    """Return the values of every pin of every unit, by unit and port.

    Parameters
    ----------
    inputs : Mapping
        By ``<key>.<port>`` the words of every input but clock, reset and enable; short ones begin
        again.
    en, rst : ndarray of int64
        Clock enable and reset of all units, a row each cycle.
    """
    ports = farm.wrapper.ports
    rows = len(en)
    stimulus = {
        "en": ports["en"].words(en),
        "rst": ports["rst"].words(rst),
        "inputs": ports["inputs"].join_words(
            {name: np.resize(words, (rows, words.shape[1])) for name, words in inputs.items()}
        ),
    }
    log = run_lockstep(simulator, farm.wrapper, stimulus, unsettled=unsettled)
    pins = ports["inputs"].split_words(log["inputs"]) | ports["outputs"].split_words(log["outputs"])
    shared = {name: log[name] for name in SHARED if name in log}
    return {
        key: shared | {name: pins[f"{key}.{name}"] for name in module.ports if name not in SHARED}
        for key, module in farm.modules.items()
    }


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
    connect_fixed = f".{fixed.name}({fixed.name}), " if fixed else ""
    instances = [
        f"  {module.instance} unit_{i} ({connect_fixed}.{counted.name}({{high, {low}'d{i}}}), "
        f".{output.name}(results[{output.width * i} +: {output.width}]));\n"
        for i in range(COPIES)
    ]
    return _wrapper(SCRATCH, name, ports, instances, [module])


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
    instances = []
    for i in range(copies):
        connections = ", ".join(
            f".{port.name}({port.name}[{port.width * i} +: {port.width}])"
            for port in module.ports.values()
        )
        instances.append(f"  {module.instance} unit_{i} ({connections});\n")
    return _wrapper(SCRATCH, name, ports, instances, [module])


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
    return _wrapper(folder, name, ports, instances, modules.values())


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
    return _wrapper(folder, name, ports, instances, modules.values())


def _wrapper(
    folder: Path,
    name: str,
    ports: Mapping[str, Port],
    instances: Iterable[str],
    modules: Iterable[Module],
) -> Module:
    """A module of Verilog around instances; its ports of one bit are no vectors."""
    declarations = ", ".join(
        f"{port.direction} {f'[{port.width - 1}:0] ' if port.width > 1 else ''}{port.name}"
        for port in ports.values()
    )
    wrapper = folder / f"{name}.v"
    wrapper.write_text(f"module {name}({declarations});\n{''.join(instances)}endmodule\n")
    sources = dict.fromkeys(source for module in modules for source in module.sources)
    return Module(name, folder, (wrapper, *sources), {}, 0, dict(ports))
