"""Proofs that pipelined arithmetic computes what its combinational form does."""

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from verif.rtl.stream_rules import ENABLES
from verif.support.fresh import require_fresh
from verif.support.manifest import Module
from verif.support.proof import never, never_at, run_yosys

PIPELINES = {
    "float32_adder_pipeline1": "float32_adder",
    "float32_adder_pipeline6_fpga": "float32_adder",
    "float32_adder_fpga": "float32_adder",
    "float32_adder_pipeline1_clearable_quick_one_nan": "float32_adder_clearable",
    "float32_adder_pipeline3_clearable": "float32_adder_clearable",
    "float32_adder_clearable_fpga": "float32_adder_clearable",
}
"""By the name of a pipeline that of its combinational form."""

_REGISTER = re.compile(r"^  reg (?:\[(\d+):0\] )?(\\\S+ |\w+);$", re.MULTILINE)


def _texts(*modules: Module) -> str:
    """Verilog of modules, each once."""
    files = {source.name: source for module in modules for source in module.sources}
    require_fresh(files.values())
    return "\n".join(source.read_text() for source in files.values())


def prove_pipeline(
    module: Module,
    model: Module,
    folder: Path,
    *,
    later: Mapping[str, int] = MappingProxyType({}),
    change: tuple[str, str] | None = None,
) -> None:
    """Prove that a pipeline gives, `latency` cycles later, what its combinational form does.

    Two proofs make one for all time. With its enables high it gives so many cycles after any
    operands what the model makes of these, whatever its registers held and whatever comes after:
    in a pipeline nothing else reaches the result. And while its enables are low none of its
    registers changes.

    Parameters
    ----------
    model : Module
        Combinational, with the same operands and results.
    later : Mapping of str to int
        Operands that come so many cycles after the others.
    change : tuple of str, optional
        A text of the pipeline's Verilog and what takes its place: the proof has to fail.
    """
    text = _texts(module)
    if change is not None:
        right, wrong = change
        assert text.count(right) == 1, f"{module.name} no longer holds {right!r} once"
        text = text.replace(right, wrong)
    names = {source.name for source in module.sources}
    others = [source for source in model.sources if source.name not in names]
    text += "\n".join(source.read_text() for source in others)
    never_at(
        folder / "values", text + _values(module, model, later), "monitor", clock=module.latency
    )
    prove_stillness(module, text, folder / "stillness")


def _values(module: Module, model: Module, later: Mapping[str, int]) -> str:
    operands = [port for port in model.ports.values() if port.direction == "input"]
    results = [port for port in model.ports.values() if port.direction == "output"]
    declared = ", ".join(f"input [{port.width - 1}:0] {port.name}" for port in operands)
    lines = []
    for port in operands:
        lines += [
            f"  reg [{port.width - 1}:0] {port.name}_kept = 0;",
            f"  always @($global_clock) if (clock == {later.get(port.name, 0)}) "
            f"{port.name}_kept <= {port.name};",
        ]
    for port in results:
        for side in ("late", "right"):
            lines.append(f"  wire [{port.width - 1}:0] {port.name}_{side};")
    fixed: Mapping[str, str] = {"clk": "clk", "rst": "1'b0", **dict.fromkeys(ENABLES, "1'b1")}
    late = [
        f".{name}({fixed.get(name, name if port.direction == 'input' else f'{name}_late')})"
        for name, port in module.ports.items()
    ]
    right = [
        f".{name}({name}_{'kept' if port.direction == 'input' else 'right'})"
        for name, port in model.ports.items()
    ]
    differ = " | ".join(f"{port.name}_late != {port.name}_right" for port in results)
    given = _given(module, [port.name for port in operands if port.width == 32])
    return (
        f"module monitor(input clk, {declared}, output differ);\n"
        "  reg [7:0] clock = 0;\n  always @($global_clock) clock <= clock + 1;\n"
        + "\n".join(lines)
        + f"\n  {module.name} late ({', '.join(late)});\n"
        f"  {model.name} right ({', '.join(right)});\n"
        f"  assign differ = clock == {module.latency} & ({differ}) & {given};\nendmodule\n"
    )


def _given(module: Module, numbers: list[str]) -> str:
    """What a module may take for granted of its numbers: with `one_nan`, which NaN they are."""
    if not module.parameters.get("one_nan"):
        return "1'b1"
    return " & ".join(
        f"({name}_kept[30:0] <= 31'h7f800000 | {name}_kept == 32'h7fc00000)" for name in numbers
    )


def prove_stillness(module: Module, text: str, folder: Path) -> None:
    """Prove that no register of a module changes while all of its enables are low.

    Parameters
    ----------
    text : str
        Verilog of the module and of all inside it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "module.v").write_text(text)
    run_yosys(
        folder,
        f"read_verilog module.v; hierarchy -top {module.name}; proc; flatten; opt_clean; "
        "write_verilog -noattr flat.v",
    )
    flat = (folder / "flat.v").read_text()
    registers = [(int(found[1] or 0) + 1, found[2]) for found in _REGISTER.finditer(flat)]
    assert registers, f"{module.name} has no registers"
    bits = sum(width for width, _ in registers)
    value = f"{{{', '.join(name for _, name in registers)}}}"
    enables = " | ".join(name for name in ENABLES if name in module.ports)
    head = f"module {module.name}("
    assert flat.count(head) == 1
    flat = flat.replace(head, f"{head}changes, ").replace(
        "endmodule",
        f"  reg [{bits - 1}:0] registers_were = 0;\n  reg was_still = 0;\n"
        f"  always @($global_clock) begin registers_were <= {value}; "
        f"was_still <= ~({enables} | rst); end\n"
        f"  output changes;\n  assign changes = was_still & registers_were != {value};\nendmodule",
    )
    inputs = [port for port in module.ports.values() if port.direction == "input"]
    declared = ", ".join(f"input [{port.width - 1}:0] {port.name}" for port in inputs)
    connections = ", ".join(f".{port.name}({port.name})" for port in inputs)
    flat += (
        f"\nmodule monitor({declared}, output changes);\n"
        f"  {module.name} unit ({connections}, .changes(changes));\nendmodule\n"
    )
    never(folder, flat, "monitor", seconds=30)
