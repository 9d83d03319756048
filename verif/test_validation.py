"""Checks of parameters: values that pass, what they become, and messages for the rest."""

import inspect
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Literal

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from mxsafe.analysis.inspection import number_table
from mxsafe.codec import quantize
from mxsafe.formats import FORMAT_SETS, MX_FORMATS, MXFormat
from mxsafe.machine.assembler import Assembler
from mxsafe.machine.compiler.products import Matrix, Products
from mxsafe.machine.compiler.timing import predict
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import REGISTERS
from mxsafe.machine.program import Program
from mxsafe.model.converter import matrix_beats
from mxsafe.model.layer import bias_beats
from mxsafe.model.normalisation import layer_norm
from mxsafe.model.softmax import softmax
from mxsafe.rtl.array.shape import ArrayShape
from mxsafe.rtl.mac.decoder import DecoderConfiguration
from mxsafe.tables import load
from mxsafe.validation import (
    Alike,
    PowerOfTwo,
    about,
    checked,
    require_count,
    require_identifier,
    require_integer,
    require_multiple,
    require_one_of,
    require_positive_integer,
    require_power_of_two,
    settled,
    shown,
    within,
)
from verif.support.tests import raises


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        *[("beat", "; did you mean 'beats'?"), ("BEATS", "; did you mean 'beats'?")],
        *[("rows", ""), ("", ""), ("x" * 10**6, ""), (None, ""), (["beats"], ""), (1, "")],
        ("float16", ""),  # another number is no slip
    ],
    ids=lambda value: repr(value)[:20],
)
def test_words_that_are_none_of_those(value: object, hint: str) -> None:
    words = ("lanes", "beats", "float32")
    with pytest.raises(ValueError, match=r"^along must be one of lanes, beats, ") as error:
        require_one_of("along", value, words)
    assert str(error.value).endswith(f"not {shown(value)}{hint}")
    assert require_one_of("along", "beats", words) == "beats"


INTEGERS = (4, np.int64(4), np.uint8(4), np.array(4))
NO_INTEGERS = (True, np.True_, 4.0, np.float32(4), "4", None, [4])


@pytest.mark.parametrize("value", INTEGERS, ids=repr)
def test_every_integer_becomes_one_of_python(value: object) -> None:
    for number in (
        require_integer("rows", value, 4, 4),
        require_positive_integer("rows", value),
        require_power_of_two("rows", value),
    ):
        assert type(number) is int
        assert number == 4


@pytest.mark.parametrize("value", [*NO_INTEGERS, -5, 3, np.int8(-5)], ids=repr)
def test_integers_within_bounds(value: object) -> None:
    assert require_integer("stages", -4, -4, 2) == -4
    assert require_integer("stages", 0, -4, 2) == 0
    with raises(ValueError, f"stages must be an integer from -4 to 2, not {value!r}"):
        require_integer("stages", value, -4, 2)


@pytest.mark.parametrize("value", [*NO_INTEGERS, 0, -2, np.int8(-5)], ids=repr)
def test_positive_integers_and_powers_of_two(value: object) -> None:
    with raises(ValueError, f"lanes must be a positive integer, not {value!r}"):
        require_positive_integer("lanes", value)
    for number in (value, 3):
        with raises(ValueError, f"lanes must be a power of two, not {number!r}"):
            require_power_of_two("lanes", number)


def test_multiples() -> None:
    assert require_multiple("beats", np.int64(8), 4) == 8
    for value in (0, -4, 4.0, True):
        with pytest.raises(ValueError, match=r"^beats must be a positive integer, not "):
            require_multiple("beats", value, 4)
    with pytest.raises(ValueError, match=r"^beats must be a multiple of 4, not 6$"):
        require_multiple("beats", 6, 4)


def test_counts() -> None:
    for number in (0, 7, np.int64(7)):
        assert require_count("limit", number) == number
        assert type(require_count("limit", number)) is int
    for value in (*NO_INTEGERS, -1):
        with raises(ValueError, f"limit must be a non-negative integer, not {value!r}"):
            require_count("limit", value)


def test_identifiers() -> None:
    for name in ("x", "_", "mxfp8_e2m5", "A1", "x" * 64, "module"):
        assert require_identifier("name", name) == name
    refused = ("", "1abc", "../../evil", "//c", "x;y", "a b", "a-b", "a\n", "é", "x²", "x" * 65)
    for value in (*refused, b"x", 3, None):
        with raises(
            ValueError,
            "name must be an identifier (1 to 64 ASCII letters, digits and underscores, the first "
            f"no digit), not {value!r}",
        ):
            require_identifier("name", value)


