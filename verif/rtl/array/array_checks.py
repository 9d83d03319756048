"""Checks of an array: jobs of matrix products, and the model's answers to them."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import mxsafe as mx
from mxsafe import model
from mxsafe.formats import OPERAND_FORMATS, FormatSet
from mxsafe.model.gemm import ProductArithmetic
from mxsafe.model.window import anchors
from verif.rtl import functional
from verif.rtl.array.array_job import Job, Operand, Product, Result, Stall, run_products
from verif.support.checkers import assert_equal
from verif.support.manifest import Module
from verif.support.simulators import run_lockstep
from verif.support.units import array_unit, generated

Block = int | tuple[int, int]
Shape = tuple[int, ...]


def small_array(
    arithmetic: ProductArithmetic, fmt: str = "mxsf", format_w: str | None = None, **parameters: Any
) -> Module:
    """An array of 2x2 units of 2x2 MACs with two lanes, apart from `parameters`, in `folder`."""
    sizes = {"pu_rows": 2, "pu_columns": 2, "rows": 2, "columns": 2, "lanes": 2, **parameters}
    other = OPERAND_FORMATS[format_w] if format_w else None
    unit = array_unit(arithmetic, OPERAND_FORMATS[fmt], format_w=other, **sizes)
    return generated(unit)


def operands(
    rng: np.random.Generator,
    m: int,
    k: int,
    n: int,
    block: Block,
    fmt: str = "mxsf",
    format_w: str | None = None,
    *,
    specials: float = 0.0,
) -> Product:
    """A product whose elements and scales reach every class, NaN and extreme scales included.

    A share `specials` of the elements gets any code, where the format has codes for NaN or Inf
    mostly one of those.
    """
    result = []
    for shape, axis, name in (((m, k), -1, fmt), ((k, n), -2, format_w or fmt)):
        x = rng.standard_normal(shape) * np.exp2(rng.integers(-12, 3, shape))
        x[rng.random(shape) < 0.1] = 0.0
        x *= rng.choice([1.0, -1.0], shape)
        q = mx.quantize(x, name, block=block, axis=axis)
        kind = rng.random(q.scales.shape)
        scales = np.where(kind < 0.03, rng.integers(0, 20, kind.shape), q.scales)
        scales = np.where((kind > 0.03) & (kind < 0.06), rng.integers(230, 255, kind.shape), scales)
        scales = np.where((kind > 0.06) & (kind < 0.063), 255, scales).astype(np.uint8)
        other = rng.choice(_foreign_codes(name), q.codes.shape).astype(np.uint8)
        codes = np.where(rng.random(q.codes.shape) < specials, other, q.codes)
        result.append(mx.QuantizedTensor(codes, scales, q.format, q.block, q.axis))
    return result[0], result[1]


def _foreign_codes(fmt: str) -> np.ndarray:
    """Codes that our quantiser never makes, and one of those that it does."""
    codes = np.arange(1 << mx.MX_FORMATS[fmt].element.width)
    values = mx.decode(codes, fmt)
    never = ~np.isfinite(values)
    if fmt == "mxint8":
        never = codes == 0x80
    return np.append(codes[never], 1)


def random_products(
    seed: int,
    count: int,
    size: int,
    deepest: int,
    block: Block,
    fmt: str | Sequence[str] = "mxsf",
    format_w: str | Sequence[str] | None = None,
    *,
    specials: float = 0.0,
) -> list[Product]:
    """Products of random shapes: ragged, smaller than the array, of one block and of many.

    Where several formats are given for an operand, products have all pairs of them in turn.
    """
    rng = np.random.default_rng(seed)
    choices = [[one] if isinstance(one, str) else list(one) for one in (fmt, format_w or fmt)]
    pairs = list(itertools.product(*choices))
    turns = rng.permutation(len(pairs)) if len(pairs) > 1 else [0]
    return [
        operands(
            rng,
            int(rng.integers(1, 2 * size + 2)),
            int(rng.integers(1, deepest)),
            int(rng.integers(1, 2 * size + 2)),
            block,
            *pairs[turns[number % len(pairs)]],
            specials=specials,
        )
        for number in range(count)
    ]


def products_of_classes(seed: int, fmt: str, lanes: int) -> list[Product]:
    """Products that reach every class of functional coverage.

    Each code of a pair of classes is alone in its sum, so that one that is NaN hides no other; and
    so is the block of a pair of scales. Then scales change from block to block, of a beat each.
    """
    rng = np.random.default_rng(seed)
    labels, of_code = functional.classes(fmt)
    some = [rng.choice(np.flatnonzero(of_code == number)) for number in range(len(labels))]
    ones = np.full((len(some), 1), functional.SCALES["32 to 222"] + 95)
    bounds = [*functional.SCALES.values(), 256]
    scales = np.array([[rng.integers(*each)] for each in itertools.pairwise(bounds)])
    codes = rng.integers(0, len(of_code), (len(scales), lanes))
    special = [n for n, label in enumerate(labels) if label[1:] in ("NaN", "Inf")]
    codes[np.isin(of_code[codes], special)] = 1  # a number, so that scales tell
    steps = rng.permutation([-60, -30, -10, 0, 10, 30, 60])
    changing = 127 + np.cumsum(rng.permuted(np.tile(steps, (2, 1)), axis=1), axis=1)
    many = np.tile(codes[:2], len(steps))
    return [
        _outer(np.array(some)[:, None], ones, fmt, lanes),
        _outer(codes, scales, fmt, lanes),
        _outer(many, changing, fmt, lanes),
    ]


def _outer(codes: np.ndarray, scales: np.ndarray, fmt: str, block: int) -> Product:
    """The product of a matrix with its own transpose."""
    a = mx.quantize(np.zeros(codes.shape), fmt, block=block)
    w = mx.quantize(np.zeros(codes.T.shape), fmt, block=block, axis=0)
    made = codes.astype(np.uint8), scales.astype(np.uint8)
    return (
        mx.QuantizedTensor(*made, a.format, a.block, a.axis),
        mx.QuantizedTensor(made[0].T, made[1].T, w.format, w.block, w.axis),
    )


def near_zero_products(
    seed: int, count: int, size: int, deepest: int, block: Block
) -> list[Product]:
    """Products of few numbers, or small ones: no rounding hides the low bits of a sum.

    Each row and column has elements up to a magnitude of its own, any of the format's codes in the
    first, and a share of zeros of its own; scales are near each other.
    """
    rng = np.random.default_rng(seed)
    values = _values()
    by_magnitude = np.argsort(np.abs(values), kind="stable")

    def codes(shape: Shape, lines: Shape) -> np.ndarray:
        most = len(values) >> rng.integers(0, 7, lines)
        chosen = by_magnitude[rng.integers(0, most, shape)]
        chosen[rng.random(shape) < rng.choice([0.0, 0.5, 0.9], lines)] = 0
        return chosen

    def scales(shape: Shape) -> np.ndarray:
        return rng.integers(124, 131, shape)

    return _products_of(rng, count, size, deepest, block, codes, scales)


def large_products(seed: int, count: int, size: int, deepest: int, block: Block) -> list[Product]:
    """Products whose sums grow with every block, and keep bits far below their largest.

    Most elements are large, of one sign in each row and column; some are of any code.
    """
    rng = np.random.default_rng(seed)
    by_value = np.argsort(_values(), kind="stable")

    def codes(shape: Shape, lines: Shape) -> np.ndarray:
        place = rng.integers(0, len(by_value) // 8, shape)
        large = np.where(rng.random(lines) < 0.5, place, len(by_value) - 1 - place)
        anywhere = rng.integers(0, len(by_value), shape)
        return by_value[np.where(rng.random(shape) < 0.2, anywhere, large)]

    def scales(shape: Shape) -> np.ndarray:
        return np.full(shape, 127)

    return _products_of(rng, count, size, deepest, block, codes, scales)


def _values() -> np.ndarray:
    """Return the value of each code of MXSF."""
    return mx.decode(np.arange(1 << mx.MX_FORMATS["mxsf"].element.width), "mxsf")


def _products_of(
    rng: np.random.Generator,
    count: int,
    size: int,
    deepest: int,
    block: Block,
    codes: Callable[[Shape, Shape], np.ndarray],
    scales: Callable[[Shape], np.ndarray],
) -> list[Product]:
    """Products of random shapes, of codes and scales that are drawn by functions.

    Parameters
    ----------
    codes : callable
        Takes the shape of an operand, and that of a number for each of its rows or columns.
    scales : callable
        Takes the shape of the scales.
    """
    products: list[Product] = []
    for _ in range(count):
        m, n = rng.integers(1, 2 * size + 2, 2)
        k = int(rng.integers(1, deepest))
        pair = []
        for shape, axis in (((m, k), 1), ((k, n), 0)):
            q = mx.quantize(np.zeros(shape), "mxsf", block=block, axis=axis - 2)
            lines = tuple(1 if each == axis else shape[each] for each in (0, 1))
            drawn = codes(shape, lines).astype(np.uint8)
            scaled = scales(q.scales.shape).astype(np.uint8)
            pair.append(mx.QuantizedTensor(drawn, scaled, q.format, q.block, q.axis))
        products.append((pair[0], pair[1]))
    return products


def _bf16_operands(
    rng: np.random.Generator, m: int, k: int, n: int, low: int, high: int
) -> Product:
    """A product of bfloat16 matrices with exponent fields from `low` up to `high`, and zeros."""
    pair = []
    for shape in ((m, k), (k, n)):
        fields = rng.integers(low, high, shape, np.uint16) << np.uint16(7)
        bits = rng.integers(0, 1 << 16, shape, np.uint16) & np.uint16(0x807F)
        pair.append(np.where(rng.random(shape) < 0.1, np.uint16(0), fields | bits))
    return pair[0], pair[1]


def bf16_products(seed: int, count: int, size: int, deepest: int) -> list[Product]:
    """Products of bfloat16 matrices of random shapes: most of near numbers, some of any."""
    rng = np.random.default_rng(seed)
    products: list[Product] = []
    for index in range(count):
        m, n = rng.integers(1, 2 * size + 2, 2).tolist()
        k = int(rng.integers(1, deepest))
        low, high = ((118, 136), (1, 90), (150, 200), (0, 256))[index % 4]
        products.append(_bf16_operands(rng, m, k, n, low, high))
    return products


def _operands_of(
    module: Module, rng: np.random.Generator, m: int, k: int, n: int, block: Block
) -> Product:
    """A product for an array: `operands` in MXSF, or without blocks in bfloat16."""
    if module.parameters["arithmetic"] == "bf16":
        return _bf16_operands(rng, m, k, n, 118, 136)
    return operands(rng, m, k, n, block)


def _compare(module: Module, products: Sequence[Product], got: Sequence[np.ndarray]) -> None:
    p = module.parameters
    for (a, w), result in zip(products, got, strict=True):
        if p["arithmetic"] == "bf16":
            expected = model.bf16_matmul(a, w, lanes=p["lanes"])
            assert_equal("product", result.view(np.uint32), expected.view(np.uint32))
            continue
        windows = {name: p[name] for name in ("window", "inner") if name in p}
        expected = mx.matmul(a, w, arithmetic=p["arithmetic"], lanes=p["lanes"], **windows)
        assert_equal("product", result.view(np.uint32), expected.view(np.uint32))


def check_products(
    simulator: str, module: Module, products: Sequence[Product], **options: Any
) -> Result:
    """Products come out as `matmul` has them, and nothing is flagged."""
    result = run_products(simulator, module, products, **options)
    check_result(module, products, result)
    return result


def check_result(module: Module, products: Sequence[Product], result: Result) -> None:
    """Products are as `matmul` has them, and nothing is flagged."""
    _compare(module, products, result.products)
    assert not result.out_of_step.any()
    assert not result.overlong.any()


def check_short_tiles(simulator: str, module: Module, **options: Any) -> Result:
    """Tiles of a single beat, one after the other: each waits for the rows of the one before."""
    lanes = module.parameters["lanes"]
    rng = np.random.default_rng(11)
    products = [_operands_of(module, rng, 16, k, 16, lanes) for k in (lanes, 1, 2 * lanes)]
    return check_products(simulator, module, products, **options)


def check_resets(
    simulator: str,
    module: Module,
    *,
    every: int = 1,
    stall: Stall = 0.0,
) -> Result:
    """A reset at any moment, of one cycle or of four, leaves nothing of what was in flight.

    Of the moments `every` such a one is tried; where that is odd, both lengths are.
    """
    lanes = module.parameters["lanes"]
    rng = np.random.default_rng(2)
    is_bf16 = module.parameters["arithmetic"] == "bf16"
    others = bf16_products(5, 4, 4, 40) if is_bf16 else random_products(5, 4, 4, 40, 8)
    products = [_operands_of(module, rng, 16, lanes, 16, lanes), *others]
    # Every phase of the tiles of one beat at both lengths of reset, then moments further on.
    moments = [*np.repeat(np.arange(6, 30), 2).tolist(), *rng.integers(30, 120, 8).tolist()]
    return check_products(simulator, module, products, stall=stall, resets_after=moments[::every])


def check_out_of_step(simulator: str, module: Module) -> None:
    """The first operand says where a tile ends; from a disagreement on every row is flagged."""
    p = module.parameters
    rows, columns = p["pu_rows"] * p["rows"], p["pu_columns"] * p["columns"]
    product = _operands_of(module, np.random.default_rng(4), 2 * rows, 24, 2 * columns, 8)

    def missing(job: Job) -> None:
        job["w_last"][np.flatnonzero(job["w_last"])[0]] = False

    def extra(job: Job) -> None:
        job["w_last"][0] = True

    for alter in (missing, extra):
        result = run_products(simulator, module, [product], alter=alter)
        _compare(module, [product], result.products)
        assert result.out_of_step.all(), f"tlast {alter.__name__} was not flagged"
        assert not result.overlong.any()


def check_overlong_block(simulator: str, module: Module) -> None:
    """A block of one beat more than the sums hold is flagged from its tile on."""
    p = module.parameters
    rows, block = p["pu_rows"] * p["rows"], p["block"]
    short = operands(np.random.default_rng(6), rows, block, 1, block)
    long = operands(np.random.default_rng(7), rows, block + 1, 1, block)
    check_products(simulator, module, [short, long, short])

    def join(job: Job) -> None:
        """Let the second product's block of `block` go on into the block after it."""
        ends = np.flatnonzero(job["a_block_last"])
        job["a_block_last"][ends[1]] = False

    result = run_products(simulator, module, [short, long, short], alter=join, stall=0.2)
    assert result.overlong[rows:].all(), "a block of a beat too many was not flagged"
    assert not result.out_of_step.any()


