"""A real layer end to end: quantised, multiplied on the simulated MACs, compared sum by sum."""

from collections.abc import Callable

import numpy as np
import pytest

import mxsafe as mx
from mxsafe import model
from mxsafe.model.float_arithmetic import decode_float
from mxsafe.model.gemm import Arithmetic, ProductArithmetic
from verif.data import minilm
from verif.rtl.array.array_job import run_products
from verif.rtl.mac import corner_cases
from verif.support.checkers import assert_equal, check_mac
from verif.support.manifest import Module, mac_stimulus
from verif.support.simulators import run_lockstep
from verif.support.tests import some

BLOCKS: dict[str, int | tuple[int, int]] = {"1x64": 64, "8x8": (8, 8)}


def quantised(block: int | tuple[int, int]) -> tuple[mx.QuantizedTensor, mx.QuantizedTensor]:
    activations, weights = minilm.load()
    return (
        mx.quantize(activations, "mxsf", block=block, axis=-1),
        mx.quantize(weights, "mxsf", block=block, axis=-2),
    )


@pytest.mark.parametrize("block", some(BLOCKS))
@pytest.mark.parametrize("unit", ["safe_mac", "safe_mac_exact"])
def test_rows_and_columns_on_hardware(
    simulator: str, unit: str, block: str, modules: dict[str, Module]
) -> None:
    module = modules[unit]
    a, w = quantised(BLOCKS[block])
    rows, columns = {"icarus": (3, 5), "verilator": (16, 24)}[simulator]
    lanes = module.parameters["lanes"]
    depth = a.shape[1]
    beats = depth // lanes
    assert beats * lanes == depth

    # Output by output, k ascending: operand vectors of shape (rows * columns * beats, lanes).
    shape = (rows, columns, beats, lanes)
    left = a.codes[:rows].reshape(rows, 1, beats, lanes)
    right = w.codes[:, :columns].T.reshape(1, columns, beats, lanes)
    vectors = [np.broadcast_to(side, shape).reshape(-1, lanes) for side in (left, right)]
    rows_in = corner_cases.without_stalls(*vectors, flush=module.latency - 1)
    log = run_lockstep(simulator, module, mac_stimulus(module, *rows_in))
    output = "partial_sum" if unit == "safe_mac" else "dot"
    reference = model.safe_mac if unit == "safe_mac" else model.safe_mac_exact
    compared = check_mac(module, log, output, reference)
    assert compared == rows * columns * beats

    # What came out of the simulator, scaled and accumulated, is what `matmul` says.
    results = (
        module.ports[output].numbers(log[output])[module.latency :].reshape(rows, columns, beats)
    )
    arithmetic: Arithmetic = "fp12"
    step = lanes
    if unit == "safe_mac":
        partial = decode_float(results).astype(np.float64)
    else:
        arithmetic, step = "exact", 64 if block == "1x64" else 8
        quantum_exponent = module.parameters["quantum_exponent"]
        blocks = results.reshape(rows, columns, depth // step, step // lanes).sum(axis=3)
        partial = np.ldexp(blocks.astype(np.float64), quantum_exponent)
    scale_a, scale_w = a.element_scales()[:rows, ::step], w.element_scales()[::step, :columns]
    acc = np.zeros((rows, columns), np.float32)
    for i in range(depth // step):
        acc = model.scale_and_accumulate(
            acc, partial[:, :, i], scale_a[:, i, None], scale_w[None, i, :]
        )
    expected = mx.matmul(a, w, arithmetic=arithmetic)[:rows, :columns]
    assert_equal("outputs", acc.view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize(
    ("arithmetic", "tokens"),
    [
        ("exact", 16),
        pytest.param("exact", 32, marks=pytest.mark.variant),
        pytest.param("fp12", 32, marks=pytest.mark.full),
        pytest.param("fp12", 128, marks=pytest.mark.full),
        pytest.param("exact", 128, marks=pytest.mark.full),
        pytest.param("window", 32, marks=pytest.mark.full),
    ],
)
def test_whole_layer_on_the_full_array(
    arithmetic: ProductArithmetic, tokens: int, modules: dict[str, Module]
) -> None:
    names = {"fp12": "mxsf_sta", "exact": "mxsf_sta_exact", "window": "mxsf_sta_window"}
    module = modules[names[arithmetic]]
    a, w = minilm.load_whole_layer()
    assert (a.shape, w.shape) == ((128, 384), (384, 1536))
    a = mx.QuantizedTensor(a.codes[:tokens], a.scales[:tokens], a.format, a.block, a.axis)
    result = run_products("verilator", module, [(a, w)])
    expected = mx.matmul(a, w, arithmetic=arithmetic)
    compared = assert_equal("layer", result.products[0].view(np.uint32), expected.view(np.uint32))
    assert compared == tokens * 1536
    assert result.ideal / result.cycles > 0.98


def test_error_table(report: Callable[[str], None]) -> None:
    """How much of the error against float32 is quantisation, and how much is FP12."""
    activations, weights = minilm.load()
    reference = activations.astype(np.float64) @ weights.astype(np.float64)
    norm = np.linalg.norm(reference)
    lines = [
        f"MiniLM layer 0, {activations.shape[0]} tokens x {weights.shape[0]} x {weights.shape[1]}, "
        "error relative to float32",
        "block   quantisation (exact)   FP12 alone   both (fp12)",
    ]
    for name, block in BLOCKS.items():
        a, w = quantised(block)
        exact, fp12 = (
            mx.matmul(a, w, arithmetic=arithmetic).astype(np.float64)
            for arithmetic in ("exact", "fp12")
        )
        quantisation, rounding, both = (
            np.linalg.norm(error) / norm
            for error in (exact - reference, fp12 - exact, fp12 - reference)
        )
        # The arithmetic is defined to the last bit, so its errors are too.
        expected = {"1x64": (0.014068, 0.001918), "8x8": (0.012252, 0.001900)}[name]
        assert (quantisation, rounding) == pytest.approx(expected, rel=1e-3)
        lines.append(f"{name:<8}{quantisation:>20.3%}{rounding:>13.3%}{both:>14.3%}")
    report("\n".join(lines))
