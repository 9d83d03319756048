"""The speed of the codec, which `studies.benchmarks.codec` measures."""

import json
from typing import Any

from studies.pages import DOCS


def values() -> dict[str, Any]:
    """Return the values of the page's template."""
    numbers: dict[str, Any] = json.loads((DOCS / "codec_speed.json").read_text())
    return numbers
