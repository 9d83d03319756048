"""A training step of any PyTorch model as one program: forward, backward and update."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch.export import ExportedProgram

from mxsafe.machine.compiled import Compiled, Port, Resident, Run, compile_graph
from mxsafe.machine.compiler.places import CompileError
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.gradients import gradients
from mxsafe.machine.graph import Graph, Value
from mxsafe.machine.named import Format, Machine, machine_named
from mxsafe.machine.updates import AdamW, Optimiser, Sgd, Trained
from mxsafe.model.graph import GraphModel
from mxsafe.torch._compile import exported
from mxsafe.torch._export import INPUT_DTYPES, legalised
from mxsafe.validation import (
    PositiveInteger,
    about,
    checked,
    require_integer,
    require_one_of,
    shown,
)

Floats = NDArray[np.float32]
Named = Mapping[str, Floats]
_TILES = (8, 8)
"""Training is in tiles: their codes are the same in both orientations."""
_ENGINES = ("interpreter", "model")
_MOST_STEPS = (1 << 63) - 1
_MOST_RATE = float(np.finfo(np.float32).max)
_UNLIKE = 1e-3
"""By how much of its largest number an output of all samples may differ from those of parts."""
_PROBABILITY = 2.0**-10
"""How far a sum of probabilities may be from 1, as rounding to float16 leaves it."""


@dataclass(frozen=True)
class _Trained:
    """A parameter: where it is in PyTorch, and how it changes.

    Attributes
    ----------
    name : str
    names : tuple of str
        All that the model has for it: layers may share it.
    parameter : torch.nn.Parameter
    group : int
        Of the optimiser.
    optimiser : Optimiser
    of_host : bool
        Whether it is a table of embeddings, which the host looks up and updates.
    """

    name: str
    names: tuple[str, ...]
    parameter: torch.nn.Parameter
    group: int
    optimiser: Optimiser
    of_host: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the master weights: kernels of convolutions are matrices, one number is a vector."""
        shape = tuple(self.parameter.shape) or (1,)
        return shape if len(shape) < 4 else (shape[0], math.prod(shape[1:]))

    @property
    def moments(self) -> list[str]:
        """Names of its moments among the inputs."""
        return [f"{self.name}.{moment}" for moment in self.optimiser.moments]

    def rate(self, name: str) -> str:
        """Name of a rate among the inputs."""
        return f"group {self.group}: {name}"


class _Modelled:
    """A `Resident` whose operations are done by their models."""

    def __init__(self, model: GraphModel, state: Named) -> None:
        self._model, self._state = model, dict(state)

    @property
    def kept(self) -> tuple[str, ...]:
        return tuple(self._state)

    def read(self, name: str) -> Floats:
        return self._state[name].copy()

    def load(self, given: Named) -> None:
        self._state = dict(given)

    def run(self, given: Named, run: Run | None = None) -> Named:
        """Outputs that are not kept; there is no program that `run` could run."""
        found = self._model({**given, **self._state})
        self._state = {name: found[name] for name in self._state}
        return {name: array for name, array in found.items() if name not in self._state}


