"""``python -m studies.energy``: what training steps of DeiT-Tiny count on several machines.

Each step is compiled for its machine, and its accesses and cycles are predicted from the
descriptors; attention of a block alone, and MiniLM, too. Those that are not 0 go to
``docs/energy.json``, of which ``docs/energy.md`` makes energies, by any tables. With ``--run`` a
case is run on the interpreter as well, and with ``--verilog`` on the simulated Verilog with
counters of accesses; what they count must be what was predicted. Names of cases alone are done, by
default all that are not there yet; one of DeiT-Tiny takes minutes.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch

import mxsafe.torch as mxt
from mxsafe.host.host import Host
from mxsafe.host.simulated import Simulated
from mxsafe.machine.compiled import Compiled, Run, compile_graph
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.energy import COUNTED, work_of
from mxsafe.machine.gradients import gradients
from mxsafe.machine.graph import Graph
from mxsafe.machine.program import Program
from mxsafe.model.machine import Machine
from mxsafe.rtl.machine.times import times_of
from mxsafe.torch._compile import compile_exported, exported
from studies.compiled_models import minilm
from studies.energy_machines import ATTENTION, BESIDE, MACHINES, OPTIMIZERS
from studies.pages import DOCS, keep, kept
from studies.prose import as_help
from studies.step_figures import FEATURES, TOKENS, Bytes, DeitTiny, block_of_deit

FIGURES = DOCS / "energy.json"
_LIMIT = 1 << 32
MODELS = ("block", "DeiT-Tiny")
_RATES = {"SGD": 0.25, "AdamW": 1e-3}
IMAGES = (1, 2, 3)
"""Images of a step, one after the other."""
_SCALE = ATTENTION[-1] ** -0.5


def attention() -> Graph:
    """Attention of a block, forward and backward, between its heads' queries and results."""
    graph = Graph()
    q, k, v = (graph.input(name, ATTENTION) for name in "qkv")
    shares = graph.softmax(graph.product(q, k), _SCALE)
    out = graph.product(shares, graph.transpose(v, (0, 2, 1)))
    graph.output("out", out)
    found = gradients(graph, {out: graph.input("gradient", ATTENTION)}, [q, k, v])
    for name, gradient in zip("qkv", found, strict=True):
        graph.output(f"gradient of {name}", gradient)
    return graph


class Counted(Protocol):
    """Something whose programs are counted."""

    @property
    def name(self) -> str:
        """What its figures are filed under."""

    @property
    def configuration(self) -> MachineConfiguration:
        """Its machine."""

    def compiled(self) -> Compiled:
        """Its programs."""

    def do(self, run: Run) -> None:
        """Let something run them, over numbers drawn at random."""


@dataclass(frozen=True)
class Attention:
    """Attention of a block alone on a machine.

    Attributes
    ----------
    machine : str
        Its name, and ``beside`` behind it for the one beside that machine.
    configuration : MachineConfiguration
    """

    machine: str
    configuration: MachineConfiguration

    @property
    def name(self) -> str:
        """What its figures are filed under."""
        return f"{self.machine}, attention"

    def compiled(self) -> Compiled:
        """Its programs."""
        c = self.configuration
        return compile_graph(attention(), c, block=(8, 8) if c.scaled else None)

    def do(self, run: Run) -> None:
        """Let something run them, over numbers drawn at random."""
        made, rng = self.compiled(), np.random.default_rng(0)
        made.run([rng.standard_normal(port.shape, np.float32) for port in made.inputs], run)


@dataclass(frozen=True)
class MiniLM:
    """All blocks of all-MiniLM-L6, 128 tokens and a mask, as its package makes it."""

    name: str = "mxsf, MiniLM"
    configuration: MachineConfiguration = MACHINES["mxsf"]

    def compiled(self) -> Compiled:
        """Its programs: of any weights."""
        torch.manual_seed(0)
        model, given = minilm()
        return compile_exported(exported(model.eval(), given), self.configuration)

    def do(self, run: Run) -> None:
        """Let something run them, over tokens drawn at random."""
        torch.manual_seed(0)
        _, given = minilm()
        self.compiled().run([one.numpy() for one in given], run)


