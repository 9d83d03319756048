"""Checks of units that read and write memory for others: words, and the rules of AXI4."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxsafe.rtl.machine.dma.axi_reader import AxiReader
from mxsafe.rtl.machine.dma.axi_writer import AxiWriter
from verif.support.checkers import assert_equal
from verif.support.manifest import Module
from verif.support.simulators import run_bench
from verif.support.units import generated

Run = tuple[int, int]
"""Address of the first word, in words, and number of words."""
START = (1 << 40) + (1 << 32) - 8192
"""Where the memory of a test begins: so that its addresses carry into every half."""
_HIGH = (1 << 64) - (1 << 40) - 8192
"""Another place, with other upper bits."""


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """Timing of streams and memory: pauses, latency, stops.

    Attributes
    ----------
    stall_in, stall_out, stall_address, stall_data : float
        How often sources, sinks, and the channels of the memory pause, below one half.
    latency : tuple of int
        Fewest and most cycles from an address or a last beat to the answer.
    stops : sequence of int
        Before the job, start it and stop it after so many cycles, once for each number. At the port
        of a reader or writer nothing more is offered then if the number is odd.
    start : int
        Where memory begins; addresses of tests, which are from `START` on, are moved there.
    """

    stall_in: float = 0.0
    stall_out: float = 0.0
    stall_address: float = 0.0
    stall_data: float = 0.0
    latency: tuple[int, int] = (1, 1)
    stops: Sequence[int] = ()
    seed: int = 1
    start: int = START

    @property
    def options(self) -> dict[str, Any]:
        """For the bench."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


LIVELY = Traffic(
    stall_in=0.2,
    stall_out=0.2,
    stall_address=0.3,
    stall_data=0.2,
    latency=(0, 40),
    seed=3,
    start=_HIGH,
)
"""Pauses everywhere."""


def reader(**options: Any) -> Module:
    """A reader, generated into `folder`."""
    return generated(AxiReader(**options))


def writer(**options: Any) -> Module:
    """A writer, generated into `folder`."""
    return generated(AxiWriter(**options))


def random_runs(seed: int, count: int, word_bytes: int, most: int, memory_words: int) -> list[Run]:
    """Runs anywhere in a memory, many of them short."""
    rng = np.random.default_rng(seed)
    first_word = START // word_bytes
    runs = []
    for _ in range(count):
        words = int(rng.integers(1, rng.choice([2, 5, most + 1])))
        runs.append((first_word + int(rng.integers(0, memory_words - words + 1)), words))
    return runs


