"""Words normalised and shortened, for every format and both sources, against integers."""

import numpy as np
import pytest
from numpy.typing import NDArray

from mxsafe.formats import MX_FORMATS
from mxsafe.rtl.stream.alignment import Alignment
from mxsafe.rtl.stream.float_normaliser import SOURCES, FloatNormaliser, source_format
from verif.support.checkers import assert_equal
from verif.support.manifest import Module
from verif.support.simulators import run_lockstep
from verif.support.tests import some
from verif.support.units import generated


def _words(source: str, count: int) -> NDArray[np.int64]:
    """Words whose mantissas begin anywhere and end anywhere; a third of them are subnormal."""
    rng = np.random.default_rng(1)
    fields = source_format(source).fields
    bits = fields.mantissa_bits
    mantissa = rng.integers(0, 1 << bits, count) >> rng.integers(0, bits + 1, count)
    mantissa = mantissa << rng.integers(0, bits + 1, count) & (1 << bits) - 1
    # A lone low bit below a leading one is all that a sticky bit may tell.
    pair = 1 << rng.integers(0, bits, count) | 1 << rng.integers(0, bits, count)
    mantissa = np.where(rng.integers(0, 3, count) == 0, pair, mantissa)
    exponent = rng.integers(0, 1 << fields.exponent_bits, count) * (rng.integers(0, 3, count) > 0)
    sign = rng.integers(0, 2, count)
    return (sign << fields.exponent_bits | exponent) << bits | mantissa


def _check(simulator: str, module: Module, format: str, source: str) -> None:
    """Compare parts of words."""
    words = _words(source, 6000)
    ports = module.ports
    log = run_lockstep(simulator, module, {"word": words})
    got = {name: ports[name].numbers(log[name]).astype(np.int64) for name in log}
    alignment = Alignment.of(MX_FORMATS[format])
    fields = source_format(source).fields
    bits, kept = fields.mantissa_bits, alignment.mantissa_bits
    mantissa, field = words & (1 << bits) - 1, words >> bits & (1 << fields.exponent_bits) - 1
    subnormal = field == 0
    # How far the leading one of a subnormal is below the top; nothing can be read from zero.
    length = np.array([int(value).bit_length() for value in mantissa])
    place = np.where(subnormal, bits - length, 0)
    deep = alignment.steps - alignment.emax
    exponent = got["exponent"] + got["subnormal"]
    assert_equal("sign", got["sign"], words >> bits + fields.exponent_bits)
    assert_equal("subnormal", got["subnormal"], subnormal.astype(np.int64))
    near = (place < deep) & (~subnormal | (mantissa > 0))
    assert_equal("exponent", exponent[near], np.where(subnormal, -place, field)[near])
    assert (exponent[~near] <= -deep).all()
    # Below the leading one, in as many places that nothing is cut off: guard bit and what is lower.
    below = np.where(subnormal, mantissa << place + 1, mantissa) & (1 << bits) - 1
    below = below << kept + 2
    cut = bits + 1
    fraction = below >> cut << 1 | (below & (1 << cut) - 1 != 0)
    assert_equal("fraction", got["fraction"][near], fraction[near])
    assert (subnormal & near).sum() > 0
    assert (~near).sum() > 0


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("format", some(MX_FORMATS, every=4))
def test_words(simulator: str, format: str, source: str) -> None:
    unit = FloatNormaliser(format=MX_FORMATS[format], source=source)
    module = generated(unit)
    _check(simulator, module, format, source)


def test_the_published_one(simulator: str, modules: dict[str, Module]) -> None:
    module = modules["mxsf_float32_normaliser"]
    _check(simulator, module, "mxsf", "float32")
