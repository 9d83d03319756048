"""A transformer that learns: trainings go on where they were, and replays see every bit."""

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

torch = pytest.importorskip("torch")

from mxsafe.machine.named import machine_named  # noqa: E402
from mxsafe.machine.program import Program  # noqa: E402
from mxsafe.model.graph import GraphModel  # noqa: E402
from mxsafe.model.machine import Machine as Interpreter  # noqa: E402
from studies import learning  # noqa: E402
from studies.evidence import fashion_mnist  # noqa: E402
from studies.learning import (  # noqa: E402
    Arrays,
    Data,
    Machine,
    Setting,
    Training,
    Trial,
    apart,
    main,
    on_verilog,
    planned,
    replay,
    replayed,
)
from verif.studies.fashion_mnist import write_images  # noqa: E402
from verif.support.tests import raises  # noqa: E402

MXSF = Trial(engine="model", format="mxsf", seed=3)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Data:
    """Few images, for a model of one block."""
    monkeypatch.setattr(learning, "DEPTH", 1)
    write_images(tmp_path, 48, 20)
    monkeypatch.setenv("FASHION_MNIST", str(tmp_path))
    return {part: fashion_mnist.pixels(part) for part in ("train", "test")}


@pytest.mark.parametrize("engine", ["model", "microscaling", "float32"])
def test_what_was_interrupted_has_the_same_bits(data: Data, tmp_path: Path, engine: str) -> None:
    trial = Trial(engine=engine, format="float32" if engine == "float32" else "mxsf", seed=1)
    folders = [tmp_path / name for name in ("whole", "parts")]
    for folder in folders:
        folder.mkdir()
    whole = Training(trial, data, folders[0], 4, 4)
    whole.advance(5)
    Training(trial, data, folders[1], 4, 4).advance(2)
    second = Training(trial, data, folders[1], 4, 4)
    assert len(second.losses) == 2
    second.advance(5)
    assert second.losses == whole.losses
    assert len(set(whole.losses)) == 5
    first, other = (training.learner.state() for training in (whole, second))
    assert first.keys() == other.keys()
    for name, array in first.items():
        assert array.tobytes() == other[name].tobytes(), name
    assert sum(array.size for array in first.values()) > 3 * 25000
    assert whole.accuracy() == second.accuracy()
    path = folders[1] / f"{trial.name}.npz"
    with raises(
        learning.UserError, f"{path} must be of batches and parts [4 2], not [4 4]: remove it"
    ):
        Training(trial, data, folders[1], 4, 2)


def test_seeds_are_paired(data: Data, tmp_path: Path) -> None:
    """The same weights and images of a seed, others of another."""
    first, same, other = (
        Training(trial, data, tmp_path, 8, 1) for trial in (*planned(1)[:2], *planned(2)[11:12])
    )
    states = [training.learner.state() for training in (first, same, other)]
    assert all(np.array_equal(array, states[1][name]) for name, array in states[0].items())
    assert not np.array_equal(states[0]["learnt"], states[2]["learnt"])
    images = [training.images(7)[0] for training in (first, same, other)]
    assert torch.equal(images[0], images[1])
    assert not torch.equal(images[0], images[2])
    assert not torch.equal(images[0], first.images(1)[0])  # the next order