class TrainingStep:
    """A compiled step: to be called with inputs and a target; made by `compile_step`.

    Attributes
    ----------
    graph : Graph
        What it computes.
    steps : int
        Steps that were done.
    output : ndarray of float32, optional
        What the model gave in the last step.
    """

    def __init__(
        self,
        program: ExportedProgram,
        model: torch.nn.Module,
        loss: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        configuration: MachineConfiguration,
        parts: int,
        engine: str | Run,
        examples: Sequence[Any],
    ) -> None:
        *inputs, target = examples
        self._loss, self._optimizer, self._groups = _loss(loss), optimizer, _sizes(optimizer)
        self._configuration = configuration
        self._trained = _trained(program, model, optimizer)
        self.graph = Graph()
        self._models: list[str] = []
        kept = [name for one in self._trained for name in (one.name, *one.moments)]
        self._output = _free("output", kept)
        self._target = _free("target", [*kept, *program.graph_signature.user_inputs])
        self._build(program, parts)
        if parts > 1:
            _check_parts(model, inputs, parts)
        with about(target="the target of examples"):
            self._loss.target(_numpy("target", target), self._shape)
        state: dict[str, Floats] = {}
        for one in self._trained:
            state[one.name] = _numpy(one.name, one.parameter).reshape(one.shape)
            for moment in one.moments:
                state[moment] = np.zeros_like(state[one.name])
        self._run = engine if callable(engine) else None
        self._engine: Resident | _Modelled
        if engine == "model":
            self._engine = _Modelled(GraphModel(self.graph, configuration, _TILES), state)
        else:
            self._engine = Resident(self.compiled, state)
        self.steps = 0
        self.output: Floats | None = None

    @cached_property
    def compiled(self) -> Compiled:
        """The program; with engine ``model`` it is made when it is first asked for."""
        from mxsafe.rtl.machine.times import times_of

        c = self._configuration
        block = _TILES if c.scaled else None
        return compile_graph(self.graph, c, block=block, times=times_of(c))

    def _build(self, program: ExportedProgram, parts: int) -> None:
        """Forward passes of all parts of the batch, gradients, and updates, as one graph."""
        g = self.graph
        weights = [g.input(one.name, one.shape) for one in self._trained]
        known = {
            name: g.reshape(weight, tuple(one.parameter.shape))
            for one, weight in zip(self._trained, weights, strict=True)
            for name in one.names
        }
        outputs = self._forward(program, known, parts)
        inputs = {value.name: value for value in g.values if value.op == "input"}
        g.output(self._output, outputs[0] if parts == 1 else g.concatenate(outputs))
        whole = self._shape
        target = g.input(self._target, whole)
        rows = np.split(target.places, parts)
        seeds = {
            output: self._loss.seed(g, output, g.gather([target], mine), whole)
            for output, mine in zip(outputs, rows, strict=True)
        }
        found = gradients(g, seeds, weights)
        for one, value, gradient in zip(self._trained, weights, found, strict=True):
            g.on_host = one.of_host
            moments = [g.input(name, value.shape) for name in one.moments]
            rates = {}
            for name in one.optimiser.rates(0.0, 1):
                if one.rate(name) not in inputs:
                    inputs[one.rate(name)] = g.input(one.rate(name), (1,))
                rates[name] = inputs[one.rate(name)]
            new, kept = one.optimiser.update(g, Trained(value, gradient, moments, rates))
            for old, made in zip([value, *moments], [new, *kept], strict=True):
                g.update(old, made)
        g.on_host = False

    def _forward(
        self, program: ExportedProgram, known: Mapping[str, Value], parts: int
    ) -> list[Value]:
        """Outputs of the model for each part of the batch."""
        g = self.graph
        own = program.graph_signature.user_inputs
        examples = {n.name: n.meta["val"] for n in program.graph.nodes if n.name in own}
        whole: dict[str, Value] = {}
        for name, one in examples.items():
            self._models.append(_free(name, [value.name for value in g.values]))
            shape = (parts * one.shape[0], *one.shape[1:])
            whole[name] = g.input(self._models[-1], shape, INPUT_DTYPES[one.dtype])
        found = []
        for part in range(parts):
            mine = whole
            if parts > 1:
                mine = {
                    name: g.gather([one], np.split(one.places, parts)[part])
                    for name, one in whole.items()
                }
            legalised(program, (), known, mine, g)
            if len(g.outputs) != 1:
                raise CompileError(
                    f"model must have one output, of which the loss is computed, not "
                    f"{len(g.outputs)}"
                )
            found.append(g.outputs.popitem()[1])
        return found

    @property
    def _shape(self) -> tuple[int, ...]:
        """Shape of what the model gives."""
        return self.graph.outputs[self._output].shape

    @property
    def state(self) -> dict[str, Floats]:
        """Master weights by the names of the parameters, and their moments, as they are now."""
        return {name: self._engine.read(name) for name in self._engine.kept}

    def __call__(self, *given: Any) -> float:
        """Do a step; return its loss.

        Parameters
        ----------
        *given : Tensor or array_like
            Inputs of the model, then the target.

        Raises
        ------
        TypeError, ValueError
            If they are not of the shapes and types of the examples.
        """
        taken = self._taken(*given)
        found = self._engine.run(taken, self._run)
        self.output = found[self._output]
        self.steps += 1
        self._seen()
        return self._loss.value(self.output, _numpy("target", given[-1]))

    def _seen(self) -> None:
        """Let schedulers see a step of the optimiser, which changes nothing without gradients."""
        groups = self._optimizer.param_groups
        if all(one.grad is None for group in groups for one in group["params"]):
            self._optimizer.step()

    def inputs(self, *given: Any) -> dict[str, Floats]:
        """Inputs of the program in the next step, by name: all inputs of the graph.

        Parameters
        ----------
        *given : Tensor or array_like
            As of a step.

        Raises
        ------
        TypeError, ValueError
            As of a step.
        """
        known = {**self._taken(*given), **self.state}
        return {port.name: known[port.name] for port in self._ports}

    def replay(self, inputs: Named) -> Named:
        """Results of the program on the interpreter, whatever the engine; nothing changes.

        Parameters
        ----------
        inputs : dict of str to ndarray
            Those of a step: see `inputs`.

        Returns
        -------
        dict of str to ndarray
            ``output``, and all that `state` has after the step.
        """
        found = self.compiled(*inputs.values())
        several = found if isinstance(found, tuple) else (found,)
        names = (port.name for port in self.compiled.outputs)
        return dict(zip(names, several, strict=True))

    @cached_property
    def _ports(self) -> list[Port]:
        """Inputs of the graph."""
        values = (value for value in self.graph.values if value.op == "input")
        return [Port(value.name, value.shape, value.dtype) for value in values]

    def _taken(self, *given: Any) -> dict[str, Floats]:
        """Arrays that the host writes before the next step: all but the state."""
        if len(given) != len(self._models) + 1:
            raise ValueError(
                f"inputs must be {len(self._models)} ({', '.join(self._models)}) and a target, not "
                f"{len(given)} in all"
            )
        *inputs, target = given
        known = {
            **{n: _numpy(n, one) for n, one in zip(self._models, inputs, strict=True)},
            **self._rates(),
            self._target: self._loss.target(_numpy("target", target), self._shape),
        }
        ports = {port.name: port for port in self._ports}
        return {name: ports[name].taken(one) for name, one in known.items()}

    def _rates(self) -> dict[str, Floats]:
        """Rates of this step, which the optimiser's groups say; all else is as it was compiled."""
        if _sizes(self._optimizer) != self._groups:
            raise ValueError("optimizer must have the parameters that it had when it was compiled")
        for one in self._trained:
            group = self._optimizer.param_groups[one.group]
            now, rate = optimiser_of(self._optimizer, group), float(group["lr"])
            if not math.isfinite(rate) or abs(rate) > _MOST_RATE:
                raise ValueError(f"optimizer must have a finite lr of float32, not {rate}")
            if now != one.optimiser:
                raise ValueError(
                    f"optimizer must be {one.optimiser}, as it was compiled, in all but lr, not "
                    f"{now}"
                )
        return {
            one.rate(name): np.full(1, number, np.float32)
            for one in self._trained
            for name, number in one.optimiser.rates(
                float(self._optimizer.param_groups[one.group]["lr"]), self.steps + 1
            ).items()
        }

    def report(self) -> str:
        """Kernel by kernel: descriptors, cycles predicted, words moved."""
        return self.compiled.report()

    def write_back(self) -> None:
        """Copy the master weights into the parameters of the model."""
        with torch.no_grad():
            state = self.state
            for one in self._trained:
                master = torch.from_numpy(state[one.name])
                one.parameter.copy_(master.reshape(one.parameter.shape))

    def state_dict(self) -> dict[str, Any]:
        """Steps, master weights and moments: what `load_state_dict` takes, and `torch.save`."""
        tensors = {name: torch.from_numpy(array.copy()) for name, array in self.state.items()}
        return {"steps": self.steps, "state": tensors}

    def load_state_dict(self, given: Mapping[str, Any]) -> None:
        """Go on from a state.

        Raises
        ------
        ValueError
            If it is not of this model and optimiser; nothing has changed then.
        """
        if not isinstance(given, Mapping) or not {"steps", "state"} <= given.keys():
            raise ValueError(f"given must be a mapping with steps and state, not {shown(given)}")
        steps = require_integer("steps", given["steps"], 0, _MOST_STEPS)
        state, own = given["state"], self.state
        if not isinstance(state, Mapping):
            raise ValueError(f"state must be a mapping of names to tensors, not {shown(state)}")
        if wrong := state.keys() ^ own.keys():
            names = ", ".join(sorted(map(str, wrong)))
            raise ValueError(f"state must have the names of this step, which differ in {names}")
        for name, tensor in state.items():
            wanted = own[name].shape
            is_float = isinstance(tensor, torch.Tensor) and tensor.dtype == torch.float32
            if not is_float or tensor.shape != wanted:
                raise ValueError(
                    f"{name} must be a float32 tensor of shape {wanted}, not {_described(tensor)}"
                )
        self._engine.load({name: _numpy(name, tensor) for name, tensor in state.items()})
        self.steps = steps


