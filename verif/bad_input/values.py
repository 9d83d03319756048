"""Bad values, and those at the edge of what is good."""

from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from mxsafe.formats import BLOCK_FORMATS, FORMAT_SETS, FP12_E4M7, MX_FORMATS, SCALAR_FORMATS

KNOWN: tuple[tuple[str, Any], ...] = (
    ("None", None),
    ("True", True),
    ("a word", "no"),
    ("no word", ""),
    ("a word beyond ASCII", "\N{GREEK SMALL LETTER ALPHA}\ud800\0"),
    ("bytes", b"\x00\xff"),
    ("zero", 0),
    ("minus one", -1),
    ("one", 1),
    ("three", 3),
    ("4097", 4097),
    ("2**64", 2**64),
    ("-2**64", -(2**64)),
    ("10**5000", 10**5000),
    ("a half", 0.5),
    ("NaN", float("nan")),
    ("infinity", float("-inf")),
    ("a complex number", 1j),
    ("NumPy's 8", np.int64(8)),
    ("NumPy's 2.0", np.float16(2.0)),
    ("a path", Path("no/such/file")),
    ("an object", object()),
    ("a class", type),
    ("a function", lambda *_: None),
    ("an empty tuple", ()),
    ("a pair", (8, 8)),
    ("a triple", (1, -2, 3)),
    ("words in a tuple", ("a", "b")),
    ("lists of unlike lengths", [[1], [2, 3]]),
    ("a deep list", [[[[[[1.0]]]]]]),
    ("a dictionary", {"a": 1}),
    ("a set", {1, 2}),
    ("a range", range(3)),
    ("an array without elements", np.zeros((0, 4), np.float32)),
    ("an array of no axes", np.array(1.0, np.float32)),
    ("an array of NaN", np.full((8, 32), np.nan, np.float32)),
    ("float64", np.ones((8, 32))),
    ("float16", np.ones(4, np.float16)),
    ("longdouble", np.ones((8, 32), np.longdouble)),
    ("booleans", np.ones((8, 32), np.bool_)),
    ("int64", np.full((8, 32), -1)),
    ("uint64", np.full((4, 4), 2**64 - 1, np.uint64)),
    ("bytes in an array", np.zeros((4, 8), np.uint8)),
    ("the other byte order", np.ones((8, 32), ">f4")),
    ("complex numbers", np.ones((4, 8), np.complex64)),
    ("objects", np.array([None, "a", 1], object)),
    ("texts", np.array(["a", "b"])),
    ("dates", np.zeros(4, "datetime64[s]")),
    ("records", np.zeros(4, [("a", "u1"), ("b", "f4")])),
    (
        "a masked array",
        np.ma.masked_array(np.ones((8, 32), np.float32), mask=np.eye(8, 32, dtype=bool)),
    ),
    ("many axes", np.ones((1,) * 12, np.float32)),
    ("NVFP4", BLOCK_FORMATS["nvfp4"]),
    ("integers of 8 bits", MX_FORMATS["mxint8"]),
    ("E4M3", MX_FORMATS["mxfp8_e4m3"]),
    ("a set of formats", FORMAT_SETS["multi"]),
    ("float64 as a format", SCALAR_FORMATS["fp64"]),
    ("E4M7", FP12_E4M7),
)
"""Values by name, each of which every parameter gets."""


def values() -> st.SearchStrategy[Any]:
    """Any value: one of those, or a number, text or container of such."""
    scalars = st.one_of(
        st.integers(-300, 300),
        st.integers(),
        st.floats(),
        st.text(max_size=8),
        st.binary(max_size=8),
    )
    containers = st.one_of(
        st.lists(scalars, max_size=4),
        st.tuples(scalars, scalars),
        st.dictionaries(st.text(max_size=4), scalars, max_size=3),
    )
    known = st.sampled_from([value for _, value in KNOWN])
    return st.one_of(known, scalars, containers)
