"""Energy of training steps, from ``docs/energy.json`` of `studies.energy`."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from mxsafe.analysis import figures
from mxsafe.cli.energy import shown
from mxsafe.machine.configuration import MachineConfiguration, sizes_of
from mxsafe.machine.energy import COUNTED, GROUPS, Energy, Work, energy_of
from mxsafe.machine.energy_tables import (
    DRAMS,
    NODES,
    UNITS,
    EnergyTables,
    dram_background,
    dram_bit,
    leaked,
    unit_energy,
)
from studies.drawing import plain
from studies.energy_machines import ATTENTION, BESIDE, MACHINES, OPTIMIZERS
from studies.pages import kept

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER = {"off chip": 0.8393, "on chip": 0.1492, "core": 0.0115}
"""Shares of the paper's Fig. 7(b)."""
PAPER_PRODUCT = 0.603
"""The paper's energy of a product, pJ: 308.845 mW of Table IV, 1,024 products a cycle, 500 MHz."""
PAPER_STEP = 3.732e9 * PAPER_PRODUCT / PAPER["core"]
"""A step's energy that follows from its products and their share, pJ."""
PAPER_SAVED = {"bf16": 0.2492, "mxfp4, attention in bf16": 0.0407}
"""What the paper's step saves beside other machines."""
IMAGES = 128
"""Images whose gradients are added before an update, of the other case."""
_MILLI = 1e-9
"""Millijoules in a picojoule."""
TABLES = {
    f"{dram}, {node} nm": EnergyTables(dram=dram, sram=node) for dram, node in product(DRAMS, NODES)
}
"""All assumptions of memories."""
DEFAULT_NAME = "bitmod, 28 nm"
DEFAULT = TABLES[DEFAULT_NAME]
"""Those that the command has if nothing else is said."""
_COLOURS = {"off chip": "#0072b2", "on chip": "#e69f00", "core": "#009e73"}


def counts(figures: Mapping[str, Any], name: str) -> Counter[str]:
    """Counters of a case, those that are 0 among them."""
    return Counter({**dict.fromkeys(COUNTED, 0), **figures[name]["counters"]})


def in_turn(figures: Mapping[str, Any], machine: str, model: str, optimizer: str) -> dict[str, int]:
    """Counters of an image of `IMAGES`, which come one after the other before an update.

    Each that has not been counted counts as the last one does that has been.
    """
    name = f"{machine}, {model}, {optimizer}"
    most = max(images for images in range(2, IMAGES) if f"{name}, {images}" in figures)
    before, last = (counts(figures, f"{name}, {images}") for images in (most - 1, most))
    return {
        one: (last[one] + (IMAGES - most) * (last[one] - before[one])) // IMAGES for one in COUNTED
    }


CLOCK = 500e6
"""Cycles in a second."""
_NANOSECONDS = 1e9 / CLOCK
"""Of a cycle; with a power in mW they are pJ."""
CHANNEL = 12.8
"""GB/s of a channel of DDR3-1600 of 64 bits, at most."""


@dataclass(frozen=True)
class Spent:
    """Energy of a step by group, in pJ, its cycles, and bytes that it moves off chip."""

    groups: Mapping[str, float]
    cycles: int
    moved: int

    @classmethod
    def of(cls, energy: Energy) -> "Spent":
        """What an energy says."""
        return cls(energy.groups, energy.cycles, energy.moved)

    @property
    def total(self) -> float:
        """All groups."""
        return sum(self.groups.values())

    @property
    def bandwidth(self) -> float:
        """GB/s that it moves if nothing but its cycles takes time."""
        return 1e-9 * self.moved * CLOCK / self.cycles

    def plus(self, times: int, other: "Spent") -> "Spent":
        """With something else, so many times."""
        groups = {name: own + times * other.groups[name] for name, own in self.groups.items()}
        cycles, moved = self.cycles + times * other.cycles, self.moved + times * other.moved
        return Spent(groups, cycles, moved)


