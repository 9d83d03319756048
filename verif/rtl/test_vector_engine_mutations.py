"""The bench of the vector engine, benched: what is wrong in the engine is found."""

from pathlib import Path

import pytest

from mxsafe.machine.configuration import MachineConfiguration
from verif.support.manifest import Module
from verif.support.mutation import mutated
from verif.support.normalise_checks import check_rows, normalise_unit, random_rows
from verif.support.tests import available, some
from verif.support.vector_engine_checks import (
    check_engine,
    few_tasks,
    small_machine,
    vector_engine,
)

DIFFERS = "differ"
FOUND = "differ|changed what it offered|withdrew what it offered|was not done after"
# Start of the module's name, right and wrong text, and how it is found.
ENGINES = {
    "results of a lane too many": (
        "mxsf_vector_engine",
        "= queue_descriptor[214:209] > 6'h05",
        "= queue_descriptor[214:209] >= 6'h05",
        DIFFERS,
    ),
    "done before codes are written": (
        "mxsf_vector_engine",
        "assign is_converted =",
        "assign is_converted = 1'h1 |",
        FOUND,
    ),
    "a result is converted twice": (
        "mxsf_vector_engine",
        "assign converter_keeps = converter_has_result |",
        "assign converter_keeps =",
        FOUND,
    ),
    "an address outside is no error": (
        "mxsf_vector_engine",
        "is_outside ? 2'h3",
        "is_outside ? 2'h0",
        "was not done after",
    ),
    "an address comes round": ("row_walk_depth512", "= | total[15:14]", "= 1'h0", "error 0"),
    "beats are read without room": (
        "beat_reader",
        "assign has_room =",
        "assign has_room = 1'h1 |",
        FOUND,
    ),
    "a row begins with the lane after": (
        "second_operand",
        "assign lane_after = ends_row ? 3'h0 : next_lane",
        "assign lane_after = next_lane",
        FOUND,
    ),
    "nobody waits for scales": (
        "mxsf_operand_writer",
        "assign scales_served =",
        "assign scales_served = 1'h1 |",
        FOUND,
    ),
    "even entries in odd halves": (
        "mxsf_operand_writer",
        "assign out_scales_halves[0] = ~ a_scales_halves[1]",
        "assign out_scales_halves[0] = a_scales_halves[1]",
        "writes nothing|differ",
    ),
    "a block is counted on in the next row": (
        "mxsf_block_converter",
        "assign beat_after = block_last ?",
        "assign beat_after = 0 & block_last ?",
        DIFFERS,
    ),
    "the largest of the block before": (
        "mxsf_block_converter",
        "assign largest_after_0 = block_last ?",
        "assign largest_after_0 = 0 & block_last ?",
        DIFFERS,
    ),
    "a lane of a tile for itself": (
        "mxsf_block_converter",
        "assign largest_7 = tiles ?",
        "assign largest_7 = 0 & tiles ?",
        DIFFERS,
    ),
}
MASKS = {
    "the same mask in all rows": (
        "vector_chain",
        "assign length_grown = { 1'h0, length } + 14'h0008",
        "assign length_grown = { 1'h0, length } + 14'h0000",
        DIFFERS,
    ),
}
MEANS = {
    "a negative number without a mean": (
        "normalise_lane_",
        "assign flips_value = has_sign &",
        "assign flips_value = has_sign | 0 &",
        DIFFERS,
    ),
    "the window of a mean without one": (
        "normalise_lane_",
        "assign place = { 1'h0, lower_value } +",
        "assign place = 0 & { 1'h0, lower_value } +",
        DIFFERS,
    ),
}


def _named(module: Module, start: str) -> str:
    return next(source.stem for source in module.sources if source.stem.startswith(start))


def _check(machine: MachineConfiguration, mutation: tuple[str, str, str, str], path: Path) -> None:
    start, right, wrong, error = mutation
    module = vector_engine(machine, path / "right")
    sources = mutated(module, _named(module, start), right, wrong, path)
    with pytest.raises(AssertionError, match=error):
        check_engine(
            available("icarus"),
            module,
            machine,
            few_tasks(machine),
            stall_read=0.1,
            stall_write=0.3,
            limit=2000,
            sources=sources,
        )


@pytest.mark.full
def test_an_engine_that_stands_still(tmp_path: Path) -> None:
    machine = small_machine(functions=("relu",), reductions=())
    module = vector_engine(machine, tmp_path / "right")
    reader = _named(module, "beat_reader")
    sources = mutated(module, reader, "assign has_room =", "assign has_room = 1'h0 &", tmp_path)
    with pytest.raises(AssertionError, match="nothing is read or written for 5000 clocks"):
        check_engine(available("icarus"), module, machine, few_tasks(machine), sources=sources)


@pytest.mark.parametrize("name", some(ENGINES, every=len(ENGINES)))
def test_engines(name: str, tmp_path: Path) -> None:
    _check(small_machine(functions=("relu",), reductions=()), ENGINES[name], tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("name", MASKS)
def test_masks(name: str, tmp_path: Path) -> None:
    machine = small_machine(functions=(), reductions=("softmax",), conversions=("tiles",))
    _check(machine, MASKS[name], tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("name", MEANS)
def test_optional_means(name: str, tmp_path: Path) -> None:
    start, right, wrong, error = MEANS[name]
    module = normalise_unit(tmp_path / "right", along="beats", optional=True)
    sources = mutated(module, _named(module, start), right, wrong, tmp_path)
    with pytest.raises(AssertionError, match=error):
        check_rows(
            available("icarus"), module, random_rows(module, 9, 8), centred=False, sources=sources
        )
