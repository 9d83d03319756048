"""The benches of units at memory, benched: what is wrong in one of them is found."""

from pathlib import Path

import pytest

from mxsafe.machine.assembler import Instruction
from verif.support.manifest import Module
from verif.support.memory_port_checks import (
    LIVELY,
    START,
    Traffic,
    check_reader,
    check_writer,
    random_runs,
    reader,
    separate_runs,
    writer,
)
from verif.support.mutation import mutated
from verif.support.tests import available, some
from verif.support.transfer_checks import (
    check_loads,
    check_stores,
    load_engine,
    random_loads,
    random_stores,
    store_engine,
)

LOST = "never done|differ|results for"
STOPPED = Traffic(**{**LIVELY.options, "stops": (9, 14, 21, 38, 53)})
# Right and wrong text, and how it is found.
READERS = {
    "address changes": ("assign address_moves = ", "assign address_moves = 1 | ", "changed from"),
    "idle too early": ("assign idle = ", "assign idle = stop | ", "idle"),
    "gives words though stopped": (
        "assign words_valid = word_is_valid & ",
        "assign words_valid = word_is_valid | 0 & ",
        "a stopped reader gives words",
    ),
    "client of the next burst": (
        "assign tags_pop = beat_taken & ",
        "assign tags_pop = beat_taken | 0 & ",
        f"{LOST}|unknown",
    ),
    "clients exchanged": (
        "assign client = splitter_0_burst_valid ? 1'h0 : 1'h1",
        "assign client = splitter_0_burst_valid ? 1'h1 : 1'h0",
        LOST,
    ),
    "beat lost": ("assign m_axi_rready = ", "assign m_axi_rready = 1 | ", f"{LOST}|changed"),
    "address waits for memory": (
        "assign address_moves = ",
        "assign address_moves = m_axi_arready & ",
        LOST,
    ),
    "words wait for who takes them": (
        "assign words_valid = ",
        "assign words_valid = words_ready & ",
        LOST,
    ),
    "error overlooked": ("m_axi_rresp[1]", "m_axi_rresp[0]", "errors of client"),
}
WRITERS = {
    "address changes": (
        "assign address_moves = ",
        "assign address_moves = 1 | ",
        "changed from|withdrawn",
    ),
    "beat changes": ("assign beat_moves = ", "assign beat_moves = 1 | ", "changed from|withdrawn"),
    "address waits for memory": (
        "assign address_moves = ",
        "assign address_moves = m_axi_awready & ",
        LOST,
    ),
    "beat waits for memory": (
        "assign beat_moves = ",
        "assign beat_moves = m_axi_wready & ",
        f"{LOST}|never idle",
    ),
    "answers not counted": (".pop(m_axi_bvalid)", ".pop(1'h0)", f"{LOST}|idle"),
    "writes though stopped": ("beat_writes <= ", "beat_writes <= 1 | ", "was written wrongly"),
    "every end told": (
        "m_axi_bvalid & tags_oldest",
        "m_axi_bvalid",
        "answered at an end|not idle after",
    ),
    "wlast inverted": ("m_axi_wlast <= ", "m_axi_wlast <= ~ ", "wlast is wrong"),
    "word twice": (
        "assign words_ready = beat_enters",
        "assign words_ready = 0",
        f"{LOST}|was written wrongly",
    ),
}
LOADS = {
    "next descriptor enters": (
        "load_engine",
        ".alone(buffer_walk_last_turn)",
        ".alone(1'h0)",
        LOST,
    ),
    "lower tile first": (
        "tile_transposer",
        "is_swapped ? middle_1 : middle_0",
        "is_swapped ? middle_0 : middle_1",
        "differ",
    ),
    "group cut short": (
        "tile_transposer",
        "assign has_place = ",
        "assign has_place = 1 | ",
        f"{LOST}|changed from",
    ),
    "scales as they are": (
        "load_engine",
        "assign exchanges = transposes & ",
        "assign exchanges = 0 & ",
        "differ",
    ),
    "numbers in words": (
        "load_engine",
        "assign place_in_words = widens ?",
        "assign place_in_words = 0 ?",
        "differ",
    ),
    "buffer changes too early": ("load_engine", "assign is_free = ", "assign is_free = 1 | ", LOST),
    "ready too early": (
        "load_engine",
        "assign engine_ready = is_taken & memory_walk_asked",
        "assign engine_ready = is_taken",
        f"{LOST}|changed from",
    ),
    "writes though stopped": (
        "load_engine",
        "assign drops = has_failed | engine_stop",
        "assign drops = has_failed",
        "a stopped engine writes",
    ),
    "loop left out": (
        "address_walk",
        "? turn_of_3 : turn_of_2",
        "? turn_of_2 : turn_of_2",
        f"{LOST}|ended with error",
    ),
}
# Besides right and wrong text the operand beats of a buffer, and the fields of a descriptor.
BEYOND: dict[str, tuple[str, str, str, int, dict[str, int]]] = {
    "first word behind": (
        "load_engine",
        "place_in_words < limit",
        "place_in_words <= limit",
        64,
        {"to": 128},
    ),
    "sum comes round": (
        "address_walk",
        "origin_0[17] | total[17]",
        "origin_0[17]",
        1 << 16,
        {"to": (1 << 17) - 1, "count_0": 2, "step_0": 1},
    ),
}
STORES = {
    "others read in between": ("assign vector_hold = ", "assign vector_hold = 0 & ", "changed|dif"),
    "ties upwards": ("= vector_data[16] | ", "= 1'h1 | ", "differ"),
    "NaN overflows": ("is_nan_0 ? 16'h7fc0 : ", "0 ? 16'h7fc0 : ", "differ"),
    "word lost": ("assign word_moves = ", "assign word_moves = 1 | ", f"{LOST}|changed|withdrawn"),
    "bank not waited for": (
        "assign buffer_walk_advance = wants & ",
        "assign buffer_walk_advance = wants | 0 & ",
        "differ",
    ),
}


