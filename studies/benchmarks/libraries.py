"""``python -m studies.benchmarks.libraries``: `mxsafe.torch` beside torchao, microxcaling and JAX.

One run on one core: every row is one call, which the libraries take turns in, in changing order, so
compare columns with each other rather than with another machine. CPU time is counted: other work on
the machine counts little. Tensors of float32 and bfloat16, large and small, are quantised to E4M3
in blocks of 32 and dequantised; codes are first checked to be the same. A small GPT makes a
training step, forward, backward and update, in float32 and in formats. What is not installed is
named and left out; microxcaling is a source folder, which ``PYTHONPATH`` has to name. ``--write``
writes ``docs/library_speed.json`` and the page that is made of it.
"""

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

import mxsafe.codec.numba_engine  # noqa: F401 - as after the first large tensor
import mxsafe.torch as mxt
from studies import pages
from studies.benchmarks import versions

BLOCK, FORMAT = 32, "mxfp8_e4m3"
SHAPES = ((64,), (256,), (1024,), (4096,), (256, 256), (4096, 4096))
DTYPES = (torch.float32, torch.bfloat16)
CALLS = ("quantise", "dequantise", "both")
OURS = "mxsafe.torch"

Call = Callable[[], Any]
Calls = dict[str, Call]


def ours(t: torch.Tensor) -> Calls:
    """Calls of this project."""
    q = mxt.quantize(t, FORMAT)
    return {
        "quantise": partial(mxt.quantize, t, FORMAT),
        "dequantise": q.dequantize,
        "both": partial(mxt.fake_quantize, t, FORMAT),
        "codes": lambda: (q.codes.numpy(), q.scales.numpy()),
    }


def torchao(t: torch.Tensor) -> Calls:
    """Its conversions, which are not compiled."""
    from torchao.prototype.mx_formats.mx_tensor import to_dtype, to_mx

    e4m3 = torch.float8_e4m3fn
    scales, codes = to_mx(t, e4m3, BLOCK)

    def both() -> Any:
        own, values = to_mx(t, e4m3, BLOCK)
        return to_dtype(values, own, e4m3, BLOCK, t.dtype)

    return {
        "quantise": lambda: to_mx(t, e4m3, BLOCK),
        "dequantise": lambda: to_dtype(codes, scales, e4m3, BLOCK, t.dtype),
        "both": both,
        "codes": lambda: (codes.view(torch.uint8).numpy(), scales.view(torch.uint8).numpy()),
    }


def microxcaling(t: torch.Tensor) -> Calls:
    """Its emulation, which has no codes."""
    from mx.mx_ops import _quantize_mx

    def both() -> Any:
        return _quantize_mx(t, 8, "fp8_e4m3", axes=[-1], block_size=BLOCK, round="even")

    return {"both": both}


def jax(t: torch.Tensor) -> Calls:
    """The same arithmetic, compiled."""
    import jax
    import jax.numpy as jnp

    def quantise(values: Any) -> tuple[Any, Any]:
        cut = values.astype(jnp.float32).reshape(-1, BLOCK)
        amax = jnp.abs(cut).max(axis=1, keepdims=True)
        scale = jnp.clip((jax.lax.bitcast_convert_type(amax, jnp.int32) >> 23) - 8, 0, 254)
        reciprocal = jax.lax.bitcast_convert_type((254 - scale) << 23, jnp.float32)
        codes = jnp.clip(cut * reciprocal, -448, 448).astype(jnp.float8_e4m3fn)
        return codes, scale.astype(jnp.uint8)

    def dequantise(codes: Any, scale: Any) -> Any:
        power = jax.lax.bitcast_convert_type(scale.astype(jnp.int32) << 23, jnp.float32)
        values = codes.astype(jnp.float32) * power
        return values.reshape(t.shape).astype(dtype)

    dtype = jnp.float32 if t.dtype == torch.float32 else jnp.bfloat16
    x = jnp.asarray(t.float().numpy()).astype(dtype)
    one, two = jax.jit(quantise), jax.jit(dequantise)
    three = jax.jit(lambda values: dequantise(*quantise(values)))
    codes, scale = one(x)
    return {
        "quantise": lambda: jax.block_until_ready(one(x)),
        "dequantise": lambda: two(codes, scale).block_until_ready(),
        "both": lambda: three(x).block_until_ready(),
        "codes": lambda: (np.asarray(codes).view(np.uint8), np.asarray(scale)),
    }


LIBRARIES = {OURS: ours, "torchao": torchao, "microxcaling": microxcaling, "JAX": jax}


