"""What Python runs first in a simulator: it spares cocotb imports that benches do not need.

cocotb reads its version from the metadata of all packages, and imports the debugger and the
profiler for modes that are off: a quarter of the time in which a simulation starts. With
``COCOTB_PDB_ON_EXCEPTION`` or ``COCOTB_ENABLE_PROFILING`` they are there.
"""

import os
import sys
from types import ModuleType

_version = ModuleType("cocotb._version")
_version.__dict__["__version__"] = os.environ["MXSAFE_COCOTB_VERSION"]
sys.modules[_version.__name__] = _version
if not {"COCOTB_ENABLE_PROFILING", "COCOTB_PDB_ON_EXCEPTION"} & os.environ.keys():
    sys.modules |= {name: ModuleType(name) for name in ("cProfile", "pdb", "pstats")}