BLOCKS = {"block": 1, "DeiT-Tiny": 12}
"""Blocks of a model, each with attention."""
Key = tuple[str, str, int]


def _tables(
    machine: MachineConfiguration, products: Mapping[str, float], **changes: bool
) -> dict[str, EnergyTables]:
    """All assumptions of memories; a product may be given another energy, pJ."""
    name = sizes_of(machine)["format_a"]
    own = {"units": {"product": products[name]}} if name in products else {}
    return {name: replace(tables, own=own, **changes) for name, tables in TABLES.items()}


def energies(
    figures: Mapping[str, Any],
    model: str,
    products: Mapping[str, float] = MappingProxyType({}),
    **changes: bool,
) -> dict[Key, dict[str, Spent]]:
    """Energy of a model's steps by all assumptions: by machine, optimizer and images.

    A machine with another one beside it does all but attention, which is taken off and added as it
    is counted alone on both. Products in formats may be given another energy, pJ, and tables be
    changed, such as by ``static_power``.
    """
    found: dict[Key, dict[str, Spent]] = {}
    for (machine, optimizer, images), counters in cases(figures, model).items():
        configuration = MACHINES[machine]
        assumed = _tables(configuration, products, **changes)
        own = {n: spent(configuration, counters, tables) for n, tables in assumed.items()}
        found[machine, optimizer, images] = {n: Spent.of(energy) for n, energy in own.items()}
        if machine in BESIDE:
            both = (
                (-BLOCKS[model], MACHINES[machine], f"{machine}, attention"),
                (BLOCKS[model], BESIDE[machine], f"{machine}, beside, attention"),
            )
            mixed = dict(found[machine, optimizer, images])
            for times, one, name in both:
                for title, tables in _tables(one, products, **changes).items():
                    other = spent(one, counts(figures, name), tables)
                    mixed[title] = mixed[title].plus(times, Spent.of(other))
            found[mixed_name(machine), optimizer, images] = mixed
    return found


def third_beside_second(figures: Mapping[str, Any], name: str) -> float:
    """By which share a counter of a block's third image differs from the second one's, at most."""
    shares = [0.0]
    for machine, optimizer in product(MACHINES, OPTIMIZERS):
        step = f"{machine}, block, {optimizer}"
        if f"{step}, 3" in figures:
            first, second, third = (counts(figures, f"{step}, {n}")[name] for n in (1, 2, 3))
            shares.append(abs((third - second) / (second - first) - 1))
    return max(shares)


def mixed_name(machine: str) -> str:
    """Name of a machine with attention on the one beside it."""
    return f"{machine}, attention in bf16"


def spent(
    machine: MachineConfiguration, counters: Mapping[str, int], tables: EnergyTables
) -> Energy:
    """Energy of counters."""
    return energy_of(Work(machine, counters), tables)