def check_overlong_tile(simulator: str, module: Module) -> None:
    """A tile of one beat more than its sums hold is flagged, in one piece or going on."""
    p = module.parameters
    rows, lanes, inner = p["pu_rows"] * p["rows"], p["lanes"], p["inner"]
    rng = np.random.default_rng(16)
    whole, beat = (operands(rng, rows, k, 1, lanes) for k in (inner, lanes))
    check_products(simulator, module, [whole, beat, whole])

    def go_on(job: Job) -> None:
        """Let the second product, of one beat, go on from the first."""
        job["a_first"][inner // lanes] = False

    result = run_products(simulator, module, [whole, beat, whole], alter=go_on, stall=0.2)
    assert result.overlong[rows:].all(), "a tile of a beat too many was not flagged"
    assert not result.out_of_step.any()


def check_distances(simulator: str, module: Module) -> Result:
    """Blocks at every distance below their anchors: those of rows, of columns and of both."""
    p = module.parameters
    rows, columns = p["pu_rows"] * p["rows"], p["pu_columns"] * p["columns"]
    rng = np.random.default_rng(18)
    block, products = p["lanes"], []
    for spread_a, spread_w in ((80, 1), (1, 80), (20, 20), (3, 40)):
        shapes = ((rows, 9 * block), -1, spread_a), ((9 * block, columns), -2, spread_w)
        pair = []
        for shape, axis, spread in shapes:
            q = mx.quantize(rng.standard_normal(shape), block=block, axis=axis)
            scales = (150 - rng.integers(0, spread, q.scales.shape)).astype(np.uint8)
            pair.append(mx.QuantizedTensor(q.codes, scales, q.format, q.block, q.axis))
        products.append((pair[0], pair[1]))
    return check_products(simulator, module, products, stall=0.1)


def check_scales_above_anchors(simulator: str, module: Module) -> None:
    """A block whose scale is above the anchor makes NaN of its row, in that tile alone."""
    p = module.parameters
    rows, columns = p["pu_rows"] * p["rows"], p["pu_columns"] * p["columns"]
    rng = np.random.default_rng(17)
    k, block = 4 * p["lanes"], p["lanes"]
    a, w = (
        mx.quantize(rng.standard_normal(shape), block=block, axis=axis)
        for shape, axis in (((rows, k), -1), ((k, columns), -2))
    )
    row, beats = rows // 2, k // block
    width = module.ports["s_axis_a_tdata"].width // 8
    start = width - 2 * rows  # scales and then anchors are the last of a beat

    def raised(job: Job) -> None:
        """Raise a scale of the first of two tiles to one above its anchor."""
        words = job["a"]
        words[1, start + row] = words[1, start + rows + row] + 1

    result = run_products(simulator, module, [(a, w), (a, w)], alter=raised, stall=0.1)
    expected = mx.matmul(a, w, arithmetic="window", window=p["window"], inner=p["inner"])
    assert len(a.scales[0]) == beats
    assert_equal("product", result.products[1].view(np.uint32), expected.view(np.uint32))
    expected[row] = np.uint32(0x7FC00000).view(np.float32)
    assert_equal("product", result.products[0].view(np.uint32), expected.view(np.uint32))


def check_special_codes(simulator: str, module: Module) -> None:
    """A code for NaN or Inf, at the start, within or at the end of a block, spoils that alone."""
    p = module.parameters
    fmt = module.format
    rows, columns = p["pu_rows"] * p["rows"], p["pu_columns"] * p["columns"]
    rng = np.random.default_rng(13)
    products = []
    for k in (0, 1, 7, 9, 15, 23):
        a, w = (
            mx.quantize(rng.standard_normal(shape), fmt, block=8, axis=axis)
            for shape, axis in (((rows, 24), -1), ((24, columns), -2))
        )
        code = rng.choice(_foreign_codes(fmt)[:-1])
        (a.codes[k % rows] if k % 2 else w.codes[:, k % columns])[k] = code
        products.append((a, w))
    result = check_products(simulator, module, products)
    share = np.isnan(np.stack(result.products)).mean(axis=(1, 2))
    assert ((share > 0) & (share < 1)).all()


def check_formats_at_run_time(
    simulator: str,
    module: Module,
    *,
    turns: int = 1,
    size: int = 4,
    deepest: int = 36,
    stall: Stall = 0.0,
) -> Result:
    """Products of all pairs of formats that the operands can have, one after the other."""
    assert module.operands is not None
    choices = [
        [member.name for member in fmt.members] if isinstance(fmt, FormatSet) else [fmt.name]
        for fmt in (module.operands.a, module.operands.w)
    ]
    block = min(module.parameters["block"], 16)
    pairs = len(choices[0]) * len(choices[1])
    products = random_products(21, turns * pairs, size, deepest, block, *choices)
    assert len({(a.format.name, w.format.name) for a, w in products}) == pairs
    return check_products(simulator, module, products, stall=stall)


def check_full_queue(simulator: str, module: Module) -> None:
    """Without a sink as many tiles end as have room; then beats enter that do not end one.

    What is on offer stays, though a block gets too long meanwhile.
    """
    p = module.parameters
    rows, room = p["pu_rows"] * p["rows"], p["tiles_under_way"]
    enough = 2 * room * max(p["block_cycles"], rows) + module.latency
    phases = np.repeat(("ends", "goes on", "sink"), (enough, 2 * p["block"], enough))
    ends, sink = (phase.astype(np.uint8) for phase in (phases != "goes on", phases == "sink"))
    rst = np.arange(len(ends)) < 1
    # What is not gated would take a beat in the clock of reset too.
    offers = 0 * ends + 1 if p.get("gated", True) else ~rst
    driven = {
        **dict.fromkeys(module.inputs, 0 * ends),
        **dict.fromkeys(("s_axis_a_tvalid", "s_axis_w_tvalid"), offers),
        **dict.fromkeys(("s_axis_a_tlast", "s_axis_w_tlast", "s_axis_a_tuser"), ends),
        "m_axis_c_tready": sink,
        "rst": rst,
    }
    stimulus = {
        name: module.ports[name].words(values) for name, values in driven.items() if name != "clk"
    }
    # Until the first row is there, nobody knows what `tdata` holds.
    watched = ("s_axis_a_tready", "m_axis_c_tvalid", "m_axis_c_tuser")
    log = run_lockstep(
        simulator,
        module,
        stimulus,
        unsettled=module.latency + 2,
        watched=watched,
    )
    taken, valid = (log[name].ravel() == 1 for name in ("s_axis_a_tready", "m_axis_c_tvalid"))
    assert taken[phases == "ends"].sum() == room, "not as many tiles have entered as have room"
    assert taken[phases == "goes on"].all(), "a beat waits that needs no room"
    offered = log["m_axis_c_tuser"][valid & (sink == 0)]
    assert not offered.any(), "flags of a stalled result changed"
    # Rows leave one a cycle, and a tile enters when all rows of another have left.
    assert valid[sink == 1][: room * rows].all(), "rows of tiles that have entered are lost"
    assert np.flatnonzero(taken[sink == 1])[0] == rows, "a tile has entered early or late"
    assert log["m_axis_c_tuser"][valid][-1] == 2, "a block of too many beats was not flagged"


def check_continued_tiles(simulator: str, module: Module) -> None:
    """A tile without `first` goes on from the results before it, or from +0 after a reset.

    With `first` it drops what came before.
    """
    p = module.parameters
    rows, columns = p["pu_rows"] * p["rows"], p["pu_columns"] * p["columns"]
    a, w = _operands_of(module, np.random.default_rng(8), rows, 24, columns, 8)
    a, w = _prepared(module, a, w, [16, 8])
    begin, end = _parts(a, w, [16, 8])

    def without_first(job: Job) -> None:
        job["a_first"][16 // p["lanes"]] = False

    def first_again(job: Job) -> None:
        job["a_first"][16 // p["lanes"]] = True

    continued = run_products(simulator, module, [begin, end], alter=without_first)
    _compare(module, [begin, (a, w)], continued.products)
    dropped = run_products(simulator, module, [(a, w)], alter=first_again)
    _compare(module, [end], dropped.products)

    def no_first(job: Job) -> None:
        job["a_first"][0] = False

    after_reset = run_products(simulator, module, [(a, w)], alter=no_first, resets_after=[40])
    _compare(module, [(a, w)], after_reset.products)


def check_dropped_blocks(simulator: str, module: Module) -> None:
    """A beat with `first` in the middle of a block drops the beats of the block before it, too."""
    p = module.parameters
    rows, columns, lanes = p["pu_rows"] * p["rows"], p["pu_columns"] * p["columns"], p["lanes"]
    rng, block = np.random.default_rng(19), 4 * lanes
    a, w = (
        mx.quantize(rng.standard_normal(shape), block=block, axis=axis)
        for shape, axis in (((rows, 3 * block), -1), ((3 * block, columns), -2))
    )
    for stall in (0.0, 0.3):
        for beats in range(1, 8):

            def begins(job: Job, beats: int = beats) -> None:
                job["a_first"][beats] = True

            result = run_products(simulator, module, [(a, w)], alter=begins, stall=stall)
            codes = a.codes.copy()
            codes[:, : beats * lanes] = 0
            rest = mx.QuantizedTensor(codes, a.scales, a.format, a.block, a.axis)
            _compare(module, [(rest, w)], result.products)


def check_continued_tiles_with_stalls(simulator: str, module: Module) -> None:
    """Tiles without `first`, one after the other, whose results have to wait.

    Blocks of one beat keep the accumulators busy; between longer ones they rest.
    """
    p = module.parameters
    rows, columns, lanes = p["pu_rows"] * p["rows"], p["pu_columns"] * p["columns"], p["lanes"]

    def without_first(job: Job) -> None:
        job["a_first"][1:] = False

    for block in (lanes, 6 * lanes):
        lengths = [block * blocks for blocks in (1, 1, 2, 1, 3, 1) * 3]
        a, w = _operands_of(module, np.random.default_rng(14), rows, sum(lengths), columns, block)
        a, w = _prepared(module, a, w, lengths)
        parts = _parts(a, w, lengths)
        result = run_products(simulator, module, parts, stall=(0.1, 0.4), alter=without_first)
        so_far = [_part(a, w, slice(0, int(end))) for end in np.cumsum(lengths)]
        _compare(module, so_far, result.products)


def _prepared(module: Module, a: Operand, w: Operand, lengths: Sequence[int]) -> Product:
    """Operands whose parts can go on from each other: with windows all have the same anchors."""
    if module.parameters["arithmetic"] != "window":
        return a, w
    assert isinstance(a, mx.QuantizedTensor)
    assert isinstance(w, mx.QuantizedTensor)
    assert isinstance(a.block, int)
    first = (np.cumsum(lengths) - lengths) // a.block  # blocks of the parts
    scales_a, scales_w = a.scales.copy(), w.scales.copy()
    scales_a[:, first] = anchors(a, 1)[:, None]
    scales_w[first] = anchors(w, 0)
    return (
        mx.QuantizedTensor(a.codes, scales_a, a.format, a.block, a.axis),
        mx.QuantizedTensor(w.codes, scales_w, w.format, w.block, w.axis),
    )


def _parts(a: Operand, w: Operand, lengths: Sequence[int]) -> list[Product]:
    """A product cut along the inner dimension, at ends of blocks."""
    ends = np.cumsum(lengths).tolist()
    return [
        _part(a, w, slice(end - length, end)) for end, length in zip(ends, lengths, strict=True)
    ]


def _part(a: Operand, w: Operand, k: slice) -> Product:
    """A stretch along the inner dimension, of whole blocks where there are any."""
    if isinstance(a, np.ndarray):
        assert isinstance(w, np.ndarray)
        return a[:, k], w[k]
    assert isinstance(w, mx.QuantizedTensor)
    assert isinstance(a.block, int)
    blocks = slice(k.start // a.block, k.stop // a.block)
    return (
        mx.QuantizedTensor(a.codes[:, k], a.scales[:, blocks], a.format, a.block, a.axis),
        mx.QuantizedTensor(w.codes[k], w.scales[blocks], w.format, w.block, w.axis),
    )
