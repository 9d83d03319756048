"""A context in which the products of any model go through a format, forward and backward.

`microscaling` sees functions by PyTorch's function mode, above autograd, where an operand is still
known as a weight or an activation, and replaces them by autograd functions. These take their recipe
along, so gradients are quantised wherever the backward pass runs. A dispatch mode sits below
autograd: it would see only nameless products of numbers, and none of a backward pass that runs
after the context.
"""

from __future__ import annotations

import fnmatch
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import ContextDecorator
from typing import Any

import torch
from torch._ops import HigherOrderOperator  # nothing public tells what they are
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode

from mxsafe.codec.blocks import Block, blocked_axes
from mxsafe.formats import MXFormat, mx_format
from mxsafe.torch import _checkpoints, _functions
from mxsafe.torch.recipes import ARITHMETICS, Arithmetic, Quantiser, Recipe
from mxsafe.validation import require_one_of

Choice = str | MXFormat | Quantiser | None

AS_FORMAT: Any = object()
"""The default of what is quantised as `format` says."""


class _Mode(TorchFunctionMode):
    """Function mode of an open context on its thread."""

    def __init__(self, context: microscaling) -> None:
        super().__init__()
        self.context = context
        self.recipes = context._recipes
        self.functions = _functions.functions()
        self.suspended = 0  # inner contexts, and modules left out, that are being run
        self.thread = threading.get_ident()
        self.outer: _Mode | None = None
        self.opener: Any = None
        self.hooks: list[Any] = []

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        handler, name = self.functions.handlers.get(func), self.functions.left_out.get(func)
        if handler is not None and not torch.compiler.is_compiling():
            _keep(self)
        if self.suspended or not self.recipes:
            return func(*args, **kwargs)
        if func in self.functions.opened:  # made of products: let them be seen
            with self:
                return self.functions.opened[func](*args, **kwargs)
        if isinstance(func, HigherOrderOperator):
            _functions.closed(func)
        if handler is None and name is None:
            return func(*args, **kwargs)
        has_out = kwargs.get("out") is not None
        if (has_out or func in self.functions.by_compilers) and _functions.within_compiled():
            return func(*args, **kwargs)
        if handler is None or has_out:
            _functions.warn_of(name or "products with out")
            return func(*args, **kwargs)
        kwargs = {name: value for name, value in kwargs.items() if name != "out"}  # None
        recipe = self.recipes[handler.autocast((*args, *kwargs.values()))]
        return handler.call(recipe, *args, **kwargs)


def _innermost() -> _Mode | None:
    """The open context of this thread."""
    modes = torch.overrides._get_current_function_mode_stack()
    return next((mode for mode in reversed(modes) if isinstance(mode, _Mode)), None)


class microscaling(ContextDecorator):  # noqa: N801 - a context reads like a function
    """Put the products of any model through microscaling formats, in the manner of autocast.

    Parameters
    ----------
    format : str, MXFormat, Quantiser or None
        Format of everything that is not given one of its own; None leaves it in floating point.
    block : int or tuple of int, optional
        Length of blocks, or shape of tiles, of every format that is not a `Quantiser`; by default
        the default block of each format.
    activations, weights, gradients : str, MXFormat, Quantiser or None
        Formats of operands, and of the gradients that products of a backward pass have as an
        operand; by default `format`. Weights are filters, the second operand of ``linear``, and
        every other operand that is an `torch.nn.Parameter` or a view of one.
    arithmetic : {"float", "float64", "array", "array_fp12", "array_window"}
        ``float`` multiplies quantised values in the dtype of the operands (float16 in float32);
        ``float64`` in float64, rounded to that dtype. ``array`` and ``array_fp12`` are the
        arithmetics ``exact`` and ``fp12`` of `mxsafe.matmul`, bit for bit what the systolic array
        produces; for the CPU, and slow.
    exclude : iterable of torch.nn.Module
        Modules whose products are left in floating point, with those of all modules within: see
        `named_modules`.
    enabled : bool
        False for products in floating point, such as within another context.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not as above; the message names it.

    Notes
    -----
    What is seen: ``linear``, convolutions of one to three dimensions, ``matmul``, ``mm``, ``mv``,
    ``bmm``, ``addmm``, ``addmv``, ``addbmm``, ``baddbmm``, ``dot``, ``einsum``, attention
    (``scaled_dot_product_attention`` and ``multi_head_attention_forward``), as functions, methods
    and operators of ``torch.ops.aten``, and the modules made of them. Everything that is no product
    is left alone: sums with a bias, softmax, normalisations.

    Other products (transposed convolutions, recurrent networks, those in place or with ``out``,
    those of sparse and complex tensors) are computed as always, with a warning, once. The page
    lists all ways into PyTorch, and which are refused.

    Under autocast, operands are cast as it would, and then quantised. Tangents of forward mode are
    quantised as gradients are. Checkpoints compute again in the context of their forward pass.

    A context holds for the thread that opens it, and for backward passes of what was computed
    within, wherever they run. Contexts nest; the innermost holds. One object can be opened many
    times, and is a decorator.

    Examples
    --------
    >>> with microscaling("mxsf", block=64):  # doctest: +SKIP
    ...     loss = model(x).sum()
    >>> loss.backward()  # doctest: +SKIP
    """

    def __init__(
        self,
        format: Choice = "mxsf",
        *,
        block: Block | None = None,
        activations: Choice = AS_FORMAT,
        weights: Choice = AS_FORMAT,
        gradients: Choice = AS_FORMAT,
        arithmetic: Arithmetic = "float",
        exclude: Iterable[torch.nn.Module] = (),
        enabled: bool = True,
    ) -> None:
        require_one_of("arithmetic", arithmetic, ARITHMETICS)
        given = {"activations": activations, "weights": weights, "gradients": gradients}
        if block is not None:
            blocked_axes(2, block, -1)
        default = _quantiser(format, block)
        quantisers = {
            kind: default if value is AS_FORMAT else own_quantiser(kind, value, block)
            for kind, value in given.items()
        }
        if not isinstance(enabled, bool):
            raise TypeError(f"enabled must be True or False, not {enabled!r}")
        self._recipes = {}
        if enabled:
            for autocast in (None, torch.bfloat16, torch.float16):
                self._recipes[autocast] = Recipe(
                    **quantisers, arithmetic=arithmetic, autocast=autocast
                )
        self._exclude = _modules(exclude)
        self._open = threading.local()

    def __enter__(self) -> microscaling:
        mode = _Mode(self)
        mode.outer = _innermost()
        mode.opener = sys._getframe(1)
        if mode.outer is not None:
            mode.outer.suspended += 1
        for module in self._exclude:
            mode.hooks += _suspending(mode, module)
        mode.hooks.append(register_module_forward_pre_hook(_unseen(mode)))
        if not hasattr(self._open, "modes"):
            self._open.modes = []
        self._open.modes.append(mode)
        mode.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        mode = self._open.modes.pop()
        mode.__exit__(*exception)
        mode.opener = None
        for hook in mode.hooks:
            hook.remove()
        if mode.outer is not None:
            mode.outer.suspended -= 1


