"""A register that has equals: it is one, and synthesis keeps it apart from them."""

from pathlib import Path

from mxsafe.rtl.arithmetic.register_copy import RegisterCopy
from verif.support.generated import generated
from verif.support.simulators import lint
from verif.support.tests import available


def test_it_is_a_register_that_is_kept_apart(tmp_path: Path) -> None:
    available("verilator")
    module = generated(RegisterCopy(bits=3), tmp_path)
    assert module.latency == RegisterCopy(bits=3).latency == 1
    assert lint(module) == ""
    (text,) = (source.read_text() for source in module.sources)
    assert "if (en) copy <= value;" in text
    assert RegisterCopy.synthesised_once
