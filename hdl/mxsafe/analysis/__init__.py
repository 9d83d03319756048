"""Errors of formats: numbers, tables and pictures; and single numbers bit by bit."""
