"""The table of registers: each place is one that a unit has, and means what it says."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from amaranth.hdl import Module, Signal
from amaranth.sim import Simulator

import mxsafe
from mxsafe.rtl.timing import REGISTERS, STAGES, TARGETS, Target, held

RTL = Path(mxsafe.__file__).parent / "rtl"
STRUCTURES = {
    "arithmetic/float32_adder.py",
    "array/block_accumulator.py",
    "mac/multiplier.py",
    "mac/safe_mac.py",
    "stream/largest_exponent.py",
}
"""The units that are built otherwise for another target; their notes say what differs, and why."""
TABLES = {"timing.py", "vector/softmax_stages.py"}
"""What looks registers up; that of softmax has a table of its own."""


def _deciding(node: ast.AST) -> Iterator[ast.AST]:
    """Expressions in a node on which it depends what is built."""
    match node:
        case ast.Compare() | ast.MatchValue() | ast.BoolOp():
            yield node
        case ast.If() | ast.IfExp() | ast.While() | ast.Assert():
            yield node.test
        case ast.Match():
            yield node.subject
        case ast.Subscript():
            yield node.slice
        case ast.comprehension():
            yield from node.ifs


def _decides_by_target(source: str) -> bool:
    """Whether code reads a target to decide, or compares something with the name of one."""
    parts = [part for node in ast.walk(ast.parse(source)) for part in _deciding(node)]
    for part in parts:
        compared = isinstance(part, ast.Compare | ast.MatchValue)
        for node in ast.walk(part):
            match node:
                case ast.Attribute(attr="target") | ast.Name(id="target"):
                    return True
                case ast.Constant(value=str(name)) if compared and name in TARGETS:
                    return True
    return False


def test_only_five_units_are_built_by_target() -> None:
    sources = {path.relative_to(RTL).as_posix(): path.read_text() for path in RTL.rglob("*.py")}
    decide = {name for name, source in sources.items() if _decides_by_target(source)}
    assert decide == STRUCTURES | TABLES
    for name in STRUCTURES:
        assert "    By target: " in sources[name], f"{name} does not say what differs"


@pytest.mark.parametrize(
    "code",
    [
        'x = 1 if self.target == "asic" else 2',
        "x = STAGES[config.target]",
        'fpga = target == "fpga"',
        "if at(config) and config.target in known: pass",
        "x = [y for y in z if is_fpga(y.target)]",
        'match kind:\n    case "fpga": pass',
    ],
)
def test_decisions_by_target_are_found(code: str) -> None:
    assert _decides_by_target(code)
    assert not _decides_by_target("x = Part(target=config.target)")


@pytest.mark.parametrize("unit", REGISTERS)
def test_every_place_is_read_by_its_unit(unit: str) -> None:
    files = [path.read_text() for path in RTL.rglob("*.py")]
    (source,) = (text for text in files if re.search(rf"class {unit}(Configuration)?\(", text))
    for place, registers in REGISTERS[unit].items():
        assert f'"{place}"' in source, f"{unit} has no place {place}"
        assert len(registers) == len(TARGETS)


@pytest.mark.parametrize("registers", [1, 3])
def test_a_value_is_held_for_as_many_clocks(registers: int) -> None:
    m, value, seen = Module(), Signal(8), []
    later = held(m, "later", value, registers)
    assert held(m, "none", value, 0) is value

    async def bench(context: object) -> None:
        for clock in range(8):
            context.set(value, clock)
            seen.append(context.get(later))
            await context.tick()

    simulator = Simulator(m)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run()
    assert seen == [0] * registers + list(range(8 - registers))


@pytest.mark.parametrize("unit", STAGES)
@pytest.mark.parametrize("target", TARGETS)
def test_as_many_registers_stand_as_are_asked_for(unit: str, target: Target) -> None:
    stages = STAGES[unit][target]
    assert stages.least <= stages.default <= stages.most
    for count in range(stages.least, stages.most + 1):
        assert len(set(stages.standing(count))) == count
    with pytest.raises(ValueError, match=f"from {stages.least} to {stages.most}, not"):
        stages.require("pipeline", stages.most + 1)