def separate_runs(seed: int, word_bytes: int, most: int, memory_words: int) -> list[Run]:
    """Runs apart from each other, in any order, with gaps and many of them short."""
    rng = np.random.default_rng(seed)
    at, runs = 0, []
    while True:
        at += int(rng.integers(0, 4))
        words = int(rng.integers(1, rng.choice([2, 5, most + 1])))
        if at + words > memory_words:
            break
        runs.append((START // word_bytes + at, words))
        at += words
    rng.shuffle(runs)
    return [(int(at), int(words)) for at, words in runs]


def _content(seed: int, size: int) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, size).astype(np.uint8)


def _base_options(module: Module, traffic: Traffic, runs: Sequence[Run]) -> dict[str, Any]:
    parameters = module.parameters
    beats = (
        sum(words for _, words in runs) * 8 * parameters["word_bytes"] // parameters["data_bits"]
    )
    bursts = len(runs) + beats // parameters["burst"]
    return {
        **traffic.options,
        "data_bits": parameters["data_bits"],
        "burst": parameters["burst"],
        "limit": 2000 + 12 * beats + (traffic.latency[1] + 10) * bursts,
    }


def _places(runs: Sequence[Run], word_bytes: int) -> NDArray[np.int64]:
    """Place of each word of some runs in the memory, in words."""
    first = START // word_bytes
    return np.concatenate([np.arange(at - first, at - first + words) for at, words in runs])


def check_reader(
    simulator: str,
    module: Module,
    runs: Sequence[Sequence[Run]],
    traffic: Traffic,
    *,
    memory_words: int = 1024,
    wrong_beats: Sequence[int] = (),
) -> dict[str, Any]:
    """Words come as they stand in memory, those of each client in order, errors where they are.

    Parameters
    ----------
    runs : sequence of sequence of Run
        For each client.
    wrong_beats : sequence of int
        Beats of the memory that answer with an error.
    """
    parameters = module.parameters
    word_bytes = parameters["word_bytes"]
    beat_bytes = parameters["data_bits"] // 8
    everything = [run for client in runs for run in client]
    content = _content(traffic.seed, memory_words * word_bytes)
    port, moved = module.ports["run_0_payload"], (traffic.start - START) // word_bytes
    options = {
        **_base_options(module, traffic, everything),
        "kind": "read",
        "words": sum(words for _, words in everything),
        "errors": [traffic.start + beat * beat_bytes for beat in wrong_beats],
        "sources": {f"run_{client}": [f"run_{client}_payload"] for client in range(len(runs))},
        "rows": {
            f"run_{client}": [[_packed(port, first=at + moved, words=words)] for at, words in own]
            for client, own in enumerate(runs)
        },
    }
    job = options | {"memory": content}
    result: dict[str, Any] = run_bench(simulator, module, "memory_ports", job)
    got = module.ports["words_payload"].split_words(result["words"])
    wrong = np.zeros(memory_words * word_bytes // beat_bytes, np.bool_)
    wrong[list(wrong_beats)] = True
    wrong_words = np.asarray(wrong.reshape(memory_words, -1).any(axis=1), np.uint8)
    expected = content.reshape(memory_words, word_bytes)
    whose = got["client"][:, 0]
    assert len(whose) == options["words"] > 0
    for client, own in enumerate(runs):
        if not own:
            continue
        mine = whose == client
        places = _places(own, word_bytes)
        index = np.arange(len(places))
        assert_equal(f"words of client {client}", got["data"][mine], expected[places], word=index)
        errors = got["error"][mine, 0]
        right = wrong_words[places]
        assert_equal(f"errors of client {client}", errors, right, word=index)
    return result


def check_writer(
    simulator: str,
    module: Module,
    runs: Sequence[Run],
    traffic: Traffic,
    *,
    memory_words: int = 1024,
    wrong_beats: Sequence[int] = (),
) -> dict[str, Any]:
    """Words stand in memory where they should and nowhere else, and each end is told in time.

    Every third run, and the last one, tells its end. Runs are to be apart from each other.
    """
    parameters = module.parameters
    word_bytes, beat_bytes = parameters["word_bytes"], parameters["data_bits"] // 8
    beats_of_word = word_bytes // beat_bytes
    content = _content(traffic.seed, memory_words * word_bytes)
    places = _places(runs, word_bytes)
    assert len(np.unique(places)) == len(places) > 0, "runs of a test must be apart"
    data = _content(traffic.seed + 1, len(places) * word_bytes).reshape(-1, word_bytes)
    after = content.reshape(-1, word_bytes).copy()
    after[places] = data
    tells = [at % 3 == 2 or at == len(runs) - 1 for at in range(len(runs))]
    port, moved = module.ports["run_payload"], (traffic.start - START) // word_bytes
    options = {
        **_base_options(module, traffic, runs),
        "kind": "write",
        "ends": sum(tells),
        "errors": [traffic.start + beat * beat_bytes for beat in wrong_beats],
        "sources": {"run": ["run_payload"], "words": ["words_payload"]},
        "rows": {
            "run": [
                [_packed(port, first=at + moved, words=words, last=int(tell))]
                for (at, words), tell in zip(runs, tells, strict=True)
            ]
        },
    }
    job = options | {"memory": content, "after": after.reshape(-1), "data": data}
    result: dict[str, Any] = run_bench(simulator, module, "memory_ports", job)
    got = result["memory"].reshape(-1, word_bytes)
    assert_equal("memory", got, after, word=np.arange(memory_words))
    told = np.cumsum([words for _, words in runs])[np.flatnonzero(tells)] * beats_of_word
    done = np.array(result["done"])
    assert_equal("beats answered at an end", done, told, end=np.arange(len(told)))
    return result


def _packed(port: Any, **values: int) -> int:
    """The number that a port of several fields carries."""
    fields = {name: (offset, width) for name, offset, width in port.fields}
    assert fields.keys() == values.keys(), f"{port.name} has the fields {', '.join(fields)}"
    return sum(values[name] << offset for name, (offset, _) in fields.items())
