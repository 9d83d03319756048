"""Blocks: a tensor as element codes and one shared scale per block.

Some formats have a scale of the whole tensor too: a number is element times block scale times
tensor scale.

Blocks are 1-D runs along an axis, or 2-D tiles over the last two axes. A ragged edge is a smaller
block: the shape of the codes is the shape of the input.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Annotated, Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from mxsafe.codec import elements, numpy_engine
from mxsafe.codec._engines import Engine, choose_engine, run
from mxsafe.codec._inputs import floats
from mxsafe.codec._parts import Region, block_lengths, blocks_of, blocks_shape, moved, parts
from mxsafe.codec._scales import require_scales, require_tensor_scale, tensor_scale_of
from mxsafe.codec._subnormals import subnormals
from mxsafe.formats import MXFormat, ScaleFormat, mx_format
from mxsafe.validation import other_than, require_axis, require_one_of, shown

__all__ = ["QuantizedTensor", "ScaleMode", "dequantize", "quantize"]

ScaleMode = Literal["floor", "ceil", "even", "rceil", "nearest"]
SCALE_MODES: tuple[ScaleMode, ...] = ("floor", "ceil", "even", "rceil")
"""How scales that are powers of two are chosen; those with a mantissa are always the nearest."""

Block = int | tuple[int, int]
Axis = int | tuple[int, int]


@dataclass(frozen=True, eq=False)
class QuantizedTensor:
    """A tensor in an MX format or NVFP4.

    Attributes
    ----------
    codes : ndarray of uint8
        Element codes, shape of the original tensor.
    scales : ndarray of uint8
        Codes of the format's scale (E8M0, or E4M3 in NVFP4), one a block: the shape of `codes` with
        every blocked axis of length ``n`` replaced by ``ceil(n / block)``.
    format : MXFormat
        Format of elements and scales.
    block : int or tuple of int
        Length of a 1-D block, or shape of a 2-D tile.
    axis : int or tuple of int
        The axis a 1-D block runs along, counted from the end (-1 is the last); ``(-2, -1)`` for
        tiles.
    tensor_scale : numpy.float32, optional
        The scale of the whole tensor, positive and finite, if the format has one.

    Raises
    ------
    TypeError, ValueError
        If the parts do not belong together; the message names the part.

    Notes
    -----
    `dequantize`, `mxsafe.save`, `mxsafe.matmul`, `mxsafe.packing.to_bytes` and
    `mxsafe.to_ml_dtypes` also take an object of another class whose method
    ``__quantized_tensor__`` returns such a tensor, as that of `mxsafe.torch.QuantizedTensor` does.
    """

    codes: NDArray[np.uint8]
    scales: NDArray[np.uint8]
    format: MXFormat
    block: Block
    axis: Axis
    tensor_scale: np.float32 | None = None

    def __post_init__(self) -> None:
        for name in ("codes", "scales"):
            array = getattr(self, name)
            if not isinstance(array, np.ndarray) or array.dtype != np.uint8:
                kind = getattr(array, "dtype", type(array).__name__)
                raise TypeError(f"{name} must be a uint8 array, not {kind}")
        fmt = mx_format(self.format)
        axes = blocked_axes(self.codes.ndim, self.block, self.axis)
        tiled = len(axes) == 2
        canonical: dict[str, Any] = {
            "format": fmt,
            "block": (axes[0][1], axes[1][1]) if tiled else axes[0][1],
            "axis": (-2, -1) if tiled else axes[0][0],
            "tensor_scale": require_tensor_scale(self.tensor_scale, fmt),
        }
        for name, value in canonical.items():
            object.__setattr__(self, name, value)
        _require_width("codes", self.codes, fmt.element.width, fmt)
        require_scales(self.scales, fmt)
        expected = blocks_shape(self.codes.shape, block_lengths(self.codes.shape, axes))
        if self.scales.shape != expected:
            raise ValueError(
                f"scales must have shape {expected} for codes of shape {self.codes.shape} in "
                f"blocks of {self.block} along axis {self.axis}, not {self.scales.shape}"
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensor."""
        return self.codes.shape

    @property
    def T(self) -> "QuantizedTensor":
        """The transposed matrix, from the same codes, scales and tensor scale.

        Nothing is requantised. A tile of shape ``(t, u)`` becomes one of ``(u, t)``, so square
        tiles serve both orientations; a 1-D block comes to run along the other axis.

        Raises
        ------
        ValueError
            If the tensor is not a matrix.
        """
        if self.codes.ndim != 2:
            raise ValueError(f"T needs a tensor of rank 2, not {self.codes.ndim}")
        block, axis = transposed_blocks(self.block, self.axis)
        return replace(self, codes=self.codes.T, scales=self.scales.T, block=block, axis=axis)

    def element_scales(self, *region: slice) -> NDArray[np.uint8]:
        """Code of the scale of every element.

        Parameters
        ----------
        *region : slice
            One slice an axis, to have them for a part of the tensor only; steps must be 1.

        Returns
        -------
        ndarray of uint8
            `scales` spread to the shape of `codes`, or of ``codes[region]``.
        """
        axes = blocked_axes(self.codes.ndim, self.block, self.axis)
        wanted = region or (slice(None),) * self.codes.ndim
        spread = self.scales
        for axis, length in enumerate(block_lengths(self.codes.shape, axes)):
            indices = np.arange(*wanted[axis].indices(self.codes.shape[axis])) // length
            spread = np.take(spread, indices, axis=axis)
        return spread

    def __repr__(self) -> str:
        tensor_scale = "" if self.tensor_scale is None else f", tensor_scale={self.tensor_scale!s}"
        return (
            f"QuantizedTensor(format={self.format.name!r}, shape={self.shape}, "
            f"block={self.block}, axis={self.axis}{tensor_scale})"
        )


