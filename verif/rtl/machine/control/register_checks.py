"""Checks of the registers: a model beside which a bus and a machine are played, in every cycle."""

import random
from collections import Counter
from collections.abc import Mapping

import numpy as np

from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import COUNTERS, ERRORS, FLAGS, REGISTERS, constant_registers
from mxsafe.rtl.machine.control.registers import RegistersConfiguration
from verif.support.checkers import assert_equal
from verif.support.manifest import Module
from verif.support.simulators import run_lockstep

Pins = dict[str, int]
_BY_NAME = {register.name: register for register in REGISTERS}
_BY_ADDRESS = {register.address: register for register in REGISTERS}
_HELD = {
    register.name: sum(FLAGS[register.name].values()) or (1 << 32) - 1
    for register in REGISTERS
    # Writing to `interrupt` clears bits.
    if register.access == "read_write" and register.name != "interrupt"
}
"""Bits of the registers that keep what is written to them."""
_EVENTS = [name for name in COUNTERS if name != "cycles"]
_UNKNOWN = 40
"""Cycles at the start after which a program was started: what it keeps is not reset."""
_COMMANDS = (*["control"] * 3, *["interrupt"] * 3, "interrupt_enable")
"""Registers that are written more often than others."""
_CHANNELS = ("aw", "w", "ar")
_PACE = 64
"""Cycles in which everything happens equally often."""
_SEEN = ("start", "clear", "irq")
"""Outputs that are set now and then."""


