"""Files that are written together appear together, or not at all."""

from pathlib import Path

import pytest

from mxsafe.atomic import write_atomically, write_together
from verif.support.tests import raises


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_files_are_written_replaced_and_removed(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    write_together(folder, {"a": b"1", "b": b"2"})
    (folder / "mine").write_bytes(b"3")
    write_together(folder, {"b": b"4", "c": b"5"}, remove=["a", "gone"])
    assert contents(folder) == {"b": b"4", "c": b"5", "mine": b"3"}
    assert len(list(folder.iterdir())) == 3


def test_a_taken_name_leaves_the_folder_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "c").write_bytes(b"old")
    with raises(OSError, f"{tmp_path / 'b'} is not a regular file"):
        write_together(tmp_path, {"a": b"1", "c": b"2", "b": b"3"}, remove=["c"])
    assert contents(tmp_path) == {"c": b"old"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b", "c"]


def test_failure_half_way_puts_everything_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "b").write_bytes(b"old")
    replace = Path.replace

    def fail(self: Path, target: Path) -> Path:
        if target.name == "c":
            raise OSError("on purpose")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="on purpose"):
        write_together(folder, {"a": b"1", "b": b"2", "c": b"3"})
    assert contents(folder) == {"b": b"old"}
    assert [path.name for path in folder.iterdir()] == ["b"]
    with pytest.raises(OSError, match="on purpose"):
        write_together(tmp_path / "x" / "y", {"a": b"1", "c": b"3"})
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_file_where_a_folder_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for folder in (tmp_path / "file", tmp_path / "file" / "folder"):
        with pytest.raises(OSError):
            write_together(folder, {"a": b"1"})
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_errors_name_the_file_that_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "none" / "file"
    with raises(OSError, f"[Errno 2] No such file or directory: '{path}'"):
        write_atomically(path, b"1")
