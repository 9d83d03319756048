"""A register that has equals: it is one, and synthesis keeps it apart from them."""

import numpy as np

from mxsafe.rtl.arithmetic.register_copy import RegisterCopy
from mxsafe.verilog.names import part_name
from verif.support.checkers import assert_equal
from verif.support.farm import published_farm, run_farm
from verif.support.simulators import lint
from verif.support.units import array_unit, generated, random_words


def test_it_is_a_register_that_is_kept_apart() -> None:
    module = generated(RegisterCopy(bits=3))
    assert module.latency == RegisterCopy(bits=3).latency == 1
    assert lint(module) == ""
    (text,) = (source.read_text() for source in module.sources)
    assert "if (en) copy <= value;" in text
    assert RegisterCopy.synthesised_once


def test_published_ones_hold_what_came_last() -> None:
    farm = published_farm("register_copies", RegisterCopy)
    clocks = 400
    rng = np.random.default_rng(6)
    en, rst = (rng.random(clocks) < 0.6).astype(np.int64), (rng.random(clocks) < 0.1)
    en[0] = 1
    values = {
        f"{key}.value": random_words(rng, module.parameters["bits"], clocks)
        for key, module in farm.modules.items()
    }
    logs = run_farm("icarus", farm, values, en, rst.astype(np.int64), unsettled=1)
    # The cycle before this one in which it was enabled; a reset does nothing.
    last = np.maximum.accumulate(np.where(en, np.arange(clocks), 0))[:-1]
    for key in farm.modules:
        got, expected = logs[key]["copy"][1:], values[f"{key}.value"][last]
        assert_equal(key, got, expected, row=np.arange(1, clocks))


def test_arrays_of_many_lanes_have_wide_ones() -> None:
    size = {"pu_rows": 1, "pu_columns": 1, "rows": 2, "columns": 16, "lanes": 8}
    module = generated(array_unit("exact", target="fpga", **size))
    assert any(source.stem == part_name("register_copy_bits1280") for source in module.sources)
