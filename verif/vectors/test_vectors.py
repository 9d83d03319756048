"""Test vectors: the files, what they hold, and a bench without Python that reads them."""

import json
import subprocess
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe import model, vectors
from mxsafe.formats import MX_FORMATS, FloatFields, FloatFormat
from mxsafe.vectors.corner_classes import block_classes, code_classes, operand_classes
from mxsafe.verilog.generate import generate
from mxsafe.verilog.presets import build
from verif.support import manifest
from verif.support.exact import element_value
from verif.support.manifest import Module
from verif.support.tests import Volume, raises, refused

BENCH = Path(__file__).parents[1] / "bench"
FINITE = [name for name, fmt in MX_FORMATS.items() if getattr(fmt.element, "finite_only", False)]
every_format = pytest.mark.parametrize("fmt", MX_FORMATS)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


class Loaded:
    """A folder of vectors, read as its description says and with nothing of the library."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.description: dict[str, Any] = json.loads((folder / "vectors.json").read_text())
        self.columns = {column["name"]: column for column in self.description["columns"]}
        self.count: int = self.description["count"]
        assert {path.name for path in folder.iterdir()} == {
            "vectors.json",
            *(column["file"] for column in self.columns.values()),
        }

    def words(self, name: str) -> list[int]:
        column = self.columns[name]
        text = (self.folder / column["file"]).read_text()
        lines = text.splitlines()
        assert text == "".join(f"{line}\n" for line in lines)
        assert len(lines) == self.count
        assert {len(line) for line in lines} == {-(-column["width"] // 4)}
        words = [int(line, 16) for line in lines]
        assert max(words) >> column["width"] == 0
        return words

    def numbers(self, name: str) -> list[int]:
        column, words = self.columns[name], self.words(name)
        wrap = 1 << column["width"]
        return [w - wrap if column["signed"] and w >= wrap // 2 else w for w in words]

    def lanes(self, name: str) -> NDArray[np.int64]:
        fields = self.columns[name]["fields"]
        rows = [
            [word >> field["offset"] & (1 << field["width"]) - 1 for field in fields]
            for word in self.words(name)
        ]
        return np.array(rows)

    def rows(self, name: str) -> slice:
        """Rows of a class."""
        (rows,) = [entry for entry in self.description["classes"] if entry["name"] == name]
        return slice(rows["first"], rows["first"] + rows["count"])

    def check_classes(self, names: list[str]) -> None:
        """Classes are these, in order, and cover all rows."""
        first = 0
        for entry in self.description["classes"]:
            assert entry["first"] == first
            first += entry["count"]
        assert first == self.count
        assert [entry["name"] for entry in self.description["classes"]] == names


def written(folder: Path, unit: str, fmt: str = "mxsf", **options: Any) -> Loaded:
    vectors.write(vectors.build(unit, fmt, **options), folder)
    return Loaded(folder)


def bench(
    loaded: Loaded, module: Module, ports: dict[str, str], folder: Path
) -> tuple[int, int, str]:
    """Run a Verilog bench on a module; returns rows compared, rows wrong and the output.

    `ports` gives the bench's name of each column that it reads.
    """
    top = f"{loaded.description['unit']}_vectors"
    parameters = {"COUNT": loaded.count}
    macros = {"MODULE": module.name}
    for name, column in ports.items():
        assert loaded.columns[column]["width"] == module.ports[column].width
        assert loaded.columns[column]["signed"] == module.ports[column].signed
        assert loaded.columns[column]["direction"] == module.ports[column].direction
        parameters[f"{name}_WIDTH"] = loaded.columns[column]["width"]
        macros[f"{name}_FILE"] = f'"{loaded.columns[column]["file"]}"'
        if name == "RESULT":
            macros[name] = column
            parameters["LATENCY"] = module.latency
    command = ["iverilog", "-g2001", "-Wall", "-o", str(folder / top), "-s", top]
    command += [f"-D{name}={value}" for name, value in macros.items()]
    command += [f"-P{top}.{name}={value}" for name, value in parameters.items()]
    command += [str(BENCH / f"{top}.v"), *map(str, module.sources)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    simulated = subprocess.run(
        ["vvp", "-n", str(folder / top)],
        cwd=loaded.folder,
        check=True,
        capture_output=True,
        text=True,
    )
    output = simulated.stdout + simulated.stderr
    words = output.splitlines()[-1].replace(",", "").split()
    assert words[::2] == ["compared", "wrong"], output
    return int(words[1]), int(words[3]), output


REAL_USES: dict[str, tuple[str, dict[str, Any], dict[str, str]]] = {
    "mxsf_decoder": (
        "decoder",
        {},
        {
            "CODE": "code",
            "SIGN": "sign",
            "EXPONENT": "exponent",
            "SIGNIFICAND": "significand",
        },
    ),
    "safe_mac": (
        "mac",
        {"arithmetic": "fp12"},
        {"A": "a", "W": "w", "RESULT": "partial_sum"},
    ),
    "safe_mac_exact": (
        "mac",
        {"arithmetic": "exact"},
        {"A": "a", "W": "w", "RESULT": "dot"},
    ),
}


@pytest.mark.parametrize("name", REAL_USES)
def test_a_verilog_bench_reads_them(
    name: str, modules: dict[str, Module], tmp_path: Path, volume: Volume
) -> None:
    unit, options, ports = REAL_USES[name]
    if unit == "mac":
        options = {**options, "count": volume(1_500, 5_000)}
    loaded = written(tmp_path / "vectors", unit, **options)
    module = modules[name]
    for column in ports.values():
        fields = tuple(
            (f["name"], f["offset"], f["width"]) for f in loaded.columns[column]["fields"]
        )
        assert fields == module.ports[column].fields
    for parameter in ("arithmetic", "lanes", "quantum_exponent", "exponent_bias", "sum_format"):
        assert loaded.description["parameters"].get(parameter) == module.parameters.get(parameter)
    compared, wrong, output = bench(loaded, module, ports, tmp_path)
    assert (compared, wrong) == (loaded.count, 0), output
    assert "$readmem" not in output, output
    # A bench that cannot fail compares nothing: one flipped bit must be found, in its row.
    for column in ports.values():
        if loaded.columns[column]["direction"] == "output":
            path = tmp_path / "vectors" / loaded.columns[column]["file"]
            right = path.read_text()
            lines = right.splitlines()
            row = loaded.count - 1
            lines[row] = f"{int(lines[row], 16) ^ 1:0{len(lines[row])}x}"
            path.write_text("\n".join(lines) + "\n")
            compared, wrong, output = bench(loaded, module, ports, tmp_path)
            assert (compared, wrong) == (loaded.count, 1)
            assert output.startswith(f"row {row}, ")
            path.write_text(right)
    # Nor may one that finds no files: unknown bits equal unknown bits.
    for column in ports.values():
        (tmp_path / "vectors" / loaded.columns[column]["file"]).unlink()
    compared, wrong, output = bench(loaded, module, ports, tmp_path)
    assert (compared, wrong) == (loaded.count, loaded.count), output[-200:]


def test_a_verilog_bench_reads_other_configurations(tmp_path: Path) -> None:
    top = build("safe_mac_exact", MX_FORMATS["mxfp6_e3m2"], lanes=8, pipeline=1)
    generate([top], tmp_path / "verilog")
    module = manifest.load(tmp_path / "verilog")[top.module_name]
    loaded = written(
        tmp_path / "vectors", "mac", "mxfp6_e3m2", arithmetic="exact", lanes=8, count=1_000
    )
    compared, wrong, output = bench(loaded, module, REAL_USES["safe_mac_exact"][2], tmp_path)
    assert (compared, wrong) == (loaded.count, 0), output


@every_format
def test_decoder(fmt: str, tmp_path: Path) -> None:
    loaded = written(tmp_path / "v", "decoder", fmt)
    codes = loaded.numbers("code")
    assert sorted(codes) == list(range(1 << MX_FORMATS[fmt].element.width))
    loaded.check_classes(
        [*code_classes(fmt), "random"] if len(codes) > 16 else [*code_classes(fmt)]
    )
    values = np.array(loaded.numbers("value"), np.uint32).view(np.float32)
    np.testing.assert_array_equal(values, mx.decode(codes, fmt))
    assert set(np.array(loaded.numbers("value"))[np.isnan(values)]) <= {0x7FC00000}
    np.testing.assert_array_equal(np.signbit(values[values == 0]), np.array(codes)[values == 0] > 0)
    if fmt == "mxint8":
        assert list(loaded.columns) == ["code", "number", "value"]
        unit = Fraction(2) ** loaded.description["parameters"]["quantum_exponent"]
        for number, value in zip(loaded.numbers("number"), values, strict=True):
            assert number * unit == Fraction(float(value))
        return
    nan = [] if fmt in FINITE else ["nan"]
    assert list(loaded.columns) == ["code", "sign", "exponent", "significand", *nan, "value"]
    bias = loaded.description["parameters"]["exponent_bias"]
    mantissa_bits = loaded.columns["significand"]["width"] - 1
    special = loaded.numbers("nan") if nan else [0] * len(codes)
    for sign, exponent, significand, flag, value in zip(
        *(loaded.numbers(name) for name in ("sign", "exponent", "significand")),
        special,
        values,
        strict=True,
    ):
        magnitude = Fraction(significand, 1 << mantissa_bits) * Fraction(2) ** (exponent - bias)
        assert flag == (not np.isfinite(value))
        if flag:
            assert exponent == significand == 0
            continue
        assert (-magnitude if sign else magnitude) == Fraction(float(value))
        assert significand >> mantissa_bits == (value != 0)


@pytest.mark.parametrize(
    ("fmt", "inf", "nan"),
    [("mxfp8_e4m3", [], [0x7F]), ("mxfp8_e5m2", [0x7C], [0x7D, 0x7E, 0x7F]), ("mxsf", [], [])],
)
def test_special_codes_are_listed(fmt: str, inf: list[int], nan: list[int], tmp_path: Path) -> None:
    element = written(tmp_path / "v", "decoder", fmt).description["format"]["element"]
    assert element["inf_magnitudes"] == inf
    assert element["nan_magnitudes"] == nan


def test_part_of_the_codes(tmp_path: Path) -> None:
    whole = written(tmp_path / "a", "decoder").numbers("code")
    part = written(tmp_path / "b", "decoder", count=11)
    assert part.numbers("code") == whole[:11]
    part.check_classes(["zeros of both signs", "subnormals", "seam"])


@pytest.mark.parametrize("lanes", [1, 2, 4])
@pytest.mark.parametrize(
    ("arithmetic", "fmt"),
    [
        (arithmetic, fmt)
        for fmt in MX_FORMATS
        for arithmetic in ("fp12", "exact")
        if (arithmetic, fmt) != ("fp12", "mxint8")
    ],
)
def test_mac(arithmetic: str, fmt: str, lanes: int, tmp_path: Path) -> None:
    loaded = written(
        tmp_path / "v", "mac", fmt, arithmetic=arithmetic, lanes=lanes, count=500, seed=3
    )
    a, w = loaded.lanes("a"), loaded.lanes("w")
    assert a.shape == w.shape == (500, lanes)
    if arithmetic == "fp12":
        assert loaded.numbers("partial_sum") == model.safe_mac(a, w, fmt).tolist()
    else:
        assert loaded.numbers("dot") == model.safe_mac_exact(a, w, fmt).tolist()
        assert loaded.columns["dot"]["signed"]
        assert min(loaded.numbers("dot")) < 0
    loaded.check_classes([*list(operand_classes(fmt))[1:], "random"])
    assert ("nan" in loaded.columns) == (fmt in ("mxfp8_e4m3", "mxfp8_e5m2"))
    if "nan" in loaded.columns:
        assert loaded.numbers("nan") == model.mac_nan(a, w, fmt).tolist()
        assert 10 < sum(loaded.numbers("nan")) < 450
    rows = loaded.rows("largest")
    if fmt == "mxint8":
        assert (np.abs(mx.decode(a[rows], fmt)) >= 126 / 64).all()
        return
    element = MX_FORMATS[fmt].element
    sign = 1 << (element.width - 1)
    assert set((a[rows] & (sign - 1)).ravel()) <= {element.max_magnitude - i for i in range(3)}
    rows = loaded.rows("all negative")
    assert (((a[rows] ^ w[rows]) & sign) == sign).all()
    if lanes > 1 and fmt != "mxfp4_e2m1":
        rows = loaded.rows("ties")
        sums = [_dot(fmt, p, q) for p, q in zip(a[rows], w[rows], strict=True)]
        assert sums
        # A number of FP12 has a bit less.
        assert {_significant_bits(total) for total in sums} == {9}


def _dot(fmt: str, a: NDArray[np.int64], w: NDArray[np.int64]) -> Fraction:
    total = Fraction(0)
    for pair in zip(a.tolist(), w.tolist(), strict=True):
        first, second = (element_value(fmt, code) for code in pair)
        assert first is not None
        assert second is not None
        total += first * second
    return total


def _significant_bits(number: Fraction) -> int:
    odd = abs(number.numerator)
    return (odd // (odd & -odd)).bit_length()


@pytest.mark.parametrize(
    "pair",
    [("mxsf", "mxfp4_e2m1"), ("mxfp6_e2m3", "mxfp8_e5m2"), ("mxint8", "mxsf")],
    ids="-".join,
)
def test_mac_of_two_formats(pair: tuple[str, str], tmp_path: Path) -> None:
    first, second = pair
    loaded = written(
        tmp_path / "v", "mac", first, format_w=second, arithmetic="exact", count=900, seed=3
    )
    widths = [MX_FORMATS[name].width for name in pair]
    assert [loaded.columns[port]["width"] for port in "aw"] == [4 * width for width in widths]
    a, w = loaded.lanes("a"), loaded.lanes("w")
    assert loaded.numbers("dot") == model.safe_mac_exact(a, w, first, format_w=second).tolist()
    assert min(loaded.numbers("dot")) < 0
    loaded.check_classes([*list(operand_classes(*pair))[1:], "random"])
    if "nan" in loaded.columns:
        assert loaded.numbers("nan") == model.mac_nan(a, w, first, format_w=second).tolist()
    description = loaded.description
    assert [description[key]["name"] for key in ("format", "format_w")] == list(pair)


@pytest.mark.parametrize("source", ["float32", "bfloat16"])
@pytest.mark.parametrize("block", [1, 5, None])
@every_format
def test_converter(fmt: str, block: int | None, source: str, tmp_path: Path) -> None:
    loaded = written(tmp_path / "v", "converter", fmt, block=block, input=source, count=480, seed=1)
    length = block or MX_FORMATS[fmt].block
    words = loaded.lanes("x")
    assert words.shape == (480, length)
    width = {"float32": 32, "bfloat16": 16}[source]
    assert loaded.columns["x"]["width"] == width * length
    x = (words << (32 - width)).astype(np.uint32).view(np.float32)
    q = mx.quantize(x, fmt, block=length)
    np.testing.assert_array_equal(loaded.lanes("codes"), q.codes)
    assert loaded.numbers("scale") == q.scales[:, 0].tolist()
    assert loaded.description["parameters"] == {
        "input": source,
        "block": length,
        "rounding": "rne",
        "scale_mode": "floor",
    }
    loaded.check_classes(list(block_classes(fmt)))
    check_block_classes(loaded, fmt, x, words, width)


def check_block_classes(
    loaded: Loaded, fmt: str, x: NDArray[np.float32], words: NDArray[np.int64], width: int
) -> None:
    """Each class goes where its name says."""
    element = MX_FORMATS[fmt].element
    scale = np.array(loaded.numbers("scale"))
    finite = np.where(np.isfinite(x), x, 0)
    amax = np.abs(finite).max(axis=1)
    relative = np.ldexp(np.abs(finite).astype(np.float64), 127 - scale[:, None])

    def members(name: str) -> tuple[Any, ...]:
        rows = loaded.rows(name)
        return x[rows], scale[rows], amax[rows], relative[rows]

    blocks, _, _, y = members("ties")
    table = np.unique(np.abs(mx.decode(np.arange(1 << element.width), fmt).astype(np.float64)))
    table = table[table <= element.max_value]
    middles = (table[1:] + table[:-1]) / 2
    if x.shape[1] > 1:
        binades = set(np.frexp(middles)[1])
        hit = y[np.isin(y, middles)]
        assert {int(e) for e in np.frexp(hit)[1]} >= (binades if x.shape[1] > 30 else set())
        assert hit.size > y.size / 5

    blocks, scales, _, _ = members("zeros of both signs")
    assert (blocks[0] == 0).all()
    assert not np.signbit(blocks[0]).any()
    assert np.signbit(blocks[1]).all()
    assert (scales[:3] == 0).all()
    assert ((blocks != 0).sum(axis=1) == np.arange(len(blocks)) % 4 // 3).all()

    blocks, _, top, _ = members("subnormal inputs")
    tiny = float(np.finfo(np.float32).smallest_normal)
    assert (top <= tiny).all()
    assert ((top > 0) & (top < tiny)).any()

    for name, is_special in (("NaN", np.isnan), ("Inf", np.isinf)):
        blocks, scales, _, _ = members(name)
        assert (is_special(blocks).sum(axis=1) == 1).all()
        assert (scales == 255).all()
    mantissa = (1 << (width - 9)) - 1
    payloads = set((words[loaded.rows("NaN")][np.isnan(x[loaded.rows("NaN")])] & mantissa).tolist())
    assert {1, mantissa, mantissa // 2 + 1} <= payloads

    blocks, scales, top, _ = members("largest inputs")
    assert (top.view(np.uint32) >> (32 - width) == (255 << (width - 9)) - 1).all()
    assert (scales == 254 - element.emax).all()

    blocks, _, top, _ = members("below a power of two")
    assert (top.view(np.uint32) >> (32 - width) & mantissa == mantissa).all()

    blocks, _, _, y = members("saturating")
    beyond = (y >= element.max_value) & (y < 2.0 ** (element.emax + 1))
    assert (beyond.sum(axis=1) >= x.shape[1] - 1).all()

    _, scales, _, _ = members("extreme scales")
    largest = 254 - element.emax
    assert set(scales.tolist()) == {0, 1, largest - 1, largest}

    if x.shape[1] > 30:
        _, _, _, y = members("one large")
        assert ((y >= 2.0**element.emax).sum(axis=1) == 1).all()
        assert ((y > 0) & (y <= 2.0 ** (element.quantum_exponent - 1))).any()
        assert (y == 2.0 ** (element.quantum_exponent - 1)).any()

    _, _, top, _ = members("random")
    assert len({int(e) for e in np.frexp(top)[1]}) > 100


def test_reruns_and_seeds(tmp_path: Path) -> None:
    for unit in vectors.UNITS:
        for folder, seed in (("a", 1), ("b", 1), ("c", 2)):
            vectors.write(vectors.build(unit, seed=seed, count=100), tmp_path / unit / folder)
        a, b, c = (contents(tmp_path / unit / folder) for folder in "abc")
        vectors.write(vectors.build(unit, seed=1, count=100), tmp_path / unit / "c")
        assert a == b == contents(tmp_path / unit / "c")
        assert all(a[name] != c[name] for name in ("vectors.json", *a) if "scale" not in name)


def test_another_set_in_the_same_folder(tmp_path: Path) -> None:
    written(tmp_path / "v", "mac", arithmetic="fp12")
    (tmp_path / "v" / "mine.v").write_text("// mine\n")
    vectors.write(vectors.mac(arithmetic="exact", count=3), tmp_path / "v")
    assert sorted(contents(tmp_path / "v")) == [
        "a.hex",
        "dot.hex",
        "mine.v",
        "vectors.json",
        "w.hex",
    ]
    for text in ("", "[]", '{"columns": 1}', '{"columns": [{"name": "../mine"}, {"name": 3}]}'):
        (tmp_path / "v" / "vectors.json").write_text(text)
        vectors.write(vectors.mac(arithmetic="exact", count=3), tmp_path / "v")
        assert (tmp_path / "v" / "mine.v").exists()


def test_words_that_do_not_fit() -> None:
    with raises(ValueError, "values of dot must lie in -8..7, not -9..7"):
        vectors.Column(
            name="dot", direction="output", width=4, signed=True, meaning="", values=(-9, 7)
        )


def test_sizes_of_numpy(tmp_path: Path) -> None:
    sets: dict[str, tuple[dict[str, int], Any]] = {
        "mac": ({"count": 9, "lanes": 4, "seed": 1}, vectors.mac),
        "decoder": ({"count": 9, "seed": 1}, vectors.decoder),
        "converter": ({"count": 9, "block": 4, "seed": 1}, vectors.converter),
    }
    for unit, (sizes, make) in sets.items():
        vectors.write(make(**sizes), tmp_path / unit / "plain")
        numbers = {name: np.int64(size) for name, size in sizes.items()}
        vectors.write(make(**numbers), tmp_path / unit / "numpy")
        assert contents(tmp_path / unit / "plain") == contents(tmp_path / unit / "numpy")


def test_sums_that_do_not_fit() -> None:
    wide = FloatFormat(name="e6m1", fields=FloatFields(exponent_bits=6, mantissa_bits=1, bias=31))
    with raises(ValueError, "lanes must have sums of at most 80 bits, not 4 of wide with 130"):
        vectors.mac(mx.MXFormat(name="wide", element=wide), arithmetic="exact")


test_calls_that_cannot_work = refused(
    vectors.build,
    [
        ({"unit": "adder"}, "unit must be one of decoder, mac, converter, not 'adder'"),
        ({"unit": "mac", "arithmetic": "fp8"}, "arithmetic must be one of fp12, exact, not 'fp8'"),
        (
            {"unit": "converter", "input": "float64"},
            "input must be one of float32, bfloat16, not 'float64'",
        ),
        ({"unit": "mac", "seed": -1}, "seed must be a non-negative integer, not -1"),
        ({"unit": "mac", "count": True}, "count must be a positive integer, not True"),
    ],
)
