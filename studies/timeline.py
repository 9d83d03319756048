"""``python -m studies.timeline``: a picture of one block of MiniLM on the four queues.

Writes ``docs/timeline.svg`` from what `mxsafe.machine.trace` has of the program; the line below it
says what the array waits for. The block is that of `studies.benchmarks.interpreter`. Other programs
are drawn by `drawn`, too, with kinds of their own.
"""

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mxsafe.atomic import write_atomically
from mxsafe.machine.compiled import Compiled, compile_graph
from mxsafe.machine.compiler.timing import Prediction, predict
from mxsafe.machine.description import QUEUES
from mxsafe.machine.trace import Traced, timeline
from studies.benchmarks.interpreter import encoder
from studies.pages import DOCS

PICTURE = DOCS / "timeline.svg"
_WIDTH, _LEFT, _TOP = 960, 84, 40
_ROW, _GAP = 34, 12
_BINS = 120
_WORDS = {"fetch": "descriptors", "engine": "its own pipeline", "tiles": "sums of short tiles"}
"""What the array waits for besides other queues."""


@dataclass(frozen=True)
class Kinds:
    """What work is for.

    Attributes
    ----------
    colours : Mapping of str to str
        By kind, in the order of the legend.
    of : callable
        The kind of a descriptor's label.
    """

    colours: Mapping[str, str]
    of: Callable[[str], str]


@dataclass(frozen=True)
class Bar:
    """Something that a queue does, from and to a cycle."""

    queue: int
    start: float
    stop: float
    kind: str


_BLOCK = {
    "query, key, value": ("#0072b2", ("query", "key", "value")),
    "attention": ("#d55e00", ("scores", "softmax", "mixed", "attention")),
    "hidden layer": ("#009e73", ("up", "gelu", "down")),
    "norms": ("#cc79a7", ("norm", "attention_norm")),
    "other": ("#999999", ()),
}
"""Colours of what descriptors are for, and names of the block's operations."""


def of_block(label: str) -> str:
    """Kind of a label of a block: that of the first operation with a name."""
    kinds = {name: kind for kind, (_, names) in _BLOCK.items() for name in names}
    names = [name.rpartition(".")[2] for name in label.split(", ")]
    return next((kinds[name] for name in names if name in kinds), "other")


BLOCK = Kinds({kind: colour for kind, (colour, _) in _BLOCK.items()}, of_block)
"""Kinds of the block."""


def bars(
    events: Iterable[Mapping[str, Any]], least: float, kind_of: Callable[[str], str]
) -> list[Bar]:
    """Work of the queues; gaps of fewer cycles than `least` are closed."""
    found: list[Bar] = []
    last: dict[int, Bar] = {}
    for event in events:
        if event["ph"] != "X" or event["cat"] == "wait":
            continue
        one = Bar(event["tid"], event["ts"], event["ts"] + event["dur"], kind_of(event["name"]))
        before = last.get(one.queue)
        if before and before.kind == one.kind and one.start - before.stop < least:
            one = Bar(one.queue, before.start, one.stop, one.kind)
            found.remove(before)
        found.append(one)
        last[one.queue] = one
    return found


def shares(predicted: Prediction, bins: int) -> list[float]:
    """Share of each part of the time in which the array works on products."""
    size = predicted.cycles / bins
    found = [0.0] * bins
    for run in predicted.runs:
        if run.queue != "gemm":
            continue
        for at in range(int(run.start / size), min(int(run.stop / size), bins - 1) + 1):
            inside = min(run.stop, (at + 1) * size) - max(run.start, at * size)
            found[at] += max(inside, 0) / size
    return found


