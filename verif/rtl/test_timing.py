"""The table of registers: each place is one that a unit has, and means what it says."""

import re
from pathlib import Path

import pytest
from amaranth.hdl import Module, Signal
from amaranth.sim import Simulator

import mxsafe
from mxsafe.rtl.arithmetic.target import TARGETS, Target
from mxsafe.rtl.timing import REGISTERS, STAGES, held

RTL = Path(mxsafe.__file__).parent / "rtl"


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
