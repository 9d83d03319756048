"""Addresses in strips of operands: what is read, and the flags of each beat, with any pauses."""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.rtl.machine.gemm.operand_feed import OperandFeed
from verif.support.checkers import assert_equal
from verif.support.manifest import Module
from verif.support.simulators import lint, run_lockstep
from verif.support.tests import typical
from verif.support.units import generated, published

CLOCKS = 12000
UNKNOWN = 20
"""Cycles at the start in which no descriptor may have come yet."""
CALM = np.arange(CLOCKS) >= CLOCKS // 3
"""Cycles without resets, in which all descriptors stay inside: long loops come to their ends."""
DEPTHS = {"a_beats": 200, "w_beats": 300}
SMALL: dict[str, dict[str, Any]] = {
    "default": {},
    "for FPGAs": {"target": "fpga"},
    "paced": {"target": "fpga", "array_lanes": 2},
    "paced and later": {"target": "fpga", "array_lanes": 1},
    "anchors": {"arithmetic": "window"},
    "without scales": {"arithmetic": "bf16"},
}


def _memories(p: Mapping[str, Any]) -> tuple[str, ...]:
    """Memories that are read."""
    kinds = ("codes", "scales") if p["a_entries"] else ("codes",)
    return tuple(f"{side}_{kind}" for side in "aw" for kind in kinds)


