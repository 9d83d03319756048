"""Rules for pictures of the pages."""

from collections import ChainMap
from xml.etree import ElementTree

import pytest

SVG = "{http://www.w3.org/2000/svg}"


def outside(text: str) -> int:
    """How many rectangles of an SVG picture are not within its frame."""
    root = ElementTree.fromstring(text)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    return sum(
        not (0 <= x <= x + w <= width and 0 <= y <= y + h <= height)
        for x, y, w, h in _rectangles(root)
    )


def _rectangles(root: ElementTree.Element) -> list[list[float]]:
    """Left, top, width and height of each."""
    names = ("x", "y", "width", "height")
    return [[float(each.get(name, 0)) for name in names] for each in root.iter(f"{SVG}rect")]


def crossing(text: str) -> list[str]:
    """Words of an SVG picture that cross the border of a rectangle, in DejaVu Sans.

    A picture asks for Helvetica, Arial or monospace; DejaVu Sans is as wide as what any usual
    reader has in the place of these.
    """
    textpath = pytest.importorskip("matplotlib.textpath", reason="matplotlib is not installed")
    from matplotlib.font_manager import FontProperties

    root = ElementTree.fromstring(text)
    rectangles, found = _rectangles(root), []
    for group in root.iter():
        for each in group.findall(f"{SVG}text"):
            given = ChainMap(each.attrib, group.attrib, root.attrib)
            mono = " Mono" if given["font-family"] == "monospace" else ""
            font = FontProperties(family=f"DejaVu Sans{mono}", weight=given.get("font-weight"))
            words, size = each.text or "", float(given["font-size"])
            extents = textpath.TextPath((0, 0), words, size=size, prop=font).get_extents()
            x, y = float(given["x"]), float(given["y"])
            left = x - (extents.width / 2 if given.get("text-anchor") == "middle" else 0)
            right, top, bottom = left + extents.width, y - extents.y1, y - extents.y0
            for x0, y0, width, height in rectangles:
                inside = (
                    x0 + 3 <= left
                    and right <= x0 + width - 3
                    and y0 <= top
                    and bottom <= y0 + height
                )
                beside = right <= x0 or x0 + width <= left or bottom <= y0 or y0 + height <= top
                if not (inside or beside):
                    found.append(words)
    return found
