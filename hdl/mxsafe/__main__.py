"""``python -m mxsafe``: the same as the `mxsafe` command."""

import sys

from mxsafe.cli import main

sys.exit(main())
