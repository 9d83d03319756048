"""Speed of the reference beside that of other libraries."""

from importlib.metadata import PackageNotFoundError, version


def versions(*packages: str) -> str:
    """Versions of those packages that are installed."""
    found = []
    for package in packages:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)
