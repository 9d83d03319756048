"""Modules, ports and options, with areas and times of MACs from ``docs/synthesis.json``."""

from typing import Any

from studies.pages.synthesis import own_luts, published_luts
from studies.synthesised import PAPER_GE, PAPER_NS, find, load

_ROWS = {
    "safe_mac, 1 stage": "`safe_mac`, one stage",
    "safe_mac, 3 stages": "three stages, as in `gen/`",
    "safe_mac_exact, 1 stage": "`safe_mac_exact`, one stage",
    "safe_mac_exact, 2 stages": "two stages, as in `gen/`",
    "sta_exact 4x4x4x4": "`mxsf_sta_exact`, a MAC of the array",
    "sta_exact 4x4x4x4, most registers": "with most registers",
    "sta_exact 4x2x4x8, 2 columns a MAC": "two columns a MAC, full rate for 8x8 tiles too",
}
"""Configurations of synthesis, and what the page calls them."""


def _luts(unit: str) -> dict[str, str]:
    """Look-up tables of a MAC built for FPGAs, and the first published ones of its work."""
    other = next(one for one in published_luts() if one.unit == unit)
    return {
        "luts": f"{own_luts(unit)['luts']:,}",
        "elsewhere": f"{other.luts:,} LUTs: {other.name}",
    }


def values() -> dict[str, Any]:
    """Return the values of the page's template."""
    macs = []
    for name, title in _ROWS.items():
        found = find(load(), name)
        area, timing = (
            {"ge": numbers["ge"] / found["macs"], "ns": numbers["delay_ns"]}
            for numbers in (found["numbers"][variant] for variant in ("area", "timing"))
        )
        unit, _, stages = name.partition(", ")
        more = _luts(unit) if stages == "1 stage" else {"luts": "", "elsewhere": ""}
        if name == "sta_exact 4x4x4x4":
            more["elsewhere"] = f"{PAPER_GE:,.0f} GE, {PAPER_NS:g} ns: the paper's core"
        macs.append({"title": title, "area": area, "timing": timing, **more})
    return {"macs": macs}
