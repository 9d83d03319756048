"""`mxsafe synth`: what it refuses; what it measures is in `verif.synthesis`."""

from pathlib import Path

import pytest

from mxsafe.synthesis import TECHNOLOGY_NAMES, technologies
from verif.support.command import run_in


def test_targets_of_the_command_are_those_of_the_flow() -> None:
    assert tuple(technologies.TECHNOLOGIES) == TECHNOLOGY_NAMES == tuple(technologies._TECHNOLOGIES)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ["synth", "decoder", "--technology", "ice40", "--lanes", "2"],
            2,
            "mxsafe: lanes is not a parameter of decoder, but 2 was given",
        ),
        (
            ["synth", "decoder", "transposer", "--format", "mxint8"],
            2,
            "mxsafe: format is not a parameter of transposer, but mxint8 was given",
        ),
        (
            ["synth", "safe_mac", "--size", "1x1x2x2"],
            2,
            "mxsafe: size is not a parameter of safe_mac, but 1x1x2x2 was given",
        ),
        (
            ["synth", "layer", "--format", "mxfp4_e2m1", "--size", "1x1x3x3"],
            2,
            "mxsafe: --size RxCxrxc: C * c must make whole bytes of elements of 4 bits, not 3",
        ),
        (["synth", "--add-stages", "1"], 2, "mxsafe: --add-stages needs a UNIT that has it"),
        (["synth", "--lanes", "2"], 2, "mxsafe: --lanes needs a UNIT that has it"),
        (
            ["synth", "decoder", "--clock", "0"],
            2,
            "mxsafe: clock must be a positive number of nanoseconds, not 0.0",
        ),
        (
            ["synth", "decoder", "--clock", "nan"],
            2,
            "mxsafe: clock must be a positive number of nanoseconds, not nan",
        ),
        (
            ["synth", "decoder", "--jobs", "2", "--dask", "tcp://there:1"],
            2,
            "mxsafe: --jobs goes without --dask, whose cluster has as many as it has workers",
        ),
        (
            ["synth", "decoder", "--jobs", "0"],
            2,
            "mxsafe: jobs must be a positive integer, not 0",
        ),
        (
            ["synth", "decoder", "--activity", "none"],
            2,
            "mxsafe: none must hold stimuli, but there is no .npz file",
        ),
        (
            ["synth", "--case", "softmin*"],
            2,
            "mxsafe: case must be the name of a standard configuration, not 'softmin*'",
        ),
        (
            ["synth", "decoder", "--case", "softmax"],
            2,
            "mxsafe: case must be without units, not 'softmax' beside decoder",
        ),
        (["synth", "--keep", "file"], 2, "mxsafe: --keep needs a --case"),
        (
            ["synth", "--case", "decoder", "--keep", "file"],
            2,
            "mxsafe: file must be a synthesis.json: JSONDecodeError('Expecting value: line 1 "
            "column 1 (char 0)')",
        ),
        (["synth", "decoder", "--out", "file"], 1, "mxsafe: cannot write to file: not a folder"),
    ],
)
def test_errors_of_the_command(
    arguments: list[str],
    code: int,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file").write_text("")
    assert run_in(tmp_path, *arguments) == code
    assert capsys.readouterr().err == message + "\n"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