def _descriptors(
    rng: np.random.Generator, widths: Mapping[str, int], p: Mapping[str, Any]
) -> NDArray[Any]:
    """Fields of random descriptors, a row for each cycle; some leave a buffer."""
    fields = {name: np.zeros(CLOCKS, np.int64) for name in widths}
    fields["beats"] = rng.integers(1, 12, CLOCKS)
    fields["block"] = rng.integers(1, 6, CLOCKS) << rng.integers(0, 6, CLOCKS) % 5
    fields["strips_a"], fields["strips_w"] = rng.integers(1, 4, (2, CLOCKS))
    # Many strips of one beat, so that all bits of their counts matter.
    many = rng.random((2, CLOCKS)) < np.where(CALM, 0.12, 0.04)
    many[1] &= ~(CALM & many[0])
    for name, chosen in zip(("strips_a", "strips_w"), many, strict=True):
        counts = rng.integers(8, 1 << rng.integers(4, 8, chosen.sum()))
        least = min(p["a_entries"], p["w_entries"]) or min(p["a_beats"], p["w_beats"])
        fields[name][chosen] = np.minimum(counts, least)
    fields["beats"][many.any(axis=0)] = 1
    # Strips of many beats, so that all bits of the counts of beats and blocks matter; where they
    # come to their ends most have a second one.
    long = ~many.any(axis=0) & (rng.random(CLOCKS) < np.where(CALM, 0.25, 0.08))
    most = min(p["a_beats"], 300) - 40
    least = np.where(CALM & (rng.random(CLOCKS) < 0.7), most // 2 + 20, 40)
    fields["beats"][long] = rng.integers(least, most)[long]
    fields["block"][long] = rng.integers(8, 100, long.sum())
    fields["strips_a"][long] = 1 + (rng.random(CLOCKS) < np.where(CALM, 0.8, 0.5))[long]
    fields["strips_w"][long] = 1
    # One beat, and often one strip of a, so that many descriptors leave a buffer at a second strip.
    short = ~CALM & ~many.any(axis=0) & ~long & (rng.random(CLOCKS) < 0.6)
    fields["beats"][short] = 1
    fields["strips_a"][short & (rng.random(CLOCKS) < 0.6)] = 1
    fields["clear"] = rng.integers(0, 2, CLOCKS)
    leaves = rng.integers(0, 7, CLOCKS)  # one buffer or none
    leaves[CALM] = -1
    for number, (side, kind, stride) in enumerate(
        (
            ("a", "beats", "stride"),
            ("w", "beats", "stride"),
            ("a", "entries", "scale_stride"),
            ("w", "entries", "scale_stride"),
        )[: len(_memories(p))]
    ):
        what = "codes" if kind == "beats" else "scales"
        depth = p[f"{side}_{kind}"]
        # As near to the end as the loops may come, and beyond it now and then.
        steps = rng.integers(0, 14, CLOCKS)
        steps[many.any(axis=0)] %= 2
        length = fields["beats"] if kind == "beats" else -(-fields["beats"] // fields["block"])
        most = (fields[f"strips_{side}"] - 1) * steps + length
        end = rng.random(CLOCKS) < 0.3
        begin = np.minimum(depth - most, rng.integers(0, max(depth - 60, 1), CLOCKS))
        begin = np.where(end, depth - most, begin)
        assert (begin >= 0).all()
        upper = 1 << rng.integers((depth - 1).bit_length(), 16, CLOCKS)
        beyond = np.where(end, rng.integers(1, 9, CLOCKS), upper)
        # At once, or with the stride to the second strip.
        several = fields[f"strips_{side}"] > 1
        jumps = (leaves == number) & ~end & several & (rng.random(CLOCKS) < 0.9)
        size = 1 << widths[f"{side}_{stride}"]
        jumps &= upper < size
        # With a carry out of the stride's width a sum that was cut off would be inside.
        carries = rng.random(CLOCKS) < 0.3
        far = np.where(carries, size - 1 - rng.integers(0, begin.clip(1)), upper)
        steps = np.where(jumps, far, steps)
        begin += np.where((leaves == number) & ~jumps, beyond, 0)
        fields[f"{side}_{what}"] = np.clip(begin, 0, (1 << 16) - 1)
        fields[f"{side}_{stride}"] = steps
    return np.stack([fields[name] for name in widths], axis=1)


def _walk(
    d: Mapping[str, int], *, anchored: bool, scaled: bool
) -> Iterator[tuple[dict[str, int], tuple[int, int, int]]]:
    """Addresses of what is read for each beat, and its flags.

    The scales of a block come with its first beat, or where there are anchors with its last one.
    Without scales there are no blocks, but the tile.
    """
    for w, a, beat in product(*(range(d[n]) for n in ("strips_w", "strips_a", "beats"))):
        in_block = beat % d["block"]
        read = {
            "a_codes": d["a_codes"] + a * d["a_stride"] + beat,
            "w_codes": d["w_codes"] + w * d["w_stride"] + beat,
        }
        last = beat == d["beats"] - 1
        ends_block = last or (scaled and in_block == d["block"] - 1)
        if beat == 0:
            read["starts"] = 1
        if scaled and (ends_block if anchored else in_block == 0):
            block = beat // d["block"]
            read["a_scales"] = d["a_scales"] + a * d["a_scale_stride"] + block
            read["w_scales"] = d["w_scales"] + w * d["w_scale_stride"] + block
        yield read, (int(beat == 0 and d["clear"]), int(ends_block), int(last))


class _Scan:
    """Reads of scales that find anchors, cycle by cycle, and the anchors found."""

    def __init__(self) -> None:
        self._tiles: list[list[dict[str, int]]] = []
        self._is_known = False
        self._arrives = False
        self._found: dict[str, NDArray[np.uint8]] | None = None
        self.anchors: dict[str, NDArray[np.uint8]] = {}

    def add(self, d: Mapping[str, int]) -> None:
        """Add the tiles of a descriptor."""
        blocks = range(-(-d["beats"] // d["block"]))
        for w, a in product(range(d["strips_w"]), range(d["strips_a"])):
            firsts = {
                side: d[f"{side}_scales"] + strip * d[f"{side}_scale_stride"]
                for side, strip in (("a", a), ("w", w))
            }
            self._tiles.append([{s: first + b for s, first in firsts.items()} for b in blocks])

    def clock(
        self, shown: Mapping[str, NDArray[np.uint8]], *, is_free: bool, begins: bool
    ) -> dict[str, int]:
        """Where it reads in a cycle in which the memories show these scales."""
        if self._arrives:
            known = self._found
            self._found = {
                side: one if known is None else np.maximum(known[side], one)
                for side, one in shown.items()
            }
        if begins:
            assert self._is_known, "a tile begins whose anchors are not known"
            assert self._found is not None
            self.anchors, self._found = self._found, None
            self._is_known = False
        self._arrives = is_free and not self._is_known and bool(self._tiles)
        if not self._arrives:
            return {}
        read = self._tiles[0].pop(0)
        if not self._tiles[0]:
            self._tiles.pop(0)
            self._is_known = True
        return read


def _check(simulator: str, module: Module, seed: int = 2) -> None:
    """Compare reads and flags."""
    rng = np.random.default_rng(seed)
    ports, p = module.ports, module.parameters
    widths = {name: width for name, _, width in ports["descriptor"].fields}
    descriptors = _descriptors(rng, widths, p)
    slow = np.repeat(rng.random((2, CLOCKS // 50)) < 0.3, 50, axis=1)
    rst = (rng.random(CLOCKS) < 0.06) & ~CALM
    rst[CALM.argmax()] = True
    rst[:UNKNOWN] = np.arange(UNKNOWN) < 2
    slow[:, :UNKNOWN] = False
    flags = {
        "rst": rst,
        "valid": rng.random(CLOCKS) < np.where(slow[0], 0.05, 0.9),
        "has_room": rng.random(CLOCKS) < 0.8,
        "beat_ready": rng.random(CLOCKS) < np.where(slow[1], 0.2, 0.95),
    }
    pins = {**flags, "descriptor": descriptors}
    rows = p.get("anchors", 0)
    entries = {side: rng.integers(0, 256, (CLOCKS, rows), np.uint8) for side in "aw"}
    if rows:
        pins |= {f"{side}_entry": entry for side, entry in entries.items()}
    log = run_lockstep(simulator, module, pins, unsettled=UNKNOWN)
    outputs = [n for n, port in ports.items() if port.direction == "output" and port.width < 64]
    got = {name: ports[name].numbers(log[name]).astype(np.int64) for name in outputs}

    memories = _memories(p)
    depths = {m: p[f"{m[0]}_{'beats' if m.endswith('codes') else 'entries'}"] for m in memories}
    addresses: dict[str, list[tuple[int, int]]] = {memory: [] for memory in memories}
    beats: list[tuple[int, tuple[int, int, int]]] = []
    faults = walks = 0
    reads: list[tuple[dict[str, int], tuple[int, int, int]]] = []
    shown: list[tuple[int, int, int]] = []
    later = int(p.get("later", False))
    scan, anchors = _Scan(), []
    reads_anything = p.get("target") == "fpga" and not p.get("paced", False)

    def leaves(read: dict[str, int]) -> bool:
        """Whether an address is outside of its memory."""
        return any(read.get(memory, 0) >= depths[memory] for memory in memories)

    for clock in range(2, CLOCKS):
        reading = bool(got["a_codes_en"][clock])
        if reading and reads_anything and reads and leaves(reads[0][0]):
            # No beat may come of it, and what was in the memories must have been taken.
            assert got["fault"][clock]
            assert not shown or (got["beat_valid"][clock] and flags["beat_ready"][clock])
        elif reading:
            assert reads, f"something is read in cycle {clock} that no descriptor asks for"
            wanted, now = reads.pop(0)
            shown.append(now)
            for memory in memories:
                is_read = got[f"{memory}_en"][clock]
                if memory in wanted:
                    assert is_read, f"{memory} {clock}"
                    addresses[memory].append((clock, wanted[memory]))
                elif not rows:
                    assert not is_read, f"{memory} {clock}"
            # One beat is in the registers of the memories, and one on its way into them.
            assert len(shown) <= 2
        if got["beat_valid"][clock] and not rst[clock]:
            assert shown
            beats.append((clock, shown[0]))
            if rows:
                anchors.append((clock, scan.anchors))
            if flags["beat_ready"][clock]:
                shown.pop(0)
        if rows:
            moves = not got["beat_valid"][clock] or flags["beat_ready"][clock]
            takes_scales = reading and "a_scales" in wanted
            scanned = scan.clock(
                {side: entry[clock] for side, entry in entries.items()},
                is_free=bool(moves and not takes_scales),
                begins=reading and "starts" in wanted,
            )
            for side in "aw":
                memory = f"{side}_scales"
                place = scanned.get(side, depths[memory])
                is_read = takes_scales or place < depths[memory]
                assert got[f"{memory}_en"][clock] == is_read, f"{memory} {clock}"
                if is_read and not takes_scales:
                    addresses[memory].append((clock, place))
        if rst[clock]:
            reads, shown, scan = [], [], _Scan()
            continue
        if got["fault"][clock]:
            assert not reads or leaves(reads[0][0]), clock
            faults += 1
        if got["enters"][clock]:
            assert flags["valid"][clock]
            assert flags["has_room"][clock]
            walks += 1
            # What is outside is never shown.
            descriptor = dict(zip(widths, descriptors[clock].tolist(), strict=True))
            scaled = len(memories) > 2
            reads += _walk(descriptor, anchored=bool(rows), scaled=scaled)
            scan.add(descriptor)
        assert not (reading and later and rst[clock - 1])
    for memory, expected in addresses.items():
        at, numbers = np.array(expected).T
        assert (numbers < depths[memory]).all()
        assert_equal(memory, got[f"{memory}_address"][at], numbers)
    at = np.array([clock for clock, _ in beats])
    given = np.stack([got[name][at] for name in ("first", "block_last", "last")], axis=1)
    assert_equal("flags", given, np.array([now for _, now in beats]))
    for side in "aw" if rows else "":
        name = f"{side}_anchors"
        words = ports[name].split(log[name])[[clock for clock, _ in anchors]]
        largest = np.stack([one[side] for _, one in anchors])
        assert_equal(name, words, largest.astype(np.int64))
    assert walks > 20
    assert faults > 0
    assert not got["fault"][CALM.argmax() + 1 :].any()


@pytest.mark.parametrize("name", typical(SMALL, every=3))
def test_walks(name: str, simulator: str) -> None:
    module = generated(OperandFeed(machine=MachineConfiguration(**DEPTHS, **SMALL[name])))
    assert lint(module) == ""
    _check(simulator, module)


@pytest.mark.variant
@pytest.mark.parametrize("name", published(OperandFeed))
def test_published_ones(name: str) -> None:
    for seed in range(3):
        _check("verilator", published(OperandFeed)[name], seed)