def _range(values: Sequence[float], form: str) -> str:
    low, high = (format(value, form) for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def _row(title: str, found: Mapping[str, Spent]) -> tuple[str, ...]:
    """A case: energy, shares and cycles, each over all assumptions."""
    several = list(found.values())
    return (
        title,
        _range([one.total * _MILLI for one in several], ".3g"),
        *(_range([100 * one.groups[g] / one.total for one in several], ".1f") for g in GROUPS),
        f"{several[0].cycles:,}",
        f"{1e3 * several[0].cycles / CLOCK:.1f}",
        f"{several[0].bandwidth:.1f}",
    )


_HEAD = ("step", "mJ", *(f"{group}, %" for group in GROUPS), "cycles", "ms at 500 MHz", "GB/s")


def brief(text: str) -> str:
    """What the command prints without parts that are less than 1 %, and without assumptions."""
    table, _, _ = text.partition("\nassumptions:")
    first, *rows, last = table.splitlines()
    return "\n".join([first, *(row for row in rows if float(row.split()[-1]) >= 1), last])


def cases(figures: Mapping[str, Any], model: str) -> dict[tuple[str, str, int], Mapping[str, int]]:
    """Counters of a model's steps that have been counted, by machine, optimizer and images."""
    found: dict[tuple[str, str, int], Mapping[str, int]] = {}
    for machine, optimizer in product(MACHINES, OPTIMIZERS):
        name = f"{machine}, {model}, {optimizer}"
        if f"{name}, 1" in figures:
            found[machine, optimizer, 1] = counts(figures, f"{name}, 1")
        if f"{name}, 3" in figures:  # the second image may be compiled in another way
            found[machine, optimizer, IMAGES] = in_turn(figures, machine, model, optimizer)
    return found


def _turn(images: int) -> str:
    return f", an image of {images} in turn" if images > 1 else ""


def table(figures: Mapping[str, Any], model: str, **changes: bool) -> list[tuple[str, ...]]:
    """Energy of a model's steps, head first; see `energies`."""
    found = energies(figures, model, **changes)
    rows = (_row(f"{m}, {o}{_turn(images)}", own) for (m, o, images), own in found.items())
    return [_HEAD, *rows]


def saved(figures: Mapping[str, Any], model: str, **changes: bool) -> list[tuple[str, ...]]:
    """What MXSF saves beside each other machine, head first; see `energies`."""
    rows: list[tuple[str, ...]] = [
        ("beside", "step", "saved, %", "off chip alone, %", "cycles, %", "the paper, %")
    ]
    found = energies(figures, model, **changes)
    for (machine, optimizer, images), theirs in found.items():
        if machine == "mxsf":
            continue
        pairs = [(found["mxsf", optimizer, images][name], theirs[name]) for name in TABLES]
        whole = [100 * (1 - one.total / other.total) for one, other in pairs]
        off = [100 * (1 - a.groups[GROUPS[0]] / b.groups[GROUPS[0]]) for a, b in pairs]
        cycles = 100 * (1 - pairs[0][0].cycles / pairs[0][1].cycles)
        paper = f"{100 * PAPER_SAVED[machine]:.2f}" if machine in PAPER_SAVED else ""
        title = f"{optimizer}{_turn(images)}"
        ranges = _range(whole, ".1f"), _range(off, ".1f"), f"{cycles:.1f}", paper
        rows.append((machine, title, *ranges))
    return rows


BF16_PRODUCTS = (10.0, 6.0, 4.0, 3.0)
"""Energies of a product in BF16 that are tried beside our own, pJ."""
ACTIVITIES = ("0.1", "0.2")
"""Changes of inputs in a cycle, for energies without data."""
_UNITS = {"mxsf": "pu_exact, 1 accumulator", "bf16": "pu_bf16 of the machine"}
"""Sub-matrix units whose energies without data are known."""


def without_data(activity: str) -> dict[str, float]:
    """Energies of a product in units whose inputs change so often, by format, pJ."""
    powers = {
        one["configuration"]: one["power"]
        for one in kept("synthesis")["results"]
        if "vectorless" in one.get("power", {}) and one["technology"] == "nangate45"
    }
    return {
        name: power["vectorless"][activity] * power["multiply_pj"] / power["clock"]["total_pj"]
        for name, power in ((name, powers[unit]) for name, unit in _UNITS.items())
    }


def saved_whole(figures: Mapping[str, Any], machine: str, products: Mapping[str, float]) -> str:
    """What MXSF saves of a whole step with AdamW beside a machine, in per cent."""
    found = energies(figures, "DeiT-Tiny", products)
    ours, theirs = found["mxsf", "AdamW", 1], found[machine, "AdamW", 1]
    return _range([100 * (1 - ours[n].total / theirs[n].total) for n in TABLES], ".1f")


def by_product(figures: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """What MXSF saves of a whole step with AdamW, by what products take, head first."""
    ours, theirs = (unit_energy(DEFAULT, "product", MACHINES[name]) for name in _UNITS)
    tried = [("real data", {"mxsf": ours, "bf16": pj}) for pj in (theirs, *BF16_PRODUCTS, ours)]
    tried += [(f"activity {one}", without_data(one)) for one in ACTIVITIES]
    heads = ("products with", "pJ in MXSF", "pJ in BF16")
    rows = [(*heads, *(f"saved beside {machine}, %" for machine in PAPER_SAVED))]
    for title, products in tried:
        # Of MXFP4 there is no energy without data.
        ranges = (
            saved_whole(figures, machine, products)
            if title == "real data" or machine == "bf16"
            else ""
            for machine in PAPER_SAVED
        )
        rows.append((title, *(f"{products[name]:.2f}" for name in _UNITS), *ranges))
    return [*rows, ("the paper", "", "", *(f"{100 * one:.2f}" for one in PAPER_SAVED.values()))]


_LESS = 4.0
"""Energy of a bit of DRAM in the package of the chip, as an example, pJ."""


def split(figures: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Shares of MXSF's step by assumptions, beside the paper's, head first."""
    name = "mxsf, DeiT-Tiny, {}, 1"
    core = {"units": {**dict.fromkeys(UNITS, 0), "product": PAPER_PRODUCT}}
    rows = [("assumptions", *(f"{group}, %" for group in GROUPS))]
    rows.append(("the paper, Fig. 7(b)", *(f"{100 * PAPER[group]:.2f}" for group in GROUPS)))
    tried = {
        **TABLES,
        **{
            f"{dram}, 65 nm; {PAPER_PRODUCT} pJ a product, no vector units": EnergyTables(
                dram=dram, sram=65, own=core
            )
            for dram in DRAMS
        },
        f"{_LESS:g} pJ a bit of DRAM, 28 nm": EnergyTables(
            own={"dram": {"read": _LESS, "write": _LESS}}
        ),
    }
    for optimizer, (title, tables) in product(OPTIMIZERS, tried.items()):
        work = Work(MACHINES["mxsf"], counts(figures, name.format(optimizer)))
        energy = energy_of(work, tables)
        shares = (f"{100 * energy.groups[group] / energy.total:.2f}" for group in GROUPS)
        rows.append((f"{optimizer}; {title}", *shares))
    return rows


def nearest(rows: Sequence[Sequence[str]]) -> Sequence[str]:
    """The row of `split` whose shares are nearest to the paper's, without the paper's own."""
    wanted = [100 * PAPER[group] for group in GROUPS]
    return min(
        rows[2:],
        key=lambda row: sum(abs(float(a) - b) for a, b in zip(row[1:], wanted, strict=True)),
    )


def _beside_bf16(figures: Mapping[str, Any], model: str, images: int = 1) -> dict[str, str]:
    """What steps save beside BF16, in all and off chip alone, in per cent."""
    found = energies(figures, model)
    pairs = [
        (found["mxsf", optimizer, images][name], theirs[name])
        for optimizer in OPTIMIZERS
        if (theirs := found.get(("bf16", optimizer, images)))
        for name in TABLES
    ]
    off = GROUPS[0]
    return {
        "whole": _range([100 * (1 - a.total / b.total) for a, b in pairs], ".1f"),
        "memory": _range([100 * (1 - a.groups[off] / b.groups[off]) for a, b in pairs], ".1f"),
    }


_EXCHANGED = 8
"""Tensors of attention's edge: queries, keys, values, the result, and a gradient of each."""


def saved_with_exchange(figures: Mapping[str, Any], model: str, bits: int) -> str:
    """What AdamW's step saves beside MXFP4 if attention's machine gets and gives by memory, %.

    Both count the edge of attention alone, so it cancels. Here each of its tensors is written once
    by one machine, with so many bits a number, and read once by the other.
    """
    edge = BLOCKS[model] * _EXCHANGED * int(np.prod(ATTENTION)) * bits
    return _beside_mixed(
        energies(figures, model),
        lambda tables, _: edge * (dram_bit(tables, "read") + dram_bit(tables, "write")),
    )


def saved_if_none_is_off(figures: Mapping[str, Any]) -> str:
    """What a whole step saves with static power, if MXFP4's two machines both take it always, %."""
    both = MACHINES["mxfp4"], BESIDE["mxfp4"]

    def waiting(tables: EnergyTables, cycles: int) -> float:
        """What they take beyond the dynamic energy."""
        power = sum(leaked(tables, one) for one in both) + (dram_background(tables) or 0.0)
        return power * cycles * _NANOSECONDS

    found = energies(figures, "DeiT-Tiny", static_power=True)
    mixed = mixed_name("mxfp4"), "AdamW", 1
    found[mixed] = energies(figures, "DeiT-Tiny")[mixed]
    return _beside_mixed(found, waiting)


def _beside_mixed(
    found: Mapping[Key, Mapping[str, Spent]], more: Callable[[EnergyTables, int], float]
) -> str:
    """What AdamW's step saves beside MXFP4 and BF16, to whose energy something is added, %."""
    shares = []
    for name, tables in TABLES.items():
        ours, theirs = (found[m, "AdamW", 1][name] for m in ("mxsf", mixed_name("mxfp4")))
        shares.append(100 * (1 - ours.total / (theirs.total + more(tables, theirs.cycles))))
    return _range(shares, ".1f")


def _share_of_blocks(figures: Mapping[str, Any]) -> float:
    """Share of twelve blocks in the energy of DeiT-Tiny's step, with AdamW."""
    block, whole = (
        energy_of(Work(MACHINES["mxsf"], counts(figures, f"mxsf, {model}, AdamW, 1")), DEFAULT)
        for model in ("block", "DeiT-Tiny")
    )
    return 12 * block.total / whole.total


def conversion_share(figures: Mapping[str, Any]) -> float:
    """Largest share of conversion in the energy of a block's step, by all assumptions."""
    found = (
        spent(MACHINES[machine], counters, tables)
        for (machine, *_), counters in cases(figures, "block").items()
        for tables in TABLES.values()
    )
    return max(energy.parts[-1].energy / energy.total for energy in found)


def _delay(name: str) -> float:
    """Delay of the fastest netlist of a unit, ns."""
    (found,) = (
        one["numbers"]["timing"]["delay_ns"]
        for one in kept("synthesis")["results"]
        if one["configuration"] == name and one["technology"] == "nangate45"
    )
    return float(found)


def off_chip_of_bf16(figures: Mapping[str, Any]) -> str:
    """Share of a block's energy off chip on machines of BF16, one image, by all assumptions."""
    shares = [
        100 * one.groups[GROUPS[0]] / one.total
        for (machine, _, images), found in energies(figures, "block").items()
        if machine.startswith("bf16") and images == 1
        for one in found.values()
    ]
    return _range(shares, ".0f")


def values() -> dict[str, Any]:
    """Return the values of the page's template."""
    found = kept("energy")
    block, whole = "mxsf, block, SGD, 1", "mxsf, DeiT-Tiny, AdamW, 1"
    rows = split(found)
    encoder = spent(MACHINES["mxsf"], counts(found, "mxsf, MiniLM"), DEFAULT)
    own_product = unit_energy(DEFAULT, "product", MACHINES["mxsf"])
    return {
        "figures": found,
        "shown": shown(spent(MACHINES["mxsf"], counts(found, block), DEFAULT)),
        "encoder": brief(shown(encoder)),
        "encoder_spent": Spent.of(encoder),
        "channel": CHANNEL,
        "steps": [energies(found, "DeiT-Tiny")["mxsf", one, 1][DEFAULT_NAME] for one in OPTIMIZERS],
        "bf16_ns": _delay("pu_bf16 of the machine"),
        "off_chip_of_bf16": off_chip_of_bf16(found),
        "verilog": {n: c["verilog_cycles"] for n, c in found.items() if "verilog_cycles" in c},
        "predicted": {name: case["counters"]["cycles"] for name, case in found.items()},
        "nodes": NODES,
        "leaked": [leaked(EnergyTables(sram=node), MACHINES["mxsf"]) for node in NODES],
        "static": {
            "steps": table(found, "DeiT-Tiny", static_power=True),
            "saved": saved(found, "DeiT-Tiny", static_power=True),
        },
        "machines": MACHINES,
        "models": {model: table(found, model) for model in ("DeiT-Tiny", "block")},
        "saved": {model: saved(found, model) for model in ("DeiT-Tiny", "block")},
        "by_product": by_product(found),
        "split": rows,
        "nearest": nearest(rows),
        "paper": PAPER,
        "own_product": own_product,
        "paper_product": PAPER_PRODUCT,
        "images": IMAGES,
        "settled": {
            name: third_beside_second(found, name)
            for name in ("words_read", "words_written", "cycles")
        },
        "blocks": _share_of_blocks(found),
        "beats": {
            name: counts(found, f"{case}, AdamW, 1")["array_busy"]
            for name, case in (
                ("mxsf", "mxsf, DeiT-Tiny"),
                ("bf16", "bf16, DeiT-Tiny"),
                ("block", "mxsf, block"),
            )
        },
        **_beside_bf16(found, "block"),
        "memory_in_turn": _beside_bf16(found, "block", IMAGES)["memory"],
        "step": _beside_bf16(found, "DeiT-Tiny"),
        "longer": _range(
            [
                100 * (c["verilog_cycles"] / c["counters"]["cycles"] - 1)
                for c in found.values()
                if "verilog_cycles" in c
            ],
            ".1f",
        ),
        "conversion": conversion_share(found),
        "exchanged": {
            (model, bits): saved_with_exchange(found, model, bits)
            for model, bits in product(BLOCKS, (16, 32))
        },
        "none_is_off": saved_if_none_is_off(found),
        "activities": {one: without_data(one) for one in ACTIVITIES},
        "activity_saved": [saved_whole(found, "bf16", without_data(one)) for one in ACTIVITIES],
        "paper_step": PAPER_STEP,
        "off_chip": _range(
            [
                _MILLI * one.groups[GROUPS[0]]
                for optimizer in OPTIMIZERS
                for one in energies(found, "DeiT-Tiny")["mxsf", optimizer, 1].values()
            ],
            ".0f",
        ),
        "background": dram_background(EnergyTables(dram="ddr3")),
        "ratio": unit_energy(DEFAULT, "product", MACHINES["bf16"]) / own_product,
        "products": counts(found, whole)["array_busy"] * 1024,
    }


def draw(figures_: Mapping[str, Any]) -> "Figure":
    """Energy of a step by machine, and its shares beside the paper's: Fig. 7(a) and (b)."""
    figure = figures.new_figure(9, 4, layout="tight")
    left, right = figure.subplots(1, 2, width_ratios=[3, 2])
    bars = {
        re.sub(r",? (?=attention|in |of )", "\n", machine): own[DEFAULT_NAME]
        for (machine, optimizer, images), own in energies(figures_, "block").items()
        if (optimizer, images) == ("AdamW", 1)
    }
    base = np.zeros(len(bars))
    for group in GROUPS:
        heights = np.array([one.groups[group] * _MILLI for one in bars.values()])
        left.bar(list(bars), heights, 0.7, base, label=group, color=_COLOURS[group])
        base += heights
    left.set_ylabel("mJ a step of a block, AdamW")
    left.legend(frameon=False)
    ours = energies(figures_, "DeiT-Tiny")["mxsf", "AdamW", 1][DEFAULT_NAME]
    sides = {
        "the paper": [PAPER[group] for group in GROUPS],
        "mxsf, DeiT-Tiny,\nAdamW": [ours.groups[group] / ours.total for group in GROUPS],
    }
    base = np.zeros(len(sides))
    for at, group in enumerate(GROUPS):
        heights = np.array([100 * shares[at] for shares in sides.values()])
        right.bar(list(sides), heights, 0.6, base, color=_COLOURS[group])
        base += heights
    right.set_ylabel("share, %")
    for axes in (left, right):
        plain(axes, axis="y")
    return figure


def pictures() -> dict[str, bytes]:
    """The picture of both."""
    return {"energy.svg": figures.render(draw(kept("energy")), ".svg")}
