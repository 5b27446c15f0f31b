"""Configs as text: of a dict, JSON text, a path, or the name of a shipped config."""
from __future__ import annotations

import json
import os
import pathlib

from ._errors import Error

_SHIPPED = pathlib.Path(__file__).absolute().parent / "configs"


def shipped() -> dict[str, pathlib.Path]:
    """Shipped configs by name."""
    folders = sorted(path for path in _SHIPPED.iterdir() if path.is_dir() and path.name != "sweeps")
    return {path.stem: path for folder in folders for path in sorted(folder.glob("*.json"))}


def schema() -> dict:
    """The JSON Schema of a config."""
    return json.loads((_SHIPPED / "kiln-config.schema.json").read_text())


def text_of(config) -> str:
    """JSON text of a config that is a dict, JSON text, a path or the name of a shipped config; `kiln.Error` where it is none of these."""
    if isinstance(config, dict):
        return json.dumps(config)
    if isinstance(config, str) and config.lstrip().startswith("{"):
        if "\0" in config:  # text of C ends there
            raise Error("bad_config", f"config: JSON text holds a NUL at character {config.index(chr(0)) + 1}")
        return config
    if not isinstance(config, (str, os.PathLike)):
        raise Error("bad_input", f"config: {type(config).__name__}; a dict, JSON text, a path or the name of a shipped config is needed")
    path = pathlib.Path(config)
    try:
        if path.is_file():
            return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as problem:  # no right to read it, a name too long, no UTF-8
        raise Error("bad_input", f"config: cannot read it as a file: {problem}") from problem
    found = shipped().get(os.fspath(config))
    if found is None:
        import difflib

        close = difflib.get_close_matches(os.fspath(config), shipped(), 3)
        hint = f"; near it: {', '.join(close)}" if close else "; kiln.shipped() lists the names"
        raise Error("bad_input", f"config: no file and no shipped config is called {os.fspath(config)!r}{hint}")
    return found.read_text()
