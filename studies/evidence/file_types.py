"""Direct casts of Magika: whether it still tells what files are.

The files are those of packages of fixed versions; what a file is its name says. The network is made
anew from the numbers of its ONNX file, and only its own judgement counts: the package that holds it
also has rules for some files.
"""

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import onnx
import torch
from onnx import numpy_helper

from studies.evidence.casting import cast
from studies.evidence.formats import Configuration
from studies.evidence.packages import folder_of, require_packages

PACKAGES = ("gensim", "magika", "matplotlib", "onnx", "scikit-image", "scikit-learn")
"""Whose files are taken; PyTorch's depend on what it was built for."""

SUFFIXES: Mapping[str, tuple[str, ...]] = {
    ".bz2": ("bzip",),
    ".c": ("c",),
    ".cc": ("cpp",),
    ".cpp": ("cpp",),
    ".css": ("css",),
    ".csv": ("csv",),
    ".gz": ("gzip",),
    ".h": ("c", "cpp"),
    ".html": ("html",),
    ".ini": ("ini",),
    ".jpg": ("jpeg",),
    ".js": ("javascript",),
    ".json": ("json",),
    ".md": ("markdown",),
    ".npy": ("npy",),
    ".npz": ("npz",),
    ".onnx": ("onnx",),
    ".pdf": ("pdf",),
    ".pkl": ("pickle",),
    ".png": ("png",),
    ".proto": ("proto",),
    ".py": ("python",),
    ".pyi": ("python",),
    ".rst": ("rst",),
    ".svg": ("svg",),
    ".tif": ("tiff",),
    ".tsv": ("tsv",),
    ".ttf": ("ttf",),
    ".xml": ("xml",),
}
"""Labels that count as right by the end of a file's name, in Magika's words."""

_MODEL = "models/standard_v3_3"
_ENDS, _WINDOW, _PADDING = 1024, 4096, 256
_LEAST = 16
_BATCH = 16


def require() -> None:
    """Refuse where model or files are missing."""
    require_packages(*PACKAGES)