@checked
def compile_step(
    model: torch.nn.Module,
    loss: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    examples: Sequence[Any],
    *,
    machine: Machine = "default",
    format: Format | None = None,
    arithmetic: Literal["exact", "fp12", "window", "bf16"] | None = None,
    parts: PositiveInteger = 1,
    engine: Literal["interpreter", "model"] | Run = "interpreter",
) -> TrainingStep:
    """A training step of a model as a program of the machine.

    Forward pass, backward pass and update are one program. All products are in MX format, in tiles
    of 8x8; all else is binary32: see `mxsafe.machine.gradients` and `mxsafe.machine.updates`.

    Parameters
    ----------
    model : torch.nn.Module
        With one output. Dropout must be off.
    loss : torch.nn.CrossEntropyLoss or torch.nn.MSELoss
        Mean over the batch. Its value is evaluated by the host from the model's output.
    optimizer : torch.optim.SGD, torch.optim.Adam or torch.optim.AdamW
        Of parameters of the model; others, those that it does not use, and those without
        ``requires_grad`` stay as they are. Learning rates are read at each step, so that a
        scheduler works. Its own state is not used.
    examples : sequence of Tensor
        Inputs of the model, then a target that a step would take; shapes of the program are theirs.
    machine : str or MachineConfiguration
        ``default``, ``small``, ``fpga``, or any sizes.
    format : str, MXFormat or FloatFormat, optional
        Of both operands of all products; by default that of the machine. With arithmetic ``bf16``
        it can only be ``bf16``.
    arithmetic : {"exact", "fp12", "window", "bf16"}, optional
        Of the array; by default that of the machine. With ``window`` sums of more than 4,096
        products, over features or over rows of the batch, are those of parts of 4,096, added in
        binary32; buffers of operands must hold a strip of such a part.
    parts : int
        Into how many equal parts the batch is divided, along the first axis of inputs, output and
        target: the model takes one at a time, and all gradients are added. It must give for them
        what it gives for all. With one image in a part no tile has rows of two images, as it must
        be where an image has a number of tokens that is no multiple of 8.
    engine : {"interpreter", "model"} or callable
        What runs the steps: the program, on the interpreter; or each operation by its model, with
        the same bits; or what is called with a `Program` and its memory, which it changes, such as
        a driver of Verilog. With ``model`` there is no program until `TrainingStep.compiled`, its
        report or a replay is asked for; what the machine cannot do is refused then.

    Returns
    -------
    TrainingStep
        To be called with inputs and a target.

    Raises
    ------
    CompileError
        If the model has operators that are not compiled, or that have no gradient, or if the
        machine lacks what they need.
    TypeError, ValueError
        If an argument is not as above.

    Examples
    --------
    >>> import torch
    >>> from mxsafe.torch import compile_step
    >>> _ = torch.manual_seed(0)
    >>> layers = torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 8)
    >>> model = torch.nn.Sequential(*layers)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    >>> x, target = torch.randn(24, 16), torch.randint(0, 8, (24,))
    >>> step = compile_step(model, torch.nn.CrossEntropyLoss(), optimizer, (x, target))
    >>> losses = [step(x, target) for _ in range(5)]
    >>> losses[4] < losses[0]
    True
    >>> step.write_back()
    """
    if not callable(engine):
        require_one_of("engine", engine, _ENGINES)
    if len(examples) < 2:
        raise ValueError(f"examples must be inputs and a target, not {shown(examples)}")
    *inputs, _ = examples
    for at, one in enumerate(inputs):
        _check_input(f"examples[{at}]", one, parts)
    program = exported(model, [one[: len(one) // parts] for one in inputs])
    configuration = machine_named(machine, format, arithmetic)
    return TrainingStep(program, model, loss, optimizer, configuration, parts, engine, examples)


class _CrossEntropy:
    """Softmax and its cross-entropy with a target, mean over the rows."""

    def __init__(self, module: torch.nn.CrossEntropyLoss) -> None:
        if module.weight is not None or module.ignore_index != -100:
            raise ValueError("loss must have no weight and no ignore_index")
        self._smoothing = module.label_smoothing

    def seed(self, graph: Graph, logits: Value, target: Value, whole: tuple[int, ...]) -> Value:
        """``(softmax - target) / rows`` of some rows of a batch."""
        if len(whole) != 2:
            raise CompileError(f"model must give logits of shape (rows, classes), not {whole}")
        return graph.add(graph.scale(graph.softmax(logits), 1 / whole[0]), target)

    def _probabilities(self, target: NDArray[Any], shape: tuple[int, ...]) -> NDArray[np.float64]:
        rows, classes = shape
        if target.dtype.kind == "f":
            if target.shape != shape:
                raise ValueError(f"target must have shape {shape}, not {target.shape}")
            wanted = target.astype(np.float64)
            sums = wanted.sum(axis=1)
            if not (np.abs(sums - 1) <= _PROBABILITY).all():  # nor if there are NaN
                wrong = sums[np.abs(sums - 1).argmax()]
                raise ValueError(
                    f"target must have rows of probabilities, whose sum is 1, not {wrong:.6g}"
                )
        else:
            if target.dtype.kind not in "iu" or target.shape != (rows,):
                raise ValueError(
                    f"target must be {rows} integers, not {target.dtype} of shape {target.shape}"
                )
            if (wrong := target[(target < 0) | (target >= classes)]).size:
                raise ValueError(f"target must be from 0 to {classes - 1}, not {wrong[0]}")
            wanted = np.eye(classes)[target]
        return wanted * (1 - self._smoothing) + self._smoothing / classes

    def target(self, target: NDArray[Any], shape: tuple[int, ...]) -> Floats:
        """``-target / rows``, probabilities of all classes."""
        return (-self._probabilities(target, shape) / shape[0]).astype(np.float32)

    def value(self, logits: Floats, target: NDArray[Any]) -> float:
        """The loss, in float64 from the logits."""
        wide = logits.astype(np.float64)
        wide = wide - wide.max(axis=1, keepdims=True)
        logarithms = wide - np.log(np.exp(wide).sum(axis=1, keepdims=True))
        probabilities = self._probabilities(target, logits.shape)
        return float(0.0 - (probabilities * logarithms).sum(axis=1).mean())


class _SquaredError:
    """Mean of the squares of the differences from a target."""

    def __init__(self, module: torch.nn.MSELoss) -> None:
        pass

    def seed(self, graph: Graph, result: Value, target: Value, whole: tuple[int, ...]) -> Value:
        """``(2 / size) * (result - target)`` of some rows of a batch."""
        return graph.add(graph.scale(result, 2 / math.prod(whole)), target)

    def target(self, target: NDArray[Any], shape: tuple[int, ...]) -> Floats:
        """``-2 / size * target``."""
        if target.shape != shape or target.dtype != np.float32:
            raise ValueError(
                f"target must be float32 of shape {shape}, not {target.dtype} of shape "
                f"{target.shape}"
            )
        return (-2 / target.size * target.astype(np.float64)).astype(np.float32)

    def value(self, result: Floats, target: NDArray[Any]) -> float:
        """The loss, in float64."""
        return float(np.mean((result.astype(np.float64) - target) ** 2))


def _loss(module: torch.nn.Module) -> _CrossEntropy | _SquaredError:
    if getattr(module, "reduction", "mean") != "mean":
        raise ValueError(f"loss must have reduction mean, not {shown(module.reduction)}")
    if type(module) is torch.nn.CrossEntropyLoss:
        return _CrossEntropy(module)
    if type(module) is torch.nn.MSELoss:
        return _SquaredError(module)
    raise TypeError(f"loss must be CrossEntropyLoss or MSELoss, not {type(module).__name__}")


def optimiser_of(kind: torch.optim.Optimizer, group: Mapping[str, Any]) -> Optimiser:
    """The update that a group of an optimiser makes."""
    name = type(kind).__name__
    for option in ("amsgrad", "maximize", "dampening"):
        if group.get(option):
            raise ValueError(f"optimizer must have no {option}, not {shown(group[option])}")
    if type(kind) is torch.optim.SGD:
        return Sgd(float(group["momentum"]), float(group["weight_decay"]), group["nesterov"])
    if type(kind) in (torch.optim.Adam, torch.optim.AdamW):
        coupled = type(kind) is torch.optim.Adam and not group.get("decoupled_weight_decay")
        first, second = map(float, group["betas"])
        return AdamW((first, second), float(group["eps"]), float(group["weight_decay"]), coupled)
    raise TypeError(f"optimizer must be SGD, Adam or AdamW, not {name}")


def _trained(
    program: ExportedProgram, model: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> list[_Trained]:
    """Parameters that the optimiser has and the model uses, in the optimiser's order."""
    own = dict(model.named_parameters(remove_duplicate=False))
    signature = program.graph_signature.inputs_to_parameters
    numbers = {node: id(own[target]) for node, target in signature.items()}
    nodes = [node for node in program.graph.nodes if node.op == "call_function"]
    used = {numbers.get(one.name) for node in nodes for one in node.all_input_nodes}
    tables = {numbers.get(n.args[0].name) for n in nodes if "embedding" in str(n.target)}
    found = []
    for number, group in enumerate(optimizer.param_groups):
        for parameter in group["params"]:
            key = id(parameter)
            names = [name for name, one in own.items() if one is parameter]
            if not names:
                raise ValueError("optimizer must have parameters of the model alone")
            if key in used and parameter.requires_grad:
                if parameter.dtype != torch.float32:
                    raise TypeError(f"{names[0]} must be of float32, not {_described(parameter)}")
                made = optimiser_of(optimizer, group)
                one = _Trained(names[0], tuple(names), parameter, number, made, key in tables)
                found.append(one)
    if not found:
        raise ValueError(
            "optimizer must have a parameter with requires_grad that the model uses, and has none"
        )
    return found


def _free(name: str, taken: Collection[str]) -> str:
    """A name that is not taken: itself, or with underscores behind."""
    while name in taken:
        name += "_"
    return name


def _check_input(name: str, given: object, parts: int) -> None:
    """Refuse an example that is no input of a step in so many parts."""
    if not isinstance(given, torch.Tensor) or given.dtype not in INPUT_DTYPES:
        raise TypeError(
            f"{name} must be a tensor of float32, integers or booleans, not {_described(given)}"
        )
    if not given.dim() or len(given) % parts:
        raise ValueError(
            f"{name} must have a first axis that {parts} parts divide, not shape "
            f"{tuple(given.shape)}"
        )


def _check_parts(model: torch.nn.Module, inputs: Sequence[torch.Tensor], parts: int) -> None:
    """Refuse a model that does not give for parts of the batch what it gives for all of it."""
    cut = zip(*(one.chunk(parts) for one in inputs), strict=True)
    with torch.no_grad():
        whole, joined = model(*inputs), torch.cat([model(*part) for part in cut])
    if whole.shape == joined.shape:
        error = (whole - joined).abs().max().item()
        if not error > _UNLIKE * whole.abs().max().item():
            return
    raise ValueError(
        f"parts must be 1 for a model that does not take each sample by itself, along the first "
        f"axis of its inputs and its output, not {parts}"
    )


def _sizes(optimizer: torch.optim.Optimizer) -> list[int]:
    """Numbers of parameters of an optimiser's groups."""
    return [len(group["params"]) for group in optimizer.param_groups]


def _described(given: object) -> str:
    """What a tensor is, in an error."""
    if not isinstance(given, torch.Tensor):
        return shown(given)
    kinds = [str(given.dtype), "" if given.layout == torch.strided else str(given.layout)]
    told = " ".join(filter(None, [*kinds, "meta" if given.is_meta else ""])).replace("torch.", "")
    return f"{told} of shape {tuple(given.shape)}"


def _numpy(name: str, given: Any) -> NDArray[Any]:
    if not isinstance(given, torch.Tensor):
        return np.asarray(given)
    if given.layout != torch.strided or given.is_meta or given.dtype == torch.bfloat16:
        raise TypeError(
            f"{name} must be a dense tensor of float32 or integers, not {_described(given)}"
        )
    return given.detach().cpu().numpy().copy()
