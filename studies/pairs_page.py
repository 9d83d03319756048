"""``python -m studies.pairs_page``: formats of both operands side by side.

Writes ``docs/pairs.md`` and ``docs/pairs.svg`` (which need matplotlib: the extra ``figures``) from
``docs/synthesis.json`` and the products of real layers.
"""

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe.analysis import figures
from mxsafe.analysis.report import markdown
from mxsafe.atomic import write_together
from mxsafe.formats import E8M0, FORMAT_SETS, MX_FORMATS, MXFormat
from mxsafe.synthesis.cases import PAIR_UNIT, SET_UNIT
from studies.pages import DOCS
from studies.prose import wrapped
from studies.synthesised import Synthesis, usual_numbers
from studies.training_pass import training_layer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["BLOCK", "Pair", "draw", "front", "page", "pairs", "product_errors"]

BLOCK = 32
SINGLE_UNIT = "pu_exact, 1 accumulator"
ARRAYS = ("sta_exact 4x4x4x4", "sta_exact 4x4x4x4, formats at run time")
FORMATS = tuple(MX_FORMATS)

_PAGE = """\
# Operands of two formats

`python -m studies.pairs_page` wrote this page. The numbers of gates are those of
[synthesis.md](synthesis.md), in gate equivalents for each MAC of a sub-matrix unit of 4x4 MACs with
one accumulator, the smallest netlist that runs at 500 MHz.

An exact array decodes the elements once, at its edge. So `a` and `w` may have different formats:
`mxsafe verilog sta_exact --format mxsf --format-w mxfp4_e2m1`. Every pair works whose sums have at
most 80 bits; for blocks of 64 that is every pair of the eight formats. In arithmetic `fp12` every
pair of floating-point formats works. Block lengths must be equal in k.

The array takes k in order, and the two scales of a block are added. The narrower significand is the
one that is cut into digits, because each digit is a row to be added in every multiplier.

## What to choose

Each row has a pair: activations in the first format, weights in the second. *bits* are those of one
element of both operands with their shares of the scales, in blocks of {block}. *layer* is the
relative error of a [MiniLM layer](../verif/support/data/minilm/README.md) (activations times
weights), *weight gradient* that of the product of the transposed activations in the first format
and the gradient of the layer's output in the second.

{measured}

Pairs that no other measured pair beats in both gates and error of the layer: {front}.

![Error of a layer against the bits of both operands, and against gates](pairs.svg)

The left side has all pairs, the right side those that were synthesised. Lines connect what is best
for its bits or gates.

## Every pair on the layer

Relative error; activations by row, weights by column:

{layer}

The errors of both operands are independent, so their squares add. Weights of 4 bits dominate
whatever the activations are: MXFP4 weights give {w4_mxsf:.2%} with activations in MXSF,
{w4_e2m3:.2%} with E2M3 of 6 bits, and {w4_w4:.2%} with MXFP4 activations. The other way round,
activations of 4 bits and weights in MXSF, it is {a4_mxsf:.2%}. So with 4-bit weights the step from
8-bit to 6-bit activations costs little, and the step to 4 bits costs much.

## Every pair on the weight gradient

Relative error; activations by row, the gradient of the output by column:

{gradient}

## Formats chosen at run time

`mxsafe verilog sta_exact --format multi` writes an array whose operands each have one of
{members}.
A mode beside each beat says which (`tuser.format`; the
[streams](array.md#formats-chosen-at-run-time)). All of these fit into the operand of MXSF once
their elements are taken relative to the largest power of two of their format. So multipliers and
sums stay those of MXSF. What is added are decoders at the edge that know more layouts, and an adder
for the exponents at each accumulator.

{set_rows}

The longest path of the fastest netlists runs through the sums of a block, which are the same
hardware in both: the difference in time there is what the tools make of it.

E4M3 is not among them. Its elements reach over 18 binary places instead of 12. The pair of MXSF
with E4M3 above shows what a wider operand on one side costs in every MAC.

Codes of E2M1 lie two in a place, so such an operand takes half the beats of its stream: with 4-bit
weights and 8-bit activations in an array of 16x16, {dense} bytes a clock instead of {wide}. Codes
of 6 bits take a place each: packing them would need a shifter and registers for parts of beats.
"""


def bits(fmt: MXFormat) -> float:
    """Bits of an element with its share of the scale."""
    return fmt.width + E8M0.width / BLOCK


def _relative(product: NDArray[np.float32], reference: NDArray[np.float64]) -> float:
    return float(np.linalg.norm(product - reference) / np.linalg.norm(reference))


