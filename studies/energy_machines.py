"""Machines and optimizers whose training steps `studies.energy` counts."""

from collections.abc import Mapping
from dataclasses import replace

from mxsafe.machine.configuration import BF16_MACHINE, MachineConfiguration

MACHINES: Mapping[str, MachineConfiguration] = {
    "mxsf": MachineConfiguration(),
    # As many beats of operands, which are of twice as many bytes; or as many bytes of buffers.
    "bf16": BF16_MACHINE,
    "bf16 of as many bytes": replace(BF16_MACHINE, a_beats=1024, w_beats=2048, out_beats=256),
    "mxfp4": MachineConfiguration(format_a="mxfp4_e2m1", format_w="mxfp4_e2m1"),
}
"""Machines that are compared; one that is added here is a further row of the page."""
BESIDE = {
    "mxfp4": replace(BF16_MACHINE, rows=8, data_width=128, bank_beats=2048),
}
"""By machine the one beside it that has attention in bfloat16: of 8x8, with buffers as large."""
ATTENTION = (3, 197, 64)
"""Heads, tokens and width of a head of a block of DeiT-Tiny."""
OPTIMIZERS = ("SGD", "AdamW")
"""Optimizers of PyTorch."""
