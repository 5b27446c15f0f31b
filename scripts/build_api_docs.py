#!/usr/bin/env python3
"""Builds the reference of the Python package from its docstrings, as web pages.

    PYTHONPATH=build/python .venv/bin/python scripts/build_api_docs.py [build/api]

Needs pdoc (scripts/setup.sh). The modules over PyTorch are in it where PyTorch can be imported. Ends with 1 where a public name has no docstring,
with 77 without pdoc.
"""
import importlib
import importlib.util
import inspect
import pathlib
import sys

PLAIN = ["kiln", "kiln.runtime", "kiln.serving"]
OVER_TORCH = ["kiln.torch", "kiln.compat", "kiln.compat.flash_attn", "kiln.compat.flashinfer"]


def undocumented(module):
    """Public functions and classes of the module's own, and their public methods, without a docstring."""
    names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
    for name in names:
        value = getattr(module, name)
        if not (inspect.isclass(value) or inspect.isroutine(value)):
            continue
        if not str(getattr(value, "__module__", None) or "").startswith("kiln"):
            continue
        if not inspect.getdoc(value):
            yield f"{module.__name__}.{name}"


def main():
    if len(sys.argv) > 1 and sys.argv[1] in ("-h", "--help"):
        print(__doc__)
        return 0
    if importlib.util.find_spec("pdoc") is None:
        print("build_api_docs.py: no pdoc (scripts/setup.sh)", file=sys.stderr)
        return 77
    import pdoc

    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build/api")
    names = PLAIN + (OVER_TORCH if importlib.util.find_spec("torch") else [])
    missing = [name for module in names for name in undocumented(importlib.import_module(module))]
    for name in missing:
        print(f"{name}: no docstring", file=sys.stderr)
    pdoc.pdoc(*names, output_directory=folder)
    pages = sorted(folder.rglob("*.html"))
    print(f"{len(pages)} pages in {folder}, of {', '.join(names)}")
    return 1 if missing or len(pages) < len(names) else 0


if __name__ == "__main__":
    sys.exit(main())