def _require_width(name: str, array: NDArray[np.uint8], width: int, fmt: MXFormat) -> None:
    """Refuse codes with bits above their width."""
    if width < 8 and array.size and array.max() >> width:
        raise ValueError(f"{name} must have the {width} bits of {fmt.name}, not {array.max():#x}")


def is_tensor(q: object) -> bool:
    """Whether it is a `QuantizedTensor`, or of a class that says which one it is."""
    return isinstance(q, QuantizedTensor) or hasattr(type(q), "__quantized_tensor__")


def tensor_of(name: str, q: Any) -> QuantizedTensor:
    """The `QuantizedTensor` that something is or, by `is_tensor`, says it is; or a clear error."""
    if not is_tensor(q):
        words = "a QuantizedTensor"
        raise TypeError(f"{name} must be {words}, not {other_than(words, q)}")
    return q if isinstance(q, QuantizedTensor) else tensor_of(name, q.__quantized_tensor__())


Quantized = Annotated[QuantizedTensor, tensor_of]
"""Annotation of a parameter that takes tensors of other classes too, see `QuantizedTensor`."""


def _is_length(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= 1)


def blocked_axes(rank: int, block: Block, axis: Axis) -> list[tuple[int, int]]:
    """Pairs of (axis counted from the end, block length), or a clear error."""
    if isinstance(block, tuple | list):
        if len(block) != 2 or not all(_is_length(length) for length in block):
            raise ValueError(
                f"block must be a positive integer or a pair of positive integers, "
                f"not {shown(block)}"
            )
        if rank < 2:
            raise ValueError(f"block {tuple(block)} needs a tensor of rank 2 or more, not {rank}")
        if not isinstance(axis, int | np.integer) and axis not in ((-2, -1), [-2, -1]):
            raise ValueError(f"axis must be an integer or (-2, -1) for tiles, not {shown(axis)}")
        return [(-2, int(block[0])), (-1, int(block[1]))]
    if not _is_length(block):
        raise ValueError(
            f"block must be a positive integer or a pair of positive integers, not {shown(block)}"
        )
    if rank < 1:
        raise ValueError("x must have rank 1 or more, not 0")
    if not isinstance(axis, int | np.integer) or isinstance(axis, bool):
        raise ValueError(f"axis must be an integer for 1-D blocks, not {shown(axis)}")
    require_axis(int(axis), rank)
    return [(int(axis) - rank if axis >= 0 else int(axis), int(block))]


def transposed_blocks(block: Block, axis: Axis) -> tuple[Block, Axis]:
    """How the blocks of a matrix lie in its transpose: `block` and `axis` of that."""
    if isinstance(block, tuple):
        return (block[1], block[0]), axis
    return block, -1 if axis == -2 else -2