def stalls(predicted: Prediction) -> tuple[str, str]:
    """How busy the array is, and why it waits: two lines."""
    cycles, idle = predicted.cycles, predicted.idle()
    after = idle.pop("end")
    waits = {_WORDS.get(name, name.upper()): spent for name, spent in idle.items()}
    listed = ", ".join(
        f"{spent / cycles:.1%} for {name}"
        for name, spent in sorted(waits.items(), key=lambda item: -item[1])
        if spent
    )
    return (
        f"{cycles:,} cycles. The array has a beat in {predicted.array_busy / cycles:.1%}; "
        f"{after / cycles:.1%} are after its last product.",
        f"It waits in {listed}.",
    )


def drawn(compiled: Compiled, kinds: Kinds) -> str:
    """The picture of a program."""
    [part] = compiled.parts
    predicted = predict(part.program)
    events = timeline([Traced(part.program, part.labels)])["traceEvents"]
    scale = (_WIDTH - _LEFT - 16) / predicted.cycles
    lines: list[str] = []
    bottom = _TOP + len(QUEUES) * (_ROW + _GAP)
    for at, name in enumerate(QUEUES):
        y = _TOP + at * (_ROW + _GAP)
        lines.append(_text(12, y + _ROW / 2 + 4, name.upper()))
        lines.append(_box(_LEFT, y, predicted.cycles * scale, _ROW, "#f2f2f2"))
    for bar in bars(events, 0.75 / scale, kinds.of):
        y = _TOP + bar.queue * (_ROW + _GAP)
        width = max((bar.stop - bar.start) * scale, 0.3)
        lines.append(_box(_LEFT + bar.start * scale, y, width, _ROW, kinds.colours[bar.kind]))
    lines.append(_text(12, bottom + _ROW / 2 + 4, "GEMM, %"))
    step = predicted.cycles * scale / _BINS
    lines.append(_box(_LEFT, bottom, predicted.cycles * scale, _ROW, "#f2f2f2"))
    for at, share in enumerate(shares(predicted, _BINS)):
        height = share * _ROW
        lines.append(_box(_LEFT + at * step, bottom + _ROW - height, step, height, "#444444"))
    base = bottom + _ROW
    lines += _axis(predicted.cycles, scale, base)
    lines += [_text(_LEFT, base + 42 + 18 * at, each) for at, each in enumerate(stalls(predicted))]
    lines += _legend(kinds, {bar.kind for bar in bars(events, 0, kinds.of)})
    height = base + 72
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'font-family="Helvetica, Arial, sans-serif" font-size="12">\n'
        f'<rect x="0" y="0" width="{_WIDTH}" height="{height}" fill="#ffffff"/>\n'
        + "".join(f"{line}\n" for line in lines)
        + "</svg>\n"
    )


def _axis(cycles: int, scale: float, base: float) -> list[str]:
    step = 10 ** (len(str(cycles)) - 1)
    step = step if cycles // step > 3 else step // 2
    lines = []
    for at in range(0, cycles + 1, step):
        x = _LEFT + at * scale
        lines.append(f'<path d="M{x:.1f} {base}v5" stroke="#444444"/>')
        lines.append(_text(x, base + 20, f"{at:,}", anchor="middle"))
    return lines


def _legend(kinds: Kinds, seen: Container[str]) -> list[str]:
    lines, x = [], _LEFT
    for kind, colour in kinds.colours.items():
        if kind in seen:
            lines += [_box(x, 12, 12, 12, colour), _text(x + 18, 22, kind)]
            x += 40 + 7 * len(kind)
    return lines


def _box(x: float, y: float, width: float, height: float, colour: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.2f}" height="{height:.1f}" fill="{colour}"/>'
    )


def _text(x: float, y: float, words: str, *, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>'


def block() -> Compiled:
    """The block of the picture."""
    graph, _ = encoder(blocks=1)
    return compile_graph(graph)


def main() -> None:
    """Draw the picture."""
    compiled = block()
    write_atomically(PICTURE, drawn(compiled, BLOCK))
    print(*stalls(predict(compiled.parts[0].program)))


if __name__ == "__main__":
    main()