class Gpt(torch.nn.Module):
    """A small GPT: blocks of attention and two linear layers, with norms before them."""

    def __init__(self, width: int = 256, layers: int = 4, words: int = 1000) -> None:
        super().__init__()
        self.words, self.places = torch.nn.Embedding(words, width), torch.nn.Embedding(256, width)
        self.blocks = torch.nn.ModuleList(
            torch.nn.TransformerEncoderLayer(
                width, 8, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
            )
            for _ in range(layers)
        )
        self.norm, self.last = torch.nn.LayerNorm(width), torch.nn.Linear(width, words)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits of the next tokens."""
        size = tokens.shape[1]
        mask = torch.nn.Transformer.generate_square_subsequent_mask(size)
        x = self.words(tokens) + self.places(torch.arange(size))
        for block in self.blocks:
            x = block(x, mask, is_causal=True)
        return self.last(self.norm(x))


def steps() -> Calls:
    """Training steps of the network, by format."""

    def step(model: torch.nn.Module, optimiser: torch.optim.Optimizer, fmt: str | None) -> None:
        optimiser.zero_grad()
        with mxt.microscaling(fmt, block=BLOCK, enabled=fmt is not None):
            logits = model(tokens[:, :-1])
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()
        optimiser.step()

    torch.manual_seed(0)
    tokens = torch.randint(0, 1000, (8, 129))
    calls: Calls = {}
    for fmt in (None, "mxsf", FORMAT):
        model = Gpt()
        optimiser = torch.optim.AdamW(model.parameters())
        calls[fmt or "float32"] = partial(step, model, optimiser, fmt)
    return calls


def fastest(calls: Calls, rounds: int) -> dict[str, float]:
    """Seconds of the best round of each, which take turns."""
    best: dict[str, float] = {}
    often = {}
    for name, call in calls.items():
        call()
        start = time.process_time()
        call()
        often[name] = max(1, min(500, int(0.02 / max(time.process_time() - start, 1e-6))))
    order = np.random.default_rng(0)
    for _ in range(rounds):
        for name in order.permutation(list(calls)):
            start = time.process_time()
            for _ in range(often[name]):
                calls[name]()
            seconds = (time.process_time() - start) / often[name]
            best[name] = min(best.get(name, np.inf), seconds)
    return {name: best[name] for name in calls}


def measure(rounds: int) -> dict[str, Any]:
    """All rows: microseconds by library."""
    rows: dict[str, dict[str, float]] = {}
    for shape in SHAPES:
        for dtype in DTYPES:
            t = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)
            found: dict[str, Calls] = {}
            for name, make in LIBRARIES.items():
                try:
                    found[name] = make(t)
                except ImportError as error:
                    print(f"left out {name}: {error}", file=sys.stderr)
            _require_same_codes(found)
            for call in CALLS:
                calls = {name: own[call] for name, own in found.items() if call in own}
                title = f"{' x '.join(map(str, shape))}, {str(dtype)[6:]}, {call}"
                rows[title] = {
                    name: round(1e6 * seconds, 1)
                    for name, seconds in fastest(calls, rounds).items()
                }
                print(title, rows[title], flush=True)
    network = {name: round(1e3 * seconds, 1) for name, seconds in fastest(steps(), rounds).items()}
    left_out = [name for name in LIBRARIES if not any(name in row for row in rows.values())]
    return {"rows": rows, "step": network, "left_out": left_out}


def _require_same_codes(found: dict[str, Calls]) -> None:
    expected = found[OURS]["codes"]()
    for name, calls in found.items():
        if "codes" in calls:
            for own, theirs in zip(expected, calls["codes"](), strict=True):
                if not np.array_equal(own.ravel(), theirs.ravel()):
                    raise SystemExit(f"{name} gives other codes")


def main() -> None:
    """Print the rows, or write the page."""
    parser = argparse.ArgumentParser(description="Time mxsafe.torch beside other libraries.")
    parser.add_argument("--rounds", type=int, default=9, metavar="N", help="(default: 9)")
    parser.add_argument("--write", action="store_true", help="write library_speed.md")
    args = parser.parse_args()
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    numbers = measure(args.rounds)
    print(json.dumps(numbers["step"]))
    if args.write:
        numbers |= {
            "machine": platform.machine(),
            "versions": versions("numpy", "numba", "torch", "torchao", "jax"),
        }
        pages.keep(pages.DOCS / "library_speed.json", numbers)
        pages.write("library_speed")


if __name__ == "__main__":
    main()
