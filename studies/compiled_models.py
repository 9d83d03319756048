"""``python -m studies.compiled_models``: models of packages as programs, for their page.

Each is made by its package with random weights, in its own shape with fewer blocks, exported,
compiled and run on the interpreter. Outputs are compared with the evaluator, bit for bit, and with
PyTorch in binary64 and binary32. Results are kept in ``docs/compiled_models.json`` as they come:
what is there is not measured again, unless ``--again`` is given. It takes some minutes, and needs
``pip install '.[models]'``.
"""

import re
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
import torch

from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.torch._compile import compile_exported, exported
from mxsafe.torch._evaluator import evaluated
from studies import pages
from studies.prose import parser_of

PAGE = pages.DOCS / "compiled_models.json"
MACHINE = MachineConfiguration()
_WORDS = 1000

Numbers = dict[str, Any]
Made = tuple[torch.nn.Module, Sequence[Any] | Mapping[str, Any]]


def _transformers(kind: str, sizes: Numbers, inputs: Any) -> Made:
    import transformers

    config = re.sub("(Model|EncoderModel|ForCausalLM)$", "", kind) + "Config"
    more = {"vocab_size": _WORDS, "use_cache": False} if "vocab" not in sizes else {}
    made = getattr(transformers, config)(**more, **sizes)
    return getattr(transformers, kind)(made), inputs


def _tokens(count: int) -> torch.Tensor:
    return torch.randint(0, _WORDS, (1, count))


def _image() -> tuple[torch.Tensor]:
    return (torch.randn(1, 3, 224, 224),)


def _bert(width: int, heads: int, blocks: int) -> Numbers:
    sizes = {"hidden_size": width, "num_attention_heads": heads, "num_hidden_layers": blocks}
    return {**sizes, "intermediate_size": 4 * width}


def minilm() -> Made:
    """All-MiniLM-L6 with random weights, and 128 tokens, of which a mask has 100."""
    mask = (torch.arange(128)[None] < 100).long()
    return _transformers("BertModel", _bert(384, 12, 6), (_tokens(128), mask))


def _gpt2() -> Made:
    sizes = {"n_layer": 1, "bos_token_id": 0, "eos_token_id": 0}
    return _transformers("GPT2Model", sizes, (_tokens(128),))


def _smollm2() -> Made:
    sizes = {"hidden_size": 576, "num_attention_heads": 9, "num_key_value_heads": 3}
    more = {"num_hidden_layers": 2, "intermediate_size": 1536}
    return _transformers("LlamaForCausalLM", sizes | more, (_tokens(128),))


def _qwen2() -> Made:
    sizes = {"hidden_size": 896, "num_attention_heads": 14, "num_key_value_heads": 2}
    more = {"num_hidden_layers": 1, "intermediate_size": 4864}
    return _transformers("Qwen2ForCausalLM", sizes | more, (_tokens(64),))


def _t5() -> Made:
    sizes = {"d_model": 512, "d_kv": 64, "d_ff": 2048, "num_heads": 8, "num_layers": 2}
    return _transformers("T5EncoderModel", sizes, (_tokens(128),))


def _whisper() -> Made:
    import transformers

    # transformers has the class of the decoder in the module of the model alone.
    whole = transformers.WhisperModel(
        transformers.WhisperConfig(
            vocab_size=_WORDS,
            d_model=384,
            decoder_layers=2,
            decoder_attention_heads=6,
            decoder_ffn_dim=1536,
            encoder_layers=1,
            encoder_attention_heads=6,
            encoder_ffn_dim=1536,
            use_cache=False,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=1,
        )
    )
    heard = torch.randn(1, 1500, 384)
    return whole.decoder, {"input_ids": _tokens(32), "encoder_hidden_states": heard}


def _timm(name: str, **sizes: Any) -> Made:
    import timm

    return timm.create_model(name, **sizes), _image()


def _mixer() -> Made:
    from timm.models.mlp_mixer import MlpMixer

    return MlpMixer(num_blocks=2, patch_size=16, embed_dim=512), _image()


def _torchvision() -> Made:
    from torchvision.models import VisionTransformer

    return VisionTransformer(224, 16, 1, 12, 768, 3072), _image()


def _encoder() -> Made:
    layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True)
    return torch.nn.TransformerEncoder(layer, 2), (torch.randn(1, 128, 512),)


def _seq2seq() -> Made:
    model = torch.nn.Transformer(256, 4, 1, 1, 1024, batch_first=True)
    return model, (torch.randn(1, 100, 256), torch.randn(1, 60, 256))


