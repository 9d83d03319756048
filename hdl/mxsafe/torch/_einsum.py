"""Einstein sums as products of matrices, two operands at a time from the left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from string import ascii_letters

import torch

from mxsafe.torch import products
from mxsafe.torch.recipes import Quantiser, Recipe


def repeats(equation: str) -> bool:
    """Whether a term has an index twice, for a diagonal, which `einsum` here does not take."""
    terms = equation.replace(" ", "").replace("...", "").partition("->")[0].split(",")
    return any(len(set(term)) != len(term) for term in terms)


def einsum(
    equation: str,
    operands: Sequence[torch.Tensor],
    quantisers: Sequence[Quantiser | None],
    recipe: Recipe,
) -> torch.Tensor:
    """The sum as `torch.einsum` has it; partial results are activations.

    Raises
    ------
    ValueError
        If the equation does not fit the operands.
    """
    inputs, output = _indices(equation, operands)
    names, result, quantiser = inputs[0], operands[0], quantisers[0]
    for place in range(1, len(operands)):
        kept = set(output).union(*inputs[place + 1 :])
        result, names = _contracted(
            (result, names),
            (operands[place], inputs[place]),
            kept,
            (quantiser, quantisers[place]),
            recipe,
        )
        quantiser = recipe.activations
    result = _summed(result, names, set(output))
    names = [name for name in names if name in output]
    return result.permute([names.index(name) for name in output])


def _indices(equation: str, operands: Sequence[torch.Tensor]) -> tuple[list[list[str]], list[str]]:
    """Letters of the axes of every operand and of the result; an ellipsis gets letters too."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise ValueError(
            f"equation must have a term for each of {len(operands)} operands, not {equation!r}"
        )
    free = [letter for letter in ascii_letters if letter not in equation]
    ranks = [t.ndim - len(term.replace("...", "")) for term, t in zip(terms, operands, strict=True)]
    most = max([rank for rank, term in zip(ranks, terms, strict=True) if "..." in term], default=0)
    rest = "".join(free[:most])
    inputs = []
    for term, rank, t in zip(terms, ranks, operands, strict=True):
        letters = term.replace("...", rest[most - rank :] if "..." in term else "")
        if len(letters) != t.ndim:
            raise ValueError(f"equation must have {t.ndim} indices in {term!r}, not {len(letters)}")
        inputs.append(list(letters))
    if not arrow:
        every = "".join("".join(letters) for letters in inputs)
        once = sorted(name for name in set(every) - set(rest) if every.count(name) == 1)
        return inputs, [*rest, *once]
    output = list(right.replace("...", rest))
    if len(set(output)) != len(output) or not set(output) <= set().union(*inputs):
        raise ValueError(
            f"equation must have indices of its terms, each once, behind ->, not {right!r}"
        )
    return inputs, output


def _summed(t: torch.Tensor, names: list[str], kept: set[str]) -> torch.Tensor:
    """Sums over the axes that nothing else has."""
    gone = [axis for axis, name in enumerate(names) if name not in kept]
    return t.sum(gone) if gone else t


def _contracted(
    left: tuple[torch.Tensor, list[str]],
    right: tuple[torch.Tensor, list[str]],
    kept: set[str],
    quantisers: tuple[Quantiser | None, Quantiser | None],
    recipe: Recipe,
) -> tuple[torch.Tensor, list[str]]:
    """A product of two operands, and the letters of its axes."""
    (a, of_a), (b, of_b) = left, right
    a = _summed(a, of_a, kept.union(of_b))
    b = _summed(b, of_b, kept.union(of_a))
    of_a = [name for name in of_a if name in kept or name in of_b]
    of_b = [name for name in of_b if name in kept or name in left[1]]
    both = [name for name in of_a if name in of_b]
    batch = [name for name in both if name in kept]
    inner = [name for name in both if name not in kept]
    rows = [name for name in of_a if name not in both]
    columns = [name for name in of_b if name not in both]
    sizes = {
        name: max(
            size
            for t, names in ((a, of_a), (b, of_b))
            for n, size in zip(names, t.shape, strict=True)
            if n == name
        )
        for name in (*of_a, *of_b)
    }
    first = _ordered(a, of_a, (batch, rows, inner), sizes)
    second = _ordered(b, of_b, (batch, inner, columns), sizes)
    if not batch:
        first, second = first[0], second[0]
    if not inner and a.device.type == "cpu":  # nothing is summed, which autocast leaves alone
        recipe = replace(recipe, autocast=None)
    result = products.matmul(first, second, recipe, quantisers)
    names = [*batch, *rows, *columns]
    return result.reshape([sizes[name] for name in names]), names


def _ordered(
    t: torch.Tensor,
    names: list[str],
    groups: tuple[list[str], list[str], list[str]],
    sizes: dict[str, int],
) -> torch.Tensor:
    """A tensor with its axes in three groups, each of which becomes one axis."""
    order = [name for group in groups for name in group]
    t = t.permute([names.index(name) for name in order])
    t = t.expand([sizes[name] for name in order])  # an axis of length 1 stands for any
    shape = []
    for group in groups:
        length = 1
        for name in group:
            length *= sizes[name]
        shape.append(length)
    return t.reshape(shape)
