"""The version of rela: the package, its metadata and `rela --version` all read it from here."""

__version__ = "0.1.0"
