"""Verification of MX-SAFE: reference against oracles, hardware against reference."""