class RegisterModel:
    """The registers; `seen` counts what has happened to them."""

    def __init__(self, machine: MachineConfiguration) -> None:
        self._constants = constant_registers(machine)
        self._fine = machine.word_bytes - 1
        self._stages = RegistersConfiguration(machine=machine).reset_stages
        self._kept = {"program_base": 0, "program_length": 0, "base": 0}
        self._aligned = True
        self.seen: Counter[str] = Counter()
        self._forget()

    def _forget(self) -> None:
        """A reset by the pin."""
        self._held = dict.fromkeys(_HELD, 0)
        self._counters = dict.fromkeys(COUNTERS, 0)
        self._happened = dict.fromkeys(FLAGS["interrupt"], False)
        self._running = self._done = self._failed = self._waits = self._refused = False
        self._resetting = False
        self._left = 0
        """Cycles that are left of a reset that goes everywhere through registers."""
        self.write_ready = self._read_ready = self._answers_write = self._answers_read = False
        self._data = 0

    def _bits(self, name: str, values: Mapping[str, bool]) -> int:
        return _BY_NAME[name].pack({field: int(value) for field, value in values.items()})

    def _read(self, address: int, pins: Pins) -> int:
        """What a register is read as; 0 where there is none to read."""
        register = _BY_ADDRESS.get(address & ~3)
        if register is None or register.access == "write":
            return 0
        values = self._constants | self._held
        values["interrupt"] = self._bits("interrupt", self._happened)
        values["status"] = self._bits(
            "status",
            {
                "running": self._running or self._resetting or self._waits,
                "done": self._done,
                "error": bool(pins["stopped"]) or self._refused,
            },
        )
        values["error"] = ERRORS["alignment"] if self._refused else 0
        values["error_descriptor"] = 0
        if pins["stopped"]:
            values |= {"error": pins["error"], "error_descriptor": pins["error_number"]}
        for name, count in self._counters.items():
            values |= {f"{name}_low": count & 0xFFFFFFFF, f"{name}_high": count >> 32}
        return values[register.name]

    def _keep(self) -> None:
        """Take what a program is from the registers, as a start does."""
        held = self._held
        program = held["program_high"] << 32 | held["program_low"]
        base = held["base_high"] << 32 | held["base_low"]
        self._aligned = not (program | base) & self._fine
        length = held["program_length"]
        self._kept = {
            "program_base": program & ~self._fine,
            "program_length": length,
            "base": base & ~self._fine,
        }

    def cycle(self, pins: Pins) -> Pins:
        """Return what the outputs are with these inputs, and go on to the next cycle."""
        is_cleared = self._resetting and bool(pins["quiet"])
        clear = self._left > self._stages if self._stages else is_cleared
        shown: dict[str, int] = {
            "s_axi_awready": self.write_ready,
            "s_axi_wready": self.write_ready,
            "s_axi_bvalid": self._answers_write,
            "s_axi_bresp": 0,
            "s_axi_arready": self._read_ready,
            "s_axi_rvalid": self._answers_read,
            "s_axi_rdata": self._data,
            "s_axi_rresp": 0,
            "irq": bool(self._bits("interrupt", self._happened) & self._held["interrupt_enable"]),
            "stop": self._resetting,
            "clear": clear,
            **self._kept,
        }
        self._answer_read(pins)
        commands, cleared = self._answer_write(pins)
        begins = self._waits and not self._resetting and not commands["reset"]
        shown["start"] = begins and self._aligned
        self._run(pins, commands, cleared, begins=begins, clear=clear)
        is_over = self._left == 1 if self._stages else clear
        if self._left:
            self._left -= 1
        elif self._stages and is_cleared:
            self._left = 2 * self._stages + 1
        self._resetting = commands["reset"] or (self._resetting and not is_over)
        if pins["rst"]:
            self._forget()
        self.seen.update(name for name in _SEEN if shown[name])
        return {name: int(value) for name, value in shown.items()}

    def _answer_read(self, pins: Pins) -> None:
        taken = self._read_ready and bool(pins["s_axi_arvalid"])
        if taken:
            self._data = self._read(pins["s_axi_araddr"], pins)
            self.seen["read"] += 1
        asks = bool(pins["s_axi_arvalid"])
        self._read_ready = asks and not self._read_ready and not self._answers_read
        self._answers_read = taken or (self._answers_read and not pins["s_axi_rready"])

    def _answer_write(self, pins: Pins) -> tuple[Mapping[str, bool], Mapping[str, bool]]:
        """Keep what is written; return which commands and which bits of `interrupt` are."""
        asks = bool(pins["s_axi_awvalid"] & pins["s_axi_wvalid"])
        taken = self.write_ready and asks
        self.write_ready = asks and not self.write_ready and not self._answers_write
        self._answers_write = taken or (self._answers_write and not pins["s_axi_bready"])
        mask = sum(0xFF << 8 * byte for byte in range(4) if pins["s_axi_wstrb"] >> byte & 1)
        register = _BY_ADDRESS.get(pins["s_axi_awaddr"] & ~3)
        word = pins["s_axi_wdata"] & mask
        name = register.name if register and taken else ""
        if name in _HELD:
            self._held[name] = (self._held[name] & ~mask | word) & _HELD[name]
        control, interrupt = (
            {bit: name == one and bool(word & flag) for bit, flag in FLAGS[one].items()}
            for one in ("control", "interrupt")
        )
        return control, interrupt

    def _run(
        self,
        pins: Pins,
        commands: Mapping[str, bool],
        cleared: Mapping[str, bool],
        *,
        begins: bool,
        clear: bool,
    ) -> None:
        """Start programs, count, and see them end or fail."""
        stopped = bool(pins["stopped"]) or self._refused
        is_free = not self._waits and (self._resetting or not (self._running or stopped))
        starts = commands["start"] and (commands["reset"] or is_free)
        refused = begins and not self._aligned
        if begins:
            self._counters = dict.fromkeys(COUNTERS, 0)
        elif self._running:
            for name in COUNTERS:
                self._counters[name] += pins.get(name, 1)
        events = {
            "done": self._running and bool(pins["is_done"]) and not stopped,
            "error": stopped and not self._failed and not self._resetting,
        }
        for name, event in events.items():
            stays = self._happened[name] and not cleared[name]
            self._happened[name] = not clear and (event or stays)
        self._done = not clear and (events["done"] or (self._done and not begins))
        goes_on = self._running and not (pins["is_done"] or stopped or clear)
        self._running = (begins and self._aligned) or goes_on
        self._refused = not clear and (self._refused or refused)
        self._failed = stopped and not clear
        self._waits = starts or (self._waits and not begins and not commands["reset"])
        if starts:
            self._keep()
        self.seen.update(name for name, event in events.items() if event)
        self.seen["refused"] += refused


