"""The command line."""

from einformer.cli.commands import main

__all__ = ["main"]
