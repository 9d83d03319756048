"""Proofs that datapaths compute what `specifications/` says, for all operands.

A specification is a module of Verilog whose inputs are a unit's operands and results. It is written
from the contract alone, with integers and comparisons, and shares no code with the unit or with its
model. ABC joins nets of both that are always equal and proves the rest by SAT.
"""

import fnmatch
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from verif.rtl.stream_rules import ENABLES
from verif.support.fresh import require_fresh
from verif.support.manifest import Module
from verif.support.proof import never_at

FOLDER = Path(__file__).parent / "specifications"
"""Of specifications."""
_CODE_BITS = 8
_MODULE = re.compile(r"^module (\w+).*?^endmodule$\n?", re.MULTILINE | re.DOTALL)
_ASSIGNED = re.compile(r"^  assign .+? = (.+?);$", re.MULTILINE | re.DOTALL)
_WIRE = re.compile(r"\\\S+ |[A-Za-z_][\w$]*|\d+'[bdh][0-9a-f]+|\d+|[\[\]{}:,\s]")
_INSTANCE = re.compile(r"^  (\w+)(?: #\(.*?\))? \\?\S+ +\($", re.MULTILINE)
_PORT = re.compile(r"^  input .*?(\w+),?$", re.MULTILINE)


@dataclass(frozen=True)
class Datapath:
    """How the function of a unit is specified.

    Attributes
    ----------
    specification : str
        Module of `FOLDER`, without its ending.
    parameters : Mapping of str to str or int
        Its parameters: numbers, or the names of the unit's parameters that they are.
    codes : Mapping of str to Mapping of str to int
        Operands that are made of element codes, with parameters of ``mxsf_operands``: the
        specification has the codes.
    """

    specification: str
    parameters: Mapping[str, str | int] = field(default_factory=dict)
    codes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


UNDETERMINED = {
    "bf16_multiplier": "stopped after twenty CPU seconds; its scaler equals the specification by "
    "itself, but behind a product of significands it was not found to",
}
"""Units of which no proof came to an end, by pattern, and what was tried."""
_DIGITS = {"DIGITS": 1, "BITS": 12}
_TRIPLE = {"TRIPLE": 1, "BITS": 17}


def _dot(lanes: int, a: Mapping[str, int], w: Mapping[str, int], **parameters: int) -> Datapath:
    codes = {"a": {"COUNT": lanes, **a}, "w": {"COUNT": lanes, **w}}
    return Datapath("mxsf_operand_dot", {"LANES": lanes, **parameters}, codes)


DATAPATHS = {
    "full_adders*": Datapath("full_adders", {"BITS": "bits"}),
    "largest_exponent*": Datapath("largest_exponent", {"COUNT": "count", "BITS": "bits"}),
    "multiplier_18x18": Datapath("multiplier_18x18"),
    "multiplier_18x18_signed_reset": Datapath("multiplier_18x18", {"SIGNED": 1}),
    "number_rounder": Datapath("number_rounder", {"COUNT": "width"}),
    "relu": Datapath("relu", {"COUNT": "width"}),
    "mxsf_decoder": Datapath("mxsf_decoder"),
    "mxsf_lane_decoder_count*": Datapath("mxsf_lane_decoder", {"COUNT": "count"}),
    "mxsf_lane_decoder_digits*": Datapath("mxsf_lane_decoder", {"COUNT": "count", **_DIGITS}),
    "mxsf_lane_decoder_triple*": Datapath("mxsf_lane_decoder", {"COUNT": "count", **_TRIPLE}),
    "mxsf_operand_decoder": Datapath("mxsf_operand_decoder"),
    "mxsf_operand_decoder_digits": Datapath("mxsf_operand_decoder_digits"),
    "mxsf_operand_decoder_triple": Datapath("mxsf_operand_decoder_triple"),
    "mxsf_encoder": Datapath("mxsf_encoder"),
    "mxsf_float32_normaliser": Datapath("mxsf_float32_normaliser"),
    "mxsf_fp12_multiplier": Datapath("mxsf_fp12_multiplier"),
    "mxsf_operand_multiplier": Datapath(
        "mxsf_operand_multiplier", codes={"a": _DIGITS, "w": _TRIPLE}
    ),
    "mxsf_paired_multiplier": Datapath("mxsf_paired_multiplier"),
    "mxsf_operand_dot_reset": _dot(4, _DIGITS, _TRIPLE, PARTS=2, BITS=26),
    "mxsf_operand_dot_together4*": _dot(4, _DIGITS, _TRIPLE, PARTS=1, BITS=27),
    "fp12_unpacker": Datapath("fp12_unpacker"),
    "fp12_packer": Datapath("fp12_packer"),
    "fp12_rounder_width22": Datapath("fp12_rounder"),
    "fp12_adder": Datapath("fp12_adder"),
    "safe_mac_exact": Datapath("safe_mac_exact"),
    "safe_mac": Datapath("safe_mac"),
    "scaler": Datapath("scaler", {"WIDTH": "width", "QUANTUM_EXPONENT": "quantum_exponent"}),
    "scaler_width16*": Datapath(
        "scaler", {"WIDTH": "width", "QUANTUM_EXPONENT": "quantum_exponent"}
    ),
    "float32_adder": Datapath("float32_adder"),
    "float32_adder_clearable": Datapath("float32_adder", {"CLEARABLE": 1}),
    "float32_multiplier": Datapath("float32_multiplier"),
}
"""By patterns of units, of which the first one counts."""