class _Master:
    """Offers accesses, each of which stays until it is taken."""

    def __init__(self, module: Module, rng: random.Random) -> None:
        self._rng = rng
        self._places = 1 << module.ports["s_axi_araddr"].width
        self._offered: dict[str, Pins] = {}

    def pins(self, often: float, *, starts: bool) -> Pins:
        """Inputs of a cycle; until a program was started all that is written is its start."""
        pins: Pins = {}
        for channel in _CHANNELS:
            drawn = self._drawn(channel, starts=starts)
            if starts or self._rng.random() < often:
                self._offered.setdefault(channel, drawn)
            pins |= self._offered.get(channel, drawn)
            pins[f"s_axi_{channel}valid"] = int(channel in self._offered)
        return pins

    def settle(self, pins: Pins, shown: Pins) -> None:
        """Forget what is taken, and in a reset all."""
        for channel in _CHANNELS:
            if pins["rst"] or (pins[f"s_axi_{channel}valid"] and shown[f"s_axi_{channel}ready"]):
                self._offered.pop(channel, None)

    def _drawn(self, channel: str, *, starts: bool) -> Pins:
        rng = self._rng
        if channel == "w":
            word = rng.getrandbits(32)
            data = rng.choice((word, word & ~0xFF, word & ~0xFF, word & 3, 1))
            strobes = rng.choice((0xF, 0xF, rng.getrandbits(4)))
            return {
                "s_axi_wdata": 1 if starts else data,
                "s_axi_wstrb": 0xF if starts else strobes,
            }
        names = [register.name for register in rng.choices(REGISTERS, k=4)]
        name = rng.choice([*names, *_COMMANDS] if channel == "aw" else names)
        place = _BY_NAME["control" if starts else name].address
        if not starts and rng.random() < 0.1:
            place = rng.randrange(self._places) & ~3
        pins = {"addr": place | rng.getrandbits(2), "prot": rng.getrandbits(3)}
        return {f"s_axi_{channel}{pin}": value for pin, value in pins.items()}


def _played(
    module: Module, model: RegisterModel, clocks: int
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Inputs of each cycle, and the outputs that belong to them."""
    rng = random.Random(2)
    master = _Master(module, rng)
    given, told = [], []
    stopped = False
    for clock in range(clocks):
        starts = clock < _UNKNOWN
        if clock % _PACE == 0:
            often, quiet, slowly = (
                rng.choice(each) for each in ((0.1, 0.5, 1), (0.1, 0.9), (0, 0.05))
            )
        pins = master.pins(often, starts=starts)
        # Much happens in the cycle in which something is written.
        at_once = model.write_ready and pins["s_axi_awvalid"] and pins["s_axi_wvalid"]
        stops, ends = (0.04, 0.4) if at_once else (0.004, slowly)
        stopped = not starts and rng.random() < (0.8 if stopped else stops)
        pins |= {name: rng.getrandbits(1) for name in _EVENTS}
        pins |= {name: int(rng.random() < 0.7) for name in ("s_axi_bready", "s_axi_rready")}
        pins |= {
            "rst": int(clock < 2 or rng.random() < (0 if starts else 0.002)),
            "quiet": int(rng.random() < quiet),
            "is_done": int(rng.random() < ends),
            "stopped": int(stopped),
            "error": rng.getrandbits(module.ports["error"].width),
            "error_number": rng.getrandbits(module.ports["error_number"].width),
        }
        shown = model.cycle(pins)
        master.settle(pins, shown)
        given.append(pins)
        told.append(shown)
    inputs = {name: np.array([pins[name] for pins in given]) for name in given[0]}
    # Two bases have 64 bits.
    outputs = {
        name: np.array([shown[name] for shown in told], np.uint64).astype(np.int64)
        for name in told[0]
    }
    return inputs, outputs


def check_registers(
    simulator: str, module: Module, machine: MachineConfiguration, clocks: int
) -> None:
    """All outputs are the model's in every cycle of random accesses, events and resets."""
    model = RegisterModel(machine)
    inputs, expected = _played(module, model, clocks)
    log = run_lockstep(simulator, module, inputs, unsettled=_UNKNOWN)
    for name, values in expected.items():
        got = module.ports[name].numbers(log[name])
        assert_equal(name, got[_UNKNOWN:], values[_UNKNOWN:], cycle=np.arange(_UNKNOWN, clocks))
    seen = {name: model.seen[name] for name in (*_SEEN, "done", "error", "refused", "read")}
    assert min(seen.values()) > clocks // 1000, f"only {seen}"
