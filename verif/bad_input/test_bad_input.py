"""Bad input to functions, methods, constructors, readers of files: a result or a clear error."""

import gc
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import numpy as np
import pytest
from amaranth.hdl import UnusedElaboratable
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import mxsafe as mx
from mxsafe.codec import gguf
from verif.bad_input.files import READERS, damaged, read
from verif.bad_input.interface import EXCEPT, Target, targets
from verif.bad_input.methods import EXCEPT as EXCEPT_METHODS
from verif.bad_input.methods import methods
from verif.bad_input.trial import answer
from verif.bad_input.values import KNOWN, values
from verif.support.tests import Volume

TARGETS = [*targets(), *methods()]
WITH_PARAMETERS = [target for target in TARGETS if target.parameters]
TRIAL = settings(
    derandomize=True,
    phases=[Phase.generate],
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.fixture(scope="module", autouse=True)
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A folder of its own, for what is written, with a file to read."""
    folder = tmp_path_factory.mktemp("bad_input")
    with chdir(folder):
        mx.save("tensor.npz", mx.quantize(np.zeros((4, 8), np.float32)))
        gguf.write("tensor.gguf", {"x": np.zeros((4, 8), np.float32)})
        yield


@pytest.fixture(scope="module", autouse=True)
def _unused_parts() -> Iterator[None]:
    """Parts of units that are only made: Amaranth would complain of them, whenever they go."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(UnusedElaboratable, "_MustUse__silence", True, raising=False)
        yield
        gc.collect()


def test_all_that_is_public_is_found() -> None:
    names = {target.name for target in TARGETS}
    assert len(names) == len(TARGETS) > 300
    for name in (
        "codec.blocks.quantize",
        "machine.program.Program.assembled",
        "model.gemm.matmul",
        "model.machine.Machine.run",
        "rtl.array.shape.ArrayShape",
    ):
        assert f"mxsafe.{name}" in names
    for name in EXCEPT_METHODS:
        assert name in names
    for name in EXCEPT:
        assert not any(found == name or found.startswith(f"{name}.") for found in names)


def test_good_arguments_have_a_result() -> None:
    """Units in their default configuration among them, which are elaborated."""
    found = {target.name: answer(target, {}) for target in TARGETS}
    assert {one.kind for one in found.values()} == {"result"}, [
        f"{name}: {one.words}" for name, one in found.items() if one.kind != "result"
    ]


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.full
def test_every_parameter_gets_every_known_value(target: Target) -> None:
    for name in target.parameters:
        for label, value in KNOWN:
            found = answer(target, {name: value})
            assert found.kind != "fault", f"{target.name}({name}={label}): {found.words}"


# Made once: strategies take longer to make than calls to draw.
SOME_TARGET, ANYTHING = st.sampled_from(WITH_PARAMETERS), values()
SOME_NAMES = {
    target.name: st.lists(st.sampled_from(list(target.parameters)), min_size=1, max_size=2)
    for target in WITH_PARAMETERS
}


@st.composite
def _calls(draw: st.DrawFn) -> tuple[Target, dict[str, object]]:
    target = draw(SOME_TARGET)
    return target, {name: draw(ANYTHING) for name in draw(SOME_NAMES[target.name])}


def _hold(call: tuple[Target, dict[str, object]]) -> None:
    target, bad = call
    found = answer(target, bad)
    assert found.kind != "fault", f"{target.name}: {found.words}"


@settings(TRIAL, max_examples=500)
@given(_calls())
def test_bad_input_is_answered(call: tuple[Target, dict[str, object]]) -> None:
    _hold(call)


@pytest.mark.full
@settings(TRIAL, max_examples=50_000)
@given(_calls())
def test_bad_input_is_answered_widely(call: tuple[Target, dict[str, object]]) -> None:
    _hold(call)


def test_a_fault_is_seen() -> None:
    def careless(lanes: int) -> int:
        return 16 // lanes

    def unnamed(lanes: int) -> int:
        raise ValueError("this does not work")

    def slow(lanes: int) -> None:
        np.ones(1 << 40)

    for function in (careless, unnamed, slow):
        found = answer(Target(f"here.{function.__name__}", function), {"lanes": 0})
        assert found.kind == "fault", function


@pytest.mark.parametrize("kind", READERS)
def test_damaged_files(kind: str, tmp_path: Path, volume: Volume) -> None:
    reader = READERS[kind]
    good = reader.content(tmp_path)
    if not kind.startswith("manifest"):
        assert read(reader, tmp_path, good).kind == "result"
    bad = damaged(good, np.random.default_rng(1), volume(100, 5000))
    for content in (*reader.special, b"", *bad):
        found = read(reader, tmp_path, content)
        assert found.kind != "fault", (found.words, content[:200])
