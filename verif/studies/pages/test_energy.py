"""The page on energy: images in turn, ranges, and what is nearest to the paper."""

from typing import Any

import pytest

from mxsafe.machine.energy import COUNTED
from mxsafe.machine.energy_tables import EnergyTables, leaked
from studies.pages import energy, kept


def figures(**words: int) -> dict[str, Any]:
    """Figures of a step on a machine by how many words it reads."""
    return {
        name.replace("_", ", "): {"counters": {"cycles": 10, "words_read": count}}
        for name, count in words.items()
    }


def test_images_in_turn() -> None:
    """Of 128 images the first one counts 100, and each other one 60."""
    found = energy.in_turn(
        figures(mxsf_block_SGD_1=100, mxsf_block_SGD_2=160), "mxsf", "block", "SGD"
    )
    assert found == {
        **dict.fromkeys(COUNTED, 0),
        "words_read": (100 + 127 * 60) // 128,
        "cycles": 0,
    }


def test_images_behind_those_that_are_counted() -> None:
    """They count as the last one does: 40, not 60."""
    counted = figures(mxsf_block_SGD_1=100, mxsf_block_SGD_2=160, mxsf_block_SGD_3=200)
    found = energy.in_turn(counted, "mxsf", "block", "SGD")
    assert found["words_read"] == (200 + 125 * 40) // 128


def test_how_far_images_have_settled() -> None:
    """The second one counts 60, the third one 45: a quarter less."""
    counted = figures(mxsf_block_SGD_1=100, mxsf_block_SGD_2=160, mxsf_block_SGD_3=205)
    assert energy.third_beside_second(counted, "words_read") == 0.25


def test_rows_of_a_table() -> None:
    counted = figures(mxsf_block_SGD_1=1000)
    head, row = energy.table(counted, "block")
    assert head[0] == "step"
    read = 1000 * 256 * 1e-9
    assert row[:3] == ("mxsf, SGD", f"{14 * read:.3g} to {18.75 * read:.3g}", "100.0")
    assert energy.table(counted, "DeiT-Tiny") == [head]


def test_bandwidth() -> None:
    """Words of 32 bytes and descriptors of as many, in ten cycles of 2 ns, with AdamW twice."""
    counted = figures(mxsf_block_SGD_1=3, mxsf_block_AdamW_1=6)
    counted["mxsf, block, SGD, 1"]["counters"] |= {"words_written": 4, "descriptors": 2}
    head, *rows = energy.table(counted, "block")
    assert head[-1] == "GB/s"
    assert [row[-1] for row in rows] == [f"{32 * words / 20:.1f}" for words in (9, 6)]


def test_what_is_left_out_of_a_table() -> None:
    text = (
        "    counted  %\nall of it  1  100.00\n  a  1  0.99\n  b  1  1.00\n7 cycles\nassumptions:\n"
    )
    lines = ["    counted  %", "all of it  1  100.00", "  b  1  1.00", "7 cycles"]
    assert energy.brief(text).splitlines() == lines


def test_what_has_been_run() -> None:
    """As the page says: all, and a step of a block on the Verilog of each machine."""
    found = kept("energy")
    assert len(found) > 20
    assert [name for name, one in found.items() if not one.get("interpreted")] == []
    simulated = {name for name, one in found.items() if "verilog_cycles" in one}
    assert simulated == {f"{machine}, block, SGD, 1" for machine in ("mxsf", "bf16", "mxfp4")}


def test_the_share_off_chip_of_bf16() -> None:
    """Of all tables, for machines of BF16 alone and one image."""
    counted = figures(mxsf_block_SGD_1=100, bf16_block_SGD_1=4)
    counted["bf16, block, SGD, 1"]["counters"]["array_busy"] = 1
    least, most = (100 * bit * 1024 / (bit * 1024 + 1024 * 12.0281) for bit in (14, 18.75))
    assert energy.off_chip_of_bf16(counted) == f"{least:.0f} to {most:.0f}"


def test_what_is_nearest() -> None:
    rows = [("head",), ("the paper",), ("far", "50", "25", "25"), ("near", "80", "15", "5")]
    assert energy.nearest(rows)[0] == "near"


def test_the_paper_s_shares() -> None:
    assert sum(energy.PAPER.values()) == pytest.approx(1)
    assert pytest.approx(308.845e-3 / 1024 / 500e6 * 1e12, abs=1e-3) == energy.PAPER_PRODUCT


def test_attention_on_the_machine_beside() -> None:
    """Attention is taken off for each block as one machine counts it, and added as the other."""
    counted = figures(mxfp4_block_SGD_1=1000, mxfp4_attention=300)
    counted["mxfp4, beside, attention"] = {"counters": {"cycles": 4, "words_read": 200}}
    counted["mxsf, block, SGD, 1"] = counted["mxfp4, block, SGD, 1"]
    found = energy.energies(counted, "block")[energy.mixed_name("mxfp4"), "SGD", 1]
    bits = 8 * (32 * (1000 - 300) + 16 * 200)
    one = found["bitmod, 28 nm"]
    assert one.groups == {"off chip": pytest.approx(18.75 * bits), "on chip": 0, "core": 0}
    assert one.total == pytest.approx(18.75 * bits)
    assert one.cycles == 10 - 10 + 4
    assert one.moved == bits // 8