@pytest.mark.parametrize(
    ("annotation", "value", "kind", "message"),
    [
        (int, "a", ValueError, "x must be an integer, not 'a'"),
        (int | None, 1.5, ValueError, "x must be an integer or None, not 1.5"),
        (bool, "no", TypeError, "x must be True or False, not 'no'"),
        (bool, 1, TypeError, "x must be True or False, not 1"),
        (float, "1", TypeError, "x must be a number, not '1'"),
        (float, 10**400, TypeError, f"x must be a number, not {'1' + '0' * 79}..."),
        (str, None, TypeError, "x must be a str, not None"),
        (Literal["a", "b"], "c", ValueError, "x must be one of a, b, not 'c'"),
        (
            Literal["rows"] | None,
            "row",
            ValueError,
            "x must be one of rows or None, not 'row'; did you mean 'rows'?",
        ),
        (Literal["a", "b"], np.ones(2), ValueError, "x must be one of a, b, not ndarray"),
        (PowerOfTwo, 3, ValueError, "x must be a power of two, not 3"),
        (Alike, 1025, ValueError, "x must be at most 1024, not 1025"),
        (Annotated[int, within(1, 3)], 4, ValueError, "x must be an integer from 1 to 3, not 4"),
        (MXFormat, "mxsf", TypeError, "x must be an MXFormat, not 'mxsf'"),
        (tuple[int, str], (1,), TypeError, "x must be a tuple (an integer, a str), not (1,)"),
        (Sequence[str], "ab", TypeError, "x must be a sequence of a str, not 'ab'"),
        (
            Mapping[str, str],
            {1: ""},
            TypeError,
            "x must be a mapping of a str to a str, not {1: ''}",
        ),
        (
            NDArray[np.float32],
            np.ones(2),
            TypeError,
            "x must be a float32 array without a mask, not ndarray of float64",
        ),
        (
            NDArray[np.float32],
            np.ma.masked_array(np.ones(2, np.float32)),
            TypeError,
            "x must be a float32 array without a mask, not MaskedArray of float32",
        ),
    ],
)
def test_what_an_annotation_refuses(
    annotation: object, value: object, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind) as error:
        settled("x", annotation, value)
    assert str(error.value) == message
    assert type(error.value) is kind


def test_what_an_annotation_takes() -> None:
    for annotation, value in (
        (int, np.int64(3)),
        (int | None, None),
        (tuple[int, ...], [np.int8(1), 2]),
        (float, 3),
        (bool, np.True_),
        (NDArray[np.float32], np.ones(2, np.float32)),
        (object, "anything"),
    ):
        found = settled("x", annotation, value)
        assert np.array_equal(found, value) or found is value
    assert settled("x", tuple[int, ...], [np.int8(1)]) == (1,)
    assert type(settled("x", int, np.int64(3))) is int


def test_functions_and_constructors_are_checked() -> None:
    @checked
    def function(rows: PowerOfTwo, *, name: str = "x", **others: int) -> tuple[object, ...]:
        return rows, name, others

    assert function(np.int64(4), name="y", more=1) == (4, "y", {"more": 1})
    with pytest.raises(ValueError, match=r"^rows must be a power of two, not 3$"):
        function(3)
    with pytest.raises(TypeError, match=r"^name must be a str, not 1$"):
        function(4, name=1)
    with pytest.raises(TypeError, match="rows"):
        function()  # type: ignore[call-arg]


def test_an_annotation_of_classes_that_no_error_can_name() -> None:
    class _Private:
        pass

    @checked
    def function(rows: int | _Private) -> object:
        return rows

    @checked
    def array(words: ArrayLike) -> object:
        return words

    message = "^annotation must be of public classes, .*Numbers, not of _"
    for call in (function, array):
        with pytest.raises(TypeError, match=message):
            call(1)


def test_configurations_are_checked_before_they_are_made() -> None:
    with pytest.raises(TypeError, match=r"^format must be an MXFormat, not None$"):
        DecoderConfiguration(format=None)
    with pytest.raises(ValueError, match=r"^lanes must be at most 1024, not 18446744073709551616$"):
        ArrayShape(lanes=2**64)
    assert type(ArrayShape(lanes=np.int64(8)).lanes) is int
    assert list(inspect.signature(DecoderConfiguration).parameters) == ["format"]
    assert DecoderConfiguration(format=MX_FORMATS["mxsf"]).module_name == "mxsf_decoder"


