"""The operand packer: blocks of any length, stalls, resets, and the rate."""

from pathlib import Path

import numpy as np
import pytest

from mxsafe.formats import MX_FORMATS
from mxsafe.rtl.stream.operand_packer import OperandPacker
from verif.rtl.stream.packer_checks import check_packing, packer, random_blocks
from verif.support.manifest import Module
from verif.support.tests import Tally, available, refused, some

committed = pytest.mark.parametrize("name", ["mxsf_operand_packer", "mxsf_operand_packer_groups2"])


@committed
@pytest.mark.parametrize("stalls", some([(0.3, 0.1), (0.0, 0.0), (0.1, 0.3)], every=3))
def test_blocks(
    simulator: str,
    name: str,
    stalls: tuple[float, float],
    modules: dict[str, Module],
    tally: Tally,
) -> None:
    module = modules[name]
    stall_in, stall_out = stalls
    blocks = {"icarus": 40, "verilator": 200}[simulator]
    streamed = check_packing(
        simulator,
        module,
        random_blocks(module, 1, blocks, 13),
        stall_in=stall_in,
        stall_out=stall_out,
        resets_after=range(1, 20) if stall_in > stall_out else (),
    )
    tally(simulator, "operand packer beats", streamed.left.size)


def test_rate(modules: dict[str, Module]) -> None:
    """Beats of whole blocks go in every cycle; a missing lane costs a cycle."""
    module = modules["mxsf_operand_packer_groups2"]
    codes, scales, _, _ = random_blocks(module, 2, 8, 1)
    beats = np.repeat(codes, 8, axis=0), np.repeat(scales, 8, axis=0)
    index = np.arange(64)
    streamed = check_packing(available("icarus"), module, (*beats, index % 8 == 7, index == 63))
    assert (np.diff(streamed.taken) == 1).all()
    assert (streamed.left == streamed.taken[3::4]).all()
    assert streamed.left[0] - streamed.taken[0] == module.latency
    lengths = np.array([5, 4, 2, 8])
    ends = np.isin(np.arange(19), np.cumsum(lengths) - 1)
    scales = np.repeat(scales[:4], lengths, axis=0)
    streamed = check_packing(
        available("icarus"), module, (np.repeat(codes[:1], 19, axis=0), scales, ends, ends)
    )
    last = streamed.taken[np.cumsum(lengths) - 1]
    assert np.diff(last, prepend=streamed.taken[0] - 1).tolist() == [8, 4, 4, 8]


@pytest.mark.parametrize(
    ("fmt", "parameters"),
    [
        ("mxsf", {"width": 2, "lanes": 2}),
        ("mxsf", {"width": 1, "lanes": 8}),
        ("mxfp6_e3m2", {"width": 4, "groups": 1}),
        ("mxfp4_e2m1", {"width": 2, "lanes": 4}),
    ],
)
def test_other_sizes(fmt: str, parameters: dict[str, int], tmp_path: Path, tally: Tally) -> None:
    module = packer(tmp_path, fmt, **parameters)
    blocks = random_blocks(module, 3, 40, 9)
    streamed = check_packing(available("icarus"), module, blocks, stall_in=0.2, stall_out=0.2)
    tally("icarus", "operand packer beats", streamed.left.size)


test_configurations_that_cannot_work = refused(
    OperandPacker,
    [
        ({"width": 0}, "width must be a positive integer, not 0"),
        ({"lanes": 3}, "lanes must be a power of two, not 3"),
        ({"groups": 3}, "groups must divide width 16, not 3"),
        (
            {"format": MX_FORMATS["mxfp6_e2m3"], "width": 2},
            "s_axis_tdata must be whole bytes, not 28 bits",
        ),
    ],
    format=MX_FORMATS["mxsf"],
)
