"""Simulations that fail, and what tests and benches exchange."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from verif.bench import job
from verif.bench.difference import changed_bits, difference
from verif.bench.job import packed, write_log
from verif.support import simulations, simulators
from verif.support.checkers import assert_equal, assert_same
from verif.support.farm import prefixed
from verif.support.manifest import Module
from verif.support.simulations import Started
from verif.support.simulators import SIMULATORS, run_bench, run_lockstep, runtime_library, simulate
from verif.support.tests import available, on_one_simulator, raises, refused

_ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("under_pytest", [True, False])
def test_a_failed_bench_is_an_error(
    simulator: str,
    under_pytest: bool,
    modules: dict[str, Module],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = modules["mxsf_decoder"]
    with monkeypatch.context() as patch:
        if not under_pytest:
            patch.delenv("PYTEST_CURRENT_TEST")
        with pytest.raises(AssertionError) as error:
            simulate(simulator, module.name, module.sources, "verif.bench.lockstep", {})
    said, _, log = str(error.value).partition("; the log is ")
    seed = ", powered up by seed 1," if simulator == "verilator" else ""
    assert said == (
        f"verif.bench.lockstep failed on {simulator}{seed} with mxsf_decoder: "
        "KeyError: 'MXSAFE_JOB'"
    )
    assert "KeyError: 'MXSAFE_JOB'" in (_ROOT / log).read_text()


def test_the_first_difference_is_a_line() -> None:
    got = np.array([[1, 2], [3, 4], [5, 0x800]])
    with raises(
        AssertionError,
        "unit.out: 1 of 3 differ; the first is item 2.code.1: got 2048 (0x800), expected 0, for "
        "a = 2049 (0x801), beat = 2, row = [ 8 9 10 11]",
    ):
        assert_equal(
            "unit.out",
            got,
            np.array([[1, 2], [3, 4], [5, 0]]),
            fields=("code.0", "code.1"),
            a=got + 1,
            beat=np.arange(3),
            row=np.arange(12).reshape(3, 4),
        )
    with raises(AssertionError, "sum: 1 of 2 differ; the first is item 1: got 8, expected 9"):
        assert_equal("sum", np.array([7, 8]), np.array([7, 9]))
    wide = np.array([1 << 80, 3], object)
    with raises(
        AssertionError, "word: 1 of 2 differ; the first is item 1: got 3, expected 4, for code = b"
    ):
        assert_equal("word", wide, wide + np.array([0, 1], object), code=np.array(["a", "b"]))


def test_the_first_difference_of_lists_is_a_line() -> None:
    assert difference([1, (2, 3)], [1, [2, 3]]) == ""
    assert difference([[1, 2], [3, 4]], [[1, 2], [3, 40]]) == "[1][1] is 4, expected 40 (0x28)"
    assert difference([1], [1, 2], "beats") == "beats has 1 items, expected 2, equal up to there"
    assert difference({"a": b"\x01"}, {"a": b"\x02"}) == "['a'][0] is 1, expected 2"
    assert difference({"a": 1}, {"b": 1}, "pins") == "pins has ['a'], expected ['b']"
    assert len(difference(["x" * 999], ["y" * 999])) < 200
    assert difference(["0" * 40], ["0" * 39 + "1"]).endswith(f"from {'0' * 31}1 to {'0' * 32}")
    with pytest.raises(AssertionError, match=r"^words differ: words\[1\] is 2, expected 3$"):
        assert_same("words", [1, 2], [1, 3])
    assert_same("words", [1, 2], (1, 2))
    wide = "0" * 100
    assert changed_bits("tdata", f"{wide}1010", f"{wide}0110") == (
        f"tdata[33:2] from {'0' * 30}10 to {'0' * 30}01"
    )


def test_each_failure_is_told_in_a_line(tmp_path: Path) -> None:
    """At the end, whatever the width of the terminal; of a failed bench it is what this said."""
    (tmp_path / "conftest.py").write_text("from verif.conftest import *\n")
    (tmp_path / "test_it.py").write_text(
        "import numpy as np\nfrom verif.support import checkers, simulators\n"
        "def test_it():\n    raise AssertionError('unit: ' + 'x' * 200 + '\\nmore')\n"
        "def test_others():\n    simulators.SIMULATED.add('icarus')\n"
        "    checkers.assert_equal('unit', np.ones((2, 3), int), np.ones((2, 3), int))\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null"]
    run = subprocess.run(
        [*command, "--rootdir", tmp_path, tmp_path],
        cwd=_ROOT,
        env={**os.environ, "COLUMNS": "80", "CI": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    told = run.stdout.partition(" what failed, in a line each ")[2].splitlines()
    assert told[1] == f"test_it.py::test_it: AssertionError: unit: {'x' * 200}"
    compared = run.stdout.partition(" compared with the model")[2].splitlines()
    assert compared[1].split() == ["it", "icarus", "6"]


def test_memories_begin_at_random_by_a_seed(modules: dict[str, Module], tmp_path: Path) -> None:
    simulator = available("verilator")
    module = prefixed(tmp_path, "memory", {"": modules["beat_memory_beat_bits64_depth16"]})
    pins = dict.fromkeys((pin for pin in module.inputs if pin != "clk"), 0)
    stimulus = pins | {"read_en": np.ones(3, np.int64)}
    found = [
        run_lockstep(simulator, module, stimulus, power_up=seed)["read_data"][-1].tolist()
        for seed in (1, 2, 1)
    ]
    assert found[0] == found[2] != found[1]


def test_each_job_begins_where_the_simulation_began(
    simulator: str, modules: dict[str, Module], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a job has written is not there in the next one, which a simulator runs all the same."""
    module = prefixed(tmp_path, "memory", {"": modules["beat_memory_beat_bits64_depth16"]})
    pins = dict.fromkeys((pin for pin in module.inputs if pin != "clk"), 0)
    reads = pins | {"read_en": np.ones(3, np.int64)}
    writes = reads | {"write_en": 1, "write_data": 0x123456789ABCDEF0}
    starts = []

    def start(*given: Any) -> Started:
        starts.append(given)
        return Started(*given)

    simulations.close_all()
    monkeypatch.setattr(simulations, "Started", start)

    def read(stimulus: dict[str, Any]) -> list[int]:
        log = run_lockstep(simulator, module, stimulus, unsettled=3)
        found: list[int] = log["read_data"][-1].tolist()
        return found

    first = read(reads)
    assert read(writes) == list((0x123456789ABCDEF0).to_bytes(8, "little")) != first
    with pytest.raises(AssertionError, match="KeyError: 'MXSAFE_JOB'"):
        simulate(simulator, module.name, module.sources, "verif.bench.lockstep", {})
    assert read(reads) == first
    assert len(starts) == 1


