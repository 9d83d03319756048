"""Mapped netlists at gate level: reading them, and Verilog that simulates their cells with delays.

The models are made from the cell library's functions, one module a cell kind. An output changes
after a delay of its own, given for each instance, and swallows pulses that are shorter. Clock gates
have no delay: the clock is ideal, as it is for timing. Registers start at 0: one that is not reset
has some value in reality, while unknown ones would spread through gates that their value does not
matter to.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mxsafe.synthesis.liberty import Cell, LibertyError


@dataclass(frozen=True)
class Instance:
    """A cell of a netlist.

    Attributes
    ----------
    name, kind : str
    pins : Mapping
        Name of the net at each pin.
    """

    name: str
    kind: str
    pins: Mapping[str, str]


_INSTANCE = re.compile(
    r"^  (\w+) (\w+|\\\S+ ) ?\(\n((?:    \.\w+\(.*\),?\n)+)  \);\n", re.MULTILINE
)
_PIN = re.compile(r"^    \.(\w+)\((.*)\),?$", re.MULTILINE)
_ASSIGN = re.compile(r"^  assign (.+) = (.+);$", re.MULTILINE)
_RANGE = re.compile(r"([A-Za-z_]\w*)\[(\d+):(\d+)\]")
_CONSTANT = re.compile(r"\d+'b([01x]+)")
_BIT = re.compile(r"[A-Za-z_]\w*(\[\d+\])?|\\\S+|1'[bh][01x]")


def _bits(expression: str) -> list[str]:
    """Bits of a concatenation, a range or a single bit, highest first."""
    expression = expression.strip()
    if expression.startswith("{"):
        return [bit for part in re.split(r"\s*,\s+", expression[1:-1]) for bit in _bits(part)]
    constant = _CONSTANT.fullmatch(expression)
    if constant is not None:
        return [f"1'b{bit}" for bit in constant[1]]
    found = _RANGE.fullmatch(expression)
    if found is None:
        return [expression]
    name, high, low = found[1], int(found[2]), int(found[3])
    return [f"{name}[{index}]" for index in range(high, low - 1, -1)]


def read_instances(netlist: str) -> list[Instance]:
    """Cells of a flat netlist as Yosys writes it.

    Raises
    ------
    ValueError
        If the netlist has something else than cells whose pins are single bits.
    """
    if len(re.findall(r"^module ", netlist, re.MULTILINE)) != 1:
        raise ValueError("netlist must have one module")
    same: dict[str, str] = {}
    for left, right in _ASSIGN.findall(netlist):
        targets, values = _bits(left), _bits(right)
        if len(targets) == 1 < len(values):  # a whole bus
            targets = [f"{targets[0]}[{index}]" for index in reversed(range(len(values)))]
        same.update(zip(targets, values, strict=True))
    instances = []
    for kind, name, text in _INSTANCE.findall(netlist):
        pins = {}
        for pin, net in _PIN.findall(text):
            net = net.strip()
            while net in same:
                net = same[net]
            pins[pin] = net
        instances.append(Instance(name.strip(), kind, pins))
    nets = {net for instance in instances for net in instance.pins.values()} | set(same.values())
    for net in nets:
        if net and _BIT.fullmatch(net) is None:
            raise ValueError(f"netlist must have single bits at its cells, not {net!r}")
    return instances


_EXPRESSION = re.compile(r"[\w\s!&|^()']+")


def _verilog(expression: str, cell: str) -> str:
    """A Liberty function as Verilog."""
    if _EXPRESSION.fullmatch(expression) is None or "'" in expression:
        raise LibertyError(f"{cell} must have a function of ! & | ^, not {expression!r}")
    return expression.replace("!", "~")


def _state(cell: Cell) -> list[str]:
    """Return the state variables of a register or clock gate."""
    if cell.clock_gate is not None:
        if cell.clock_gate not in ("latch_posedge", "latch_posedge_precontrol"):
            raise LibertyError(f"{cell.name} must gate rising edges, not be {cell.clock_gate}")
        roles = {pin.role: name for name, pin in cell.pins.items() if pin.role}
        enable = " | ".join(roles[role] for role in ("enable", "test") if role in roles)
        return [
            "  reg held;",
            f"  always @* if (~{cell.clock}) held = {enable};",
            f"  assign {cell.outputs[0]} = {cell.clock} & held;",
        ]
    state = cell.state
    if state is None:
        return []
    if state.text("clear") or state.text("preset"):
        raise LibertyError(f"{cell.name} must be without clear and preset")
    value, inverse = state.arguments
    lines = [f"  reg {value} = 0;", f"  wire {inverse} = ~{value};"]
    if state.kind == "latch":
        enable, data = state.text("enable") or "", state.text("data_in") or ""
        lines.append(
            f"  always @* if ({_verilog(enable, cell.name)}) {value} = {_verilog(data, cell.name)};"
        )
    else:
        clock, data = state.text("clocked_on") or "", state.text("next_state") or ""
        edge = "negedge" if clock.startswith("!") else "posedge"
        lines.append(
            f"  always @({edge} {clock.lstrip('!')}) {value} <= {_verilog(data, cell.name)};"
        )
    return lines


def models(cells: Iterable[Cell]) -> str:
    """Verilog that simulates cells; parameters are delays of outputs, rise and fall, in order.

    Raises
    ------
    LibertyError
        If a cell is of a kind that is not known.
    """
    texts = ["`timescale 1ns/1ps"]
    for cell in cells:
        ports = ", ".join(
            [*(f"input {name}" for name in cell.inputs), *(f"output {n}" for n in cell.outputs)]
        )
        delays = ", ".join(f"r{i} = 0, f{i} = 0" for i in range(len(cell.outputs)))
        lines = [f"module {cell.name} #(parameter {delays}) ({ports});", *_state(cell)]
        if cell.clock_gate is None:
            for place, name in enumerate(cell.outputs):
                function = cell.pins[name].function
                if function is None:
                    raise LibertyError(f"{cell.name} must have a function for {name}")
                lines.append(_driven(name, function, f"#(r{place}, f{place})", cell.name))
        texts.append("\n".join([*lines, "endmodule"]))
    return "\n".join(texts) + "\n"


_PRIMITIVES = {"": ("buf", "not"), "&": ("and", "nand"), "|": ("or", "nor"), "^": ("xor", "xnor")}
_WHOLE = re.compile(r"(!?)(?:\w+|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))")


def _driven(output: str, function: str, delay: str, cell: str) -> str:
    """An output, by one primitive where that will do: simulators are quicker then."""
    whole = _WHOLE.fullmatch(function)
    operators = set(re.findall("[&|^]", function))
    if whole is None or len(operators) > 1 or "!" in function[len(whole.group(1)) :]:
        return f"  assign {delay} {output} = {_verilog(function, cell)};"
    primitive = _PRIMITIVES["".join(operators)][bool(whole.group(1))]
    pins = ", ".join([output, *re.findall("[A-Za-z0-9_]+", function)])
    return f"  {primitive} {delay} ({pins});"


_CELL = re.compile(r"\(INSTANCE (\S+)\)(.*?)(?=\(CELL\b|\Z)", re.DOTALL)
_PATH = re.compile(
    r"\(IOPATH (?:\((?:pos|neg)edge )?\w+\)? (\w+) \(([\d.:-]*)\)(?: \(([\d.:-]*)\))?\)"
)

Delays = Mapping[str, Mapping[str, tuple[float, float]]]


def _typical(text: str) -> float | None:
    """A delay of the form ``min:typical:max``, of which some are left out."""
    numbers = [float(part) for part in text.split(":") if part]
    return numbers[-1] if numbers else None


def read_delays(sdf: str) -> dict[str, dict[str, tuple[float, float]]]:
    """Delays of each instance's outputs, rise and fall in ns, the mean over the inputs.

    Parameters
    ----------
    sdf : str
        Standard Delay Format as OpenSTA writes it.
    """
    found = {}
    for name, text in _CELL.findall(sdf):
        paths: dict[str, tuple[list[float], list[float]]] = {}
        for output, rise, fall in _PATH.findall(text):
            lists = paths.setdefault(output, ([], []))
            for values, part in zip(lists, (rise, fall or rise), strict=True):
                if (number := _typical(part)) is not None:
                    values.append(number)
        # Points within a name, of a part that was flattened, are escaped.
        found[name.replace("\\", "")] = {
            output: (sum(rises) / max(len(rises), 1), sum(falls) / max(len(falls), 1))
            for output, (rises, falls) in paths.items()
        }
    return found


def annotated(netlist: str, delays: Delays, cells: Mapping[str, Cell]) -> str:
    """The netlist with the delays of each instance as parameters.

    Raises
    ------
    ValueError
        If an output of a cell has no delay.
    """

    def with_delays(match: re.Match[str]) -> str:
        kind, name = match.group(1), match.group(2).strip()
        cell = cells[kind]
        if cell.clock_gate is not None:
            return match.group()
        known = delays.get(name.lstrip("\\"), {})
        missing = [output for output in cell.outputs if output not in known]
        if missing:
            raise ValueError(f"{kind} {name} must have a delay for {missing[0]}")
        # Where inputs change slowly, a library has outputs that change before them; no simulator.
        values = ", ".join(f"{max(v, 0.0):.3f}" for output in cell.outputs for v in known[output])
        text = match.group()
        return text.replace(f"  {kind} ", f"  {kind} #({values}) ", 1)

    return "`timescale 1ns/1ps\n" + _INSTANCE.sub(with_delays, netlist)


def kinds(instances: Sequence[Instance]) -> list[str]:
    """Kinds of cells in order of name."""
    return sorted({instance.kind for instance in instances})
