"""The words of the page on choosing a format agree with its numbers."""

from studies.pages.choosing import FORMATS, reach, values


def experiment(exponent: int, **right: float) -> dict:
    runs = [
        {"format": name, "arithmetic": "exact", "accuracy": [right.get(name, 0.8)]}
        for name in ("float32", *FORMATS)
    ]
    return {"setting": {"weights": [1.0, 2.0**exponent]}, "runs": runs}


def test_reach_is_the_last_weight_at_which_a_format_follows() -> None:
    heads = [experiment(0), experiment(-4, mxint8=0.7), experiment(-8, mxint8=0.7, mxsf=0.74)]
    assert reach(heads) == {"mxsf": -4, "mxfp8_e2m5": -8, "mxfp8_e4m3": -8, "mxint8": 0}


def test_the_words_fit_the_numbers() -> None:
    found = values()
    macs, lost = found["macs"], found["lost"]
    assert min(FORMATS, key=lambda name: macs[name]["ge"]) == "mxfp8_e2m5"
    assert min(FORMATS, key=lambda name: macs[name]["pj"]) == "mxfp8_e2m5"
    assert min(FORMATS, key=lambda name: macs[name]["error"]) == "mxfp8_e2m5"
    assert min(FORMATS, key=lambda name: lost[name]) == "mxfp8_e4m3"
    assert sorted(lost, key=lambda name: lost[name])[1] == "mxsf"
    assert found["reach"]["mxfp8_e4m3"] < found["reach"]["mxsf"] < found["reach"]["mxfp8_e2m5"]
    assert found["nearer"]("mxfp8_e2m5", "mxsf").verdict == "confirmed"
    assert found["nearer"]("mxsf", "mxfp8_e4m3").verdict == "confirmed"
    assert found["tiles"].quantisations < found["rows"].quantisations
