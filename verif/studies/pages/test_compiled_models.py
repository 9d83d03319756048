"""The page on models of packages: what its prose claims is so."""

from studies.pages import kept
from studies.pages.compiled_models import refused, taken

NUMBERS = kept("compiled_models")
TAKEN = taken(NUMBERS)


def test_claims() -> None:
    assert len(NUMBERS) >= 14
    assert all(one["same"] for one in TAKEN)
    assert {one["package"] for one in TAKEN} == {"transformers", "timm", "torchvision", "torch"}
    assert all(0 < one["error_64"] < 0.06 for one in TAKEN)
    assert all(0 < one["error_of_32"] < 1e-4 for one in TAKEN)
    assert all(0.05 < one["busy"] < 1 for one in TAKEN)
    assert all("must fit into" in reason for reason in refused(NUMBERS).values())