def test_a_simulator_that_is_gone_is_an_error(modules: dict[str, Module]) -> None:
    """Before there is a job, and in each that is tried then."""
    module = modules["mxsf_decoder"]
    for _ in range(2):
        with pytest.raises(AssertionError, match=r"No module named 'verif\.bench\.none'"):
            simulate("icarus", module.name, module.sources, "verif.bench.none", {})


def test_arrays_of_tests_and_benches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of bytes are numbers in a bench, and rows again when they come back."""
    sent = {
        "bytes": np.array([3, 255], np.uint8),
        "inside": [{"rows": np.array([[1, 2, 0], [0, 0, 128]], np.uint8), "bytes": 1, "last": 2}],
        "none": np.zeros((0, 3), np.uint8),
        "flags": np.array([True, False]),
        "numbers": np.array([-1, 1 << 40]),
        "single": np.int64(7),
        "fraction": 2.5,
    }
    seen = {
        "bytes": [3, 255],
        "inside": [{"rows": [0x000201, 0x800000], "bytes": 1, "last": 2}],
        "none": [],
        "flags": [1, 0],
        "numbers": [-1, 1 << 40],
        "single": 7,
        "fraction": 2.5,
    }

    def bench(*_: object) -> None:
        given = job.job()
        assert given == seen
        write_log({"same": given, "words": packed(17, given["inside"][0]["rows"])})

    def run(simulator: str, top: str, sources: object, name: str, files: dict[str, str]) -> None:
        assert name == "verif.bench.any"
        for variable, file in files.items():
            monkeypatch.setenv(variable, file)
        bench()

    monkeypatch.setattr(simulators, "simulate", run)
    monkeypatch.setattr(job, "begin", lambda: None)
    log = run_bench("icarus", Module("top", _ROOT, (), {}, 0, {}), "any", sent)
    assert log["same"] == seen
    assert log["words"].tolist() == [[1, 2, 0], [0, 0, 128]]


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones(2), "a job holds float64"),
        (np.ones((2, 2), np.int64), "integers of a job have the shape (2, 2)"),
    ],
)
def test_arrays_that_benches_cannot_read(array: np.ndarray, message: str) -> None:
    with raises(AssertionError, message):
        run_bench("icarus", Module("top", _ROOT, (), {}, 0, {}), "any", {"x": array})


def test_benches_import_no_numpy() -> None:
    """It would take half of the time of a short simulation."""
    names = [path.stem for path in Path(job.__file__).parent.glob("[a-z]*.py")]
    assert len(names) > 10
    text = (
        f"import sys, {', '.join(f'verif.bench.{n}' for n in names)}; print('numpy' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True, cwd=_ROOT
    )
    assert run.stdout == "False\n"


def test_tests_import_no_tests() -> None:
    """A module that two tests need stands beside them or in support, so that each can be moved."""
    found = {
        path.name: names
        for path in Path(__file__).parent.rglob("*.py")
        if (
            names := re.findall(r"^\s*(?:from|import) (verif\S*\.test_\w+)", path.read_text(), re.M)
        )
    }
    assert found == {}


@dataclass(frozen=True, eq=False)
class _Item:
    """Attributes of a test that the choice of simulators looks at."""

    nodeid: str
    marker: pytest.MarkDecorator | None = None

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return None if self.marker is None or self.marker.name != name else self.marker.mark


def test_cases_take_turns_on_simulators() -> None:
    both, alone = pytest.mark.both_simulators, pytest.mark.one_simulator("icarus")
    items = [
        *(_Item(f"test_one[{simulator}]") for simulator in SIMULATORS),
        *(_Item(f"test_three[{s}-{case}]") for s in SIMULATORS for case in ("a", "b", "c")),
        *(_Item(f"test_all[{s}-{case}]", both) for s in SIMULATORS for case in "ab"),
        *(_Item(f"test_alone[{s}-{case}]", alone) for s in SIMULATORS for case in "ab"),
        _Item("test_some[icarus-a]"),
        _Item("test_some[verilator-b]"),
        _Item("test_none"),
    ]
    kept = on_one_simulator(cast("list[pytest.Item]", items))
    assert [item.nodeid for item in kept] == [
        "test_one[icarus]",
        "test_one[verilator]",
        "test_three[icarus-b]",
        "test_three[verilator-a]",
        "test_three[verilator-c]",
        "test_all[icarus-a]",
        "test_all[icarus-b]",
        "test_all[verilator-a]",
        "test_all[verilator-b]",
        "test_alone[icarus-a]",
        "test_alone[icarus-b]",
        "test_some[icarus-a]",
        "test_some[verilator-b]",
        "test_none",
    ]
    misspelt = [_Item("test_it[icarus]", pytest.mark.one_simulator("verilater"))]
    with pytest.raises(AssertionError, match=r"^test_it\[icarus\] is for verilater alone"):
        on_one_simulator(cast("list[pytest.Item]", misspelt))


def test_the_library_of_verilator_is_compiled_once_a_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder of the builds does not matter; another compiler has a library of its own."""
    compiled: list[str] = []

    def compile_nothing(folder: Path, source: Path, made: Path, *options: object) -> None:
        compiled.append(source.name)
        made.touch()

    monkeypatch.setattr(simulators, "_compile", compile_nothing)
    monkeypatch.setattr(simulators, "_compiler", lambda: b"12.2.0")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folders = []
    for name in ("here", "there"):
        monkeypatch.setattr(simulators, "SCRATCH", tmp_path / name)
        folders.append(runtime_library(covered=False))
        assert len(compiled) == len(set(compiled)) + 1 > 5  # the header for two levels
    assert folders[0] == folders[1]
    assert (tmp_path / "cache") in folders[0].parents
    first = len(compiled)
    monkeypatch.setattr(simulators, "_compiler", lambda: b"13.1.0")
    assert runtime_library(covered=False) != folders[0]
    assert len(compiled) == 2 * first