class Magika(torch.nn.Module):
    """Bytes of both ends of files to logits of types.

    Parameters
    ----------
    words, width, places, channels, taps, types : int
        Values of a byte, their vector's length; positions that the first layer's results are
        regrouped to, results and taps of the convolution; and how many types there are.
    """

    def __init__(
        self, words: int, width: int, places: int, channels: int, taps: int, types: int
    ) -> None:
        super().__init__()
        self.places = places
        self.first = torch.nn.Linear(words, width)
        self.norm = torch.nn.LayerNorm(places, eps=1e-6)
        self.middle = torch.nn.Conv1d(2 * _ENDS * width // places, channels, taps)
        self.last_norm = torch.nn.LayerNorm(channels, eps=1e-6)
        self.last = torch.nn.Linear(channels, types)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits of shape (files, types) of bytes of shape (files, 2048), 256 where there is none.

        The first layer multiplies vectors of a one and many zeros, as the ONNX file has it.
        """
        inputs = torch.nn.functional.one_hot(tokens, self.first.in_features)
        x = self.first(inputs.to(self.first.weight.dtype))
        x = torch.nn.functional.gelu(x, approximate="tanh")
        x = x.reshape(len(tokens), self.places, -1).transpose(1, 2)
        x = torch.nn.functional.gelu(self.middle(self.norm(x)), approximate="tanh")
        return self.last(self.last_norm(x.amax(-1)))


_PREFIX = "jax2tf_get_logits_/"
_INNER = f"{_PREFIX}pjit_get_logits_/MagikaV2/"
_PLACES = {
    "first.weight": f"{_PREFIX}Const:0",
    "first.bias": f"{_INNER}Dense_0/Reshape:0",
    "norm.weight": f"{_INNER}LayerNorm_0/Reshape_2:0",
    "norm.bias": f"{_INNER}LayerNorm_0/Reshape_3:0",
    "middle.weight": f"{_INNER}Conv_0/transpose_3:0",
    "middle.bias": "const_fold_opt__209",
    "last_norm.weight": f"{_INNER}LayerNorm_1/Reshape_2:0",
    "last_norm.bias": f"{_INNER}LayerNorm_1/Reshape_3:0",
    "last.weight": f"{_PREFIX}Const_24:0",
    "last.bias": f"{_INNER}Dense_1/Reshape:0",
}
"""Names of parameters in the ONNX file."""


def load() -> Magika:
    """The network with its published numbers, for evaluation."""
    graph = onnx.load(folder_of("magika") / _MODEL / "model.onnx").graph
    found = {one.name: numpy_helper.to_array(one).copy() for one in graph.initializer}
    numbers = {name: torch.from_numpy(found[place]) for name, place in _PLACES.items()}
    for name in ("first.weight", "last.weight"):
        numbers[name] = numbers[name].T
    numbers["middle.weight"] = numbers["middle.weight"].squeeze(-1)
    for name in numbers:
        if numbers[name].ndim > 1 and 1 in numbers[name].shape:
            numbers[name] = numbers[name].flatten()
    words, width = found[_PLACES["first.weight"]].shape
    channels, _, taps, _ = found[_PLACES["middle.weight"]].shape
    places, types = numbers["norm.weight"].numel(), numbers["last.bias"].numel()
    model = Magika(words, width, places, channels, taps, types)
    model.load_state_dict(numbers)
    return model.eval()


_model = cache(load)


@cache
def _types() -> tuple[str, ...]:
    """Return the label of each logit."""
    described = json.loads((folder_of("magika") / _MODEL / "config.min.json").read_text())
    return tuple(described["target_labels_space"])


@cache
def sample(each: int) -> tuple[tuple[str, str, Path], ...]:
    """Package, suffix and path of up to so many files of each suffix.

    They are those whose names have the smallest hashes, so the choice does not look at contents.
    """
    found: dict[str, list[tuple[str, str, Path]]] = {suffix: [] for suffix in SUFFIXES}
    for package in PACKAGES:
        top = folder_of(package)
        for path in top.rglob("*"):
            if path.suffix in SUFFIXES and path.is_file() and path.stat().st_size >= _LEAST:
                name = f"{package}/{path.relative_to(top).as_posix()}"
                key = hashlib.sha256(name.encode()).hexdigest()
                found[path.suffix].append((key, package, path))
    return tuple(
        (package, suffix, path)
        for suffix, files in found.items()
        for _, package, path in sorted(files)[:each]
    )


def _tokens(path: Path) -> list[int]:
    """Both ends of a file as Magika sees them: without white space around, filled up inwards."""
    with path.open("rb") as file:
        start = file.read(_WINDOW).lstrip()[:_ENDS]
        file.seek(max(0, path.stat().st_size - _WINDOW))
        end = file.read(_WINDOW).rstrip()[-_ENDS:]
    filled = [_PADDING] * (_ENDS - len(start)), [_PADDING] * (_ENDS - len(end))
    return [*start, *filled[0], *filled[1], *end]


@cache
def _batches(each: int) -> tuple[torch.Tensor, ...]:
    tokens = torch.tensor([_tokens(path) for _, _, path in sample(each)])
    return tokens.split(_BATCH)


def _logits(each: int) -> torch.Tensor:
    return torch.cat([_model()(batch).float() for batch in _batches(each)])


_references = cache(_logits)


@torch.inference_mode()
def measure(*, format: str, block: str, files: int, folder: Path) -> dict[str, Any]:
    """Judge up to so many files of each suffix.

    Returns
    -------
    dict
        `columns`, `rows` and their `names`: counts by package and suffix; ``right`` of files whose
        type is that of the suffix, ``same`` of those that float32 takes for the same; ``noise``
        and ``signal`` are sums of squares of the logits' errors, and of float32's logits less
        their mean.
    """
    references = _references(files)
    with cast(_model(), Configuration(format, block)):
        logits = _logits(files)
    noise = (logits - references).double().square().sum(-1).tolist()
    signal = (references - references.mean(-1, keepdim=True)).double().square().sum(-1).tolist()
    judged, expected = logits.argmax(-1).tolist(), references.argmax(-1).tolist()
    counts: dict[str, list[float]] = {}
    for i, (package, suffix, _) in enumerate(sample(files)):
        row = counts.setdefault(f"{package} {suffix}", [0, 0, 0, 0.0, 0.0])
        row[0] += 1
        row[1] += _types()[judged[i]] in SUFFIXES[suffix]
        row[2] += judged[i] == expected[i]
        row[3] += noise[i]
        row[4] += signal[i]
    return {
        "unit": "suffix in a package",
        "names": list(counts),
        "columns": ["files", "right", "same", "noise", "signal"],
        "rows": [
            [*row[:3], *(float(f"{sum_:.6g}") for sum_ in row[3:])] for row in counts.values()
        ],
    }
