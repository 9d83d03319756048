"""``python -m studies.vector_page``: how exact the vector units are, and how large.

Writes ``docs/vector.md`` and ``docs/vector.svg`` (which need matplotlib: the extra ``figures``),
from ``docs/synthesis.json``, from ``docs/function_errors.json``, and from what models make of
curves and of real numbers.
The references are float64: its errors are below 2^-50, ours above 2^-25.
"""

import contextlib
import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe.analysis import figures
from mxsafe.analysis.report import markdown
from mxsafe.atomic import write_together
from mxsafe.model import functions
from mxsafe.model.normalisation import layer_norm, rms_norm
from mxsafe.model.softmax import softmax
from mxsafe.synthesis.power import PERIOD
from studies.comparison_page import DOCS, find, usual_numbers
from studies.function_errors import record
from studies.prose import wrapped
from studies.synthesis_page import PAPER_VECTOR
from studies.vector_activity import ROW_BEATS
from verif.support.data import minilm

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "CURVES",
    "SYNTHESISED",
    "Curve",
    "Measured",
    "draw",
    "gate_rows",
    "lut_rows",
    "measured",
    "page",
    "proved_rows",
]

Floats = NDArray[np.float64]
_LANES = 16


def _erf(x: Floats) -> Floats:
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def _gelu(x: Floats) -> Floats:
    return np.where(x < 0, 0.5 * x * _erfc(-x / math.sqrt(2)), 0.5 * x * (1 + _erf(x / 2**0.5)))


def _erfc(x: Floats) -> Floats:
    return np.vectorize(math.erfc, otypes=[np.float64])(x)


def _sigmoid(x: Floats) -> Floats:
    return np.where(x < 0, np.exp(x) / (1 + np.exp(x)), 1 / (1 + np.exp(-np.abs(x))))


def _gelu_by_tanh(x: Floats) -> Floats:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _gelu_of_i_bert(x: Floats) -> Floats:
    """I-BERT's polynomial for erf (Kim et al. 2021, equation 8), without its integers."""
    at = np.minimum(np.abs(x) / math.sqrt(2), 1.769)
    erf = np.sign(x) * (-0.2888 * (at - 1.769) ** 2 + 1)
    return 0.5 * x * (1 + erf)


def _rsqrt_by_newton(x: Floats) -> Floats:
    """The well-known start from the bits of the number, and one step of Newton's method."""
    single = x.astype(np.float32)
    start = (np.int32(0x5F3759DF) - (single.view(np.int32) >> 1)).view(np.float32)
    y = start.astype(np.float64)
    return y * (1.5 - 0.5 * x * y * y)


def _exp_from_bits(x: Floats) -> Floats:
    """Schraudolph's exponential: the sum of an exponent and a mantissa that is linear."""
    words = np.floor((x / math.log(2) + 127 - 0.0579) * 2**23)
    return words.astype(np.int64).astype(np.int32).view(np.float32).astype(np.float64)


