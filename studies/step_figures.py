"""``python -m studies.step_figures``: training steps of a vision transformer as programs.

A block of DeiT-Tiny with SGD (``block``) and DeiT-Tiny with AdamW (``whole``), both of one image
and 197 tokens: compiled for the default machine, run for a step on the interpreter and compared
with the models of the operations bit for bit. Figures go to ``docs/step_figures.json``, and a
picture of the block's step on the four queues to ``docs/step_timeline.svg``. With ``--verilog`` the
step is run on the simulated Verilog as well, and all of memory compared; with ``--predicted``
nothing is run. ``--nodes`` prints what each kernel asks of the queues, and how long the array has
no beat before its products. Names alone are done, by default ``block``; ``whole`` takes minutes.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import mxsafe.torch as mxt
from mxsafe.atomic import write_atomically
from mxsafe.host.host import Host
from mxsafe.host.simulated import Simulated
from mxsafe.machine.compiled import Part
from mxsafe.machine.compiler.timing import predict
from mxsafe.machine.graph import Graph
from mxsafe.machine.program import Program
from mxsafe.model.machine import Machine
from mxsafe.torch._training import TrainingStep
from studies.pages import DOCS
from studies.prose import as_help
from studies.timeline import Kinds, drawn

FIGURES = DOCS / "step_figures.json"
PICTURE = DOCS / "step_timeline.svg"
TOKENS, FEATURES = 197, 192
_LIMIT = 1 << 32

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


def block_of_deit() -> torch.nn.Module:
    """A block of DeiT-Tiny."""
    return torch.nn.TransformerEncoderLayer(
        FEATURES, 3, 768, 0.0, "gelu", batch_first=True, norm_first=True
    )


class DeitTiny(torch.nn.Module):
    """Patches of 16 x 16, a class token, blocks, a norm and a head for 1,000 classes."""

    def __init__(self, blocks: int = 12) -> None:
        super().__init__()
        self.patches = torch.nn.Conv2d(3, FEATURES, 16, 16)
        self.token = torch.nn.Parameter(0.02 * torch.randn(1, 1, FEATURES))
        self.position = torch.nn.Parameter(0.02 * torch.randn(1, TOKENS, FEATURES))
        self.blocks = torch.nn.Sequential(*(block_of_deit() for _ in range(blocks)))
        self.norm = torch.nn.LayerNorm(FEATURES)
        self.head = torch.nn.Linear(FEATURES, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of images, shape (count, 3, 224, 224)."""
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.position
        logits: torch.Tensor = self.head(self.norm(self.blocks(x))[:, 0])
        return logits


Made = tuple[torch.nn.Module, torch.nn.Module, torch.optim.Optimizer, tuple[Any, Any]]


def _step_of_block() -> Made:
    layer = block_of_deit()
    x = torch.randn(2, 1, TOKENS, FEATURES)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.25)
    return layer, torch.nn.MSELoss(), optimizer, (x[0], x[1])


def _step_of_whole() -> Made:
    model = DeitTiny()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    given = torch.randn(1, 3, 224, 224), torch.tensor([7])
    return model, torch.nn.CrossEntropyLoss(), optimizer, given


CASES: dict[str, Callable[[], Made]] = {"block": _step_of_block, "whole": _step_of_whole}


def made(case: str, engine: Any = "interpreter") -> tuple[TrainingStep, tuple[Any, Any]]:
    """A step, and what it takes: the same whenever it is made."""
    torch.manual_seed(0)
    model, loss, optimizer, given = CASES[case]()
    return mxt.compile_step(model, loss, optimizer, given, engine=engine), given


def predicted(step: TrainingStep) -> dict[str, Any]:
    """What the compiler says of a step."""
    (part,) = step.compiled.parts
    found = predict(part.program)
    queues: Counter[str] = Counter()
    for run in found.runs:
        queues[run.queue] += run.stop - run.start
    return {
        "descriptors": part.program.length,
        "cycles": found.cycles,
        "busy": round(found.array_busy / found.cycles, 3),
        "array_busy": found.array_busy,
        "words_read": found.words_read,
        "words_written": found.words_written,
        "memory": len(part.image),
        "queues": dict(queues),
        "waits": {name: clocks for name, clocks in found.idle().items() if clocks},
    }


