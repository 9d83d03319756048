"""The words of the page on choosing a format agree with its numbers."""

from studies.evidence.statistics import student
from studies.pages import kept, learning
from studies.pages.choosing import FORMATS, values


def test_the_words_fit_the_numbers() -> None:
    found = values()
    macs, lost = found["macs"], found["lost"]
    assert min(FORMATS, key=lambda name: macs[name]["ge"]) == "mxfp8_e2m5"
    assert min(FORMATS, key=lambda name: macs[name]["pj"]) == "mxfp8_e2m5"
    assert min(FORMATS, key=lambda name: macs[name]["error"]) == "mxfp8_e2m5"
    assert min(FORMATS, key=lambda name: lost[name]) == "mxfp8_e4m3"
    assert sorted(lost, key=lambda name: lost[name])[1] == "mxsf"
    assert found["reach"]["mxfp8_e4m3"] < found["reach"]["mxsf"] < found["reach"]["mxfp8_e2m5"]
    assert sorted(FORMATS, key=found["beside"].__getitem__)[:2] == ["mxfp8_e4m3", "mxsf"]
    for setting in ("beside", "far"):
        losses = learning.of_setting(kept("learning"), setting)
        mean, half = student(losses["mxfp8_e4m3"] - losses["float32"])
        assert abs(mean) < half
    assert found["nearer"]("mxfp8_e2m5", "mxsf").verdict == "confirmed"
    assert found["nearer"]("mxsf", "mxfp8_e4m3").verdict == "confirmed"
    assert found["tiles"].quantisations < found["rows"].quantisations
