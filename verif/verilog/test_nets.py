"""Names of nets that have none in the source."""

import re

from mxsafe.verilog.nets import with_names
from verif.support.manifest import generated

_NUMBERED = re.compile(r"^  (?:wire|reg).* \\\$(?:\d|auto|procmux)\S* ;$", re.MULTILINE)
_NAMELESS = re.compile(r"^  (?:wire|reg).* \\\$\S+ ;$", re.MULTILINE)

TEXT = """\
module m(clk, a, b, y, z);
  wire \\$1 ;
  wire [3:0] \\$2 ;
  wire [4:0] \\$procmux$3_Y ;
  wire \\$4 ;
  wire \\$5 ;
  assign \\$1  = ~ a;
  assign \\$2  = { \\$1 , b } + 4'h1;
  assign \\$procmux$3_Y  = { \\$2 , a } == { b, \\$1  } ? 5'h00 : 5'h01;
  assign \\odd.sum  = \\$procmux$3_Y [4:1];
  assign \\$4  = | { a, b };
  always @(posedge clk)
    if (\\$4 )
      if (a <= b) held <= 1'h0;
  part inside (
    .given(\\$5 )
  );
endmodule
"""


def test_nets_are_named_after_what_they_feed_and_how() -> None:
    text = with_names(TEXT)
    assert "wire \\$odd_sum$not ;" in text
    assert "assign \\$odd_sum$add  = { \\$odd_sum$not , b } + 4'h1;" in text
    assert "assign \\$odd_sum$mux  = {" in text
    assert "if (\\$held$any )" in text
    assert ".given(\\$inside_given$net )" in text
    assert not _NUMBERED.search(text)


def test_names_that_are_alike_are_counted() -> None:
    text = with_names(
        "  wire \\$7 ;\n  wire \\$8 ;\n  assign \\$7  = ~ a;\n  assign \\$8  = ~ b;\n"
        "  assign y = \\$7  & \\$8 ;\n"
    )
    assert "assign y = \\$y$not  & \\$y$not_2 ;" in text


def test_committed_nets_have_names() -> None:
    texts = [module.sources[0].read_text() for module in generated().values()]
    assert not [found for text in texts for found in _NUMBERED.findall(text)]
    # Few enough to be read: what is left are steps of an expression that the source does not name.
    assert sum(len(_NAMELESS.findall(text)) for text in texts) < 43.2 * len(texts)
