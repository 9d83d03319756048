"""Checks of the codec's numbers and options, in one place, so that every error reads alike."""

from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mxsafe.validation import shown

FLOAT_DTYPES = ("float64", "float32", "float16", "bfloat16")

BFLOAT16 = np.dtype([("bfloat16", np.uint16)])
"""Words of bfloat16, for arrays that are made where no library has a dtype of that name."""


def require_numbers(name: str, values: Any) -> Any:
    """Refuse what is no array of real numbers, and a masked one, whose mask would be lost."""
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{name} must be an array without a mask, not {shown(values)}")
    try:
        dtype = np.asarray(values).dtype
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{name} must be an array of numbers, not {shown(values)}") from None
    if dtype.kind not in "biuf" and (dtype.kind != "V" or dtype.names or dtype.name == "void"):
        raise TypeError(f"{name} must be an array of numbers, not of dtype {dtype}")
    return values


Numbers = Annotated[ArrayLike, require_numbers]
"""Annotation of a parameter that is made an array of numbers."""


def require_broadcast(**arrays: Any) -> None:
    """Refuse arrays whose shapes do not go together, by the name of the first that does not."""
    shapes = {np.shape(array) for array in arrays.values()}
    if len(shapes) == 1:
        return
    shape: tuple[int, ...] = ()
    for name, array in arrays.items():
        try:
            shape = np.broadcast_shapes(shape, np.shape(array))
        except ValueError:
            raise ValueError(
                f"{name} must have a shape that broadcasts with {shape}, not {np.shape(array)}"
            ) from None


def floats(name: str, values: ArrayLike) -> NDArray[Any]:
    """Array of a supported floating-point dtype, as it came, or a clear error.

    bfloat16 is recognised by its dtype's name (NumPy has none of its own; ml_dtypes and JAX
    provide it), so that no such library has to be installed.
    """
    if isinstance(values, np.ndarray) and values.dtype == BFLOAT16:
        return values
    array = np.asarray(require_numbers(name, values))
    if array.dtype.name not in FLOAT_DTYPES:
        raise TypeError(f"{name} must have dtype {', '.join(FLOAT_DTYPES)}, not {array.dtype}")
    return array


def bfloat16_bits(array: NDArray[Any]) -> NDArray[np.uint16] | None:
    """The words of an array of bfloat16; None of another dtype."""
    if array.dtype.kind == "f":  # those of NumPy itself; names of dtypes take time
        return None
    if array.dtype == BFLOAT16:
        return array["bfloat16"]
    if array.dtype.name != "bfloat16":
        return None
    words = np.dtype(np.uint16).newbyteorder(array.dtype.byteorder)
    return np.ascontiguousarray(array).reshape(array.shape).view(words)


def widened(array: NDArray[Any], dtype: type[np.floating[Any]]) -> NDArray[Any]:
    """Convert such an array to a dtype that holds all its values; nothing is copied needlessly."""
    bits = bfloat16_bits(array)
    if bits is not None:
        array = (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    with np.errstate(invalid="ignore"):  # a signalling NaN is a NaN like any other
        return array.astype(dtype, copy=False)


def to_float64(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """Convert an array of a supported floating-point dtype to float64, which is always exact."""
    return widened(floats(name, values), np.float64)


def integers(name: str, values: ArrayLike) -> NDArray[np.int64]:
    """Array of integers of any type as int64, or a clear error."""
    array = np.asarray(require_numbers(name, values))
    # An empty list has no type.
    if array.dtype.kind not in "ui" and (array.size or isinstance(values, np.ndarray)):
        raise TypeError(f"{name} must have an integer dtype, not {array.dtype}")
    return array.astype(np.int64)


def to_codes(name: str, codes: ArrayLike, width: int) -> NDArray[np.integer[Any]]:
    """Convert integers to an array of codes of `width` bits, refusing what does not fit."""
    array = np.asarray(codes if width == 64 else require_numbers(name, codes))
    if array.size == 0 and not isinstance(codes, np.ndarray):
        array = array.astype(np.uint8)  # an empty list has no type
    if width == 64 and not isinstance(codes, np.ndarray) and array.dtype.kind in "fO":
        # NumPy makes floats of a list that no one integer type holds.
        objects = np.asarray(codes, dtype=object)
        if objects.size and all(isinstance(code, int | np.integer) for code in objects.flat):
            _require_range(name, objects, width)
            return objects.astype(np.uint64)
    if array.dtype.kind not in "ui":
        raise TypeError(f"{name} must have an integer dtype, not {array.dtype}")
    fits_by_dtype = array.dtype.kind == "u" and 8 * array.dtype.itemsize <= width
    if not fits_by_dtype:
        _require_range(name, array, width)
    return array


def _require_range(name: str, array: NDArray[Any], width: int) -> None:
    if array.size and (array.min() < 0 or array.max() >> width):
        raise ValueError(
            f"{name} must lie in 0..{(1 << width) - 1}, not {array.min()}..{array.max()}"
        )
