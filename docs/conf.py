"""How Sphinx makes a site of these pages: `make docs`."""

import pkgutil
import re
from importlib import import_module
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.ext.autodoc.mock import mock
from sphinx.util.docutils import SphinxDirective

import mxsafe

ROOT = Path(__file__).parents[1]

project = "MX-SAFE"
version = release = mxsafe.__version__
extensions = ["myst_parser", "numpydoc", "sphinx.ext.autodoc", "sphinx.ext.mathjax"]
source_suffix = {".md": "markdown"}
html_theme = "furo"
html_title = f"{project} {version}"
html_copy_source = False

myst_heading_anchors = 3  # so that links to headings are checked
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # numpydoc says types in words
numpydoc_show_class_members = False
autodoc_mock_imports = ["torch", "onnx"]  # the reference of what needs them is made without
autosummary_generate = False  # numpydoc loads autosummary, which nothing here uses


class PublicModules(SphinxDirective):
    """The reference of a package: every public module in it, found by itself."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Make a section of each module."""
        with mock(autodoc_mock_imports):
            package = import_module(self.arguments[0])
        names = [
            info.name
            for info in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
            if not info.name.rpartition(".")[2].startswith("_") and not info.ispkg
        ]
        lines = []
        for name in names:
            lines += [f"## {name.removeprefix('mxsafe.')}", ""]
            lines += ["```{eval-rst}", f".. automodule:: {name}", "   :members:", "```", ""]
        return self.parse_text_to_nodes(
            StringList(lines, source=self.env.docname), allow_section_headings=True
        )


def _relocated(link: re.Match[str]) -> str:
    """A link of the README as one of a page in this folder."""
    target = link[1]
    if re.match("[a-z]+:|#", target):
        return link[0]
    return f"]({target.removeprefix('docs/') if target.startswith('docs/') else f'../{target}'})"


def _read(app: Sphinx, docname: str, source: list[str]) -> None:
    """Let the README begin the first page, and have files outside this folder copied."""
    if docname == "index":
        readme = re.sub(r"\]\(([^)\s]+)\)", _relocated, (ROOT / "README.md").read_text())
        source[0] = f"{readme}\n{source[0]}"
    # A page outside this folder is no page of the site.
    source[0] = re.sub(r"\]\((\.\./[^)\s]+\.md|\.\./LICENSE)\)", r"](path:\1)", source[0])


def setup(app: Sphinx) -> None:
    """Register what is above."""
    app.add_directive("public-modules", PublicModules)
    app.connect("source-read", _read)
