"""A register that has equals: it is one, and synthesis keeps it apart from them."""

from pathlib import Path

from mxsafe.rtl.arithmetic.register_copy import RegisterCopy
from verif.support.generated import generated
from verif.support.simulators import lint
from verif.support.tests import available
from verif.support.units import array_unit


def test_it_is_a_register_that_is_kept_apart(tmp_path: Path) -> None:
    available("verilator")
    module = generated(RegisterCopy(bits=3), tmp_path)
    assert module.latency == RegisterCopy(bits=3).latency == 1
    assert lint(module) == ""
    (text,) = (source.read_text() for source in module.sources)
    assert "if (en) copy <= value;" in text
    assert RegisterCopy.synthesised_once


def test_arrays_of_many_lanes_have_wide_ones(tmp_path: Path) -> None:
    size = {"pu_rows": 1, "pu_columns": 1, "rows": 2, "columns": 16, "lanes": 8}
    module = generated(array_unit("exact", target="fpga", **size), tmp_path)
    assert any(source.stem == "register_copy_bits1280" for source in module.sources)
