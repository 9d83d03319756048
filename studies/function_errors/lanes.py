"""Lanes of functions as they are in ``gen/``, at all arguments that a sweep has results for.

Yosys makes gates of a lane with wires in place of registers (`verif.rtl.frames`), and each gate
becomes an operation in C++ on vectors of 256 bits, one for each argument.
"""

import ctypes
import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxsafe.host.verilator import locked
from studies.function_errors.models import MODELS, function_of, grade_of
from verif.rtl.frames import is_lane, lane_of, settled
from verif.support.manifest import Module, generated
from verif.support.proof import run_yosys

Words = NDArray[np.uint32]

GROUP = 256
"""Arguments at a time."""
_MAIN = Path(__file__).with_name("lanes.cpp")
_GATES: Mapping[str, str] = {
    "$_AND_": "{A} & {B}",
    "$_OR_": "{A} | {B}",
    "$_XOR_": "{A} ^ {B}",
    "$_ANDNOT_": "{A} & ~{B}",
    "$_NOT_": "~{A}",
}
_FOLDER = Path("sim_build/lanes")
_COMPILER = ("g++", "-O2", "-march=native", "-shared", "-fPIC", "-o", "lane.so", "main.cpp")


def lanes_of(name: str) -> list[Module]:
    """Modules of ``gen/`` that have a function in a grade, such as ``gelu`` or ``gelu_fine``."""
    return [lane for lane in _lanes() if name in sweeps_of(lane)]


def sweeps_of(module: Module) -> list[str]:
    """Names of the sweeps that a lane takes part in, such as ``gelu`` or ``gelu_fine``."""
    lane = lane_of(module)
    return [
        name for name in MODELS if grade_of(name) == lane.grade and function_of(name) in lane.names
    ]


@cache
def _lanes() -> tuple[Module, ...]:
    return tuple(module for module in generated().values() if is_lane(module))


@dataclass(frozen=True)
class Lane:
    """A lane that is compiled.

    Attributes
    ----------
    name : str
        Of the module.
    library : Path
    others : tuple of bool
        Bits of the other operands, which say what function is chosen.
    """

    name: str
    library: Path
    others: tuple[bool, ...]

    def first_wrong(self, first: int, expected: Words) -> tuple[int, int] | None:
        """The first of some arguments at which a result is not the one expected, and that result.

        Parameters
        ----------
        first : int
            Word of the first argument, a multiple of `GROUP`.
        expected : ndarray of uint32
            Words of results at it and at those that follow, a multiple of `GROUP` too.
        """
        assert first % GROUP == len(expected) % GROUP == 0
        came = ctypes.c_uint32()
        words = np.ascontiguousarray(expected)
        place = _first_wrong(self.library)(
            bytes(self.others),
            ctypes.c_uint32(first),
            ctypes.c_uint64(len(words)),
            words.ctypes.data_as(ctypes.c_void_p),
            ctypes.byref(came),
        )
        return None if place == len(words) else (first + place, came.value)


@cache
def _first_wrong(library: Path) -> Any:
    function = ctypes.CDLL(str(library.absolute())).first_wrong
    function.restype = ctypes.c_uint64
    return function


def compiled(module: Module, function: str, folder: Path = _FOLDER) -> Lane:
    """A lane with one of its functions chosen.

    Parameters
    ----------
    module : Module
        A lane of functions.
    function : str
        One of those that it has.
    folder : Path
        Where it is built, in a folder of its own, unless that has been done.
    """
    place = folder / module.digest
    with locked(place):
        if not (place / "lane.so").exists():
            _build(module, place)
    number = lane_of(module).names.index(function)
    values = {"chosen": 1 << number, "code": number, "code_next": number}
    others = tuple(bool(values[port] >> bit & 1) for port, bit in _others(module))
    return Lane(module.unit, place / "lane.so", others)


def _others(module: Module) -> list[tuple[str, int]]:
    """Bits of operands beside the argument: ports and places in them."""
    ports = [name for name in module.ports if name in ("chosen", "code", "code_next")]
    return [(name, bit) for name in ports for bit in range(module.ports[name].width)]


def _build(module: Module, place: Path) -> None:
    (place / "lane.v").write_text(settled(module, place / "settled").text)
    run_yosys(
        place,
        "read_verilog lane.v; proc; techmap; simplemap; abc -g AND,OR,XOR,ANDNOT; opt_clean; "
        "write_json lane.json",
    )
    (design,) = json.loads((place / "lane.json").read_text())["modules"].values()
    others = _others(module)
    (place / "netlist.h").write_text(
        f"static const int OTHERS = {len(others)};\n"
        "static void netlist(const Bits *in, Bits *out) {\n"
        + "".join(_statements(design, [("value", bit) for bit in range(32)] + others))
        + "}\n"
    )
    (place / "main.cpp").write_text(_MAIN.read_text())
    run = subprocess.run(_COMPILER, cwd=place, capture_output=True, text=True, check=False)
    assert run.returncode == 0, f"g++ failed in {place}:\n{run.stderr[-2000:]}"


def _statements(design: Mapping[str, Any], inputs: list[tuple[str, int]]) -> Iterator[str]:
    """C++ of a netlist of gates; each is behind those that it needs."""
    ports = {name: port["bits"] for name, port in design["ports"].items()}
    known = {"0": "Bits{}", "1": "~Bits{}"}
    known |= {ports[name][bit]: f"in[{at}]" for at, (name, bit) in enumerate(inputs)}
    driven = {cell["connections"]["Y"][0]: cell for cell in design["cells"].values()}
    waiting = list(reversed(ports["result"]))
    while waiting:
        bit = waiting[-1]
        if bit in known:
            waiting.pop()
            continue
        cell = driven[bit]
        operands = {pin: own[0] for pin, own in cell["connections"].items() if pin != "Y"}
        if missing := [own for own in operands.values() if own not in known]:
            waiting += missing
            continue
        known[bit] = f"n{bit}"
        value = _GATES[cell["type"]].format(**{pin: known[own] for pin, own in operands.items()})
        yield f"  Bits n{bit} = {value};\n"
    for at, bit in enumerate(ports["result"]):
        yield f"  out[{at}] = {known[bit]};\n"
