"""The committed tables are those that the program makes."""

import pytest

from mxsafe import tables
from studies.tables.__main__ import FOLDER, main, text
from studies.tables.specifications import NAMES, SPECIFICATIONS, make


def _remade(name: str) -> None:
    table = make(name)
    assert table == tables.load(name)
    assert text(table) == (FOLDER / f"{name}.json").read_text()


def test_a_table_is_made_anew() -> None:
    _remade("exp2_fine")


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
def test_every_table_is_made_anew(name: str) -> None:
    _remade(name)


def test_every_table_has_a_specification() -> None:
    assert sorted(NAMES) == tables.names()
    for name, specification in SPECIFICATIONS.items():
        assert specification().name == name


def test_a_table_that_there_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sine"]) == 2
    message = f"tables must be of {', '.join(NAMES)}, not 'sine'\n"
    assert capsys.readouterr().err == message
