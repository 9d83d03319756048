"""Pipelines without their registers, and proofs that they give the same, some cycles later."""

from pathlib import Path

from mxsafe.rtl.vector.function_lane import FunctionLaneConfiguration
from verif.rtl.pipelines import prove_stillness
from verif.rtl.stream_rules import ENABLES
from verif.support.fresh import require_fresh
from verif.support.manifest import Module
from verif.support.proof import never_at, run_yosys

_UNITS = "mxsafe.rtl.vector.function_lane"
"""What makes the units whose frames are proved."""
_SETTLED = "_settled"
"""What names of modules without registers end in."""
_WIRES = """(* techmap_celltype = "$dff $dffe" *)
module register(CLK, EN, D, Q);
  parameter WIDTH = 1, CLK_POLARITY = 1, EN_POLARITY = 1;
  input CLK, EN;
  input [WIDTH-1:0] D;
  output [WIDTH-1:0] Q;
  assign Q = D;
endmodule
"""


def is_lane(module: Module) -> bool:
    """Whether a module is a lane of functions."""
    return f"from {_UNITS};" in module.text


def lane_of(module: Module) -> FunctionLaneConfiguration:
    """Configuration of a lane of functions."""
    return FunctionLaneConfiguration(**module.parameters)


def later_operands(module: Module) -> dict[str, int]:
    """Cycles after the others in which operands of a lane come."""
    late = lane_of(module).front_latency - 1 if "code_next" in module.ports else 0
    return {"code_next": late} if late else {}


def settled(module: Module, folder: Path) -> str:
    """Verilog of a module and of all inside it with wires in place of registers.

    It gives what the module gives when its operands have stood long enough. Its name ends in
    ``_settled``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    require_fresh(module.sources)
    (folder / "module.v").write_text("\n".join(s.read_text() for s in module.sources))
    (folder / "wires.v").write_text(_WIRES)
    name = f"{module.name}{_SETTLED}"
    run_yosys(
        folder,
        f"read_verilog module.v; hierarchy -top {module.name}; proc; flatten; "
        f"opt_dff -nosdff; techmap -map wires.v; opt_clean; rename {module.name} {name}; "
        "write_verilog -noattr settled.v",
    )
    return (folder / "settled.v").read_text()


def prove_frame(module: Module, folder: Path, *, change: tuple[str, str] | None = None) -> None:
    """Prove that a lane gives, `latency` cycles later, what it gives without its registers.

    Its enable is high. What its registers held before, and whatever comes before and after the
    operands, does not matter. While the enable is low no register changes.

    Parameters
    ----------
    change : tuple of str, optional
        A text of the lane's Verilog and what takes its place: the proof has to fail.
    """
    right = settled(module, folder / "settled")
    text = "\n".join(source.read_text() for source in module.sources)
    if change is not None:
        before, after = change
        assert text.count(before) == 1, f"{module.name} no longer holds {before!r} once"
        text = text.replace(before, after)
    both = f"{text}\n{right}\n{_monitor(module)}"
    never_at(folder / "values", both, "monitor", clock=module.latency)
    prove_stillness(module, text, folder / "stillness")


def _monitor(module: Module) -> str:
    """A module whose output is 1 where results differ, the latency after the operands."""
    later = later_operands(module)
    fixed = {"clk": "clk", "rst": "1'b0", **dict.fromkeys(ENABLES, "1'b1")}
    operands = [
        port
        for port in module.ports.values()
        if port.direction == "input" and port.name not in fixed
    ]
    declared = ", ".join(f"input [{port.width - 1}:0] {port.name}" for port in operands)
    kept = "".join(
        f"  reg [{port.width - 1}:0] {port.name}_kept = 0;\n"
        f"  always @($global_clock) if (clock == {later.get(port.name, 0)}) "
        f"{port.name}_kept <= {port.name};\n"
        for port in operands
    )
    inputs = [name for name in module.ports if name != "result"]
    late = [f".{name}({fixed.get(name, name)})" for name in inputs]
    right = [f".{name}({fixed.get(name, f'{name}_kept')})" for name in inputs]
    return (
        f"module monitor(input clk, {declared}, output differ);\n"
        "  reg [7:0] clock = 0;\n  always @($global_clock) clock <= clock + 1;\n"
        f"{kept}  wire [31:0] late_result, right_result;\n"
        f"  {module.name} late ({', '.join(late)}, .result(late_result));\n"
        f"  {module.name}{_SETTLED} right ({', '.join(right)}, .result(right_result));\n"
        f"  assign differ = clock == {module.latency} & late_result != right_result;\nendmodule\n"
    )
