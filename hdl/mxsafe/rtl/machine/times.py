"""Times of a machine's units, for the timing model of the compiler."""

from mxsafe.machine.compiler.timing import Times
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.rtl.machine.accelerator import AcceleratorConfiguration
from mxsafe.rtl.machine.accelerator_core import AcceleratorCoreConfiguration
from mxsafe.rtl.machine.vector.vector_chain import VectorChainConfiguration
from mxsafe.rtl.timing import at

_CORE, _STORE, _GEMM, _VECTOR = "AcceleratorCore", "StoreEngine", "GemmEngine", "VectorEngine"
_THERE_AND_BACK = ((_CORE, "runs"), (_CORE, "axi"), (_CORE, "axi"), (_CORE, "words"))
BETWEEN = {
    "load": (*_THERE_AND_BACK, (_CORE, "done")),
    "store": (*_THERE_AND_BACK, (_CORE, "done"), (_STORE, "within"), (_STORE, "beat")),
    "gemm": ((_CORE, "gemm descriptor"), (_GEMM, "streams"), (_GEMM, "result"), (_CORE, "done")),
    "vector": (
        (_CORE, "vector descriptor"),
        (_VECTOR, "operands"),
        (_VECTOR, "results"),
        (_CORE, "done"),
    ),
    "convert": ((_VECTOR, "codes"), (_VECTOR, "codes")),
}
"""Units and places of the registers on a way that no unit counts as its own latency."""
WORD = {"load": 3, "store": 5}
"""Cycles of a word between memory and its buffer, and to the queue that it was the last one."""


def between(machine: MachineConfiguration, way: str) -> int:
    """Registers on one of the ways in `BETWEEN`."""
    return sum(at(machine, place, of=unit) for unit, place in BETWEEN[way])


def times_of(machine: MachineConfiguration, memory: int = 100) -> Times:
    """Cycles that a machine takes beside those of its work.

    Parameters
    ----------
    machine : MachineConfiguration
    memory : int
        Cycles from a request to the first word of memory.
    """
    core = AcceleratorCoreConfiguration(machine=machine)
    products, queues, vectors = core.gemm, core.queues, core.vector
    chain, array = vectors.chain, products.array
    gemm = products.feed.latency + array.last_row - 2
    convert = 0
    if machine.conversions:
        convert = vectors.converter.latency + vectors.packer.latency + vectors.writer.latency
        convert += between(machine, "convert")
    return Times(
        memory=memory,
        start=AcceleratorConfiguration(machine=machine).latency + core.fetch.latency - 2,
        ahead=core.fetch.properties["ahead"],
        queue=queues.latency,
        load=core.load.latency + core.reader.latency + WORD["load"] + between(machine, "load"),
        store=core.store.latency + core.writer.latency + WORD["store"] + between(machine, "store"),
        # Rows leave three cycles apart then.
        gemm=gemm + between(machine, "gemm") + 2 * machine.rows * at(products, "rows"),
        products=queues.under_way["gemm"],
        transfers=queues.under_way["load"],
        tile=max(array.tile_cycles, array.block_cycles),
        block=array.block_cycles,
        beat=machine.array_parts,
        turns=array.arithmetic.turns,
        parts=machine.vector_parts,
        handover=int(machine.vector_parts > 1),
        move=1 + at(core.load, "word"),
        # Of an access to the vector buffer: it is asked for, has its turn, is over.
        pace=1 + 2 * at(core.vector_buffer, "turns"),
        vector=vectors.latency + between(machine, "vector"),
        arithmetic=chain.arithmetic.latency,
        function=chain.function.latency if chain.function else 0,
        narrow_functions=tuple(chain.narrow_functions),
        narrow=chain.narrow.latency if chain.narrow else 0,
        narrow_pace=chain.narrow.parts if chain.narrow else 1,
        convert=convert,
        codes=1 + (at(vectors, "codes") if machine.conversions else 0),
        softmax=_softmax(chain),
        **_norms(chain),
    )


def _softmax(chain: VectorChainConfiguration) -> int:
    core = chain.rows.softmax_core if chain.rows else None
    return sum(core.pauses) if core else 0


def _norms(chain: VectorChainConfiguration) -> dict[str, int]:
    """Cycles between the passes of a row."""
    core = chain.rows.norm_core if chain.rows else None
    if core is None:
        return {"layer_norm": 0, "rms_norm": 0, "sum": 0}
    wait = core.lane.square_latency + core.sum_latency
    deviation = wait + core.row.default_latency
    mean = wait + core.row.mean_latency if core.centre else 0
    return {"layer_norm": mean + deviation, "rms_norm": deviation, "sum": mean + 1}
