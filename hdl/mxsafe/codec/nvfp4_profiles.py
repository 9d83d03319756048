"""NVFP4 as other libraries quantise it: their block scales, codes and values, bit for bit.

They compute in float32, so their results are rounded where ours are exact.
`mxsafe.codec.profiles.quantize_like` takes the names of these profiles too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from mxsafe.codec import elements, scalar
from mxsafe.codec._scales import require_tensor_scale, scale_values
from mxsafe.codec.blocks import QuantizedTensor, blocked_axes
from mxsafe.formats import NVFP4
from mxsafe.validation import checked, shown


@dataclass(frozen=True, kw_only=True)
class NVFP4Profile:
    """Rules of a library that quantises to NVFP4 in other ways than `mxsafe.quantize`.

    In float32, each operation rounded: the largest magnitude of a block is divided by 6, and by the
    scale of the tensor; this is brought between `smallest_scale` and 448 and rounded to E4M3;
    elements are multiplied by the reciprocal of the tensor's scale over that of the block. An Inf
    saturates, and a NaN makes the scale of its block NaN. A value is the element times the product
    of both scales.

    Attributes
    ----------
    name : str
        Name in `NVFP4_PROFILES`.
    library, version : str
        What it describes.
    description : str
        The call, and what is peculiar about it, in a line.
    input_dtypes : tuple of str
        Types of input it was measured with.
    tensor_scale : bool
        Whether it has a scale of the tensor. Without, that is 1 in the result.
    smallest_scale : float
        Least block scale.
    """

    name: str
    library: str
    version: str
    description: str
    input_dtypes: tuple[str, ...]
    tensor_scale: bool
    smallest_scale: float

    @property
    def formats(self) -> tuple[str, ...]:
        """Names of the formats that it describes."""
        return (NVFP4.name,)


def _torchao(name: str, description: str, *, tensor_scale: bool) -> NVFP4Profile:
    return NVFP4Profile(
        name=name,
        library="torchao",
        version="0.18.0",
        description=f"nvfp4_quantize on a CPU, {description}; no block scale is below 2^-6",
        input_dtypes=("float32", "bfloat16"),
        tensor_scale=tensor_scale,
        smallest_scale=2.0**-6,
    )


NVFP4_PROFILES: Mapping[str, NVFP4Profile] = MappingProxyType(
    {
        profile.name: profile
        for profile in (
            _torchao(
                "torchao_nvfp4",
                "with per_tensor_amax_to_scale of the largest magnitude",
                tensor_scale=True,
            ),
            _torchao("torchao_nvfp4_blocks", "without per_tensor_scale", tensor_scale=False),
        )
    }
)
"""Profiles of NVFP4 by name."""


@checked
def quantize_nvfp4_like(
    x: NDArray[np.float32],
    profile: NVFP4Profile,
    *,
    block: int | None,
    axis: int,
    tensor_scale: float | np.float32 | None,
) -> tuple[NDArray[np.float32], QuantizedTensor]:
    """Quantise a tensor to NVFP4 as another library does.

    Parameters
    ----------
    x : ndarray of float32
        Tensor.
    profile : NVFP4Profile
        Whose result it is to be.
    block : int, optional
        Length of the blocks, which is 16.
    axis : int
        Axis they run along.
    tensor_scale : float, optional
        Scale of the tensor; by default that of the largest magnitude.

    Returns
    -------
    values : ndarray of float32
        Dequantised values.
    tensor : QuantizedTensor
        Codes, block scales and tensor scale. Codes under a scale that is NaN are 0.

    Raises
    ------
    ValueError
        If the blocks do not fit, or the profile has no tensor scale or none so small, large or not
        a number.
    """
    run = NVFP4.block if block is None else block
    ((along, run),) = blocked_axes(x.ndim, run, axis)
    if run != NVFP4.block:
        raise ValueError(f"block must be {NVFP4.block} for profile {profile.name}, not {run}")
    if x.shape[along] % run:
        raise ValueError(
            f"block must divide {x.shape[along]} for profile {profile.name}, not {run}"
        )
    shared = _tensor_scale(x, profile, tensor_scale)
    lines = np.moveaxis(x, along, -1)
    blocks = lines.reshape(*lines.shape[:-1], lines.shape[-1] // run, run)
    with np.errstate(all="ignore"):
        amax = np.abs(blocks).max(axis=-1)
        wanted = amax / np.float32(NVFP4.element.max_value) / shared
        nan = np.isnan(wanted)
        wanted = np.clip(wanted, profile.smallest_scale, NVFP4.scale.max_value)
        scales = np.where(nan, NVFP4.nan_scale, scalar.encode(wanted, NVFP4.scale)).astype(np.uint8)
        factors = scale_values(scales, NVFP4.scale).astype(np.float32)[..., None]
        relative = blocks * (np.float32(1) / shared / factors)
        codes = elements.encode(np.where(nan[..., None], np.float32(0), relative), NVFP4)
        values = elements.decode(codes, NVFP4) * (shared * factors)
    tensor = QuantizedTensor(
        np.moveaxis(codes.reshape(lines.shape), -1, along),
        np.moveaxis(scales, -1, along),
        NVFP4,
        run,
        along,
        shared,
    )
    return np.moveaxis(values.reshape(lines.shape), -1, along), tensor


def _tensor_scale(
    x: NDArray[np.float32], profile: NVFP4Profile, given: float | np.float32 | None
) -> np.float32:
    """The scale of a tensor as the profile has it, or a clear error."""
    if not profile.tensor_scale:
        if given is not None:
            raise ValueError(
                f"tensor_scale must be None for profile {profile.name}, not {shown(given)}"
            )
        return np.float32(1)
    if given is None:
        divisor = NVFP4.scale.max_value * NVFP4.element.max_value
        name = f"x: the largest magnitude over {divisor:g}"
        scale = np.abs(x).max(initial=0) / np.float32(divisor)
    else:
        name, scale = "tensor_scale", require_tensor_scale(given, NVFP4)
    with np.errstate(all="ignore"):
        largest_factor = np.float32(1) / scale / np.float32(profile.smallest_scale)
    if not (np.isfinite(scale) and np.isfinite(largest_factor)):
        raise ValueError(
            f"{name} must be finite and above 2^-122, where no reciprocal is Inf, for profile "
            f"{profile.name}, not {scale}"
        )
    return scale