def _quantiser(value: Choice, block: Block | None) -> Quantiser | None:
    if value is None or isinstance(value, Quantiser):
        return value
    return Quantiser(mx_format(value), block)


def own_quantiser(kind: str, value: Choice, block: Block | None) -> Quantiser | None:
    """Return the quantiser of a kind of tensor, or raise a clear error that names it."""
    try:
        return _quantiser(value, block)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{kind}: {error}") from None


def _modules(exclude: Iterable[torch.nn.Module]) -> tuple[torch.nn.Module, ...]:
    if isinstance(exclude, torch.nn.Module | str):
        raise TypeError(f"exclude must be modules, not {type(exclude).__name__}")
    if not isinstance(exclude, Iterable):
        raise TypeError(f"exclude must be an iterable of modules, not {exclude!r}")
    modules = tuple(exclude)
    for module in modules:
        if not isinstance(module, torch.nn.Module):
            raise TypeError(f"exclude must be modules, not {type(module).__name__}")
    return modules


def _suspending(mode: _Mode, module: torch.nn.Module) -> list[Any]:
    """Hooks that suspend a context while a module runs on its thread."""

    def before(module: torch.nn.Module, arguments: Any) -> None:
        if threading.get_ident() == mode.thread:
            mode.suspended += 1

    def after(module: torch.nn.Module, arguments: Any, result: Any) -> None:
        if threading.get_ident() == mode.thread:
            mode.suspended -= 1

    return [
        module.register_forward_pre_hook(before, prepend=True),
        module.register_forward_hook(after, always_call=True),
    ]


def _keep(mode: _Mode) -> None:
    """Let the checkpoints that are being computed run again in the context around them."""
    for checkpoint in _checkpoints.running():
        around: _Mode | None = mode
        while around is not None and around.opener in checkpoint.within:
            around = around.outer  # its function opens this one itself
        if around is not None:
            is_left_out = any(
                frame.f_locals.get("self") is module
                for module in around.context._exclude
                for frame in checkpoint.around
            )
            context = microscaling(enabled=False) if is_left_out else around.context
            checkpoint.runs_again_in(context)


def _unseen(mode: _Mode) -> Any:
    """A hook that warns of modules that run where no context sees what they compute."""

    def before(module: torch.nn.Module, arguments: Any) -> None:
        is_script = isinstance(module, torch.jit.ScriptModule)
        is_parallel = isinstance(module, torch.nn.DataParallel) and len(module.device_ids) > 1
        is_open = mode.recipes and not mode.suspended
        if (is_script or is_parallel) and is_open and threading.get_ident() == mode.thread:
            kind = "modules of torch.jit" if is_script else "the threads of DataParallel"
            _functions.warn_of(kind)

    return before


def named_modules(
    model: torch.nn.Module, *which: str | Callable[[str, torch.nn.Module], bool]
) -> list[torch.nn.Module]:
    """Modules of a model by their names: for `microscaling`, what to exclude.

    Parameters
    ----------
    model : torch.nn.Module
        The model.
    *which : str or callable
        Names as ``model.named_modules()`` gives them, with ``*`` and ``?`` for any characters; or
        a predicate of name and module.

    Returns
    -------
    list of torch.nn.Module
        Each once, in the order of the model.

    Raises
    ------
    TypeError
        If `model` is not a module, or one of `which` neither a name nor callable.
    ValueError
        If a name fits no module.
    """
    return chosen_modules("which", model, *which)


def chosen_modules(parameter: str, model: torch.nn.Module, *which: Any) -> list[torch.nn.Module]:
    """The same for a parameter of another name, which errors say."""
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, not {type(model).__name__}")
    named = list(model.named_modules())
    chosen = set()
    for one in which:
        if callable(one):
            fitting = {name for name, module in named if one(name, module)}
        elif not isinstance(one, str):
            raise TypeError(f"{parameter} must be names or callables, not {one!r}")
        else:
            fitting = {name for name, _ in named if fnmatch.fnmatchcase(name, one)}
            if not fitting:
                raise ValueError(f"{parameter} must name modules of the model, not {one!r}")
        chosen |= fitting
    return [module for name, module in named if name in chosen]
