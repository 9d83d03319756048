"""``python -m studies.grades``: whole models in both grades of functions, for docs/vector.md.

MiniLM and a block of SmolLM2 with their real weights and texts, and DeiT-Tiny with random ones,
are compiled for a machine of each grade and run on its interpreter; float32 is PyTorch's. Results
are kept in ``docs/grades.json`` as they come: what is there is not measured again, unless
``--again`` is given. It needs ``pip install '.[models,evidence]'``, what ``make encode`` installs,
and some minutes; PyTorch gets one thread.
"""

import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.tables import GRADES
from mxsafe.torch._compile import compile_exported, exported
from studies import language_machine, pages
from studies.compiled_models import MODELS as OF_PACKAGES
from studies.evidence import smollm2
from studies.prose import parser_of
from verif.data.minilm import make_slice

PAGE = pages.DOCS / "grades.json"
TOKENS, INPUTS = 128, 4
_TEXT = Path(__file__).parents[1] / "LICENSE"
_BLOCK = 64

Numbers = dict[str, Any]
Made = tuple[torch.nn.Module, list[tuple[torch.Tensor, ...]]]


def _text() -> str:
    return " ".join(_TEXT.read_text().split())


def _pieces(tokens: list[int]) -> list[tuple[torch.Tensor, ...]]:
    return [(torch.tensor([tokens[TOKENS * i :][:TOKENS]]),) for i in range(INPUTS)]


def _minilm() -> Made:
    import transformers

    package = make_slice.load_model()
    words = package.tensor("embeddings.word_embeddings.weight")
    made = transformers.BertModel(
        transformers.BertConfig(
            vocab_size=len(words),
            hidden_size=words.shape[1],
            num_hidden_layers=6,
            num_attention_heads=package.heads,
            intermediate_size=len(package.tensor("encoder.layer.0.intermediate.dense.bias")),
            layer_norm_eps=package.epsilon,
        ),
        add_pooling_layer=False,
    )
    made.load_state_dict(
        {name: torch.tensor(package.tensor(name)) for name, _ in made.named_parameters()},
        strict=False,  # of buffers the file has what the package makes
    )
    ids, _ = package.encode(_text())
    return made, [(tokens, torch.ones_like(tokens)) for (tokens,) in _pieces(ids)]


def _smollm2() -> Made:
    made = language_machine.model().model
    made.layers = made.layers[:1]
    return made, _pieces(smollm2.tokenizer().encode(_text()).ids)


def _deit() -> Made:
    _, make = OF_PACKAGES["DeiT-Tiny"]
    made, _ = make()
    return made, [(torch.randn(1, 3, 224, 224),) for _ in range(INPUTS)]


MODELS: dict[str, Callable[[], Made]] = {
    "all-MiniLM-L6-v2, texts of 128 tokens": _minilm,
    "the first block of SmolLM2-135M and its last norm, the same": _smollm2,
    "DeiT-Tiny with random weights, random images": _deit,
}
"""By what the page calls them, what makes model and inputs."""


def measure(name: str) -> Numbers:
    """Errors of a model's first outputs in each grade, and codes of them that differ."""
    torch.manual_seed(0)
    model, given = MODELS[name]()
    model.eval()
    with torch.inference_mode():
        single = _joined([model(*one) for one in given])
    program = exported(model, given[0])
    found: dict[str, NDArray[np.float32]] = {}
    for grade in GRADES:
        compiled = compile_exported(program, replace(MachineConfiguration(), grade=grade))
        found[grade] = _joined([compiled(*(each.numpy() for each in one)) for one in given])
    codes = {key: _codes(each) for key, each in {**found, "float32": single}.items()}
    return {
        "values": single.size,
        "error": {grade: _apart(each, single, single) for grade, each in found.items()},
        "grades": _apart(found["compact"], found["fine"], single),
        "codes": {
            "grades": int((codes["compact"] != codes["fine"]).sum()),
            **{grade: int((codes[grade] != codes["float32"]).sum()) for grade in GRADES},
        },
    }


def _joined(results: Sequence[Any]) -> NDArray[np.float32]:
    """First outputs for all inputs."""
    firsts = [one if isinstance(one, torch.Tensor | np.ndarray) else one[0] for one in results]
    return np.concatenate([np.asarray(one, np.float32) for one in firsts])


def _codes(values: NDArray[np.float32]) -> NDArray[np.uint8]:
    return mx.quantize(values, "mxsf", block=_BLOCK, axis=-1).codes


def _apart(one: NDArray[np.float32], other: NDArray[np.float32], of: NDArray[np.float32]) -> float:
    """Norm of a difference, of another norm."""
    return float(f"{np.linalg.norm(np.float64(one) - other) / np.linalg.norm(of):.4g}")


def main(argv: Sequence[str]) -> int:
    """Measure what is missing, and write the page."""
    parser = parser_of("grades", __doc__)
    parser.add_argument("--again", action="store_true", help="measure everything anew")
    arguments = parser.parse_args(argv)
    warnings.simplefilter("ignore")  # of the packages
    torch.set_num_threads(1)
    pages.complete(PAGE, MODELS, measure, again=arguments.again)
    pages.write("vector")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
