"""Figures of the machine: what is written down is what the compiler predicts."""

import json

from studies import machine_figures


def test_predicted_figures_are_up_to_date() -> None:
    numbers = json.loads(machine_figures.FIGURES.read_text())
    programs = machine_figures.cases()
    found = {name: machine_figures.predicted(case) for name, case in programs.items()}
    assert numbers["predicted"] == found, "run `python -m studies.machine_figures --predicted`"
    compared = 0
    for name, counters in numbers["measured"].items():
        predicted = numbers["predicted"][name]
        assert 0.9 < predicted["cycles"] / counters["cycles"] < 1.1
        for exact in ("array_busy", "words_read", "words_written"):
            assert predicted[exact] == counters[exact]
            compared += 1
    assert compared >= 12


def test_blocks_of_all_kinds_keep_the_array_busy() -> None:
    """The array is busy, and tensors cross memory 2.3 times at most."""
    predicted = json.loads(machine_figures.FIGURES.read_text())["predicted"]
    decoder, vision, two = (predicted[n] for n in ("decoder", "vision", "two of vision"))
    busy, cycles = (two[name] - vision[name] for name in ("array_busy", "cycles"))
    assert busy > 0.9 * cycles
    assert decoder["array_busy"] > 0.85 * decoder["cycles"]
    small, both = (predicted[n] for n in ("SmolLM2", "two of SmolLM2"))
    busy, cycles = (both[name] - small[name] for name in ("array_busy", "cycles"))
    assert busy > 0.88 * cycles
    assert vision["array_busy"] > 0.775 * vision["cycles"]  # Verilog: 0.773
    for name in ("one block", "vision"):
        found = predicted[name]
        assert found["words_read"] + found["words_written"] < 2.3 * found["tensors"], name


def test_what_was_not_measured_stays_empty() -> None:
    numbers = json.loads(machine_figures.FIGURES.read_text())
    rows = machine_figures.rows({**numbers, "measured": {}})
    assert len(rows) == 16
    assert all(row[4] == "" for row in rows[1:])
    assert rows[1][3] == "94.4 %"