def mixed(model: str, words: int) -> dict[str, Any]:
    """Figures of AdamW's step that reads as many words on two machines, without attention."""
    counted = {
        f"{machine}, {model}, AdamW, 1": {"counters": {"cycles": 500_000_000, "words_read": words}}
        for machine in ("mxsf", "mxfp4")
    }
    for name in ("mxfp4, attention", "mxfp4, beside, attention"):
        counted[name] = {"counters": {"cycles": 1}}
    return counted


@pytest.mark.parametrize(("model", "blocks"), [("block", 1), ("DeiT-Tiny", 12)])
@pytest.mark.parametrize("bits", [16, 32])
def test_what_is_exchanged_through_memory(model: str, blocks: int, bits: int) -> None:
    """Eight tensors of a block, each written once and read once."""
    words = blocks * 2 * 8 * 3 * 197 * 64 * bits // 256
    counted = mixed(model, words)
    low, high = map(float, energy.saved_with_exchange(counted, model, bits).split(" to "))
    assert low <= 50 <= high  # by DDR3, which takes more to write than to read, a little more
    assert high - low < 2


def test_what_is_saved_if_two_machines_take_static_power() -> None:
    """All of a second: one machine beside the same and the one beside it."""
    powers = [
        leaked(EnergyTables(sram=node), energy.MACHINES["mxfp4"])
        + leaked(EnergyTables(sram=node), energy.BESIDE["mxfp4"])
        for node in (65, 45, 28)
    ]
    mine = [leaked(EnergyTables(sram=node), energy.MACHINES["mxsf"]) for node in (65, 45, 28)]
    shares = [
        100 * (1 - (one + dram) / (two + dram))
        for one, two in zip(mine, powers, strict=True)
        for dram in (0, 582)
    ]
    found = energy.saved_if_none_is_off(mixed("DeiT-Tiny", 0))
    assert found == f"{min(shares):.1f} to {max(shares):.1f}"


def test_what_is_saved_by_energies_of_products() -> None:
    """Without memory what is saved is what products take less; the last two rows have no data."""
    counted = {
        f"{machine}, DeiT-Tiny, AdamW, 1": {"counters": {"cycles": 1, "array_busy": 1}}
        for machine in ("mxsf", "bf16", "mxfp4")
    }
    for name in ("mxfp4, attention", "mxfp4, beside, attention"):
        counted[name] = {"counters": {"cycles": 1}}
    head, first, *_, same, tenth, fifth, paper = energy.by_product(counted)
    assert len(head) == len(first) == len(tenth) == 5
    assert first[1:4] == ("2.10", "12.03", f"{100 * (1 - 2.0993 / 12.0281):.1f}")
    assert same[1:4] == ("2.10", "2.10", "0.0")
    assert first[4] == same[4] == f"{100 * (1 - 2.0993 / 0.7364):.1f}"
    # 64 products in a cycle.
    assert tenth[1:4] == ("0.53", "2.16", f"{100 * (1 - 34.1018 / 138.2):.1f}")
    assert fifth[3:] == (f"{100 * (1 - 49.4824 / 232.5368):.1f}", "")
    assert paper[3:] == ("24.92", "4.07")


def test_the_share_of_conversion() -> None:
    """The largest of all machines by all tables: where memories take least beside it."""
    counted = {
        "mxsf, block, SGD, 1": {"counters": {"words_read": 1}},
        "bf16, block, SGD, 1": {"counters": {"words_read": 1, "convert_numbers": 2}},
    }
    converted, least = 2 * 16 * 0.8987, 256 * 14  # LPDDR4 takes least
    found = energy.conversion_share(counted)
    assert found == pytest.approx(converted / (converted + least))


def test_static_power() -> None:
    """A step that does nothing for a second has leakage, and of DDR3 the background."""
    counted = figures(mxsf_block_SGD_1=0)
    counted["mxsf, block, SGD, 1"]["counters"]["cycles"] = 500_000_000
    found = energy.energies(counted, "block", static_power=True)["mxsf", "SGD", 1]
    leaks = 1e9 * leaked(EnergyTables(sram=45), energy.MACHINES["mxsf"])  # pJ of mW in a second
    assert found["ddr3, 45 nm"].groups == {
        "off chip": pytest.approx(582e9),
        "on chip": pytest.approx(leaks),
        "core": 0,
    }
    assert found["bitmod, 45 nm"].groups["off chip"] == 0
    assert found["ddr3, 45 nm"].moved == 0
    assert energy.energies(counted, "block")["mxsf", "SGD", 1]["ddr3, 45 nm"].total == 0
