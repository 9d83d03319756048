"""Making the tables of functions, ``python -m studies.tables``."""
