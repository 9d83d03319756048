"""Operand decoders of every format and set of formats: every code, as either factor."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mxsafe.codec import elements
from mxsafe.formats import FORMAT_SETS, MX_FORMATS, OPERAND_FORMATS, FormatSet
from mxsafe.rtl.mac.operand import FACTORS, Factor
from mxsafe.rtl.mac.operand_decoder import LaneDecoder
from verif.support import manifest
from verif.support.checkers import assert_equal
from verif.support.farm import Farm, farm_of, run_farm
from verif.support.manifest import Module
from verif.support.tests import raises

Numbers = dict[str, NDArray[np.int64]]
UNITS: dict[str, tuple[str, Factor | None]] = {
    f"{name}.{factor}": (name, factor) for name in OPERAND_FORMATS for factor in (None, *FACTORS)
}


@pytest.fixture(scope="module")
def decoders(tmp_path_factory: pytest.TempPathFactory) -> Farm:
    """Lane decoders of one code, by the name of the unit."""
    units = {
        key: LaneDecoder(format=OPERAND_FORMATS[name], factor=factor, count=1)
        for key, (name, factor) in UNITS.items()
    }
    return farm_of("operand_decoders", units)


def stimulus(format: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Every code in every mode, and in what is no mode: modes and codes."""
    spec = OPERAND_FORMATS[format]
    modes = 1 << spec.mode_bits if isinstance(spec, FormatSet) else 1
    numbers = np.arange(modes << spec.width)
    return numbers >> spec.width, numbers & (1 << spec.width) - 1


def expected_values(format: str) -> NDArray[np.float64]:
    """Return the values of the codes of `stimulus`; in a set relative to 2^emax of their format."""
    modes, codes = stimulus(format)
    spec = OPERAND_FORMATS[format]
    if not isinstance(spec, FormatSet):
        return elements.decode(codes, spec).astype(np.float64)
    values = np.zeros(len(codes))
    for mode in np.unique(modes):
        member = spec.members[mode if mode < len(spec.members) else 0]
        here = modes == mode
        own = codes[here] & (1 << member.width) - 1  # what lies above the code does not matter
        values[here] = elements.decode(own, member) * 2.0**-member.emax
    return values


def fields_of(module: Module, words: Any) -> Numbers:
    """The fields of the one operand; names are those of the manifest, after its index."""
    port = module.ports["operands"]
    values = port.split(words)
    return {
        name.split(".")[-1]: values[:, index].astype(np.int64)
        for index, (name, _, _) in enumerate(port.fields)
    }


def significand_of(fields: Numbers, factor: Factor | None, gate_bits: int) -> NDArray[np.int64]:
    """The significand, from the gates of its digits where it is cut into them."""
    if factor != "digits":
        if factor == "triple":
            triple = fields["triple"] << 1 | fields["significand"] & 1
            assert_equal("triple", triple, 3 * fields["significand"])
        return fields["significand"]
    gates, total = fields["gates"], np.zeros_like(fields["gates"])
    # Three gates a digit of two bits, for the digits 1, 2 and 3; an odd top bit has one.
    if gate_bits % 3 == 2:  # and a top digit that is never 1 has two
        low = gate_bits - 2
        gates = gates & (1 << low) - 1 | gates >> low << low + 1
    for digit in range(8):
        three = gates >> 3 * digit & 7
        assert set(three.tolist()) <= {0, 1, 2, 4}
        total += np.array([0, 1, 2, 0, 3])[three] << 2 * digit
    return total


def gate_bits(module: Module) -> int:
    """Bits of the gates of digits; 0 if there are none."""
    widths = (width for name, _, width in module.ports["operands"].fields if "gates" in name)
    return next(widths, 0)


def test_every_code(simulator: str, decoders: Farm) -> None:
    rows = max(len(stimulus(name)[0]) for name in OPERAND_FORMATS)
    inputs = {}
    for key, module in decoders.modules.items():
        modes, codes = stimulus(UNITS[key][0])
        inputs[f"{key}.codes"] = module.ports["codes"].words(np.resize(codes, rows))
        if "mode" in module.ports:
            inputs[f"{key}.mode"] = module.ports["mode"].words(np.resize(modes, rows))
    ones = np.ones(rows, np.int64)
    logs = run_farm(simulator, decoders, inputs, ones, ones)
    for key, module in decoders.modules.items():
        name, factor = UNITS[key]
        count = len(stimulus(name)[0])
        fields = fields_of(module, logs[key]["operands"][:count])
        values, (modes, codes) = expected_values(name), stimulus(name)
        finite = np.isfinite(values)
        quantum = _quantum_exponent(module, factor)
        magnitudes = np.ldexp(np.abs(np.where(finite, values, 0)), -quantum).astype(np.int64)
        significands = significand_of(fields, factor, gate_bits(module))
        # With a factor the shift counts from 0, and an integer has none.
        shifts = fields["shift"] if factor is None else fields.get("distance", 0 * modes) + 1
        got = significands[finite] << shifts[finite]
        assert_equal(key, got, magnitudes[finite], code=codes[finite])
        assert shifts[finite].min() == 1 or name == "mxint8"
        negative = np.signbit(values).astype(np.int64)
        assert_equal(key, fields["sign"][finite], negative[finite], code=codes[finite])


def _quantum_exponent(module: Module, factor: Factor | None) -> int:
    """As the manifest has it of the decoder inside."""
    inside = manifest.load(module.folder)
    suffix = f"_{factor}" if factor else ""
    name = module.parameters["format"]["name"]
    return int(inside[f"{name}_operand_decoder{suffix}"].parameters["quantum_exponent"])


def test_set_shares_the_operand_of_its_widest_member() -> None:
    """The MACs of an array for several formats are those of MXSF."""
    wide = LaneDecoder(format=FORMAT_SETS["multi"], factor="triple").config.layout
    assert wide == LaneDecoder(format=MX_FORMATS["mxsf"], factor="triple").config.layout


def test_factor_that_there_is_not() -> None:
    with raises(ValueError, "factor must be one of digits, triple or None, not 'a'"):
        LaneDecoder(format=MX_FORMATS["mxsf"], factor="a")
