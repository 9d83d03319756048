"""What the timing model of the compiler has to know of a machine, from its units."""

from mxsafe.machine.compiler.timing import Times
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.rtl.accelerator.accelerator_core import AcceleratorCoreConfiguration
from mxsafe.rtl.accelerator.vector_chain import VectorChainConfiguration

__all__ = ["SLICES", "times_of"]

SLICES = {"load": 5, "store": 7, "gemm": 4, "vector": 4, "convert": 2}
"""Registers between the units of a machine for FPGAs that no unit counts as its own latency."""
_PACE = 3
"""Clocks of an access to the vector buffer for FPGAs: it is asked for, has its turn, is over."""


def times_of(machine: MachineConfiguration, memory: int = 100) -> Times:
    """Clocks that a machine takes beside those of its work.

    Parameters
    ----------
    machine : MachineConfiguration
    memory : int
        Clocks from a request to the first word of memory.
    """
    core = AcceleratorCoreConfiguration(machine=machine)
    products, queues, vectors = core.gemm, core.queues, core.vector
    chain, array = vectors.chain, products.array
    gemm = products.feed.latency + array.last_row + 1
    convert = 0
    # For an FPGA registers stand between units: of a channel, of words, of what tells the end.
    sliced = core.target == "fpga"
    if machine.conversions:
        convert = vectors.converter.latency + vectors.packer.latency + vectors.writer.latency
        convert += SLICES["convert"] * sliced
    return Times(
        memory=memory,
        queue=queues.latency,
        load=core.load.latency + SLICES["load"] * sliced,
        store=core.store.latency + SLICES["store"] * sliced,
        # Rows leave three clocks apart then.
        gemm=gemm + (SLICES["gemm"] + 2 * machine.rows) * sliced,
        products=queues.under_way["gemm"],
        transfers=queues.under_way["load"],
        tile=max(array.tile_cycles, array.block_cycles),
        block=array.block_cycles,
        beat=machine.array_parts,
        parts=machine.vector_parts,
        pace=_PACE if sliced else 1,
        vector=vectors.latency + 1 + SLICES["vector"] * sliced,
        arithmetic=chain.arithmetic.latency,
        function=chain.function.latency if chain.function else 0,
        convert=convert,
        softmax=_softmax(chain),
        **_norms(chain),
    )


def _softmax(chain: VectorChainConfiguration) -> int:
    return sum(chain.softmax.core.pauses) if chain.softmax else 0


def _norms(chain: VectorChainConfiguration) -> dict[str, int]:
    """Clocks between the passes of a row."""
    if chain.normalise is None:
        return {"layer_norm": 0, "rms_norm": 0}
    core = chain.normalise.core
    wait = core.lane.square_latency + core.sum_latency
    deviation = wait + core.row.usual_latency
    mean = wait + core.row.mean_latency if core.centre else 0
    return {"layer_norm": mean + deviation, "rms_norm": deviation}