def test_replays_are_compared(data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the program; then with a program that has one bit wrong."""
    found = replay(MXSF, 3, data, tmp_path / "replay", batch=1, every=50)
    weights = sum(p.numel() for p in learning.Vit(learning.Setting()).parameters())
    assert found["steps"] == [1, 2]
    assert found["numbers"] == 2 * (3 * weights + 10)
    made = learning.Compiled("mxsf", 1, 1).step.compiled
    assert found["descriptors"] == sum(part.program.length for part in made.parts)
    wrong = Training(MXSF, data, tmp_path, 1, 1)
    assert isinstance(wrong.learner, Machine)
    step = wrong.learner.own
    engine = GraphModel(step.graph, machine_named("default", "mxsf"), learning.TILE)

    def altered(inputs: Arrays) -> Arrays:
        made = {name: array.copy() for name, array in engine(inputs).items()}
        made["head.bias"].view(np.uint32)[4] ^= 1
        return made

    monkeypatch.setattr(step, "replay", altered)
    with raises(AssertionError, "model-mxsf-3, step 1: head.bias differs"):
        wrong.replay()


class Compared:
    """The interpreter alone, in place of Verilog; in one step a bit of memory is another."""

    def __init__(self) -> None:
        self.counters: dict[str, int] = {}
        self.bytes = 0
        self.wrong_in = 0

    def __call__(self, program: Program, memory: NDArray[np.uint8]) -> None:
        self.counters = {"cycles": self.counters.get("cycles", 99) + 1}
        ended = Interpreter(program.configuration).run(program.data, memory, limit=1 << 32)
        assert not ended.code
        if self.counters["cycles"] == 99 + self.wrong_in:
            memory.view(np.uint32)[:] ^= 1
        self.bytes += memory.size


def test_steps_of_verilog_are_compared(
    data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what runs the program, and with what leaves other bits in the second step."""
    compared = Compared()
    monkeypatch.setattr(learning, "Compared", lambda: compared)
    found = on_verilog(MXSF, 2, data, tmp_path / "right", batch=1)
    weights = sum(p.numel() for p in learning.Vit(learning.Setting()).parameters())
    assert found["cycles"] == [100, 101]
    assert found["numbers"] == 2 * (3 * weights + 10)
    assert found["bytes"] == compared.bytes > 4 * found["numbers"] // 2
    compared = Compared()
    compared.wrong_in = 2
    with pytest.raises(RuntimeError, match="must be that of the models, loss"):
        on_verilog(MXSF, 2, data, tmp_path / "wrong", batch=1)


def test_other_settings_are_learnt_in(
    data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second question has an answer of its own, and few images come again."""
    settings = {
        "usual": Setting,
        "beside": lambda: Setting(beside=0.5, steps=3),
        "few": lambda: Setting(images=4, norms=False, steps=2),
    }
    monkeypatch.setattr(learning, "SETTINGS", settings)
    found = apart(1, ("mxsf", "mxint8"), data, tmp_path, batch=4)
    formats = ["float32", "mxsf", "mxint8"]
    assert [run["format"] for run in found] == 2 * formats
    assert [run["steps"] for run in found] == [3] * 3 + [2] * 3
    assert all((run["second"] is None) == (run["setting"] == "few") for run in found)
    assert len({run["loss"] for run in found}) == 6
    few = Training(
        Trial(engine="float32", format="float32", seed=0, setting="few"), data, tmp_path, 4, 4
    )
    first, second = (few.images(step)[0].flatten(1).sum(1).sort()[0] for step in (0, 1))
    assert torch.equal(first, second)
    labels = torch.tensor([0, 5, 6, 7, 8, 9])
    assert learning.footwear(labels).tolist() == [0, 1, 0, 1, 0, 1]


@pytest.mark.parametrize(
    ("steps", "found"), [(1, [1]), (2, [1, 2]), (50, [1, 2, 50]), (120, [1, 2, 50, 100])]
)
def test_which_steps_are_replayed(steps: int, found: list[int]) -> None:
    assert replayed(steps, 50) == found


def test_command(
    data: Data,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Page, picture and numbers; what is there is not done again."""
    out = tmp_path / "out"
    out.mkdir()
    options = ["--quick", "--work", str(tmp_path / "work"), "--out", str(out)]
    for option in ("--replay", "--verilog", "--apart"):
        assert main([*options, option]) == 1
        assert "must be there before more is added" in capsys.readouterr().err
    assert main(options) == 0
    first = json.loads((out / "learning.json").read_text())
    kept = sorted((tmp_path / "work").iterdir())
    names = ["float32-float32-0", "microscaling-mxsf-0", "model-mxsf-0"]
    assert [path.stem for path in kept] == names
    assert "**4 steps of 1 seed**" in (out / "learning.md").read_text()
    assert (out / "learning.svg").exists()
    before = [path.stat().st_mtime_ns for path in kept]
    assert main(options) == 0
    assert [path.stat().st_mtime_ns for path in kept] == before
    assert json.loads((out / "learning.json").read_text()) == first
    monkeypatch.setenv("FASHION_MNIST", str(tmp_path / "none"))
    assert main(["--out", str(out)]) == 1
    assert "FASHION_MNIST must name the folder of" in capsys.readouterr().err