_PAGE = """\
# Vector units: activation, softmax, normalisation

`python -m studies.vector_page` wrote this page. Between two products a transformer has functions of
single numbers and of rows. They are units of binary32 numbers behind AXI4-Stream, sixteen a clock,
and results can go straight into the [converter](converter.md). Each unit equals a NumPy model of
integer arithmetic in every bit, and each model has a bound of its error over all inputs.

```python
{example}
```

prints

```text
{printed}
```

{modules}

## Bounds

{bounds}

The order of every sum is set by the index of its elements alone; stalls do not change a bit.
Bounds of rows are derived in the docstrings of the models and attacked by tests.

Bounds of functions of single numbers are proved by trying all arguments:

{proved}

All 2^32 arguments of each function have gone through its model, NaN and Inf included; errors are
those of the finite ones. Where the exact result is subnormal, a unit of the last place more is
allowed. The same sweep holds all results to what the first table says besides: `exp` never falls
from an argument to the next, `tanh` of opposite numbers is opposite, `tanh` and `sigmoid` stay
within their ranges, results of `gelu`, `silu`, `tanh` and `reciprocal` have the argument's sign,
`rsqrt` of each negative number is NaN, every NaN gives `0x7fc00000` (`relu` keeps its bits), and
zeros and infinities give what they have to. References hold to 2^-44, and are themselves held to
mpmath by tests.

`make prove` does it again, in {minutes:.0f} minutes of a core for all functions, on all cores, and
goes on where it was interrupted; `make test-full` ends with it.
`python -m studies.function_errors NAME` takes one function. A test fails when a table has changed
and its functions have not been proved again, and compares results at the arguments of this table.

![Errors of six functions over their input, beside the formulas of others](vector.svg)

The dashed line is the bound. Formulas of others are drawn in float64, without the roundings that
their hardware adds. SoftEx's largest error is the one that its authors give.

## On a real model

What enters these functions in the first layer of
[MiniLM](../verif/support/data/minilm/README.md), for a sentence of 28 tokens. *Largest error* is
relative to what the bound is relative to: the result, plus 2^-25, for `softmax`, the input for
`gelu` and `silu`, the largest result of a row for the norms. The last columns
quantise results to MXSF, blocks
of 64 along rows: the error of all results relative to float64, the same for the exact functions,
and how many codes are not those of the exact functions.

{measured}

Beside the error of quantisation that of the functions is small.

## Gates beside the paper

{gates}

Gate equivalents and times are those of the smallest netlist that runs at 500 MHz, or of the fastest
where none does, and of the fastest ([how](synthesis.md#how-to-read-the-tables)). They are without
memories, in whose place a macro stands; what a memory is connected to is timed and loaded like
inputs and outputs. The power is the energy of a clock times 500 MHz, and the energy in pJ is that
for each number. Both are of the first netlist, without memories
([what they include](comparison.md#what-the-energy-is)), and means over as many clocks as stand
there with the standard error of the mean: whole rows, after one that fills the unit, or four equal
parts where a unit has no rows. There is none where that netlist has not been simulated.

The paper's figures are those of its Table IV, estimated with Synopsys Design Compiler for 500 MHz.
Several things differ:

- The library. The paper's is a 65 nm one that it does not name; ours is NanGate 45 nm at 1.1 V.
- The units. The paper does not say how many numbers they take in a clock, of which format they are,
  which functions they have and how exact these are, and whether their memories are counted. Ours
  take sixteen binary32 numbers, or one where that is said.
{norms}
- The activity. The paper does not state it. Ours is that of the netlist with all its glitches, on
  the numbers of the section above, a beat on offer in every clock. Activations compute GELU of the
  rows before the GELU. Softmax gets rows of {row} attention scores, all heads of a token one after
  the other (of {row_beats} from {heads} heads, where rows stand side by side): each row passes it
  twice. Normalisation gets hidden states, which pass it two or three times, with the layer's gains
  and biases. `vector_arithmetic` computes a x + y, and `row_dot` dot products, of hidden states of
  two tokens each.

{luts}

FPGA tools make the same Verilog into look-up tables: on Xilinx 7 series without DSPs and with them,
on Lattice iCE40, and on ECP5 with the clock of the placed and routed unit.

## Streams

`clk` is the clock. `rst` is synchronous and active high. Bit positions are in
[`manifest.json`](../gen/manifest.json).

- **`vector_arithmetic`**: `s_axis_tuser` says the operation of each beat. The second operand
  comes on `s_axis_operand`, a number for each lane or one for the whole beat; a beat of it is
  taken only for a beat that needs it: an addend when its product is about to come. So the streams
  have to move by themselves: a source that advances both in the same clock only never gets an
  addend taken.
- **`softmax`**: a row is consecutive lanes of consecutive beats; in `softmax_beats` each lane has
  a row of its own, a value a beat. `s_axis_tuser` holds for all beats of a row `factor`, the
  scale times log2(e) as a binary32 number (`mxsafe.model.softmax_factor`); `length`, how many
  values count; and along beats `causal`, by which lane i has i values more. Anything else is
  masked by -Inf. The row enters a memory while its maximum is found, and then passes the lanes
  twice: for the sum, and for the results. So sixteen values pass a clock in each of two passes,
  while the next row enters.
- **`layer_norm`, `rms_norm`**: `epsilon` is a port that does not change. Gains and biases come on
  `s_axis_gain` and `s_axis_bias`, a beat of them for each beat of results. With `--statistics` mean
  and reciprocal deviation of each row leave on `m_axis_statistics`, a beat a row, and the next row
  waits until it is taken.
- **`softmax_backward`**: results p come on `s_axis` and gradients g on `s_axis_gradient`, beat for
  beat; `scale * p * (g - sum(p * g))` leaves. `scale` is a port that does not change. In
  `softmax_backward_beats` each lane has a row of its own.
- **`layer_norm_backward`, `rms_norm_backward`**: values come on `s_axis`, gradients on
  `s_axis_gradient`, gains on `s_axis_gain`, beat for beat, and what `m_axis_statistics` gave of the
  row on `s_axis_statistics`. The gradient of the values leaves. `share` is a port that does not
  change: one over the number of values. Gradients of gain and bias are sums over rows of
  `gradient * y` and of `gradient`, which `vector_arithmetic` adds up with a memory.
- In backward passes a row enters a memory while its sums are formed, and passes the lanes while the
  next one enters: sixteen values a clock in, and sixteen out. A row that is not as long as its
  beats is filled up with +0 in every stream.
- **`row_dot`**: sums of products over rows in binary32.
- **`row_replay`**: the memory that gives a row as often as a function needs it. A row that is
  longer than the memory is cut and flagged; the unit never hangs.

Memories are modules of their own ([`beat_memory`](../gen/parts/mxsafe_beat_memory.v)) with
registered outputs: FPGA tools infer block RAM, an ASIC flow puts a macro in their place.
"""

