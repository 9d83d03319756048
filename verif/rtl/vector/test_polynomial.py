"""Tables in hardware against their model: every segment, with and without registers."""

import numpy as np
from amaranth.hdl import Const, Module
from amaranth.lib.wiring import In, Out

from mxsafe import tables
from mxsafe.model.polynomial import evaluate
from mxsafe.rtl.arithmetic.pipeline import Pipeline
from mxsafe.rtl.unit import Configuration, Ports, Unit
from mxsafe.rtl.vector.polynomial import BOUNDARY, polynomial, result_shape
from verif.rtl.vector.function_checks import source_rows
from verif.support.checkers import assert_equal
from verif.support.farm import farm_of, run_farm
from verif.support.simulators import lint
from verif.support.tests import Volume
from verif.support.units import generated

NAMES = [name for name in tables.names() if not tables.load(name).places]
"""Tables whose segments have nothing but numbers."""


class PolynomialConfiguration(Configuration):
    unnamed = frozenset({"table"})

    table: str
    pipeline: int = 0

    @property
    def base(self) -> str:
        return f"{self.table}_polynomial"


class Polynomial(Unit[PolynomialConfiguration]):
    """A table on its own: `polynomial` between ports."""

    @property
    def table(self) -> tables.Table:
        return tables.load(self.config.table)

    def ports(self) -> Ports:
        return {
            **({"en": In(1)} if self.config.pipeline else {}),
            "segment": In(self.table.index_bits),
            "offset": In(self.table.offset_bits),
            "value": Out(result_shape(self.table)),
        }

    def fill(self, m: Module, platform: object) -> None:
        stages = self.config.pipeline
        enable = self.en if stages else Const(1)
        pipe = Pipeline(m, enable, (BOUNDARY,), stages, reset=False)
        value = polynomial(m, "result", self.table, self.segment, self.offset, pipe)
        m.d.comb += self.value.eq(value)


def test_all_tables(simulator: str, volume: Volume) -> None:
    """Units side by side: each table, and one table with a register."""
    most = {"icarus": 1_000, "verilator": 10_000}[simulator]
    rows = volume(most // 2, most, most)
    units = {name: Polynomial(table=name) for name in NAMES}
    units["exp2_registered"] = Polynomial(table="exp2_fine", pipeline=1)
    farm = farm_of(f"polynomials_{simulator}", units)
    rng = np.random.default_rng(3)
    inputs, operands = {}, {}
    for key, unit in units.items():
        table, ports = unit.table, farm.modules[key].ports
        segments = np.arange(rows) % table.segments
        offsets = rng.integers(0, 1 << table.offset_bits, rows)
        offsets[: table.segments], offsets[-table.segments :] = 0, (1 << table.offset_bits) - 1
        operands[key] = segments, offsets
        inputs[f"{key}.segment"] = ports["segment"].words(segments)
        inputs[f"{key}.offset"] = ports["offset"].words(offsets)
    en = (rng.random(rows) < 0.8).astype(np.int64)
    unsettled = max(module.latency for module in farm.modules.values())
    en[:unsettled] = 1  # registers are not reset
    rst = np.zeros(rows, np.int64)
    log = run_farm(simulator, farm, inputs, en, rst, unsettled=unsettled)
    for key, unit in units.items():
        module = farm.modules[key]
        expected = evaluate(unit.table, *operands[key])
        source = source_rows(en, module.latency)
        settled = source >= 0
        got = module.ports["value"].numbers(log[key]["value"])[settled]
        assert_equal(key, got, expected[source[settled]], row=np.flatnonzero(settled))


def test_the_verilog_is_clean() -> None:
    for name in NAMES:
        assert lint(generated(Polynomial(table=name))) == ""
