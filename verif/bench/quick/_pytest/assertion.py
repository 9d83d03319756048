"""See the package."""

install_importhook = None
