"""Units that tests generate: many tests want the same one, and each is made once a process."""

import atexit
import shutil
import tempfile
from pathlib import Path

from mxsafe.rtl.configuration import Configuration
from mxsafe.rtl.unit import Unit
from mxsafe.verilog.generate import generate
from verif.support import manifest
from verif.support.manifest import Module

__all__ = ["generated"]

_kept = Path(tempfile.mkdtemp(prefix="mxsafe-units-"))
atexit.register(shutil.rmtree, _kept)
_made: dict[Configuration, Path] = {}


def generated(unit: Unit, folder: Path) -> Module:
    """A unit's module, with its Verilog and manifest in `folder`.

    It is generated for the first time of a configuration; its files are copied after that.
    """
    if unit.config not in _made:
        made = _kept / str(len(_made))
        generate([unit], made)
        _made[unit.config] = made
    shutil.copytree(_made[unit.config], folder, dirs_exist_ok=True)
    return manifest.load(folder)[unit.module_name]
