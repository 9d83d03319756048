"""The top of a board, simulated, with a host's end of the serial line as a port."""

import ctypes
import hashlib
from pathlib import Path

from mxsafe.host import verilator
from mxsafe.host.verilator import build_library
from mxsafe.machine.frames import MOST_WORDS
from mxsafe.rtl.board.ulx3s import Ulx3s, Ulx3sConfiguration
from verif.support.generated import generated
from verif.support.simulators import SCRATCH

__all__ = ["SimulatedBoard"]

_HERE = Path(__file__).parent
_MAIN, _PLL = _HERE / "serial_line.cpp", _HERE / "ehxplll.v"


class SimulatedBoard:
    """A port to the Verilog of a board, compiled by Verilator.

    Parameters
    ----------
    configuration : Ulx3sConfiguration
    folder : Path
        Where its Verilog is generated.

    Attributes
    ----------
    divisor, patience : int
        Clocks of a bit, and clocks after which the board gives up a frame.
    """

    def __init__(self, configuration: Ulx3sConfiguration, folder: Path) -> None:
        module = generated(Ulx3s(configuration), folder)
        sources = [*module.sources, _PLL]
        self.divisor, self.patience = (module.parameters[n] for n in ("divisor", "patience"))
        made_of = (*sources, _MAIN, Path(verilator.__file__))
        digest = hashlib.sha256(b"\0".join(path.read_bytes() for path in made_of))
        library = build_library(
            SCRATCH / f"board-{digest.hexdigest()[:16]}",
            module.name,
            sources,
            _MAIN,
            defines={"DIVISOR": self.divisor},
            optimisation="-O0",
        )
        self._functions = ctypes.CDLL(str(library))
        self._functions.board_new.restype = ctypes.c_void_p
        self._functions.board_receive.restype = ctypes.c_uint64
        self._board = ctypes.c_void_p(self._functions.board_new())
        self.press(down=False)

    def __del__(self) -> None:
        if hasattr(self, "_board"):
            self._functions.board_delete(self._board)

    def write(self, data: bytes) -> None:
        """Send bytes to the board."""
        self._functions.board_send(self._board, bytes(data), ctypes.c_uint64(len(data)))

    def read(self, size: int) -> bytes:
        """Bytes of the board: what has not come after a while does not come."""
        # Registers take some clocks a word, and bits of a byte the divisor each.
        patience = 2 * self.patience + 20 * MOST_WORDS + 20 * self.divisor
        buffer = ctypes.create_string_buffer(size)
        count = self._functions.board_receive(
            self._board, buffer, ctypes.c_uint64(size), ctypes.c_uint64(patience)
        )
        return buffer.raw[:count]

    def close(self) -> None:
        """Nothing: the board stays."""

    def press(self, *, down: bool) -> None:
        """Press the button for the reset, or release it."""
        self._functions.board_press(self._board, ctypes.c_bool(down))

    @property
    def lights(self) -> int:
        """The lights, a bit each."""
        return self._functions.board_lights(self._board)

    @property
    def wifi_gpio0(self) -> int:
        """The pin of this name."""
        return self._functions.board_gpio0(self._board)
