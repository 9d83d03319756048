"""The speed of the codec, which `studies.benchmarks.codec` measures."""

import json
from typing import Any

from studies.pages import DOCS

__all__ = ["values"]


def values() -> dict[str, Any]:
    """What the page is made of."""
    numbers: dict[str, Any] = json.loads((DOCS / "codec_speed.json").read_text())
    return numbers
