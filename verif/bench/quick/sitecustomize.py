"""What Python in a simulator begins with: nothing that cocotb imports and benches do not need.

It would look for its own version in the metadata of all packages, and takes in the debugger and the
profiler for modes that are off: a quarter of the time in which it starts.
"""

import os
import sys
from types import ModuleType

_version = ModuleType("cocotb._version")
_version.__dict__["__version__"] = os.environ["MXSAFE_COCOTB"]
sys.modules[_version.__name__] = _version
sys.modules |= {name: ModuleType(name) for name in ("cProfile", "pdb", "pstats")}