@subnormals()
def quantize(
    x: ArrayLike,
    format: str | MXFormat = "mxsf",
    *,
    block: Block | None = None,
    axis: int = -1,
    rounding: elements.Rounding | Literal["even"] = "rne",
    scale_mode: ScaleMode | None = None,
    tensor_scale: float | np.float32 | None = None,
    random: elements.Random | None = None,
    engine: Engine = "auto",
) -> QuantizedTensor:
    """Quantise a tensor to an MX format or NVFP4.

    Parameters
    ----------
    x : array_like of float64, float32, float16 or bfloat16
        Tensor of any shape and layout; never written to. float32 subnormals count.
    format : str or MXFormat
        Name in the catalogue, or a specification.
    block : int or tuple of int, optional
        Length of 1-D blocks along `axis`, or shape ``(rows, columns)`` of 2-D tiles over the last
        two axes. By default the 1-D block of the format: 64 for MXSF, 32 for OCP formats, 16
        for NVFP4.
    axis : int
        Axis that 1-D blocks run along; tiles take no notice of it.
    rounding : {"rne", "rna", "rtz", "sr"}
        Rounding of the elements, see `mxsafe.encode`.
    scale_mode : {"floor", "ceil", "even", "rceil", "nearest"}, optional
        How a block's scale follows from its largest magnitude ``amax``. A scale that is a power of
        two has four modes: ``floor`` (the default) is ``floor(log2(amax)) - emax`` (paper,
        Algorithm 1; OCP MX v1.0, section 6.3); ``ceil`` takes ``ceil(log2(amax))``; ``even`` rounds
        ``amax`` to the element's mantissa first; ``rceil`` is
        ``ceil(log2(amax / largest element))``. All as torchao defines them. A scale with a mantissa
        has one: ``nearest`` is ``amax / (largest element * tensor scale)``, rounded once to the
        nearest scale, a tie to the even code, at most the largest. It can be 0, and then all
        elements of the block are.
    tensor_scale : float, optional
        Scale of the tensor, for formats that have one: a positive finite float32, such as a
        calibrated one. By default it is ``amax / (largest block scale * largest element)``, rounded
        once to float32, where ``amax`` is the largest finite magnitude of the tensor, whatever its
        blocks. It is 1 for a tensor without any number but zeros; where it would be 0 or Inf, it is
        the smallest or the largest positive float32.
    random : numpy.random.Generator, int or ndarray of uint32, optional
        Source of randomness for ``rounding="sr"``, see `mxsafe.encode`. A generator or a seed
        gives its words in the C order of the elements. Other roundings take no notice of it.
    engine : {"auto", "numpy", "numba"}
        The plain reference or the compiled path, which gives the same bits; by default the
        compiled one for large tensors where Numba (the extra ``fast``) is installed.

    Returns
    -------
    QuantizedTensor
        A block that holds a NaN or an Inf has the scale that is NaN (code 255 of E8M0, 0x7f of
        E4M3) and codes 0; a block of zeros has scale 0 and keeps its signs.

    Raises
    ------
    TypeError
        If `x` has another dtype.
    ValueError
        If `format`, `block`, `axis`, `rounding`, `scale_mode`, `tensor_scale` or `engine` is not as
        above.
    ImportError
        If `engine` is ``"numba"`` and Numba cannot be imported.

    Notes
    -----
    Beside the result it takes a few times the memory of one block or of a million elements,
    whichever is more, whatever the size of the tensor. Only the random words of a generator need
    four bytes for each element of a *slab*, the blocks at one position of the leading axes.

    Examples
    --------
    >>> import numpy as np
    >>> q = quantize(np.float32([1.0, -0.3, 0.004, 0.0]), "mxsf", block=4)
    >>> q.codes, q.scales
    (array([ 96, 166,   8,   0], dtype=uint8), array([127], dtype=uint8))
    """
    fmt = mx_format(format)
    rounding = elements.canonical_rounding(rounding)
    mode = settled_scale_mode(scale_mode, fmt)
    given = None if tensor_scale is None else require_tensor_scale(tensor_scale, fmt)
    values = floats("x", x)
    shape = fmt.block if block is None else block
    axes = blocked_axes(values.ndim, shape, axis)
    lengths = block_lengths(values.shape, axes)
    arithmetic = choose_engine(engine, fmt, values.size)
    source = elements.random_of(rounding, random, values.shape)
    codes = np.empty(values.shape, np.uint8)
    scales = np.empty(blocks_shape(values.shape, lengths), np.uint8)
    shared = default_tensor_scale(values, fmt, arithmetic) if given is None else given
    factor = 1.0 if shared is None else float(shared)

    def fill(slab: Region, words: NDArray[np.uint32] | None) -> None:
        """Quantise a slab of the tensor, part by part, with the slab's random words."""

        def work(part: Region) -> None:
            here = moved(part, slab)
            arithmetic.quantize_part(
                values[here],
                fmt,
                lengths,
                rounding,
                mode,
                None if words is None else words[part],
                codes[here],
                scales[blocks_of(here, lengths)],
                factor,
            )

        run(arithmetic, work, parts(values[slab].shape, lengths, arithmetic.PART))

    if isinstance(source, np.random.Generator):
        for slab in parts(values.shape, lengths, arithmetic.PART, in_order=True):
            fill(slab, elements.random_bits(source, values[slab].shape))
    else:
        fill(tuple(slice(0, size) for size in values.shape), source)
    return QuantizedTensor(codes, scales, fmt, shape, axis, shared)