def test_errors_about_parts() -> None:
    with pytest.raises(ValueError, match=r"^bursts must be 2 or more$"), about(depth="bursts"):
        raise ValueError("depth must be 2 or more")
    with pytest.raises(ValueError, match=r"^other must be$"), about(depth="bursts"):
        raise ValueError("other must be")


def test_values_in_errors_are_short() -> None:
    assert shown(10**5000) == "a long int"
    assert len(shown("x" * 1000)) < 100
    assert shown([1, 2]) == "[1, 2]"
    assert shown([0] * 1000) == "list"
    assert shown(np.float32(4)) == repr(np.float32(4))


def test_a_mapping_that_says_less_of_its_items() -> None:
    words = Counter("aab")
    assert settled("words", Counter[str], words) is words
    with pytest.raises(TypeError) as error:
        settled("words", Counter[str], ["a"])
    assert str(error.value).startswith("words must be a counter")


_X = np.ones((2, 4), np.float32)
_ARRAY = next(register for register in REGISTERS if register.name == "array")


@pytest.mark.parametrize("axis", [2, -3, 2**31])
@pytest.mark.parametrize(
    "call",
    [
        lambda axis: quantize(_X, axis=axis),
        lambda axis: softmax(_X, axis=axis),
        lambda axis: layer_norm(_X, 1.0, 0.0, axis=axis),
    ],
    ids=["quantize", "softmax", "layer_norm"],
)
def test_axes_that_there_are_not(call: Callable[[int], object], axis: int) -> None:
    with raises(ValueError, f"axis must lie in -2..1 for rank 2, not {axis}"):
        call(axis)


def test_axes_of_no_rank() -> None:
    with pytest.raises(ValueError, match=r"^axis must be that of an array of rank 1 or more, not"):
        softmax(np.float32(1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Matrix(None, 8, MX_FORMATS["mxsf"]), "operand must be an Operand, not None"),
        (lambda: Products(None), "configuration must be a MachineConfiguration, not None"),
        (lambda: predict(None), "program must be an Emitter or a Program, not None"),
        (
            lambda: Assembler(MachineConfiguration()).assemble([1]),  # type: ignore[list-item]
            "program must be an iterable of an Instruction, not [1]",
        ),
        (
            lambda: Program.assembled(iter([1]), MachineConfiguration()),
            "instructions must hold instructions, not 1",
        ),
        (
            lambda: Assembler(MachineConfiguration()).vector(parameter=1e300),
            "vector: parameter must be within binary32, not 1e+300",
        ),
        (
            lambda: Assembler(MachineConfiguration()).load(wait=[[1]]),  # type: ignore[list-item]
            "load: wait must be an integer or a number or a str or a sequence of a str, not [[1]]",
        ),
        (
            lambda: _ARRAY.pack({"rows": 16, "columns": 16, "lanes": 256}),
            "values: lanes must be an integer from 0 to 255, not 256",
        ),
        (lambda: _ARRAY.pack({"rows": 16}), "values must have rows, columns, lanes, not rows"),
        (lambda: _ARRAY.unpack(-1), "value must be an integer from 0 to 4294967295, not -1"),
        (
            lambda: FORMAT_SETS["multi"].mode("mxsf"),
            "format must be an MXFormat, not 'mxsf'",
        ),
        (lambda: load("exp2_fine").only([99]), "segments must be an integer from 0 to 15, not 99"),
        (lambda: load("exp2_fine").column(3), "power must be an integer from 0 to 2, not 3"),
        (lambda: matrix_beats(_X, width=2**31), "width must be at most 1024, not 2147483648"),
    ],
)
def test_objects_and_sizes_that_are_refused(call: Callable[[], object], message: str) -> None:
    with raises((TypeError, ValueError), message):
        call()


def test_numbers_of_numpy_are_numbers() -> None:
    """Without a warning, and beyond binary32 infinite."""
    for number in (np.float32(8), np.uint8(8), 8):
        assert number_table(number) == number_table(8.0)
    numbers, _ = bias_beats([1e308], 1)
    assert numbers.tolist() == [np.inf]
