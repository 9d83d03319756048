"""The picture of a waveform: what is drawn, and that it is the example's."""

from pathlib import Path

import pytest

from studies.waves import PICTURE, VIEW, build, groups_of, picture, read_dump, simulate
from verif.support.tests import available

DUMP = """\
$timescale 1ps $end
$scope module top $end
$var wire 1 ! clk $end
$var wire 8 " code [7:0] $end
$scope module inside $end
$var wire 1 ! clk $end
$upscope $end
$upscope $end
$enddefinitions $end
#0
$dumpvars
0!
bx "
$end
#1000
1!
b101 "
b110 "
#2000
0!
b110 "
#6000
"""
VIEW_OF_IT = "[timestart] 0\n@200\n-one\n@28\ntop.inside.clk\n@200\n-two\n@22\ntop.code[7:0]\n"


def test_a_dump_is_read() -> None:
    signals, end = read_dump(DUMP)
    assert end == 6000
    assert signals["top.clk"] is signals["top.inside.clk"]
    assert signals["top.clk"].values == ["0", "1", "0"]
    code = signals["top.code[7:0]"]
    assert (code.times, code.values) == ([0, 1000], ["xxxxxxxx", "00000110"])


def test_a_picture_has_the_groups_and_values_of_its_view() -> None:
    assert groups_of(VIEW_OF_IT) == {"one": ["top.inside.clk"], "two": ["top.code[7:0]"]}
    drawn = picture(VIEW_OF_IT, DUMP)
    for text in (">one<", ">inside.clk<", ">two<", ">code<", ">06<", 'class="unknown"'):
        assert drawn.count(text) == 1, text


def test_what_a_view_names_is_there() -> None:
    with pytest.raises(KeyError):
        picture(VIEW_OF_IT.replace("top.code", "top.other"), DUMP)


@pytest.mark.full
def test_the_committed_picture_is_fresh(tmp_path: Path) -> None:
    """So every signal of the saved view is one of the example."""
    available("icarus")
    dump = simulate(build(tmp_path)).read_text()
    assert PICTURE.read_text() == picture(VIEW.read_text(), dump), "run `make waves`"
