"""The picture of a timeline."""

from xml.etree import ElementTree

from mxsafe.machine.compiled import compile_graph
from mxsafe.machine.compiler.timing import Prediction, Run
from studies.benchmarks.interpreter import encoder
from studies.timeline import BLOCK, PICTURE, Bar, bars, block, drawn, of_block, shares, stalls
from verif.pictures import crossing


def _event(queue: int, start: int, stop: int, name: str) -> dict[str, object]:
    return {"ph": "X", "cat": "load", "tid": queue, "ts": start, "dur": stop - start, "name": name}


def test_bars_of_one_kind_meet() -> None:
    events = [
        {"ph": "M", "name": "thread_name"},
        {**_event(0, 0, 9, "waits for load"), "cat": "wait"},
        _event(0, 10, 20, "0.query"),
        _event(0, 24, 30, "arithmetic_3, 0.key"),
        _event(0, 31, 40, "0.attention_norm"),
        _event(1, 41, 50, "x"),
        _event(0, 60, 70, "0.norm"),
    ]
    assert bars(events, 5, of_block) == [
        Bar(0, 10, 30, "query, key, value"),
        Bar(0, 31, 40, "norms"),
        Bar(1, 41, 50, "other"),
        Bar(0, 60, 70, "norms"),
    ]
    assert of_block("0.down, arithmetic_9, 0.norm") == "hidden layer"


def test_shares_and_stalls() -> None:
    runs = [
        Run(0, "load", 0, 10, 20, "fetch"),
        Run(1, "gemm", 25, 75, 80, "load"),
        Run(2, "gemm", 80, 90, 95, "vector"),
    ]
    predicted = Prediction(100, 58, {}, 0, 0, runs)
    assert shares(predicted, 4) == [0.0, 1.0, 1.0, 0.4]
    assert stalls(predicted) == (
        "100 cycles. The array has a beat in 58.0%; 10.0% are after its last product.",
        "It waits in 25.0% for LOAD, 5.0% for VECTOR, 2.0% for sums of short tiles.",
    )


def test_picture() -> None:
    graph, _ = encoder(tokens=32, features=64, heads=2, hidden=128, blocks=1)
    text = drawn(compile_graph(graph), BLOCK)
    assert crossing(text) == []
    words = [each.text for each in ElementTree.fromstring(text).iter() if each.text]
    assert {"LOAD", "GEMM", "VECTOR", "STORE", "attention", "hidden layer"} < set(words)


def test_the_committed_picture_is_fresh() -> None:
    assert PICTURE.read_text() == drawn(block(), BLOCK), "run `python -m studies.timeline`"
