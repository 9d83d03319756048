"""``python -m studies.benchmarks.pytorch``: `mxsafe.torch` beside torchao and microxcaling.

On a CPU, a 4096 x 4096 float32 tensor is quantised to E4M3 in blocks of 32 and dequantised, and a
ResNet-18 for 32 x 32 images makes a training step (forward, backward; no optimiser). What is not
installed is left out; microxcaling is a source folder, which ``PYTHONPATH`` has to name.
CPU seconds of the fastest of a few rounds are printed, with one thread of PyTorch's own: other work
on the machine counts little, and no thread that waits for another counts. ``--write`` puts both
tables at the end of ``docs/pytorch.md``. With ``--kinds`` another table is printed, and written
before them: formats and dtypes beside NumPy copies of as many bytes, by the compiled engine.
"""

import argparse
import os
import sys
from functools import partial
from typing import Any

import torch

import mxsafe.torch as mxt
from mxsafe.atomic import write_atomically
from studies.benchmarks.libraries import BLOCK, FORMAT, LIBRARIES, Calls, fastest
from studies.pages import DOCS, rendered

SIZE = 4096
PAGE = DOCS / "pytorch.md"


class Residual(torch.nn.Module):
    """Two convolutions of 3 x 3, and the way around them."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.second = torch.nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm2d(outputs) for _ in range(2))
        self.around = torch.nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.around.append(torch.nn.Conv2d(inputs, outputs, 1, stride, bias=False))
            self.around.append(torch.nn.BatchNorm2d(outputs))

    def forward(self, x: Any) -> Any:
        """The sum of both ways."""
        y = torch.relu(self.norms[0](self.first(x)))
        return torch.relu(self.norms[1](self.second(y)) + self.around(x))


def resnet18() -> torch.nn.Module:
    """ResNet-18 in the form for small images: eleven million parameters."""
    layers: list[torch.nn.Module] = [
        torch.nn.Conv2d(3, 64, 3, 1, 1, bias=False),
        torch.nn.BatchNorm2d(64),
        torch.nn.ReLU(),
    ]
    width = 64
    for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Residual(width, outputs, stride), Residual(outputs, outputs, 1)]
        width = outputs
    return torch.nn.Sequential(
        *layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(512, 10)
    )


def step(model: torch.nn.Module, images: torch.Tensor, labels: torch.Tensor) -> None:
    """Forward and backward."""
    model.zero_grad()
    torch.nn.functional.cross_entropy(model(images), labels).backward()


def quantisers(x: torch.Tensor) -> Calls:
    """Who quantises and dequantises a tensor."""
    compiled = torch.compile(lambda t: mxt.fake_quantize(t, FORMAT))
    found: Calls = {
        "mxsafe.torch, compiled engine": lambda: mxt.fake_quantize(x, FORMAT, engine="numba"),
        "mxsafe.torch, PyTorch's operations": lambda: mxt.fake_quantize(x, FORMAT, engine="torch"),
        "mxsafe.torch, torch.compile": lambda: compiled(x),
    }
    for name in ("torchao", "microxcaling"):
        try:
            found[name] = LIBRARIES[name](x)["both"]
        except ImportError as error:
            print(f"left out {name}: {error}", file=sys.stderr)
    return found


def kinds(x: torch.Tensor, rounds: int) -> list[tuple[str, ...]]:
    """Formats and dtypes beside a NumPy copy of as many bytes, head first."""
    rows: list[tuple[str, ...]] = [("", "copy, s", "quantize, copies", "fake_quantize, copies")]
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
        t = x.to(dtype)
        words = t.view(torch.int16 if t.itemsize == 2 else dtype).numpy()
        for name in (FORMAT, "mxsf", "mxint8", "nvfp4"):
            seconds = fastest(
                {
                    "copy": words.copy,
                    "quantize": partial(mxt.quantize, t, name, engine="numba"),
                    "fake": partial(mxt.fake_quantize, t, name, engine="numba"),
                },
                rounds,
            )
            copy = seconds["copy"]
            title = f"{name}, {str(dtype).removeprefix('torch.')}"
            ratios = (f"{seconds[one] / copy:.1f}" for one in ("quantize", "fake"))
            rows.append((title, f"{copy:.4f}", *ratios))
    return rows


def trainers(batch: int) -> Calls:
    """Who trains the network; its products in MX formats, all else in float32."""
    torch.manual_seed(0)
    model = resnet18()
    images, labels = torch.randn(batch, 3, 32, 32), torch.randint(0, 10, (batch,))

    def ours() -> None:
        with mxt.microscaling(FORMAT, block=BLOCK):
            step(model, images, labels)

    found: Calls = {"float32": lambda: step(model, images, labels), "mxsafe.torch": ours}
    try:
        import mx
        from mx.specs import apply_mx_specs
    except ImportError:
        return found
    element = "fp8_e4m3"
    specs = {"w_elem_format": element, "a_elem_format": element, "block_size": BLOCK}
    theirs = with_modules(resnet18(), mx, apply_mx_specs({**specs, "bfloat": 0}))
    return {**found, "microxcaling": lambda: step(theirs, images, labels)}


def with_modules(model: torch.nn.Module, library: Any, specs: Any) -> torch.nn.Module:
    """The model with microxcaling's modules in place of PyTorch's."""
    for module in list(model.modules()):
        for name, child in module.named_children():
            if isinstance(child, torch.nn.Conv2d):
                new = library.Conv2d(
                    child.in_channels,
                    child.out_channels,
                    child.kernel_size,
                    child.stride,
                    child.padding,
                    bias=False,
                    mx_specs=specs,
                )
            elif isinstance(child, torch.nn.Linear):
                new = library.Linear(child.in_features, child.out_features, mx_specs=specs)
            else:
                continue
            setattr(module, name, new)
    return model


def table(calls: Calls, rounds: int, baseline: str) -> str:
    """Markdown: CPU seconds of the fastest round, and the ratio to a baseline."""
    best = fastest(calls, rounds)
    lines = [f"| | CPU seconds | beside {baseline} |", "|---|--:|--:|"]
    for name, seconds in best.items():
        ratio = f"{seconds / best[baseline]:.3f}" if baseline in best else "-"
        lines.append(f"| {name} | {seconds:.3f} | {ratio} |")
    return "\n".join(lines)


def section(tables: tuple[str, str], batch: int) -> str:
    """The end of the page."""
    values = {"size": SIZE, "block": BLOCK, "batch": batch, "tensor": tables[0]}
    version = torch.__version__.partition("+")[0]
    return rendered(
        '{% include "pytorch_speed.j2" %}', {**values, "network": tables[1], "version": version}
    )


def write_kinds(rounds: int, write: bool) -> None:
    """Print the table of formats and dtypes, and put it on the page."""
    x = torch.randn(SIZE, SIZE, generator=torch.Generator().manual_seed(0))
    values = {"size": SIZE, "kinds": kinds(x, rounds)}
    text = rendered('{% include "pytorch_kinds.j2" %}', values) + "\n"
    print(text)
    if write:
        page = PAGE.read_text()
        end = page.index("## Speed")
        start = page.find("## Formats and dtypes")
        text = page[: start if start >= 0 else end] + text + page[end:]
        write_atomically(PAGE, text)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description="Time mxsafe.torch beside other libraries.")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="(default: 3)")
    parser.add_argument("--batch", type=int, default=16, metavar="N", help="(default: 16)")
    parser.add_argument("--write", action="store_true", help=f"renew the end of {PAGE.name}")
    parser.add_argument("--kinds", action="store_true", help="formats and dtypes instead")
    args = parser.parse_args()
    if args.kinds:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # one core, as that copy has
        torch.set_num_threads(1)
        write_kinds(args.rounds, args.write)
        return
    torch.set_num_threads(1)
    x = torch.randn(SIZE, SIZE, generator=torch.Generator().manual_seed(0))
    tables = (
        table(quantisers(x), args.rounds, "microxcaling"),
        table(trainers(args.batch), args.rounds, "float32"),
    )
    print("\n\n".join(tables))
    if args.write:
        page = PAGE.read_text()
        text = page[: page.index("## Speed")] + section(tables, args.batch)
        write_atomically(PAGE, text)


if __name__ == "__main__":
    main()
