"""Stentor turns speech into text for many callers at once."""

from importlib.metadata import version

__version__ = version("stentor")
__all__ = ["__version__"]
