"""Numbers of transformers of any kind, at random and in memory."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mxsafe as mx

Floats = NDArray[np.float32]


@dataclass
class NetworkWeights:
    """Numbers of a transformer: matrices of features out by features in.

    Attributes
    ----------
    inputs : ndarray of float32, shape (tokens, features)
    norm : dict of str to ndarray
        ``gain`` and, where there is one, ``bias`` of the norm outside the blocks.
    matrices, numbers : list of dict of str to ndarray
        Of each block, by the names that the compiled network has for them.
    """

    inputs: Floats
    norm: dict[str, Floats]
    matrices: list[dict[str, Floats]] = field(default_factory=list)
    numbers: list[dict[str, Floats]] = field(default_factory=list)


def random_weights(
    tokens: int, features: int, norm: Mapping[str, Any], blocks: Sequence[Any], seed: int
) -> NetworkWeights:
    """Numbers that keep hidden states near 1, for tensors that a compiled network has."""
    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> Floats:
        return rng.standard_normal(shape).astype(np.float32)

    def numbers(name: str, count: int) -> Floats:
        return (normal(count) / 8 + name.endswith("gain")).astype(np.float32)

    weights = NetworkWeights(
        inputs=normal(tokens, features),
        norm={name: numbers(name, v.count) for name, v in norm.items()},
    )
    for block in blocks:
        sizes = {n: (o.layout.rows, o.layout.columns) for n, o in block.operands.items()}
        weights.matrices.append(
            {n: normal(*size) / np.float32(math.sqrt(size[1])) for n, size in sizes.items()}
        )
        weights.numbers.append({n: numbers(n, v.count) for n, v in block.numbers.items()})
    return weights


def write_weights(
    memory: NDArray[np.uint8],
    weights: NetworkWeights,
    norm: Mapping[str, Any],
    blocks: Sequence[Any],
) -> None:
    """Write all but the inputs to where a compiled network has them."""
    for name, values in weights.norm.items():
        norm[name].write(memory, values)
    for block, matrices, numbers in zip(blocks, weights.matrices, weights.numbers, strict=True):
        for name, matrix in matrices.items():
            block.operands[name].write(memory, by_rows(matrix))
        for name, values in numbers.items():
            block.numbers[name].write(memory, values)


def by_rows(x: Floats) -> Any:
    """A matrix in blocks of 64 along its rows."""
    return mx.quantize(np.ascontiguousarray(x), block=64, axis=-1)
