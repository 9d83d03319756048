"""What the scales of blocks are worth, whatever the format of the scale."""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxsafe.formats import ScaleFormat

__all__ = ["scale_values"]


@lru_cache(maxsize=16)
def _table(fmt: ScaleFormat) -> NDArray[np.float64]:
    """Value of every code, exact: float64 has every power of two that a `ScaleFormat` can have."""
    codes = np.arange(1 << fmt.width, dtype=np.int32)
    values = np.ldexp(np.float64(1.0), codes - fmt.bias)
    values[fmt.nan_code] = np.nan
    values.flags.writeable = False
    return values


def scale_values(codes: NDArray[np.integer[Any]], fmt: ScaleFormat) -> NDArray[np.float64]:
    """Scales as numbers; the code of NaN gives NaN."""
    return _table(fmt)[codes]
