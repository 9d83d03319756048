"""Functions that are proved, in each grade, by a name such as ``gelu`` or ``gelu_fine``."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from numpy.typing import NDArray

from mxsafe.model.functions import FUNCTIONS
from mxsafe.tables import Grade

_FINE = "_fine"
EXACT = ("relu", "relu_derivative")
"""Functions without errors, which are the same in each grade."""
MODELS: Mapping[str, Callable[..., NDArray]] = MappingProxyType(
    {name: partial(function, grade="compact") for name, function in FUNCTIONS.items()}
    | {
        f"{name}{_FINE}": partial(function, grade="fine")
        for name, function in FUNCTIONS.items()
        if name not in EXACT
    }
)
"""Models by name."""


def function_of(name: str) -> str:
    """Name of the function alone."""
    return name.removesuffix(_FINE)


def grade_of(name: str) -> Grade:
    """The grade of a name."""
    return "fine" if name.endswith(_FINE) else "compact"
