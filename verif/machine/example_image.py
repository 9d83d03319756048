"""``python -m verif.machine.example_image``: memory for the example of the machine.

A product of two random matrices: operands, program and room for the result in one file, the result
in another, as words of the machine's data channel for ``$readmemh``.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe.machine.configuration import SMALL_MACHINE
from mxsafe.machine.description import DESCRIPTOR_BYTES
from verif.machine.machine_image import Image, product_program

EXAMPLES = Path(__file__).parents[2] / "examples"


def example_files() -> dict[str, str]:
    """Files of the example, by name."""
    rng = np.random.default_rng(8)
    a = mx.quantize(rng.standard_normal((8, 64)), "mxsf", block=64)
    w = mx.quantize(rng.standard_normal((64, 8)), "mxsf", block=64, axis=0)
    image = Image(SMALL_MACHINE)
    program, result, layout = product_program(image, a, w)
    expected = layout.packed(mx.matmul(a, w, arithmetic="exact"))
    code = np.frombuffer(program, np.uint8)
    address = image.put(code)
    count = len(code) // DESCRIPTOR_BYTES
    places = f"// program {address:#x}, {count} descriptors, result {result:#x}\n"
    return {
        "accelerator_memory.hex": places + _words(image.memory),
        "accelerator_result.hex": _words(expected),
    }


def _words(data: NDArray[np.uint8]) -> str:
    """A line of hexadecimal digits for each word of the data channel."""
    rows = data.reshape(-1, SMALL_MACHINE.data_width // 8)[:, ::-1]
    return "".join(f"{bytes(row).hex()}\n" for row in rows)


if __name__ == "__main__":
    for name, text in example_files().items():
        (EXAMPLES / name).write_text(text)
