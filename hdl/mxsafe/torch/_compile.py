"""Any PyTorch model as a program of the machine."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal

import torch
from torch.export import ExportedProgram

from mxsafe.machine.compiled import Compiled, compile_graph
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.named import Format, Machine, machine_named
from mxsafe.torch._export import legalised
from mxsafe.validation import checked, shown


@checked
def compile(
    model: torch.nn.Module,
    examples: Sequence[Any] | Mapping[str, Any],
    *,
    machine: Machine = "default",
    format: Format | None = None,
    block: int | tuple[int, int] | None = None,
    arithmetic: Literal["exact", "fp12", "window", "bf16"] | None = None,
    keep: Collection[str] = (),
) -> Compiled:
    """A model as a program of the machine.

    Parameters
    ----------
    model : torch.nn.Module
        In evaluation mode, if it has dropout.
    examples : sequence or mapping
        Its inputs, by their places or by their names; shapes of the program are theirs.
    machine : str or MachineConfiguration
        ``default``, ``small``, ``fpga``, or any sizes.
    format : str, MXFormat or FloatFormat, optional
        Of both operands of all products; by default that of the machine. With arithmetic ``bf16``
        it can only be ``bf16``.
    block : int or tuple of int, optional
        64, along the sums of products, the default, or tiles of ``(8, 8)``. With arithmetic
        ``bf16`` there are none.
    arithmetic : {"exact", "fp12", "window", "bf16"}, optional
        Of the array; by default that of the machine. With ``bf16`` operands are bfloat16.
    keep : collection of str
        Names of modules, as `torch.nn.Module.named_modules` gives them, that the host computes in
        binary32, by NumPy. Where it does so between what the machine computes, there are several
        programs, which follow one another.

    Returns
    -------
    Compiled
        To be called with arrays of the shapes of the examples.

    Raises
    ------
    CompileError
        If the model has operators that are not compiled: the message has each of them, with its
        line of source and the reason. Or if the machine lacks what they need.
    TypeError, ValueError
        If an argument is not as above.

    Examples
    --------
    >>> import torch
    >>> from mxsafe.torch import compile
    >>> model = torch.nn.Sequential(torch.nn.Linear(48, 64), torch.nn.GELU())
    >>> example = torch.randn(20, 48)
    >>> compiled = compile(model, (example,))
    >>> compiled(example.numpy()).shape
    (20, 64)
    """
    configuration = machine_named(machine, format, arithmetic)
    return compile_exported(exported(model, examples), configuration, block, keep)


def exported(
    model: torch.nn.Module, examples: Sequence[Any] | Mapping[str, Any]
) -> ExportedProgram:
    """A model by `torch.export`, without the fused paths of PyTorch's own modules."""
    named = dict(examples) if isinstance(examples, Mapping) else {}
    for place, example in named.items() if named else enumerate(examples):
        if not isinstance(example, torch.Tensor):
            raise TypeError(f"examples[{place!r}] must be a tensor, not {shown(example)}")
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        return torch.export.export(model, () if named else tuple(examples), named)
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def compile_exported(
    program: ExportedProgram,
    configuration: MachineConfiguration,
    block: int | tuple[int, int] | None = None,
    keep: Collection[str] = (),
) -> Compiled:
    """An exported model as a program of the machine; see `compile`.

    Raises
    ------
    CompileError, ValueError
        As `compile`.
    """
    from mxsafe.rtl.machine.times import times_of

    times = times_of(configuration)
    return compile_graph(legalised(program, keep), configuration, block=block, times=times)


class _WithConstants(torch.nn.Module):
    """A traced module whose parameters and buffers, which it takes as inputs, are its own."""

    def __init__(self, module: torch.fx.GraphModule, given: Sequence[Any]) -> None:
        super().__init__()
        self._module = module
        names = [node.name for node in module.graph.find_nodes(op="placeholder")]
        self.users = []
        for at, (name, one) in enumerate(zip(names, given, strict=True)):
            if isinstance(one, torch.nn.Parameter) or "_buffers_" in name:
                self.register_buffer(f"constant_{at}", one.detach())
            else:
                self.users.append(at)
        self._count = len(names)

    def forward(self, *users: Any) -> Any:
        own = dict(zip(self.users, users, strict=True))
        every = range(self._count)
        return self._module(
            *(own[at] if at in own else getattr(self, f"constant_{at}") for at in every)
        )


def backend(
    module: torch.fx.GraphModule, examples: Sequence[Any], **options: Any
) -> Callable[..., Any]:
    """Compile for ``torch.compile(model, backend="mxsafe")``: a program, run on the interpreter.

    Parameters
    ----------
    module : GraphModule
    examples : sequence of Tensor
        Parameters, buffers and inputs.
    **options
        ``machine``, ``format``, ``block`` and ``arithmetic`` of `compile`, as ``options`` of
        ``torch.compile``.

    Raises
    ------
    CompileError
        As `compile`.
    ValueError
        If gradients are on, or shapes are not fixed.
    """
    if torch.is_grad_enabled() and any(getattr(one, "requires_grad", False) for one in examples):
        raise ValueError(
            "gradients must be off, by torch.no_grad(): programs have no backward pass"
        )
    for one in examples:
        if not isinstance(one, torch.Tensor):
            raise ValueError(
                f"shapes must be fixed, by torch.compile(dynamic=False), not {shown(one)}"
            )
    whole = _WithConstants(module, examples).eval()
    made = compile(whole, tuple(examples[at] for at in whole.users), **options)

    def run(*given: Any) -> tuple[torch.Tensor, ...]:
        found = made(*(given[at].detach().cpu().numpy() for at in whole.users))
        several = found if isinstance(found, tuple) else (found,)
        return tuple(torch.from_numpy(one.copy()) for one in several)

    return run
