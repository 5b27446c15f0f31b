"""Modules with the calls of other libraries: changing an import is enough."""
