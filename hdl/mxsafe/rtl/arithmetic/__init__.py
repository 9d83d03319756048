"""Adders, shifters, rounding, scaling, and the small functions they are made of."""
