"""MX-SAFE: microscaling arithmetic whose software and silicon agree on every bit.

What is here is imported when it is first used, so that the command begins at once.

A public function or constructor that gets a value that its annotation does not allow raises
TypeError, or ValueError where a choice or an integer within bounds is wanted. The message names the
parameter, what it must be and what was given. Not all docstrings repeat that under Raises.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mxsafe import codec, formats, model
    from mxsafe.codec import (
        QuantizedTensor,
        decode,
        dequantize,
        e8m0,
        encode,
        from_ml_dtypes,
        load,
        load_all,
        packing,
        profiles,
        quantize,
        save,
        scalar,
        to_ml_dtypes,
    )
    from mxsafe.formats import BLOCK_FORMATS, MX_FORMATS, SCALAR_FORMATS, MXFormat
    from mxsafe.model import matmul

__version__ = "0.1.0"

__all__ = [
    "BLOCK_FORMATS",
    "MX_FORMATS",
    "SCALAR_FORMATS",
    "MXFormat",
    "QuantizedTensor",
    "codec",
    "decode",
    "dequantize",
    "e8m0",
    "encode",
    "formats",
    "from_ml_dtypes",
    "load",
    "load_all",
    "matmul",
    "model",
    "packing",
    "profiles",
    "quantize",
    "save",
    "scalar",
    "to_ml_dtypes",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in __all__:
            for place in ("formats", "codec", "model"):
                module = import_module(f"{__name__}.{place}")
                if name == place:
                    return module
                if hasattr(module, name):
                    return getattr(module, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
