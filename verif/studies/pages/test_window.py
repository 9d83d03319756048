"""The page on arithmetic ``window``: what its prose claims is so."""

from studies.pages.window import Measured, measured, products, reordered


def real() -> dict[str, Measured]:
    return {name: one for name, one in measured().items() if not name.startswith("opposed")}


def test_the_order_of_blocks_does_not_count() -> None:
    orders = {name: reordered(products()[name][0]) for name in real() if not name.startswith("dX")}
    assert all(one["window"] == 0 for one in orders.values())
    assert any(one["exact"] > 0 for one in orders.values())


def test_a_window_of_32_bits_loses_a_hundredth_of_what_quantising_has_lost() -> None:
    for name, one in real().items():
        if one.quantised is not None:
            assert 100 * one.window[32] < one.quantised, name
        assert 10 * one.window[32] < one.fp12, name


def test_opposed_blocks_are_far_below_their_anchors() -> None:
    """So the attack is one: it reaches where nothing is left of a window of 32 bits."""
    assert max(one.below.max() for one in real().values()) <= 3
    worst = measured()["opposed scales, n = 16"]
    assert worst.below.mean() > 24
    assert worst.window[32] > 0.5 > 1000 * worst.exact
