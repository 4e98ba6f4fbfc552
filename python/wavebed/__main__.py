"""Run the command line with ``python -m wavebed``."""

import sys

from wavebed.cli import main

if __name__ == "__main__":
    sys.exit(main())
