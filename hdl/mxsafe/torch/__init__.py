"""Microscaling in PyTorch: tensors, gradients, models in a format, programs of the machine.

Needs the extra ``torch``; ``import mxsafe`` does not import it.
"""

try:
    import torch  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"mxsafe.torch needs the extra torch, pip install '.[torch]': {error}"
    ) from None

from mxsafe.torch._compile import backend, compile
from mxsafe.torch._training import TrainingStep, compile_step
from mxsafe.torch.context import microscaling, named_modules
from mxsafe.torch.errors import LayerErrors, layer_errors
from mxsafe.torch.files import load_model, save_model
from mxsafe.torch.interchange import from_state, to_state
from mxsafe.torch.models import Summary, nbytes, quantize_
from mxsafe.torch.quantising import fake_quantize, quantize
from mxsafe.torch.recipes import Quantiser
from mxsafe.torch.tensors import QuantizedTensor, dequantize

__all__ = [
    "LayerErrors",
    "Quantiser",
    "QuantizedTensor",
    "Summary",
    "TrainingStep",
    "backend",
    "compile",
    "compile_step",
    "dequantize",
    "fake_quantize",
    "from_state",
    "layer_errors",
    "load_model",
    "microscaling",
    "named_modules",
    "nbytes",
    "quantize",
    "quantize_",
    "save_model",
    "to_state",
]