EXAMPLE = """
import numpy as np
from mxsafe import model

x = np.array([[1.0, 2.0, 3.0], [0.0, -np.inf, 4.0]], np.float32)
print(model.gelu(x[0]))
print(model.softmax(x, scale=0.5))
"""
_EXAMPLE_HERE = "(example)"
MODULES: Mapping[str, tuple[str, str]] = {
    "activation_stream": (
        "ReLU, GELU, SiLU or tanh of every number, chosen for each beat",
        "`relu`, `gelu`, `silu`, `tanh`",
    ),
    "every_function_stream": (
        "the same, sigmoid, exponential, reciprocal, reciprocal square root and derivatives",
        "`sigmoid`, `exp`, `reciprocal`, `rsqrt`, `gelu_derivative` and so on",
    ),
    "vector_arithmetic": (
        "sum, product or a * x + y of two streams, chosen for each beat",
        "`add`, `multiply`, `axpy`",
    ),
    "softmax": ("softmax of rows along the lanes", "`softmax`"),
    "softmax_beats": ("the same, a row in each lane", "`softmax`"),
    "normalise_gain_bias": ("layer normalisation of rows along the lanes", "`layer_norm`"),
    "normalise_beats_gain_bias": ("the same, a row in each lane", "`layer_norm`"),
    "normalise_no_centre_gain": ("RMS normalisation of rows along the lanes", "`rms_norm`"),
    "softmax_backward": ("backward pass of softmax, rows along the lanes", "`softmax_backward`"),
    "softmax_backward_beats": ("the same, a row in each lane", "`softmax_backward`"),
    "normalise_backward_gain": (
        "backward pass of layer normalisation, rows along the lanes",
        "`layer_norm_backward`",
    ),
    "normalise_backward_no_centre_gain": (
        "the same of RMS normalisation",
        "`rms_norm_backward`",
    ),
    "row_dot": ("sums of products over rows", "`row_dot`"),
    "row_replay": ("a memory that gives rows several times", "`replay_rows`"),
}
"""By module what it does, and the functions of `mxsafe.model` that it equals."""
BOUNDS: tuple[tuple[str, str, str], ...] = (
    ("function", "error at most", "special values"),
    (
        "`add`, `multiply`, `axpy`",
        "IEEE binary32, to nearest even after each operation",
        "IEEE; every NaN is `0x7fc00000`",
    ),
    (
        "`exp`, `reciprocal`, `rsqrt`",
        "2^-16 of the result; `exp` never decreases",
        "exp(0) is 1, exp(-Inf) +0, beyond the range Inf; reciprocal(0) is Inf of the same sign; "
        "rsqrt of a negative number is NaN",
    ),
    (
        "`sigmoid`, `tanh`",
        "2^-16 of the result; `tanh` is odd and at most 1",
        "their limits at Inf",
    ),
    (
        "`gelu` (by erf), `silu`",
        "2^-16 of the result for x >= 0, of the argument below",
        "gelu(-Inf) is -0",
    ),
    ("derivatives of `relu`, `gelu`, `silu`, `tanh`", "2^-14", "relu'(0) is 0"),
    (
        "`softmax`, up to 4,096 values",
        "2^-15 of each result, and 2^-40",
        "never above 1; one value unmasked: 1; masked or -Inf: +0; a row with nothing unmasked: "
        "all +0; NaN or +Inf: all NaN",
    ),
    (
        "`layer_norm`, `rms_norm`, up to 8,192 values",
        "2^-14 of the row's largest normalised value times the gain, if the mean is below 2^8 "
        "standard deviations",
        "a constant row gives the bias; NaN or Inf in a row: all NaN",
    ),
    (
        "`softmax_backward`, up to 4,096 values",
        "2^-16.8 of scale times p times the sum of abs(g) and of all abs(p * g)",
        "IEEE, operation by operation; every NaN is `0x7fc00000`",
    ),
    (
        "`layer_norm_backward`, `rms_norm_backward`, up to 8,192 values",
        "2^-15.8 of the sizes of its terms, with the mean and deviation that are given",
        "the same",
    ),
)
"""What models promise, head first."""


