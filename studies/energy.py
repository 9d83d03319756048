"""``python -m studies.energy``: what training steps of DeiT-Tiny count on several machines.

Each step is compiled for its machine, and its accesses and cycles are predicted from the
descriptors. Those that are not 0 go to ``docs/energy.json``, of which ``docs/energy.md`` makes
energies, by any tables. With ``--run`` a step is run on the interpreter as well, and with
``--verilog`` on the simulated Verilog with counters of accesses; what they count must be what was
predicted. Names of cases alone are done, by default all that are not there yet; one of DeiT-Tiny
takes minutes.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

import mxsafe.torch as mxt
from mxsafe.host.host import Host
from mxsafe.host.simulated import Simulated
from mxsafe.machine.compiled import Compiled, compile_graph
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.energy import COUNTED, work_of
from mxsafe.machine.gradients import gradients
from mxsafe.machine.graph import Graph
from mxsafe.machine.program import Program
from mxsafe.model.machine import Machine
from mxsafe.rtl.machine.times import times_of
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


def counted_attention(machine: MachineConfiguration) -> dict[str, int]:
    """Predicted cycles, words and accesses of attention alone on a machine."""
    block = (8, 8) if machine.scaled else None
    compiled = compile_graph(attention(), machine, block=block)
    return _predicted(compiled, machine)


def _predicted(compiled: Compiled, machine: MachineConfiguration) -> dict[str, int]:
    """What all programs count together, by the times of their machine."""
    programs = [part.program for part in compiled.parts]
    return dict(work_of(programs, times_of(machine)).counters)


@dataclass(frozen=True)
class Case:
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
        machine = MACHINES[self.machine]
        made = mxt.compile_step(
            model, loss, optimizer, given, machine=machine, parts=self.images, engine=engine
        )
        return made, given


CASES = {
    case.name: case
    for machine in MACHINES
    for model in MODELS
    for optimizer in OPTIMIZERS
    for images in IMAGES
    for case in [Case(machine, model, optimizer, images)]
}


def counted(case: Case) -> dict[str, int]:
    """Predicted cycles, words and accesses of a step."""
    step, _ = case.step()
    return _predicted(step.compiled, MACHINES[case.machine])


def interpreted(case: Case) -> dict[str, int]:
    """Words and accesses that the interpreter counts as it runs a step."""

    def run(program: Program, memory: Bytes) -> dict[str, int]:
        outcome = Machine(program.configuration).run(program.data, memory, limit=_LIMIT)
        if outcome.code:
            raise RuntimeError(f"{case.name}: {outcome.error}: {outcome.reason}")
        words = {"words_read": outcome.words_read, "words_written": outcome.words_written}
        return {**words, **outcome.accesses}

    return _ran(case, run)


def simulated(case: Case) -> dict[str, int]:
    """The same of the simulated Verilog with counters, and the cycles that it takes."""

    def run(program: Program, memory: Bytes) -> dict[str, int]:
        host = Host(Simulated(replace(program.configuration, counts=True), note=print))
        host.memory = memory
        ended = host.run(program)
        if ended.code:
            raise RuntimeError(f"{case.name}: {ended.error}: {ended.reason}")
        return {name: ended.counters[name] for name in COUNTED}

    return _ran(case, run)


def _ran(case: Case, run: Callable[[Program, Bytes], dict[str, int]]) -> dict[str, int]:
    """What all programs of a step count together."""
    found: Counter[str] = Counter()

    def counted_run(program: Program, memory: Bytes) -> None:
        for name, count in run(program, memory).items():
            found[name] += count

    step, given = case.step(counted_run)
    step(*given)
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
    for name, beside in BESIDE.items():
        for title, machine in ((name, MACHINES[name]), (f"{name}, beside", beside)):
            own = {key: n for key, n in counted_attention(machine).items() if n}
            known[f"{title}, attention"] = {"counters": own}
    keep(FIGURES, known)
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
