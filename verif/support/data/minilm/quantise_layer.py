"""Quantise a slice of the layer to MXSF.

    python -m verif.support.data.minilm.quantise_layer SLICE.npz

Keeps the whole layer small enough to be part of the repository; the array multiplies it.
"""

import sys
from pathlib import Path

import numpy as np

import mxsafe as mx

__all__ = ["main"]


def main(source: Path) -> None:
    """Write ``layer0_ffn_mxsf.npz`` beside this file, from activations and weights of a slice."""
    target = Path(__file__).parent / "layer0_ffn_mxsf.npz"
    with np.load(source) as archive:
        a = mx.quantize(archive["activations"], "mxsf", block=64, axis=-1)
        w = mx.quantize(archive["weights"], "mxsf", block=64, axis=-2)
    temporary = target.with_suffix(".partial.npz")
    np.savez_compressed(
        temporary, a_codes=a.codes, a_scales=a.scales, w_codes=w.codes, w_scales=w.scales
    )
    temporary.replace(target)
    print(f"{target.name}: {a.shape} x {w.shape}, {target.stat().st_size} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