@dataclass(frozen=True)
class Step:
    """A step on a machine.

    Attributes
    ----------
    machine, model, optimizer : str
    images : int
        Taken one at a time, whose gradients are added before the update.
    """

    machine: str
    model: str
    optimizer: str
    images: int

    @property
    def name(self) -> str:
        """What its figures are filed under."""
        return f"{self.machine}, {self.model}, {self.optimizer}, {self.images}"

    @property
    def configuration(self) -> MachineConfiguration:
        """Its machine."""
        return MACHINES[self.machine]

    def compiled(self) -> Compiled:
        """Its programs."""
        step, _ = self.step()
        return step.compiled

    def do(self, run: Run) -> None:
        """Let something run them, over images drawn at random."""
        step, given = self.step(run)
        step(*given)

    def step(self, engine: Any = "model") -> tuple[mxt.TrainingStep, tuple[torch.Tensor, ...]]:
        """The step, and what it takes."""
        torch.manual_seed(0)
        given: tuple[torch.Tensor, ...]
        if self.model == "block":
            model: torch.nn.Module = block_of_deit()
            x = torch.randn(2, self.images, TOKENS, FEATURES)
            loss: torch.nn.Module = torch.nn.MSELoss()
            given = x[0], x[1]
        else:
            model, loss = DeitTiny(), torch.nn.CrossEntropyLoss()
            given = torch.randn(self.images, 3, 224, 224), torch.arange(self.images)
        kind = getattr(torch.optim, self.optimizer)
        optimizer = kind(model.parameters(), lr=_RATES[self.optimizer])
        made = mxt.compile_step(
            model,
            loss,
            optimizer,
            given,
            machine=self.configuration,
            parts=self.images,
            engine=engine,
        )
        return made, given


_STEPS = (
    Step(machine, model, optimizer, images)
    for machine in MACHINES
    for model in MODELS
    for optimizer in OPTIMIZERS
    for images in IMAGES
)
_ATTENTIONS = (
    Attention(title, machine)
    for name, beside in BESIDE.items()
    for title, machine in ((name, MACHINES[name]), (f"{name}, beside", beside))
)
_CASES: tuple[Counted, ...] = (*_STEPS, *_ATTENTIONS, MiniLM())
CASES = {case.name: case for case in _CASES}


def counted(case: Counted) -> dict[str, int]:
    """Predicted cycles, words and accesses of all programs, by the times of their machine."""
    programs = [part.program for part in case.compiled().parts]
    return dict(work_of(programs, times_of(case.configuration)).counters)


def interpreted(case: Counted) -> dict[str, int]:
    """Words and accesses that the interpreter counts as it runs them."""

    def run(program: Program, memory: Bytes) -> dict[str, int]:
        outcome = Machine(program.configuration).run(program.data, memory, limit=_LIMIT)
        if outcome.code:
            raise RuntimeError(f"{case.name}: {outcome.error}: {outcome.reason}")
        words = {"words_read": outcome.words_read, "words_written": outcome.words_written}
        return {**words, **outcome.accesses}

    return _ran(case, run)


def simulated(case: Counted) -> dict[str, int]:
    """The same of the simulated Verilog with counters, and the cycles that it takes."""

    def run(program: Program, memory: Bytes) -> dict[str, int]:
        host = Host(Simulated(replace(program.configuration, counts=True), note=print))
        host.memory = memory
        ended = host.run(program)
        if ended.code:
            raise RuntimeError(f"{case.name}: {ended.error}: {ended.reason}")
        return {name: ended.counters[name] for name in COUNTED}

    return _ran(case, run)


def _ran(case: Counted, run: Callable[[Program, Bytes], dict[str, int]]) -> dict[str, int]:
    """What all programs count together."""
    found: Counter[str] = Counter()

    def counted_run(program: Program, memory: Bytes) -> None:
        for name, count in run(program, memory).items():
            found[name] += count

    case.do(counted_run)
    return dict(found)


def _require(name: str, predicted: Mapping[str, int], ran: Mapping[str, int]) -> None:
    wrong = [key for key in ran if key != "cycles" and ran[key] != predicted[key]]
    if wrong:
        raise RuntimeError(
            f"{name}: {wrong[0]} must be {predicted[wrong[0]]} as predicted, not {ran[wrong[0]]}"
        )


def main() -> None:
    """Count, and keep what was counted before of other cases."""
    parser = argparse.ArgumentParser(description=as_help(__doc__))
    parser.add_argument("names", nargs="*", help="such as 'mxsf, block, SGD, 1'")
    for option in ("run", "verilog"):
        parser.add_argument(f"--{option}", action="store_true")
    args = parser.parse_args()
    if unknown := sorted({*args.names} - CASES.keys()):
        parser.error(f"names must be of {'; '.join(CASES)}, not {unknown[0]}")
    known = kept(FIGURES.stem) if FIGURES.exists() else {}
    for name in args.names or [name for name in CASES if name not in known]:
        case = CASES[name]
        predicted = counted(case)
        found: dict[str, Any] = {"counters": {key: n for key, n in predicted.items() if n}}
        if args.run:
            _require(name, predicted, interpreted(case))
            found["interpreted"] = True
        if args.verilog:
            ran = simulated(case)
            _require(name, predicted, ran)
            found["verilog_cycles"] = ran["cycles"]
        before = kept(FIGURES.stem) if FIGURES.exists() else {}
        keep(FIGURES, {**before, name: {**before.get(name, {}), **found}})
        print(name, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