@dataclass(frozen=True)
class Curve:
    """A function of one number, and where its error is drawn.

    Attributes
    ----------
    function : callable
        The model.
    exact : callable
        In float64.
    low, high : float
        Ends of the range.
    of_input : bool
        Whether the error is relative to the input, not to the result.
    bound : float
        What the error must not exceed.
    others : Mapping
        Formulas of others by name.
    published : Mapping
        Largest errors that others have published, by name.
    """

    function: Callable[[Any], NDArray[np.float32]]
    exact: Callable[[Floats], Floats]
    low: float
    high: float
    of_input: bool = False
    bound: float = 2.0**-16
    others: Mapping[str, Callable[[Floats], Floats]] | None = None
    published: Mapping[str, float] | None = None

    def points(self, count: int = 1500) -> Floats:
        """Numbers at which it is drawn: those of binary32 that are nearest to equal steps."""
        return np.linspace(self.low, self.high, count).astype(np.float32).astype(np.float64)

    def errors(self, x: Floats, values: NDArray[Any]) -> Floats:
        """Errors of values at numbers."""
        exact = self.exact(x)
        return np.abs(values - exact) / np.abs(x if self.of_input else exact)

    def own(self, x: Floats) -> Floats:
        """Errors of the model."""
        return self.errors(x, self.function(x.astype(np.float32)))


CURVES: Mapping[str, Curve] = {
    "gelu": Curve(
        functions.gelu,
        _gelu,
        -6.01,
        6.01,
        of_input=True,
        others={
            "tanh formula": _gelu_by_tanh,
            "x sigmoid(1.702 x)": lambda x: x * _sigmoid(1.702 * x),
            "I-BERT": _gelu_of_i_bert,
        },
    ),
    "silu": Curve(functions.silu, lambda x: x * _sigmoid(x), -12.01, 12.01, of_input=True),
    "tanh": Curve(functions.tanh, np.tanh, -6.01, 6.01),
    "sigmoid": Curve(functions.sigmoid, _sigmoid, -20.01, 20.01),
    "exp": Curve(
        functions.exp,
        np.exp,
        -20.01,
        4.01,
        others={"from the bits (Schraudolph)": _exp_from_bits},
        published={"SoftEx, largest": 0.0071},
    ),
    "rsqrt": Curve(
        functions.rsqrt,
        lambda x: 1 / np.sqrt(x),
        0.25,
        4.0,
        others={"bits and one Newton step (FINN)": _rsqrt_by_newton},
    ),
}
"""What is drawn, by the name of the function."""


@dataclass(frozen=True)
class Measured:
    """A unit's results on real input, against those of the exact function.

    Attributes
    ----------
    name, inputs : str
    values : int
    largest : float
        The largest error, relative to what the contract relates it to.
    quantised, quantised_exact : float
        Relative error of all results in MXSF: the unit's, and the exact ones.
    codes : int
        MXSF codes that are not those of the exact results.
    """

    name: str
    inputs: str
    values: int
    largest: float
    quantised: float
    quantised_exact: float
    codes: int


