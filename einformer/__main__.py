"""Runs the commands as `python -m einformer`."""

import sys

from einformer.cli import main

sys.exit(main())
