"""Whether modules of ``gen/`` are what their sources generate, asked before they are looked at.

They are while the files of Python that they are made from have the digests of ``gen/sources.json``.
If one has changed, the smallest unit that holds a module is generated once more and compared, text
by text; what was found is kept until something changes again.
"""

import hashlib
import json
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from mxsafe.formats import MX_FORMATS
from mxsafe.host.verilator import locked
from mxsafe.verilog import sources
from verif.support.manifest import GEN, generated, made_from, named

__all__ = ["require_fresh"]

_WRITER = ("mxsafe.verilog.convert", "mxsafe.verilog.generate")
"""Of texts, whatever the unit."""


def require_fresh(files: Iterable[Path], folder: Path = GEN) -> None:
    """Fail where a file of ``gen/`` is not what its sources generate.

    Parameters
    ----------
    files : iterable of Path
        Verilog; what stands elsewhere is not looked at.
    folder : Path
        ``gen/``, or a copy of it.
    """
    for file in files:
        if file.is_relative_to(folder) and (changed := _changed(file.stem, folder)):
            text = _texts(_smallest(file.stem), _now(folder)).get(file.stem)
            if text != hashlib.sha256(file.read_bytes()).hexdigest():
                raise AssertionError(
                    f"gen/{file.relative_to(folder)} is not what its sources generate, of which "
                    f"{changed} has changed: run `make verilog`"
                )


@cache
def _now(folder: Path) -> tuple[tuple[str, str], ...]:
    """Digests of all files that were written down, as they are now, if one of them differs."""
    written = json.loads((folder / sources.SOURCES).read_text())
    now = sources.digests(written)
    return tuple(now.items()) if now != written else ()


@cache
def _changed(name: str, folder: Path) -> str:
    """The first file that a module is made from and that has changed, or nothing."""
    now = dict(_now(folder))
    if not now:
        return ""
    written = json.loads((folder / sources.SOURCES).read_text())
    sources_of = named()[name].sources
    makers = [made_from(source) for source in sources_of if source.is_relative_to(GEN)]
    found = sources.reached([*makers, *_WRITER]) | {"verilog/presets.py"}
    return next((file for file in sorted(found) if now.get(file) != written.get(file)), "")


@cache
def _smallest(name: str) -> str:
    """The unit with the fewest modules that holds a module: its name, and what it is built for."""
    modules = generated()
    tops = json.loads((GEN / "manifest.json").read_text())["tops"]
    holding = [t for t in tops if name in {source.stem for source in modules[t].sources}]
    return min(holding, key=lambda top: len(modules[top].sources))


@cache
def _texts(top: str, now: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Digests of what a unit and all inside it generate, kept for these sources."""
    digest = hashlib.sha256(repr(now).encode()).hexdigest()[:16]
    kept = GEN.parent / "sim_build" / f"fresh-{digest}"
    with locked(kept):
        file = kept / f"{top}.json"
        if not file.exists():
            file.write_text(json.dumps(_generated(top)))
        found: dict[str, str] = json.loads(file.read_text())
    return found


def _generated(top: str) -> dict[str, str]:
    # Only here: what generates is not imported where nothing has changed.
    from mxsafe.verilog import presets
    from mxsafe.verilog.generate import generate

    mxsf = MX_FORMATS["mxsf"]
    units = [presets.build(name, mxsf) for name in presets.units_of(mxsf)]
    units += [presets.build(name, mxsf, target="fpga") for name in presets.FPGA_UNITS]
    # Units that are tops in gen/ keep their names inside others.
    wanted = {source.stem for source in generated()[top].sources}
    with tempfile.TemporaryDirectory() as folder:
        generate([unit for unit in units if unit.module_name in wanted], Path(folder))
        files = sorted(Path(folder).rglob("*.v"))
        return {file.stem: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
