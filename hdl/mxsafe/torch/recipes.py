"""Recipes of contexts: how each kind of tensor is quantised, and how products are made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch

from mxsafe.codec import blocks, elements
from mxsafe.formats import MXFormat, mx_format
from mxsafe.torch.quantising import fake_quantize

Arithmetic = Literal["float", "float64", "array", "array_fp12", "array_window"]
ARITHMETICS = ("float", "float64", "array", "array_fp12", "array_window")

ARRAY = {"array": "exact", "array_fp12": "fp12", "array_window": "window"}
"""Names of the array's arithmetics in `mxsafe.matmul`."""


@dataclass(frozen=True)
class Quantiser:
    """How tensors of one kind are quantised: the arguments of `fake_quantize` but for the axis.

    Parameters
    ----------
    format : str or MXFormat
        Name in the catalogue, or a specification.
    block : int or tuple of int, optional
        Length of 1-D blocks, or shape of tiles; by default the 1-D block of the format.
    rounding, scale_mode
        See `mxsafe.quantize`.
    random : numpy.random.Generator or torch.Generator, optional
        Of ``rounding="sr"``.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not as above; the message names it.
    """

    format: str | MXFormat = "mxsf"
    block: blocks.Block | None = None
    rounding: elements.Rounding | Literal["even"] = "rne"
    scale_mode: blocks.ScaleMode | None = None
    random: np.random.Generator | torch.Generator | None = None

    def __post_init__(self) -> None:
        fmt = mx_format(self.format)
        rounding = elements.canonical_rounding(self.rounding)
        blocks.settled_scale_mode(self.scale_mode, fmt)
        block = fmt.block if self.block is None else self.block
        blocks.blocked_axes(2, block, -1)
        needed = rounding == "sr" or self.random is not None
        if needed and not isinstance(self.random, np.random.Generator | torch.Generator):
            raise TypeError(
                "random must be a generator of NumPy or PyTorch for rounding 'sr', "
                f"not {self.random!r}"
            )
        object.__setattr__(self, "format", fmt)
        object.__setattr__(self, "rounding", rounding)
        object.__setattr__(self, "block", tuple(block) if isinstance(block, list) else block)

    @property
    def tiled(self) -> bool:
        """Whether blocks are tiles, which serve both orientations."""
        return isinstance(self.block, tuple)

    def values(self, t: torch.Tensor, axis: int) -> torch.Tensor:
        """Values of a tensor in the format, in blocks along an axis, or tiles of the last two.

        Those of float16 are float32, which has their range.
        """
        if t.dtype == torch.float16:
            t = t.float()
        return fake_quantize(
            t,
            self.format,
            block=self.block,
            axis=axis,
            rounding=self.rounding,
            scale_mode=self.scale_mode,
            random=self.random,
        )


@dataclass(frozen=True)
class HeldHalf(Quantiser):
    """A weight of float16 that is quantised already: its values, which are float32."""

    def values(self, t: torch.Tensor, axis: int) -> torch.Tensor:
        """The values as they are."""
        return t


torch.serialization.add_safe_globals([Quantiser])  # as those of `mxsafe.torch.tensors`


@dataclass(frozen=True)
class Recipe:
    """Quantisers of the tensors of a product; a `Quantiser` of None leaves its tensor as it is.

    Attributes
    ----------
    activations, weights, gradients : Quantiser or None
        How each kind of tensor is quantised.
    arithmetic : {"float", "float64", "array", "array_fp12", "array_window"}
        How products of quantised numbers are made.
    autocast : torch.dtype, optional
        What autocast makes of operands before they are quantised.
    mark : Tensor of uint8
        Empty, and of another shape than that of a recipe that differs.
    """

    activations: Quantiser | None
    weights: Quantiser | None
    gradients: Quantiser | None
    arithmetic: Arithmetic = "float"
    autocast: torch.dtype | None = None
    mark: torch.Tensor = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        mark = torch.empty((0, hash(self) & 0x7FFFFFFF), dtype=torch.uint8)
        object.__setattr__(self, "mark", mark)
        if self.arithmetic not in ARRAY:
            return
        lengths = {}
        for kind in ("activations", "weights", "gradients"):
            quantiser = getattr(self, kind)
            if quantiser is None:
                raise ValueError(
                    f"{kind} must have a format for arithmetic {self.arithmetic!r}, not None"
                )
            if quantiser.tiled and quantiser.rounding == "sr":
                raise ValueError(
                    f"{kind} must not be rounded by 'sr' in tiles for arithmetic "
                    f"{self.arithmetic!r}, which quantises them for each product anew"
                )
            lengths[kind] = quantiser.block or mx_format(quantiser.format).block
        if len(set(lengths.values())) > 1 or any(
            isinstance(length, tuple) and length[0] != length[1] for length in lengths.values()
        ):
            raise ValueError(
                "block must be one length, or one square tile, of activations, weights and "
                f"gradients for arithmetic {self.arithmetic!r}, not "
                f"{', '.join(map(str, lengths.values()))}"
            )