def _measure(name: str, inputs: str, got: NDArray[Any], exact: Floats, unit: Floats) -> Measured:
    """Compare results with exact ones; `unit` is what an error is related to."""
    quantised, other = (
        mx.quantize(values.astype(np.float32), "mxsf", axis=-1) for values in (got, exact)
    )
    norm = np.linalg.norm(exact)
    return Measured(
        name=name,
        inputs=inputs,
        values=got.size,
        largest=float((np.abs(got - exact) / unit).max()),
        quantised=float(np.linalg.norm(mx.dequantize(quantised) - exact) / norm),
        quantised_exact=float(np.linalg.norm(mx.dequantize(other) - exact) / norm),
        codes=int((quantised.codes != other.codes).sum()),
    )


def measured() -> list[Measured]:
    """The units on what enters them in the first layer of MiniLM."""
    data = minilm.load_vectors()
    scores = data.scores.astype(np.float64) * np.float64(data.scale)
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = exponentials / exponentials.sum(axis=-1, keepdims=True)
    before = data.preactivations.astype(np.float64)
    hidden = data.hidden.astype(np.float64)
    gain, bias = (part.astype(np.float64) for part in (data.gain, data.bias))
    epsilon = float(data.epsilon)
    centred = hidden - hidden.mean(axis=-1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + epsilon)
    normal = centred / deviation * gain + bias
    root = np.sqrt((hidden**2).mean(axis=-1, keepdims=True) + epsilon)
    by_root = hidden / root * gain

    def largest(rows: Floats) -> Floats:
        return np.abs(rows).max(axis=-1, keepdims=True)

    return [
        _measure(
            "softmax",
            "attention scores, 12 heads",
            softmax(data.scores, scale=float(data.scale)),
            weights,
            weights + 2.0**-25,  # the bound is 2^-15 of the result, and 2^-40
        ),
        _measure(
            "gelu",
            "rows before the GELU",
            functions.gelu(data.preactivations),
            _gelu(before),
            np.abs(before),
        ),
        _measure(
            "silu",
            "the same rows",
            functions.silu(data.preactivations),
            before * _sigmoid(before),
            np.abs(before),
        ),
        _measure(
            "layer_norm",
            "hidden states before the normalisation",
            layer_norm(data.hidden, data.gain, data.bias, epsilon),
            normal,
            largest(normal),
        ),
        _measure(
            "rms_norm",
            "the same states",
            rms_norm(data.hidden, data.gain, epsilon),
            by_root,
            largest(by_root),
        ),
    ]


def _power(value: float) -> str:
    """A small number as a power of two, with a digit behind the point."""
    return "0" if value == 0 else f"2^{math.log2(value):.1f}"


def _measured_rows(found: Sequence[Measured]) -> list[tuple[str, ...]]:
    head = (
        "function",
        "real input",
        "values",
        "largest error",
        "in MXSF",
        "exact function in MXSF",
        "codes that differ",
    )
    rows = [
        (
            f"`{each.name}`",
            each.inputs,
            f"{each.values:,}",
            _power(each.largest),
            f"{each.quantised:.4%}",
            f"{each.quantised_exact:.4%}",
            f"{each.codes:,} (one in {each.values // max(each.codes, 1):,})",
        )
        for each in found
    ]
    return [head, *rows]


def draw(curves: Mapping[str, Curve] = CURVES) -> "Figure":
    """Errors over the input range, ours below those of others."""
    figure = figures.new_figure(11.0, 6.4)
    panels = figure.subplots(2, 3).ravel()
    colours = ("#d55e00", "#009e73", "#cc79a7")
    for axes, (name, curve) in zip(panels, curves.items(), strict=True):
        x = curve.points()
        for colour, (label, other) in zip(colours, (curve.others or {}).items(), strict=False):
            axes.plot(x, curve.errors(x, other(x)), color=colour, linewidth=1.1, label=label)
        for label, error in (curve.published or {}).items():
            axes.axhline(error, color="#8c510a", linewidth=1.1, linestyle=":", label=label)
        axes.axhline(curve.bound, color="#666666", linewidth=1.1, linestyle="--", label="bound")
        axes.plot(x, curve.own(x), color="#0072b2", linewidth=0.7, label="this project")
        axes.set_yscale("log")
        axes.set_ylim(1e-8, 30)
        axes.set_xlim(curve.low, curve.high)
        axes.set_title(name, fontsize=10)
        axes.set_ylabel(f"error / |{'x' if curve.of_input else 'result'}|", fontsize=8)
        axes.tick_params(labelsize=8)
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize=7, loc="upper right")
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    return figure


