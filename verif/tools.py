"""``python -m verif.tools``: see to the system programs that verification needs.

As root on a machine with apt they are installed; elsewhere one line names the packages.
"""

import os
import shutil
import subprocess

from verif.simulators import SIMULATORS, missing_tools

_PACKAGES = {
    "iverilog": "iverilog",
    "vvp": "iverilog",
    "g++": "g++",
    "make": "make",
    "perl": "perl",
}


def main() -> None:
    """Install what is missing, or name it in one line."""
    missing = {simulator: missing_tools(simulator) for simulator in SIMULATORS}
    packages = sorted({_PACKAGES[program] for tools in missing.values() for program in tools})
    if not packages:
        return
    if shutil.which("apt-get") and os.geteuid() == 0:
        print(f"installing {' '.join(packages)} with apt-get", flush=True)
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for command in (
            ["apt-get", "update", "-qq"],
            ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages],
        ):
            subprocess.run(command, check=False, env=environment, stdout=subprocess.DEVNULL)
    left = [simulator for simulator in SIMULATORS if missing_tools(simulator)]
    if left:
        print(f"install {' '.join(packages)}; until then tests on {', '.join(left)} are skipped")


if __name__ == "__main__":
    main()