def nodes(part: Part) -> list[str]:
    """Of each kernel cycles of queues, and those without a beat before its products."""
    found: dict[str, Counter[str]] = {}
    last = 0
    for run in sorted(predict(part.program).runs, key=lambda run: run.start):
        own = found.setdefault(part.labels[run.number], Counter())
        own[run.queue] += run.stop - run.start
        if run.queue == "gemm":
            own["wait"] += max(0, run.start - last)
            last = max(last, run.stop)
    columns = ("wait", "gemm", "load", "vector", "store")
    lines = ["".join(f"{name:>8}" for name in columns) + "  what"]
    lines += [
        "".join(f"{own[n]:8}" for n in columns) + f"  {label}" for label, own in found.items()
    ]
    return lines


_COLOURS = {
    "forward": "#0072b2",
    "backward": "#d55e00",
    "gradients of weights, and their update": "#009e73",
}


def phases(graph: Graph) -> Kinds:
    """Kinds of work of a training step, by what a kernel makes.

    Those that make a weight's next value are its update, and others that make something of the
    model, forward pass.
    """
    forward, backward, update = _COLOURS
    last = graph.values.index(graph.outputs["output"])
    before = {value.name for value in graph.values[: last + 1]}
    updated = {graph.outputs[name].name for name in graph.kept}

    def of(label: str) -> str:
        names = set(label.split(", "))
        if names & updated:
            return update
        return forward if names & before else backward

    return Kinds(_COLOURS, of)


def same(one: TrainingStep, other: TrainingStep, given: tuple[Any, Any]) -> int:
    """Numbers compared after a step of each, all equal in every bit.

    Raises
    ------
    RuntimeError
        If one is not.
    """
    losses = [step(*given) for step in (one, other)]
    compared = 0
    wanted = {**other.state, "output": other.output}
    for name, array in {**one.state, "output": one.output}.items():
        if losses[0] != losses[1] or not np.array_equal(_bits(array), _bits(wanted[name])):
            raise RuntimeError(f"{name} must be that of the models, loss {losses}")
        compared += _bits(array).size
    return compared


def _bits(array: Any) -> Any:
    return np.asarray(array).view(np.uint32)


class Compared:
    """Runs programs on Verilog and on the interpreter, and compares all of memory.

    Attributes
    ----------
    counters : dict of str to int
        Of the last program on Verilog.
    bytes : int
        How many have been compared.
    """

    def __init__(self) -> None:
        self.counters: dict[str, int] = {}
        self.bytes = 0

    def __call__(self, program: Program, memory: Bytes) -> None:
        """Run a program; memory becomes what Verilog leaves.

        Raises
        ------
        RuntimeError
            If that is not what the interpreter leaves.
        """
        host = Host(Simulated(program.configuration, note=print))
        wanted = memory.copy()
        host.memory = memory
        ended = host.run(program)
        self.counters = dict(ended.counters)
        Machine(program.configuration).run(program.data, wanted, limit=_LIMIT)
        if ended.code or not np.array_equal(memory, wanted):
            raise RuntimeError(f"Verilog must leave the interpreter's bytes: {ended.error}")
        self.bytes += memory.size


def measured(case: str, *, runs: bool, verilog: bool, by_node: bool) -> dict[str, Any]:
    """All figures of a case."""
    start = time.process_time()
    step, given = made(case)
    found = {**predicted(step), "compile_seconds": round(time.process_time() - start, 1)}
    if by_node:
        print("\n".join(nodes(step.compiled.parts[0])))
    if case == "block":
        write_atomically(PICTURE, drawn(step.compiled, phases(step.graph)))
    if runs:
        model, _ = made(case, "model")
        start = time.process_time()
        found["numbers_equal"] = same(step, model, given)
        found["run_seconds"] = round(time.process_time() - start, 1)
    if verilog:
        compared = Compared()
        on_verilog, _ = made(case, compared)
        on_verilog(*given)
        found["verilog"] = compared.counters
    return found


def _write(figures: dict[str, Any]) -> None:
    write_atomically(FIGURES, json.dumps(figures, indent=1) + "\n")


def main() -> None:
    """Measure, and keep what was measured before of other cases."""
    parser = argparse.ArgumentParser(description=as_help(__doc__))
    parser.add_argument("names", nargs="*", help=f"of {', '.join(CASES)}; by default block")
    for name in ("predicted", "verilog", "nodes"):
        parser.add_argument(f"--{name}", action="store_true")
    args = parser.parse_args()
    if unknown := sorted({*args.names} - CASES.keys()):
        parser.error(f"names must be of {', '.join(CASES)}, not {unknown[0]}")
    known = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    for case in args.names or ["block"]:
        found = measured(case, runs=not args.predicted, verilog=args.verilog, by_node=args.nodes)
        known[case] = {**known.get(case, {}), **found}
        print(case, json.dumps(found), file=sys.stderr)
        _write(known)


if __name__ == "__main__":
    main()
