"""Errors and sizes of the vector units.

From ``docs/synthesis.json``, ``docs/function_errors.json``, and what models make of curves and of
real numbers. The references are float64: its errors are below 2^-50, ours above 2^-25.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe.analysis import figures
from mxsafe.model import functions
from mxsafe.model.normalisation import layer_norm, rms_norm
from mxsafe.model.softmax import softmax
from mxsafe.synthesis.power import PERIOD
from mxsafe.tables import Grade
from studies.drawing import plain
from studies.function_errors import record
from studies.pages import kept
from studies.synthesised import PAPER_VECTOR, Synthesis, find, load, usual_numbers
from studies.tables.activation import PROMISED
from studies.vector_activity import ROW_BEATS
from verif.data import minilm

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
    others : Mapping
        Formulas of others by name.
    published : Mapping
        Largest errors that others have published, by name.
    """

    function: Callable[..., NDArray[np.float32]]
    exact: Callable[[Floats], Floats]
    low: float
    high: float
    of_input: bool = False
    others: Mapping[str, Callable[[Floats], Floats]] | None = None
    published: Mapping[str, float] | None = None

    def points(self, count: int = 1500) -> Floats:
        """Numbers at which it is drawn: those of binary32 that are nearest to equal steps."""
        return np.linspace(self.low, self.high, count).astype(np.float32).astype(np.float64)

    def errors(self, x: Floats, values: NDArray[Any]) -> Floats:
        """Errors of values at numbers."""
        exact = self.exact(x)
        return np.abs(values - exact) / np.abs(x if self.of_input else exact)

    def own(self, x: Floats, grade: Grade) -> Floats:
        """Errors of the model."""
        return self.errors(x, self.function(x.astype(np.float32), grade))


_COLOURS: Mapping[Grade, str] = {"compact": "#0072b2", "fine": "#56b4e9"}
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
"""Curves to draw, by the name of the function."""


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
            weights + 2.0**-31,  # the bound is 2^-9 of the result, and 2^-40
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
        for grade, bound in PROMISED.items():
            colour = _COLOURS[grade]
            axes.axhline(bound, color=colour, linewidth=1.1, linestyle="--")
            axes.plot(x, curve.own(x, grade), color=colour, linewidth=0.7, label=f"ours, {grade}")
        axes.set_yscale("log")
        axes.set_ylim(1e-8, 30)
        axes.set_xlim(curve.low, curve.high)
        axes.set_title(name, fontsize=10)
        axes.set_ylabel(f"error / |{'x' if curve.of_input else 'result'}|", fontsize=8)
        axes.tick_params(labelsize=8)
        plain(axes, "line")
        axes.legend(frameon=False, fontsize=7, loc="upper right")
    return figure


_NORMS = ("layer_norm, no gain, no bias", "layer_norm", "rms_norm, no gain", "rms_norm")
_ON_FPGA = ("activation of four functions, 1 lane", "float32_multiplier, 2 stages")
_LIMITS = {
    "of_row/mean": "from the mean through its subtraction to the significand of the difference",
    "s_axis_tuser": "from the largest exponent through a shifter to the value in its window",
    "s_axis_tdata": "from the numbers of a beat through a comparison of their exponents",
    "largest": "from the largest exponent so far through a comparison with those of a beat",
    "of_row/reciprocal": "from the reciprocal deviation through the product of significands",
    "replay_memory": "from the memory of rows to the significand of a value",
    "affine": "within the product with the gain, or the sum with the bias",
    "lane_": "within a lane, through the product of significands",
    "norm.of_row": "within the steps that find the reciprocal deviation",
}
"""Between what a longest path of a norm runs, by a part of the name of the net it begins at."""


def norms(synthesis: Synthesis) -> list[dict[str, Any]]:
    """Gates of a lane of each norm, and its longest path."""
    table = []
    for name in _NORMS:
        numbers = usual_numbers(find(synthesis, name))
        words = (words for net, words in _LIMITS.items() if net in numbers["start"])
        limit = next(words, f"from `{numbers['start']}` to `{numbers['end']}`")
        lane = numbers["ge"] / _LANES
        table.append({"name": name, "lane": lane, "ns": numbers["delay_ns"], "limit": limit})
    return table


def _with_argument(each: Mapping[str, Any]) -> dict[str, Any]:
    word = np.array([int(each["argument"], 16)], np.uint32)
    return {**each, "value": word.view(np.float32)[0]}


def values() -> dict[str, Any]:
    """Return the values of the page's template."""
    synthesis = load()
    return {
        "proved": {name: _with_argument(each) for name, each in record.published().items()},
        "measured": measured(),
        "grades": kept("grades"),
        "find": lambda name: find(synthesis, name),
        "numbers": lambda name, technology: find(synthesis, name, technology)["numbers"],
        "default": usual_numbers,
        "published": PAPER_VECTOR,
        # A netlist that is slower was simulated with a longer period, at the same energy a cycle.
        "period": PERIOD,
        "norms": norms(synthesis),
        "norm_ge": PAPER_VECTOR["normalisation"][0] * 1000,
        "on_fpga": _ON_FPGA,
        "row": ROW_BEATS["lanes"] * _LANES,
        "row_beats": ROW_BEATS["beats"],
        "heads": ROW_BEATS["beats"] // minilm.load_vectors().scores.shape[1],
    }


def pictures() -> dict[str, bytes]:
    """The picture of errors over the input."""
    return {"vector.svg": figures.render(draw(), ".svg")}