def product_errors(a: NDArray[np.float32], w: NDArray[np.float32]) -> dict[tuple[str, str], float]:
    """Relative error, in the Frobenius norm, of ``a @ w`` in every pair of formats."""
    reference = a.astype(np.float64) @ w.astype(np.float64)
    operands_a = {name: mx.quantize(a, name, block=BLOCK, axis=-1) for name in FORMATS}
    operands_w = {name: mx.quantize(w, name, block=BLOCK, axis=-2) for name in FORMATS}
    return {
        (first, second): _relative(
            mx.matmul(operands_a[first], operands_w[second], arithmetic="exact"), reference
        )
        for first, second in itertools.product(FORMATS, repeat=2)
    }


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Formats of both operands.

    Attributes
    ----------
    a, w : str
        Names of the formats.
    layer, gradient : float
        Relative errors of the layer's product, and of its weights' gradient.
    unit : Mapping, optional
        Result of the sub-matrix unit on NanGate 45 nm, if it was synthesised.
    """

    a: str
    w: str
    layer: float
    gradient: float
    unit: Mapping[str, Any] | None

    @property
    def bits(self) -> float:
        """Bits of an element of both operands, with their shares of the scales."""
        return bits(MX_FORMATS[self.a]) + bits(MX_FORMATS[self.w])

    @property
    def ge(self) -> float | None:
        """Gate equivalents of a MAC."""
        return None if self.unit is None else usual_numbers(self.unit)["ge"] / self.unit["macs"]


def pairs(synthesis: Synthesis) -> list[Pair]:
    """Every pair of formats, with the synthesised unit of those that have one."""
    units = {
        result["format"]: result
        for result in synthesis["results"]
        if result["configuration"] in (PAIR_UNIT, SINGLE_UNIT)
    }
    x, w, dy = training_layer("exact")
    layer, gradient = product_errors(x, w), product_errors(np.ascontiguousarray(x.T), dy)
    return [
        Pair(
            a=first,
            w=second,
            layer=layer[first, second],
            gradient=gradient[first, second],
            unit=units.get(first if first == second else f"{first} x {second}"),
        )
        for first, second in layer
    ]


def front(found: Sequence[Pair], cost: str) -> list[Pair]:
    """Pairs that no other beats in both cost (``bits`` or ``ge``) and error, the cheapest first."""
    best: list[Pair] = []
    for pair in sorted(found, key=lambda pair: (getattr(pair, cost), pair.layer)):
        if not best or pair.layer < best[-1].layer:
            best.append(pair)
    return best


def _label(pair: Pair) -> str:
    return pair.a if pair.a == pair.w else f"{pair.a} x {pair.w}"


def _measured_rows(found: Sequence[Pair]) -> list[tuple[str, ...]]:
    table: list[tuple[str, ...]] = [
        ("", "bits", "GE per MAC", "ns", "pJ per MAC", "layer", "weight gradient"),
    ]
    synthesised = [pair for pair in found if pair.unit is not None]
    for pair in sorted(synthesised, key=lambda pair: pair.ge or 0.0):
        assert pair.unit is not None
        power = pair.unit.get("power")
        table.append(
            (
                _label(pair),
                f"{pair.bits:.2f}",
                f"{pair.ge:,.0f}",
                f"{usual_numbers(pair.unit)['delay_ns']:.2f}",
                f"{power['mac_pj']:.2f}" if power else "",
                f"{pair.layer:.2%}",
                f"{pair.gradient:.2%}",
            )
        )
    return table


def _matrix(found: Sequence[Pair], error: str) -> list[tuple[str, ...]]:
    by_pair = {(pair.a, pair.w): getattr(pair, error) for pair in found}
    head: tuple[str, ...] = ("", *FORMATS)
    return [head, *((a, *(f"{by_pair[a, w]:.2%}" for w in FORMATS)) for a in FORMATS)]


def _set_rows(synthesis: Synthesis) -> list[tuple[str, ...]]:
    """Units and arrays for one format and for several."""
    found = {
        (result["configuration"], result["format"]): result
        for result in synthesis["results"]
        if result["technology"] == "nangate45"
    }
    table: list[tuple[str, ...]] = [("", "area: GE", "more", "ns", "timing: GE", "more", "ns")]
    for single, several in (
        ((SINGLE_UNIT, "mxsf"), (SET_UNIT, "multi")),
        ((ARRAYS[0], "mxsf"), (ARRAYS[1], "multi")),
    ):
        base = found[single]["numbers"]
        for key in (single, several):
            numbers = found[key]["numbers"]
            cells = [f"{key[0]}, {key[1]}"]
            for variant in ("area", "timing"):
                more = numbers[variant]["ge"] / base[variant]["ge"] - 1
                cells += [
                    f"{numbers[variant]['ge']:,.0f}",
                    f"{more:+.1%}" if key == several else "",
                    f"{numbers[variant]['delay_ns']:.2f}",
                ]
            table.append(tuple(cells))
    return table


def page(synthesis: Synthesis, found: Sequence[Pair]) -> str:
    """The page as Markdown."""
    members = FORMAT_SETS["multi"].members
    best = front([pair for pair in found if pair.ge is not None], "ge")
    by_pair = {(pair.a, pair.w): pair.layer for pair in found}
    wide = 2 * (16 * 4 * 8 + 16 * 8) // 8
    text = _PAGE.format(
        block=BLOCK,
        measured=markdown(_measured_rows(found)),
        front=", ".join(f"`{_label(pair)}`" for pair in best),
        layer=markdown(_matrix(found, "layer")),
        w4_mxsf=by_pair["mxsf", "mxfp4_e2m1"],
        w4_e2m3=by_pair["mxfp6_e2m3", "mxfp4_e2m1"],
        w4_w4=by_pair["mxfp4_e2m1", "mxfp4_e2m1"],
        a4_mxsf=by_pair["mxfp4_e2m1", "mxsf"],
        gradient=markdown(_matrix(found, "gradient")),
        members=", ".join(f"`{fmt.name}`" for fmt in members),
        set_rows=markdown(_set_rows(synthesis)),
        wide=wide,
        dense=wide * 3 // 4,
    )
    return wrapped(text)


_LETTER, _LINE = 6.2, 11.0
"""Pixels of a letter and a line of a label, about."""


def _label_points(axes: Any, shown: Sequence[Pair], cost: str) -> None:
    """Write names beside points, each where no other name and no point is yet."""
    at = {id(pair): axes.transData.transform((getattr(pair, cost), pair.layer)) for pair in shown}
    taken = [(x - 5, y - 5, x + 5, y + 5) for x, y in at.values()]
    for pair in sorted(shown, key=lambda pair: (pair.layer, getattr(pair, cost))):
        text = _label(pair).replace("mxfp8_", "").replace("mxfp6_", "").replace("mxfp4_", "")
        x, y = at[id(pair)]
        width = _LETTER * len(text)
        places = [(dx, dy) for dy in (4, -15, 16, -27, 28, -39, 40) for dx in (8, -8 - width)]
        boxes = [(x + dx, y + dy, x + dx + width, y + dy + _LINE) for dx, dy in places]
        free = [not any(_overlap(box, other) for other in taken) for box in boxes]
        chosen = free.index(True) if any(free) else 0
        taken.append(boxes[chosen])
        axes.annotate(
            text,
            (getattr(pair, cost), pair.layer),
            (places[chosen][0] * 0.72, places[chosen][1] * 0.72),  # points of 72 in 100 pixels
            textcoords="offset points",
            fontsize=7.5,
        )


def _overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def draw(found: Sequence[Pair]) -> "Figure":
    """Error of the layer against bits, and against gates."""
    figure = figures.new_figure(11.0, 5.2)
    panels = figure.subplots(1, 2, sharey=True)
    costs = (
        ("bits", "bits of an element of both operands", found),
        (
            "ge",
            "gate equivalents for each MAC, in a sub-matrix unit of 4x4 MACs",
            [pair for pair in found if pair.ge is not None],
        ),
    )
    for axes, (cost, label, shown) in zip(panels, costs, strict=True):
        best = front(shown, cost)
        axes.plot(
            [getattr(pair, cost) for pair in best],
            [pair.layer for pair in best],
            color="#999999",
            linewidth=1.4,
            linestyle=(0, (4, 2)),
            drawstyle="steps-post",
            zorder=2,
        )
        for same, marker, colour in ((True, "o", "#0072b2"), (False, "D", "#d55e00")):
            own = [pair for pair in shown if (pair.a == pair.w) == same]
            axes.plot(
                [getattr(pair, cost) for pair in own],
                [pair.layer for pair in own],
                linestyle="",
                marker=marker,
                color=colour,
                markersize=6,
                label="one format" if same else "two formats",
                zorder=3,
            )
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
        axes.yaxis.set_minor_formatter(lambda value, _: "")
        axes.set_xlabel(label)
        low, high = (extreme(getattr(pair, cost) for pair in shown) for extreme in (min, max))
        axes.set_xlim(low - 0.12 * (high - low), high + 0.16 * (high - low))
        axes.grid(alpha=0.3, which="both")
        axes.set_axisbelow(True)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        axes.set_ylim(0.8 * min(pair.layer for pair in found), 0.2)
        _label_points(axes, shown if cost == "ge" else best, cost)
    panels[0].set_ylabel("relative error of a layer's product")
    panels[0].legend(frameon=False)
    return figure


def main() -> None:
    """Write the page and its picture."""
    synthesis = json.loads((DOCS / "synthesis.json").read_bytes())
    found = pairs(synthesis)
    picture = figures.render(draw(found), ".svg")
    write_together(DOCS, {"pairs.md": page(synthesis, found).encode(), "pairs.svg": picture})


if __name__ == "__main__":
    main()
