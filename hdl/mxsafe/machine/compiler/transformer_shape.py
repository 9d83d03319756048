"""Description of a transformer: sizes, kinds of layers, tensors of a block."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mxsafe.machine.compiler.emitter import Emitter
from mxsafe.machine.compiler.tensors import Numbers, Operand
from mxsafe.validation import PositiveInteger, checked

__all__ = ["NORM_PARTS", "BlockTensors", "TransformerShape", "rotary_tables"]

Floats = NDArray[np.float32]
NORM_PARTS = {"layer_norm": ("gain", "bias"), "rms_norm": ("gain",)}
"""Numbers that normalisations have."""


@checked
@dataclass(frozen=True, kw_only=True)
class TransformerShape:
    """Sizes of a transformer, and what its blocks are made of.

    The defaults are those of ViT and DeiT; `decoder` has those of Llama.

    Attributes
    ----------
    tokens, features, heads, hidden, blocks : int
    key_heads : int, optional
        Heads of keys and values, each for several heads of queries; by default `heads`.
    epsilon : float
        Of the normalisations.
    norm : {"layer_norm", "rms_norm"}
    function : str
        Activation of the perceptron.
    gated : bool
        Whether the perceptron is ``down(function(gate(x)) * up(x))`` instead of
        ``down(function(up(x)))``.
    biased : bool
        Whether layers have biases.
    causal : bool
        Whether a token sees itself and those before it only.
    rotary : bool
        Whether queries and keys are rotated by the position of their token.
    norm_last : bool
        Whether normalisations stand after the sums, as in BERT, and not before the layers.

    Raises
    ------
    TypeError, ValueError
        If a size is not a positive integer, or heads do not divide what they share.
    """

    tokens: PositiveInteger
    features: PositiveInteger
    heads: PositiveInteger
    hidden: PositiveInteger
    blocks: PositiveInteger
    key_heads: PositiveInteger | None = None
    epsilon: float = 1e-6
    norm: Literal["layer_norm", "rms_norm"] = "layer_norm"
    function: str = "gelu"
    gated: bool = False
    biased: bool = True
    causal: bool = False
    rotary: bool = False
    norm_last: bool = False

    def __post_init__(self) -> None:
        if self.features % self.heads:
            raise ValueError(f"heads must divide the {self.features} features, not {self.heads}")
        if self.heads % self.shared_heads:
            raise ValueError(f"key_heads must divide {self.heads} heads, not {self.key_heads}")

    @classmethod
    def decoder(
        cls,
        *,
        tokens: int,
        features: int,
        heads: int,
        hidden: int,
        blocks: int,
        key_heads: int | None = None,
    ) -> "TransformerShape":
        """A decoder as Llama has it: RMS normalisation, SiLU gate, rotated queries and keys."""
        return cls(
            tokens=tokens,
            features=features,
            heads=heads,
            hidden=hidden,
            blocks=blocks,
            key_heads=key_heads,
            epsilon=1e-5,
            norm="rms_norm",
            function="silu",
            gated=True,
            biased=False,
            causal=True,
            rotary=True,
        )

    @property
    def shared_heads(self) -> int:
        """Heads of keys and values."""
        return self.heads if self.key_heads is None else self.key_heads

    @property
    def width(self) -> int:
        """Features of a head."""
        return self.features // self.heads


@dataclass(frozen=True)
class BlockTensors:
    """Tensors of a block in memory.

    Attributes
    ----------
    operands : dict of str to Operand
        ``query``, ``key``, ``value``, ``output``, ``up``, ``down``, and ``gate`` if there is one:
        features out by features in.
    numbers : dict of str to Numbers
        Biases under the same names, if there are any, and gains and biases of normalisations.
    keys : sequence of Operand
        If the program writes keys to memory, it does so here, of each head, rotated: tokens by
        features of a head.
    values : Operand or None
        And values of all heads: features by tokens.
    """

    operands: dict[str, Operand]
    numbers: dict[str, Numbers]
    keys: Sequence[Operand] = ()
    values: Operand | None = None

    @classmethod
    def placed(
        cls, e: Emitter, shape: TransformerShape, index: int, norms: Sequence[str], *, stored: bool
    ) -> "BlockTensors":
        """Allocate a block with so named normalisations, and keys and values if stored."""
        s, shared = shape, shape.shared_heads * shape.width
        sizes = {
            "query": (s.features, s.features),
            "key": (shared, s.features),
            "value": (shared, s.features),
            "output": (s.features, s.features),
            "up": (s.hidden, s.features),
            "down": (s.features, s.hidden),
        }
        if s.gated:
            sizes["gate"] = sizes["up"]
        operands = {n: e.operand(f"{n} {index}", e.layout(*size)) for n, size in sizes.items()}
        counts = {n: size[0] for n, size in sizes.items()} if s.biased else {}
        parts = NORM_PARTS[s.norm]
        counts |= {f"{norm}_{part}": s.features for norm in norms for part in parts}
        numbers = {n: e.numbers(f"{n} {index}", count) for n, count in counts.items()}
        if not stored:
            return cls(operands, numbers)
        keys = [
            e.operand(f"keys {index} {head}", e.layout(s.tokens, s.width))
            for head in range(s.shared_heads)
        ]
        return cls(
            operands, numbers, keys, e.operand(f"values {index}", e.layout(shared, s.tokens))
        )


def rotary_tables(
    tokens: int, width: int, *, base: float = 10000.0, first: int = 0
) -> tuple[Floats, Floats]:
    """Cosines and sines that rotate queries and keys of a head.

    Feature i and feature ``i + width / 2`` are a pair, as in Llama of Hugging Face. For models that
    pair neighbours, put the even rows of each head's query and key weights before the odd ones.

    Parameters
    ----------
    tokens, width : int
        Positions and features of a head.
    base : float
    first : int
        Position of the first token.

    Returns
    -------
    cosines, sines : ndarray of float32, shape (width, tokens)
        Those of the first half of sines are negative.
    """
    rates = base ** (-2 * np.arange(width // 2) / width)
    angles = np.outer(rates, np.arange(first, first + tokens))
    cosines = np.concatenate([np.cos(angles)] * 2)
    sines = np.concatenate([-np.sin(angles), np.sin(angles)])
    return cosines.astype(np.float32), sines.astype(np.float32)