def settled_scale_mode(mode: object, fmt: MXFormat) -> ScaleMode:
    """A mode that the scales of a format have, or a clear error; None is the format's default."""
    if not isinstance(fmt.scale, ScaleFormat):
        if mode not in (None, "nearest"):
            raise ValueError(f"scale_mode must be nearest for {fmt.name}, not {shown(mode)}")
        return "nearest"
    if mode is None:
        return "floor"
    require_one_of("scale_mode", mode, SCALE_MODES)
    return cast(ScaleMode, mode)


def default_tensor_scale(
    values: NDArray[Any], fmt: MXFormat, engine: ModuleType = numpy_engine
) -> np.float32 | None:
    """Scale of a tensor that none is given for, see `quantize`; None of a format without."""
    if not fmt.tensor_scale:
        return None
    largest = 0.0
    for part in parts(values.shape, (1,) * values.ndim, numpy_engine.PART):
        largest = max(largest, engine.largest_magnitude(values[part]))
    return tensor_scale_of(largest, fmt)


def _float_dtype(dtype: object) -> np.dtype[np.floating[Any]]:
    """float32 or float64, whatever NumPy calls them by; not None, which NumPy takes for float64."""
    for known in (np.dtype(np.float32), np.dtype(np.float64)):
        # A dtype is compared with anything else by making one of that.
        with suppress(TypeError, ValueError, Warning):
            if isinstance(dtype, str | type | np.dtype) and known == dtype:
                return known
    raise TypeError(f"dtype must be float32 or float64, not {_dtype_name(dtype)}")


def _dtype_name(dtype: object) -> str:
    if isinstance(dtype, type):
        return dtype.__name__
    return str(dtype) if isinstance(dtype, np.dtype) else shown(dtype)


@subnormals()
def dequantize(
    q: QuantizedTensor, *, dtype: DTypeLike = np.float32, engine: Engine = "auto"
) -> NDArray[Any]:
    """Convert a quantised tensor back to floats.

    Parameters
    ----------
    q : QuantizedTensor
        Tensor to convert.
    dtype : {numpy.float32, numpy.float64}
        Type of the result. float32 is exact for every MXSF tensor; a format with a large ``emax``
        can hold values beyond float32 under the largest scales, which become Inf. Values of NVFP4
        are rounded once to float32. float64 is exact for all formats of the catalogue.
    engine : {"auto", "numpy", "numba"}
        See `quantize`.

    Returns
    -------
    ndarray of `dtype`, shape of `q`
        Blocks whose scale is NaN are NaN.

    Raises
    ------
    TypeError
        If `q` is not a QuantizedTensor, or `dtype` is another.
    ValueError
        If `engine` is unknown, or a code has more bits than the format (the arrays of `q` can be
        written to).
    ImportError
        If `engine` is not to be had.
    """
    q = tensor_of("q", q)
    dtype = _float_dtype(dtype)
    arithmetic = choose_engine(engine, q.format, q.codes.size)
    lengths = block_lengths(q.shape, blocked_axes(q.codes.ndim, q.block, q.axis))
    values = np.empty(q.shape, dtype)
    factor = 1.0 if q.tensor_scale is None else float(q.tensor_scale)

    def work(part: Region) -> None:
        codes, scales = q.codes[part], q.scales[blocks_of(part, lengths)]
        _require_width("codes", codes, q.format.element.width, q.format)
        require_scales(scales, q.format)
        arithmetic.dequantize_part(codes, scales, q.format, lengths, values[part], factor)

    run(arithmetic, work, parts(q.shape, lengths, arithmetic.PART))
    return values
