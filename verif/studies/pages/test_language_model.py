"""The page on a language model: what its prose claims is so."""

from studies.pages import kept
from studies.pages.language_model import summary

NUMBERS = kept("language_model")


def test_claims() -> None:
    """Close to float32 in little more than a quarter of its memory; files give the same bits."""
    exact, mxsf = NUMBERS["float32"], NUMBERS["mxsf"]
    assert 1 < mxsf["perplexity"] / exact["perplexity"] < 1.02
    # 8.25 bits a weight, norms in float32, and embedding and last layer held once.
    assert 8.25 / 32 < mxsf["bytes"] / exact["bytes"] < 0.26
    held = [one for name, one in NUMBERS.items() if name != "float32"]
    assert len(held) == 5
    assert all(one["same"] for one in held)
    assert all(one["bytes"] < one["file"] < 1.002 * one["bytes"] for one in held)
    # 30 blocks of seven layers, the embedding and the last layer.
    assert all((one["quantised"], one["left"]) == (30 * 7 + 2, 30 * 2 + 1) for one in held)


def test_the_machine_is_near_float32() -> None:
    whole = kept("language_machine")
    found = summary(whole["texts"], whole["tokens"])
    assert whole["program"]["same"]
    assert len(whole["texts"]) == 12
    assert 0.95 < found["machine"] / found["float32"] < 1.05
    assert 0.85 < found["same"] / found["tokens"] < 1
    assert 0.99 < found["cosine"] < 1
    assert found["float32"] > 60  # harder than the texts of 512 tokens
