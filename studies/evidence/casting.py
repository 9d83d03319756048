"""Direct casts: a trained network in a format, without any training or calibration.

All products are cast, the first and the last layer's too: weights, activations and the operands of
attention. What is no product stays in float32.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

import mxsafe.torch as mxt
from studies.evidence.formats import Configuration

_CONVOLUTIONS = (torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)
_UNKNOWN = (
    torch.nn.MultiheadAttention,
    torch.nn.Bilinear,
    torch.nn.RNNBase,
    torch.nn.modules.conv._ConvTransposeNd,
)


@contextmanager
def cast(model: torch.nn.Module, configuration: Configuration) -> Iterator[None]:
    """Within, a model computes in a format; call it without gradients.

    Weights are quantised once, here; activations where they are used, by `mxsafe.torch`. bfloat16
    is PyTorch's autocast.

    1-D blocks run along what a product sums over. Where a convolution has groups, they run along
    all its channels instead, as microxcaling has them, which the paper's software is made of:
    within the group of a depthwise convolution, each number would have a scale of its own. Tiles
    are of images and channels, and of outputs and inputs of a filter, at each position.

    Raises
    ------
    ValueError
        If the model has modules whose weights are not of linear layers or convolutions.
    """
    if configuration.format == "float32":
        yield
        return
    if configuration.format == "bf16":
        with torch.autocast(next(model.parameters()).device.type, torch.bfloat16):
            yield
        return
    modules = list(model.modules())
    if unknown := [module for module in modules if isinstance(module, _UNKNOWN)]:
        raise ValueError(f"model must not have a {type(unknown[0]).__name__} to be cast")
    grouped = [m for m in modules if isinstance(m, _CONVOLUTIONS) and m.groups > 1]
    layers = [m for m in modules if isinstance(m, (torch.nn.Linear, *_CONVOLUTIONS))]
    with ExitStack() as stack:
        for module in layers:
            own = module.weight
            along = (0, 1) if isinstance(module, _CONVOLUTIONS) else (-2, -1)
            values = _values(own.detach(), configuration, along)
            module.weight = torch.nn.Parameter(values, requires_grad=False)
            stack.callback(setattr, module, "weight", own)
        for module in grouped:
            hook = module.register_forward_pre_hook(_cast_channels(configuration))
            stack.callback(hook.remove)
        stack.enter_context(
            mxt.microscaling(
                configuration.format, block=configuration.shape, weights=None, exclude=grouped
            )
        )
        yield


def _values(t: torch.Tensor, configuration: Configuration, axes: tuple[int, int]) -> torch.Tensor:
    """Values of a tensor in blocks along the second of two axes, or in tiles of both."""
    moved = t.movedim(axes, (-2, -1))
    values = mxt.fake_quantize(moved, configuration.format, block=configuration.shape)
    return values.movedim((-2, -1), axes).contiguous()


def _cast_channels(configuration: Configuration) -> Any:
    def before(module: torch.nn.Module, arguments: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
        return (_values(arguments[0], configuration, (0, 1)),)

    return before
