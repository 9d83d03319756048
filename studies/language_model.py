"""``python -m studies.language_model``: SmolLM2-135M held in formats, for docs/language_model.md.

Its weights are quantised and its activations too, in blocks of 32; perplexity on documents of the
Lee corpus, bytes of its file, and whether the file that is loaded again gives the same logits.
Results are kept in ``docs/language_model.json`` as they come: what is there is not measured again,
unless ``--again`` is given. It takes some minutes; PyTorch gets one thread.
"""

import copy
import math
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import mxsafe.torch as mxt
from studies import pages
from studies.evidence import language, smollm2
from studies.prose import parser_of

PAGE = pages.DOCS / "language_model.json"
FORMATS = ("float32", "mxsf", "mxfp8_e2m5", "mxfp8_e4m3", "mxint8", "mxfp4_e2m1")
BLOCK, DOCUMENTS, TOKENS = 32, 6, 512

Numbers = dict[str, Any]


def measure(format: str) -> Numbers:
    """Perplexity and bytes of the model in a format, and whether its file gives the same logits."""
    with torch.inference_mode():
        return _measured(format)


def _measured(format: str) -> Numbers:
    model = smollm2.load()
    texts = language.texts(DOCUMENTS, TOKENS)
    if format == "float32":
        return {"perplexity": _perplexity(model, texts), "bytes": mxt.nbytes(model)}
    fresh = copy.deepcopy(model)
    summary = mxt.quantize_(model, format, block=BLOCK)
    with mxt.microscaling(format, block=BLOCK):  # attention computes in it, too
        perplexity = _perplexity(model, texts)
        logits = model(texts[0])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        mxt.save_model(path, model)
        mxt.load_model(path, fresh)
        with mxt.microscaling(format, block=BLOCK):
            same = torch.equal(fresh(texts[0]), logits)
        size = path.stat().st_size
    return {
        "perplexity": perplexity,
        "bytes": summary.after,
        "file": size,
        "same": same,
        "quantised": len(summary.quantised),
        "left": len(summary.left),
    }


def _perplexity(model: torch.nn.Module, texts: Sequence[torch.Tensor]) -> float:
    loss, count = 0.0, 0
    for text in texts:
        expected = model(text)[0, :-1].log_softmax(-1)
        loss -= float(expected.gather(1, text[0, 1:, None]).double().sum())
        count += len(expected)
    return round(math.exp(loss / count), 3)


def main(argv: Sequence[str]) -> int:
    """Measure what is missing, and write the page."""
    parser = parser_of("language_model", __doc__)
    parser.add_argument("--again", action="store_true", help="measure everything anew")
    arguments = parser.parse_args(argv)
    language.require()
    torch.set_num_threads(1)
    pages.complete(PAGE, FORMATS, measure, again=arguments.again)
    pages.write("language_model")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
