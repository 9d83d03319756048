"""Pipelines without their registers, and proofs that they give the same, some cycles later."""

from dataclasses import replace
from pathlib import Path

from mxsafe.rtl.vector.function_lane import FunctionLaneConfiguration
from verif.rtl.pipelines import prove_pipeline
from verif.rtl.stream_rules import ENABLES
from verif.support.fresh import require_fresh
from verif.support.manifest import Module
from verif.support.proof import run_yosys

_UNITS = "mxsafe.rtl.vector.function_lane"
"""What makes the units whose frames are proved."""
_OF_REGISTERS = ("clk", "rst", *ENABLES)
"""Inputs that nothing reads where there are no registers."""
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
    """Cycles after the others in which operands come: in a lane the code of the next function."""
    late = lane_of(module).front_latency - 1 if "code_next" in module.ports else 0
    return {"code_next": late} if late else {}


def settled(module: Module, folder: Path) -> Module:
    """A module with wires in place of registers, its own and those inside it.

    It gives what the module gives when its operands have stood long enough.
    """
    folder.mkdir(parents=True, exist_ok=True)
    require_fresh(module.sources)
    (folder / "module.v").write_text("\n".join(s.read_text() for s in module.sources))
    (folder / "wires.v").write_text(_WIRES)
    name = f"{module.name}_settled"
    run_yosys(
        folder,
        f"read_verilog module.v; hierarchy -top {module.name}; proc; flatten; opt_dff -nosdff; "
        f"techmap -map wires.v; opt_clean; rename {module.name} {name}; "
        "write_verilog -noattr settled.v",
    )
    used = {port: one for port, one in module.ports.items() if port not in _OF_REGISTERS}
    return replace(module, name=name, sources=(folder / "settled.v",), ports=used)


def prove_frame(module: Module, folder: Path, *, change: tuple[str, str] | None = None) -> None:
    """Prove that a lane gives, `latency` cycles later, what it gives without its registers.

    Parameters
    ----------
    change : tuple of str, optional
        A text of the lane's Verilog and what takes its place: the proof has to fail.
    """
    model = settled(module, folder / "settled")
    prove_pipeline(module, model, folder, later=later_operands(module), change=change)