MODELS: dict[str, tuple[str, Callable[[], Made]]] = {
    "all-MiniLM-L6, 128 tokens and a mask": ("transformers", minilm),
    "BERT-base, 1 block, 512 tokens": (
        "transformers",
        lambda: _transformers("BertModel", _bert(768, 12, 1), (_tokens(512),)),
    ),
    "GPT-2, 1 block, 128 tokens": ("transformers", _gpt2),
    "SmolLM2-135M, 2 blocks, 128 tokens": ("transformers", _smollm2),
    "Qwen2-0.5B, 1 block, 64 tokens": ("transformers", _qwen2),
    "ViT-B/16, 1 block": (
        "transformers",
        lambda: _transformers("ViTModel", {**_bert(768, 12, 1), "vocab": None}, _image()),
    ),
    "T5-small's encoder, 2 blocks, 128 tokens": ("transformers", _t5),
    "whisper-tiny's decoder, 2 blocks, 32 tokens": ("transformers", _whisper),
    "DeiT-Tiny": ("timm", lambda: _timm("deit_tiny_patch16_224")),
    "ViT-B/16, 1 block, of timm": ("timm", lambda: _timm("vit_base_patch16_224", depth=1)),
    "MLP-Mixer-S/16, 2 blocks": ("timm", _mixer),
    "vit_b_16, 1 block": ("torchvision", _torchvision),
    "nn.TransformerEncoder, 2 layers, 128 tokens": ("torch", _encoder),
    "nn.Transformer, 1 + 1 layers, 100 and 60 tokens": ("torch", _seq2seq),
}
"""By what the page calls them: package, and what makes model and inputs."""
KEEP = {"MLP-Mixer-S/16, 2 blocks": ["blocks.0.norm1", "blocks.1.norm1", "norm"]}
"""Modules of the host: norms whose results are used along tokens, which the machine is slow at."""


def measure(name: str) -> Numbers:
    """A model's program: its size, prediction, and errors of its first output."""
    package, make = MODELS[name]
    keep = KEEP.get(name, [])
    torch.manual_seed(0)
    model, examples = make()
    model.eval()
    for weight in model.parameters():
        if weight.dim() == 2 and not weight.any():  # a head, of which some packages make zeros
            torch.nn.init.normal_(weight, std=0.02)
    given = [*examples.values()] if isinstance(examples, Mapping) else [*examples]
    program = exported(model, examples)
    known: Numbers = {
        "package": package,
        "version": version(package).partition("+")[0],
        "nodes": sum(node.op == "call_function" for node in program.graph.nodes),
        "keep": keep,
    }
    start = time.process_time()
    try:
        compiled = compile_exported(program, MACHINE, keep=keep)
    except ValueError as error:
        return {**known, "refused": str(error)}
    seconds = time.process_time() - start
    arrays = [one.numpy() for one in given]
    found = compiled(*arrays)
    first = found[0] if isinstance(found, tuple) else found
    bits = evaluated(program, arrays, MACHINE, keep=keep)
    single = _first(model, examples).numpy()
    exact = _first(model.double(), examples).numpy()
    cycles, busy = totals(compiled.report())
    return {
        **known,
        "descriptors": sum(part.program.length for part in compiled.parts),
        "cycles": cycles,
        "busy": busy,
        "seconds": round(seconds, 2),
        "same": first.tobytes() == bits[0].tobytes(),
        "error_64": _error(first, exact),
        "error_32": _error(first, single),
        "error_of_32": _error(single, exact),
    }


def _first(model: torch.nn.Module, examples: Any) -> torch.Tensor:
    dtype = next(model.parameters()).dtype

    def taken(x: torch.Tensor) -> torch.Tensor:
        return x.to(dtype) if x.is_floating_point() else x

    with torch.inference_mode():
        if isinstance(examples, Mapping):
            found = model(**{one: taken(x) for one, x in examples.items()})
        else:
            found = model(*map(taken, examples))
    return found if isinstance(found, torch.Tensor) else found[0]


def totals(report: str) -> tuple[int, float]:
    """Cycles predicted and the array's share of them, of a report."""
    last = report.splitlines()[-1]
    (found,) = re.findall(r"(\d+) cycles predicted, array busy ([\d.]+)%", last)
    return int(found[0]), round(float(found[1]) / 100, 3)


def _error(found: Any, wanted: Any) -> float:
    """The largest error, of the largest value."""
    largest = float(np.abs(wanted).max())
    return float(f"{np.abs(np.float64(found) - wanted).max() / largest:.3g}")


def main(argv: Sequence[str]) -> int:
    """Measure what is missing, and write the page."""
    parser = parser_of("compiled_models", __doc__)
    parser.add_argument("--again", action="store_true", help="measure everything anew")
    arguments = parser.parse_args(argv)
    warnings.simplefilter("ignore")  # of the packages
    torch.set_num_threads(1)
    pages.complete(PAGE, MODELS, measure, again=arguments.again)
    pages.write("compiled_models")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
