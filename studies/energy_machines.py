"""Machines and optimizers whose training steps `studies.energy` counts."""

from collections.abc import Mapping

from mxsafe.machine.configuration import MachineConfiguration

MACHINES: Mapping[str, MachineConfiguration] = {"mxsf": MachineConfiguration()}
"""Machines that are compared; one that is added here is a further row of the page."""
OPTIMIZERS = ("SGD", "AdamW")
"""Optimizers of PyTorch."""