def datapath(module: Module) -> Datapath | None:
    """How a module's function is specified, if it is."""
    found = (one for pattern, one in DATAPATHS.items() if fnmatch.fnmatch(module.unit, pattern))
    return next(found, None)


def only_wires(module: Module) -> bool:
    """Whether a module holds instances and wires between them, and nothing else."""
    text = re.sub(r"//.*", "", module.text)
    assigned = _ASSIGNED.findall(text)
    return (
        "always" not in text
        and len(assigned) == len(re.findall(r"\bassign\b", text))
        and all(not _WIRE.sub("", value).strip() for value in assigned)
        and _INSTANCE.search(text) is not None
    )


def inside(module: Module) -> set[str]:
    """Names in Verilog of the modules that a module instantiates itself."""
    files = {source.stem for source in module.sources}
    return files & set(_INSTANCE.findall(re.sub(r"//.*", "", module.text)))


@cache
def _modules() -> dict[str, str]:
    """Verilog of all modules of specifications, by name."""
    files = sorted(FOLDER.glob("*.v"))
    return {found[1]: found[0] for file in files for found in _MODULE.finditer(file.read_text())}


def specification_text(*names: str) -> str:
    """Verilog of modules of specifications, and of all inside them."""
    wanted, rest = [], list(names)
    while rest:
        name = rest.pop()
        wanted.append(name)
        inside = set(re.findall(r"\w+", _modules()[name])) & set(_modules())
        rest += sorted(inside.difference(wanted, rest))
    return "\n".join(_modules()[name] for name in reversed(wanted))


def texts(module: Module) -> str:
    """Verilog of a module and of all inside it."""
    require_fresh(module.sources)
    return "\n".join(source.read_text() for source in module.sources)


def claim(module: Module) -> str:
    """Verilog of a module, of its specification, and of ``monitor``, 1 where they differ."""
    path = datapath(module)
    assert path is not None, f"{module.name} has no specification"
    names = [f"{path.specification}_specification", *["mxsf_operands"] * bool(path.codes)]
    return f"{texts(module)}\n{specification_text(*names)}\n{_monitor(module, path)}"


def prove_datapath(module: Module, folder: Path, *, change: tuple[str, str] | None = None) -> None:
    """Prove that a module computes what its specification says, so many cycles after its operands.

    Its enable is high, its registers may hold anything before, and it may get anything after.

    Parameters
    ----------
    change : tuple of str, optional
        A text of the module's Verilog and what takes its place: the proof has to fail.
    """
    text = claim(module)
    if change is not None:
        right, wrong = change
        assert text.count(right) == 1, f"{module.name} no longer holds {right!r} once"
        text = text.replace(right, wrong)
    never_at(folder, text, "monitor", clock=module.latency)


def _free(module: Module, path: Datapath) -> dict[str, int]:
    """Widths of what may be anything: operands, or the codes that they are made of."""
    free = {}
    for port in module.ports.values():
        if port.direction == "input" and port.name not in ("clk", "rst", *ENABLES):
            count = path.codes.get(port.name, {}).get("COUNT", 1)
            coded = port.name in path.codes
            free[f"code_{port.name}" if coded else port.name] = (
                _CODE_BITS * count if coded else port.width
            )
    return free


def _ports(name: str) -> list[str]:
    return _PORT.findall(_modules()[name])


def _with(values: Mapping[str, str | int]) -> str:
    return f" #({', '.join(f'.{name}({value})' for name, value in values.items())})" * bool(values)


def _monitor(module: Module, path: Datapath) -> str:
    """A module whose output is 1 where a result is not what the specification says."""
    free = _free(module, path)
    name = f"{path.specification}_specification"
    declared = [f"input [{width - 1}:0] {port}" for port, width in free.items()]
    lines, given = [], "1'b1"
    kept = {port: port for port in free}
    if module.latency:
        declared.insert(0, "input clk")
        lines += [
            "  reg [7:0] clock = 0;",
            "  always @($global_clock) clock <= clock + 1;",
        ]
        given = f"clock == {module.latency}"
        for operand, width in free.items():
            kept[operand] = f"{operand}_kept"
            lines += [
                f"  reg [{width - 1}:0] {operand}_kept = 0;",
                f"  always @($global_clock) if (clock == 0) {operand}_kept <= {operand};",
            ]
    for port in module.ports.values():
        if port.name in path.codes:
            lines += [
                f"  wire [{port.width - 1}:0] {port.name};",
                f"  mxsf_operands{_with(path.codes[port.name])} of_{port.name} "
                f"(code_{port.name}, {port.name});",
            ]
        elif port.direction == "output":
            lines += [f"  wire [{port.width - 1}:0] {port.name};"]
    fixed = {"clk": "clk", "rst": "1'b0", **dict.fromkeys(ENABLES, "1'b1")}
    connected = [f".{port}({fixed.get(port, port)})" for port in module.ports]
    outputs = [port.name for port in module.ports.values() if port.direction == "output"]
    values = {**dict.fromkeys(outputs), **kept}
    said = [f".{port}({values[port] or port})" for port in _ports(name) if port in values]
    said += [f".{port}(0)" for port in _ports(name) if port not in values]
    parameters = {
        key: module.parameters[value] if isinstance(value, str) else value
        for key, value in path.parameters.items()
    }
    body = "\n".join(lines)
    return (
        f"\nmodule monitor({', '.join(declared)}, output differs);\n{body}\n  wire holds;\n"
        f"  {module.instance} unit ({', '.join(connected)});\n"
        f"  {name}{_with(parameters)} right ({', '.join(said)}, .holds(holds));\n"
        f"  assign differs = {given} & ~holds;\nendmodule\n"
    )
