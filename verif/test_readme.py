"""The examples of the README and of the pages print what they say, and links lead somewhere."""

import doctest
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from mxsafe.cli import main
from verif.support.manifest import Module
from verif.support.proof import yosys
from verif.support.tests import available

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]

_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.DOTALL | re.MULTILINE)
_CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def _holding(fence: str) -> list[str]:
    return [name for name in NAMES if f"```{fence}\n" in (ROOT / name).read_text()]


def _anchors(page: Path) -> set[str]:
    """Names of the headings of a page, as GitHub and Sphinx make them."""
    headings = re.findall(r"^#+ (.*)$", _CODE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path, text: str) -> list[str]:
    """Links and pictures of a page that lead to no file, or to no heading of one."""
    broken = []
    for link in _LINK.findall(_CODE.sub("", text)):
        if re.match("[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.is_file() or (anchor and anchor not in _anchors(target)):
            broken.append(link)
    return broken


def commands(text: str) -> Iterator[tuple[str, str]]:
    """Every command of the console blocks of a page, and what it should print."""
    for block in _CONSOLE.findall(text):
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, expected = step.replace("\\\n", "").partition("\n")
            yield command, expected


def test_there_are_examples() -> None:
    assert "README.md" in _holding("pycon")
    assert "README.md" in _holding("console")
    assert len(_holding("pycon")) > 4
    assert len(_holding("console")) > 3
    assert len(README.read_text().splitlines()) <= 150


@pytest.mark.parametrize("name", _holding("pycon"))
def test_python_examples(name: str) -> None:
    if ">>> import torch\n" in (ROOT / name).read_text():
        pytest.importorskip("torch", reason="torch is not installed")
    result = doctest.testfile(str(ROOT / name), module_relative=False)
    assert result.attempted > 1
    assert result.failed == 0


def test_the_lines_for_pytorch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    blocks = re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    model = torch.nn.Linear(64, 8)
    weight = model.weight
    names = {"model": model, "x": torch.ones(4, 64)}
    for block in blocks:
        exec(block, names)
    assert weight.grad.abs().sum() > 0
    assert names["y"].shape == (4, 8)
    assert "1 of 1 modules quantised" in capsys.readouterr().out
    assert "array busy" in str(names["program"].report())
    fresh = torch.nn.Linear(64, 8)
    names["mxt"].load_model("model.safetensors", fresh)
    assert torch.equal(fresh(names["x"]), names["y"])
    assert (tmp_path / "model.safetensors").stat().st_size < 2048


_CONSOLE_PAGES = [
    pytest.param(
        name, marks=[pytest.mark.yosys] if "\n$ yosys " in (ROOT / name).read_text() else []
    )
    for name in _holding("console")
]


@pytest.mark.parametrize("name", _CONSOLE_PAGES)
def test_console_examples(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Examples run in the root of the repository. Yosys from WebAssembly follows no links.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "verif").symlink_to(ROOT / "verif")
    for folder in ("gen", "examples"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    examples = list(commands((ROOT / name).read_text()))
    assert examples
    for command, expected in examples:
        program, *arguments = shlex.split(command)
        if program == "mxsafe":
            assert main(arguments) == 0
            assert capsys.readouterr().out == expected
            continue
        assert program in ("iverilog", "vvp", "yosys", "cat", "head", "tail"), program
        if program in ("iverilog", "vvp"):
            available("icarus")
        words = yosys(*arguments) if program == "yosys" else [program, *arguments]
        run = subprocess.run(words, capture_output=True, text=True, check=False)
        assert (run.returncode, run.stderr, run.stdout) == (0, "", expected)


def test_the_demo_runs_what_the_readme_shows() -> None:
    """`make demo` is the first command of the README."""
    recipe = (ROOT / "Makefile").read_text().partition("\ndemo:")[2].partition("\n\n")[0]
    run = re.findall(r"^\t(?:\$\(RUN\) )?(\w.*)$", recipe, re.MULTILINE)
    readme = README.read_text()
    assert readme.index("make demo") < readme.index("```console")
    assert [command for command, _ in commands(readme)][: len(run)] == run
    assert len(run) == 4


def test_pages_show_the_verilog_of_the_example() -> None:
    (block,) = re.findall(
        r"^```verilog\n(.*?)^```$",
        (ROOT / "docs" / "first_mac.md").read_text(),
        re.DOTALL | re.MULTILINE,
    )
    top = (ROOT / "examples" / "mac_top.v").read_text()
    for part in block.split("  ...\n"):
        assert part in top, part


def test_figures_of_the_readme_stand_on_pages() -> None:
    """The pages are made from measured numbers; of percentages those with a decimal count."""
    figures = set(re.findall(r"\d+,\d{3}|\d+\.\d+ ?%", _CODE.sub("", README.read_text())))
    pages = " ".join(page.read_text() for page in PAGES if page != README).replace(" %", "%")
    assert len(figures) > 7
    assert {each for each in figures if each.replace(" %", "%") not in pages} == set()


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_somewhere(name: str) -> None:
    page = ROOT / name
    assert broken_links(page, page.read_text()) == []


def test_broken_links_are_found() -> None:
    text = (
        "[page](docs/array.md), [heading](docs/array.md#timing), [none](docs/arrays.md),\n"
        "[no heading](docs/array.md#times), `[code](is/no.link)`, [here](#figures), [not](#here)\n"
    )
    assert broken_links(README, text) == ["docs/arrays.md", "docs/array.md#times", "#here"]


def test_every_page_is_linked() -> None:
    """From the README a reader reaches every page."""
    reached, pending = {README}, [README]
    while pending:
        page = pending.pop()
        for link in _LINK.findall(_CODE.sub("", page.read_text())):
            target = Path(os.path.normpath(page.parent / link.partition("#")[0]))
            if target.suffix == ".md" and target in PAGES and target not in reached:
                reached.add(target)
                pending.append(target)
    site = {ROOT / "docs" / "index.md", *(ROOT / "docs" / "api").glob("*.md")}
    assert [page for page in PAGES if page not in reached | site] == []


def test_the_glossary_names_files_that_exist() -> None:
    names = re.findall(r"`([a-z0-9_/]+(?:\.py|/))`", (ROOT / "docs" / "glossary.md").read_text())
    assert len(names) > 30
    for name in names:
        assert (ROOT / "hdl" / "mxsafe" / name).exists() or (ROOT / name).exists(), name


def test_units_by_task_are_modules(modules: dict[str, Module]) -> None:
    page = (ROOT / "docs" / "hardware.md").read_text()
    table = page.partition("## Which unit do I need\n")[2].partition("\n## ")[0]
    names = set(re.findall(r"`([a-z]\w*)`", table)) - {"bfloat16", "float32"}
    assert len(names) > 25
    assert names <= modules.keys()


@pytest.mark.parametrize(
    ("name", "ports"),
    [("mxsf_pu_exact", ("a", "w")), ("mxsf_pu_window", ("scale_a", "scale_w", "anchor_a"))],
)
def test_prepared_operands_are_as_wide_as_the_page_says(
    name: str, ports: Sequence[str], modules: dict[str, Module]
) -> None:
    page = (ROOT / "docs" / "hardware.md").read_text()
    for port in ports:
        assert f"{port}[{modules[name].ports[port].width}]" in page, port
