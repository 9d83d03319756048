"""Buffers of the interpreter: sizes, and words that share their memory."""

import numpy as np
import pytest

from mxsafe.model.machine_buffers import Buffers, MachineStop, require_within
from verif.machine.machine_sizes import ROWS, machine_of


@pytest.mark.parametrize("rows", ROWS)
def test_words(rows: int) -> None:
    configuration = machine_of(rows)
    buffers = Buffers(configuration)
    words = {
        "a_codes": 2 * configuration.a_beats,
        "a_scales": configuration.a_beats // 4,
        "w_codes": 2 * configuration.w_beats,
        "w_scales": configuration.w_beats // 4,
        "out_codes": 2 * configuration.out_beats,
        "out_scales": configuration.out_beats // 4,
        "vector": 2 * configuration.vector_beats,
    }
    for name, count in words.items():
        assert buffers.words(name).shape == (count, 2 * rows)
    buffers.words("vector")[3, 4:8] = np.array([1.5], "<f4").view(np.uint8)
    assert buffers.vector.view("<f4")[1, rows // 2 + 1] == 1.5
    buffers.words("w_codes")[3, 5] = 7
    assert buffers.operand("w").codes[1, rows // 2 + 1, 1] == 7
    buffers.words("a_scales")[2, rows + 3] = 9
    assert buffers.operand("a").scales[5, 3] == 9


def test_places() -> None:
    require_within("beat", np.zeros((0, 3), np.int64), 0)
    require_within("beat", np.array([3, 9]), 10)
    with pytest.raises(MachineStop, match="beat must be below 10, not 11") as caught:
        require_within("beat", np.array([11, 3]), 10)
    assert caught.value.error == "address"