def _wrong(module: Module, start: str, right: str, wrong: str, folder: Path) -> list[Path]:
    """Sources with one text replaced in the module whose name begins so; the buffers' walk."""
    (name,) = {
        source.stem
        for source in module.sources
        if source.stem.startswith(start) and "x" not in source.stem.removeprefix(start)
    }
    folder.mkdir()
    return mutated(module, name, right, wrong, folder)


@pytest.mark.parametrize("mutation", some(READERS, every=len(READERS)))
def test_wrong_reader_is_found(mutation: str, tmp_path: Path) -> None:
    right, wrong, message = READERS[mutation]
    module = reader(tmp_path / "right", word_bytes=16, data_bits=128, burst=8)
    sources = _wrong(module, "axi_reader", right, wrong, tmp_path / "wrong")
    runs = [random_runs(seed, 12, 16, 30, 200) for seed in (1, 2)]
    with pytest.raises(AssertionError, match=message):
        check_reader(
            available("icarus"),
            module,
            runs,
            STOPPED,
            memory_words=200,
            wrong_beats=range(0, 200, 7),
            sources=sources,
        )


@pytest.mark.full
@pytest.mark.parametrize("mutation", WRITERS)
def test_wrong_writer_is_found(mutation: str, tmp_path: Path) -> None:
    right, wrong, message = WRITERS[mutation]
    module = writer(tmp_path / "right", word_bytes=16, data_bits=128, burst=8)
    sources = _wrong(module, "axi_writer", right, wrong, tmp_path / "wrong")
    runs = separate_runs(1, 16, 30, 200)
    with pytest.raises(AssertionError, match=message):
        check_writer(available("icarus"), module, runs, STOPPED, memory_words=200, sources=sources)


def test_wrong_error_of_a_write_is_found(tmp_path: Path) -> None:
    """The writer tells errors, which the other tests do not provoke."""
    module = writer(tmp_path / "right", word_bytes=16, data_bits=128, burst=8)
    sources = _wrong(module, "axi_writer", "bresp[1]", "bresp[0]", tmp_path / "wrong")
    runs = [(START // 16 + 8 * at, 8) for at in range(20)]
    options = {"memory_words": 160, "wrong_beats": range(160)}
    whole = check_writer(available("icarus"), module, runs, LIVELY, **options)
    assert len(whole.arrays["errors"]) == len(runs)
    broken = check_writer(available("icarus"), module, runs, LIVELY, **options, sources=sources)
    assert len(broken.arrays["errors"]) < len(runs)


@pytest.mark.full
@pytest.mark.parametrize("mutation", LOADS)
def test_wrong_load_engine_is_found(mutation: str, tmp_path: Path) -> None:
    start, right, wrong, message = LOADS[mutation]
    module = load_engine(tmp_path / "right")
    sources = _wrong(module, start, right, wrong, tmp_path / "wrong")
    traffic = Traffic(**{**LIVELY.options, "latency": (0, 8), "stops": (40, 55)})
    with pytest.raises(AssertionError, match=message):
        check_loads(
            available("icarus"), module, random_loads(1, module, 20), traffic, sources=sources
        )


@pytest.mark.parametrize("mutation", some(BEYOND, every=len(BEYOND)))
def test_wrong_end_of_a_buffer_is_found(mutation: str, tmp_path: Path) -> None:
    start, right, wrong, beats, fields = BEYOND[mutation]
    module = load_engine(tmp_path / "right", a_beats=beats)
    sources = _wrong(module, start, right, wrong, tmp_path / "wrong")
    beyond = Instruction("load", {f"count_{i}": 1 for i in range(4)} | fields)
    instructions = [*random_loads(1, load_engine(tmp_path / "small"), 2), beyond]
    with pytest.raises(AssertionError):
        check_loads(
            available("icarus"), module, instructions, LIVELY, error="address", sources=sources
        )


@pytest.mark.parametrize("mutation", some(STORES, every=len(STORES)))
def test_wrong_store_engine_is_found(mutation: str, tmp_path: Path) -> None:
    right, wrong, message = STORES[mutation]
    module = store_engine(tmp_path / "right")
    sources = _wrong(module, "store_engine", right, wrong, tmp_path / "wrong")
    with pytest.raises(AssertionError, match=message):
        check_stores(
            available("icarus"), module, random_stores(1, module, 16), LIVELY, sources=sources
        )


def test_error_before_others_are_written_is_found(tmp_path: Path) -> None:
    module = store_engine(tmp_path / "right")
    sources = _wrong(
        module,
        "store_engine",
        "assign is_alone = ",
        "assign is_alone = is_past_end | 0 & ",
        tmp_path / "wrong",
    )
    counts = {f"count_{i}": 1 for i in range(4)}
    wrong = Instruction("store", {**counts, "from": 200})
    with pytest.raises(AssertionError):
        check_stores(
            available("icarus"),
            module,
            [*random_stores(1, module, 3), wrong],
            LIVELY,
            error="address",
            sources=sources,
        )