def test_each_file_of_the_hardware_has_a_test() -> None:
    """One of its name, or its docstring says whose it is."""
    tests = {path.stem for path in (_ROOT / "verif" / "rtl").rglob("test_*.py")}
    files = (_ROOT / "hdl" / "mxsafe" / "rtl").rglob("*.py")
    others = [
        path for path in files if path.stem != "__init__" and f"test_{path.stem}" not in tests
    ]
    for path in others:
        said = re.search(r"^Tested by `(.*)`\.$", path.read_text(), re.MULTILINE)
        assert said, (
            f"{path.name} needs verif/rtl/**/test_{path.name}, or a line 'Tested by `FILE`.'"
        )
        assert (_ROOT / said[1]).is_file(), f"{path.name}: {said[1]} is no file"
    assert others
    assert tests


def test_checks_that_see_nothing_fail() -> None:
    with raises(AssertionError, "unit: nothing was compared"):
        assert_equal("unit", np.zeros(0), np.zeros(0))
    with pytest.raises((AssertionError, pytest.fail.Exception)):  # noqa: SIM117
        with raises(ValueError, "one"):
            raise ValueError("one more")
    with raises(AssertionError, "int refuses nothing"):
        refused(int, [])
    test = refused(int, [({}, "")])
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        test({}, "")
