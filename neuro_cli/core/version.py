"""Version of the project, which pages, summaries and the command line name."""

__version__ = "0.1.0"