SYNTHESISED: Mapping[str, tuple[str, str]] = {
    "activation of four functions, 1 lane": ("ReLU, GELU, SiLU and tanh of a number", ""),
    "activation of four functions": ("the same of 16 numbers", "activation"),
    "softmax": ("rows along 16 lanes", "softmax"),
    "softmax_beats": ("16 rows side by side", "softmax"),
    "layer_norm, no gain, no bias": ("rows along 16 lanes", "normalisation"),
    "layer_norm": ("the same, times gains, plus biases", "normalisation"),
    "rms_norm, no gain": ("without a mean", "normalisation"),
    "rms_norm": ("the same, times gains", "normalisation"),
    "vector_arithmetic": ("sums, products, a x + y of 16 numbers", ""),
    "row_dot": ("dot products, 16 numbers a clock", ""),
    "row_replay": ("beside a memory of 16 numbers a beat", ""),
    "float32_multiplier, 2 stages": ("one product", ""),
}
"""Configurations of synthesis: what each does, and the unit of the paper beside it."""
_ON_FPGA = ("activation of four functions, 1 lane", "float32_multiplier, 2 stages")


def gate_rows(synthesis: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Gates, times and power beside the paper's, head first."""
    rows: list[tuple[str, ...]] = [
        (
            "unit",
            "what it does",
            "smallest at 500 MHz: GE",
            "ns",
            "fastest: GE",
            "ns",
            "the paper: GE",
            "mW",
            "the paper: mW",
            "pJ",
            "clocks, error",
        )
    ]
    for name, (what, published) in SYNTHESISED.items():
        result = find(synthesis, name)
        power, fastest = result.get("power"), result["numbers"]["timing"]
        cells = [
            cell
            for numbers in (usual_numbers(result), fastest)
            for cell in (f"{numbers['ge']:,.0f}", f"{numbers['delay_ns']:.2f}")
        ]
        area, milliwatts = PAPER_VECTOR.get(published, (0.0, 0.0))
        # A netlist that is slower was simulated with a longer period, at the same energy a clock.
        own = f"{power['clock']['total_pj'] / PERIOD:.2f}" if power else ""
        each = f"{power['result']['total_pj']:.2f}" if power else ""
        counted = (
            f"{power['clock']['clocks']}, {power['clock']['standard_error']:.1%}" if power else ""
        )
        rows.append(
            (
                f"`{name}`",
                what,
                *cells,
                f"{area:g}k" if published else "",
                own,
                f"{milliwatts:.2f}" if published else "",
                each,
                counted,
            )
        )
    return rows


def lut_rows(synthesis: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Look-up tables of what was synthesised for FPGAs, head first."""
    rows: list[tuple[str, ...]] = [
        (
            "unit",
            "Xilinx: LUTs",
            "FFs",
            "with DSPs: LUTs",
            "DSPs",
            "iCE40: LUT4s",
            "ECP5: LUT4s",
            "DSPs",
            "MHz",
        )
    ]
    for name in _ON_FPGA:
        xilinx, ice40, ecp5 = (
            find(synthesis, name, technology)["numbers"]
            for technology in ("xilinx", "ice40", "ecp5")
        )
        luts, dsps, placed = xilinx["luts"], xilinx["dsps"], ecp5["luts"]
        rows.append(
            (
                f"`{name}`",
                f"{luts['luts']:,}",
                f"{luts['ffs']:,}",
                f"{dsps['luts']:,}",
                f"{dsps['dsps']}",
                f"{ice40['luts']['luts']:,}",
                f"{placed['luts']:,}",
                f"{placed['dsps']}",
                f"{placed['fmax_mhz']:.0f}",
            )
        )
    return rows


def proved_rows(proved: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Largest errors over all arguments, head first."""
    rows: list[tuple[str, ...]] = [
        ("function", "bound", "relative to", "largest error, of the bound", "at", "which is")
    ]
    for name, each in proved.items():
        if each["bound"] == 0:
            rows.append((f"`{name}`", "exact", "", "0", "", ""))
            continue
        related = "1" if name.endswith("derivative") else "result"
        if name in ("gelu", "silu"):
            related = "result, or argument below 0"
        word = int(each["argument"], 16)
        value = np.array([word], np.uint32).view(np.float32)[0]
        rows.append(
            (
                f"`{name}`",
                f"2^{math.log2(each['bound']):.0f}",
                related,
                # What is just below 1 is not 1.
                f"{math.floor(each['error'] * 1e4) / 1e4:.4f}",
                f"`0x{word:08x}`",
                f"{value:.6g}",
            )
        )
    return rows


_LIMITS = {
    "of_row/mean": "from the mean through its subtraction to the significand of the difference",
    "s_axis_tuser": "from the largest exponent through a shifter to the value in its window",
    "largest": "from the largest exponent so far through a comparison with those of a beat",
    "of_row/reciprocal": "from the reciprocal deviation through the product of significands",
}
"""Between what a longest path of a norm runs, by a part of the name of the net it begins at."""


def norm_lanes(synthesis: Mapping[str, Any]) -> str:
    """How many lanes of each norm the paper's area would hold, and what limits it, as a list."""
    published = PAPER_VECTOR["normalisation"][0] * 1000
    shares, paths = [], []
    for name in (name for name, (_, unit) in SYNTHESISED.items() if unit == "normalisation"):
        numbers = usual_numbers(find(synthesis, name))
        lane = numbers["ge"] / _LANES
        shares.append(f"{lane:,.0f} GE for `{name}`, so {published / lane:.0f}")
        words = (words for net, words in _LIMITS.items() if net in numbers["start"])
        limit = next(words, f"from `{numbers['start']}` to `{numbers['end']}`")
        paths.append(f"of `{name}` {numbers['delay_ns']:.2f} ns, {limit}")
    return (
        "- The lanes. Of 16 lanes each costs, with its share of what they have in common: "
        f"{'; '.join(shares)} of them in the paper's area of {published / 1000:g}k. In a lane "
        "without a gain the product of two significands, a square or a result, is more than a "
        "third of all gates.\n"
        f"- The longest paths of the same netlists: {'; '.join(paths)}."
    )


def page(
    found: Sequence[Measured],
    synthesis: Mapping[str, Any],
    proved: Mapping[str, Mapping[str, Any]],
) -> str:
    """The page as Markdown.

    Parameters
    ----------
    found : sequence of Measured
    synthesis : Mapping
        What ``docs/synthesis.json`` holds.
    proved : Mapping
        What ``docs/function_errors.json`` holds.
    """
    tokens = minilm.load_vectors().scores.shape[1]
    modules = [("module", "what it does", "model")]
    for name, (what, model) in MODULES.items():
        modules.append((f"[`{name}`](../gen/{name}.v)", what, model))
    text = _PAGE.format(
        example=_EXAMPLE_HERE,
        printed=_printed(EXAMPLE),
        modules=markdown(modules),
        bounds=markdown(BOUNDS),
        proved=markdown(proved_rows(proved)),
        minutes=sum(each["seconds"] for each in proved.values()) / 60,
        measured=markdown(_measured_rows(found)),
        gates=markdown(gate_rows(synthesis), labels=2),
        norms=norm_lanes(synthesis),
        row=ROW_BEATS["lanes"] * _LANES,
        row_beats=ROW_BEATS["beats"],
        heads=ROW_BEATS["beats"] // tokens,
        luts=markdown(lut_rows(synthesis)),
    )
    # The example has an empty line, which would end a paragraph.
    return wrapped(text).replace(_EXAMPLE_HERE, EXAMPLE.strip())


def _printed(example: str) -> str:
    """What an example prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(example, "example", "exec"), {})
    return out.getvalue().strip()


def main() -> None:
    """Write the page and its picture."""
    picture = figures.render(draw(), ".svg")
    synthesis = json.loads((DOCS / "synthesis.json").read_text())
    text = page(measured(), synthesis, record.published())
    write_together(DOCS, {"vector.md": text.encode(), "vector.svg": picture})


if __name__ == "__main__":
    main()
