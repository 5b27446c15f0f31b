"""The kiln command that comes with the package."""
from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys

from ._errors import Error

_CODES = {2: "bad_input", 3: "environment"}


def path() -> str:
    here = pathlib.Path(__file__).absolute().parent
    # In a wheel, in an installation (PREFIX/lib/python/kiln), in the build folder (build/python/kiln).
    for place in (here / "bin" / "kiln", here.parents[2] / "bin" / "kiln", here.parents[1] / "kiln"):
        if place.is_file() and os.access(place, os.X_OK):
            return str(place)
    found = shutil.which("kiln")
    # The script that pip makes runs this module: it would find itself.
    if found and pathlib.Path(found).read_bytes()[:4] == b"\x7fELF":
        return found
    raise Error("environment", "the kiln command is not beside the package; install the wheel, or build it (scripts/build.sh)")


def document(command: str, config: str, options) -> dict:
    """The JSON document of a command over a config given as text."""
    process = subprocess.run([path(), command, "-", "--json", *options], input=config, stdout=subprocess.PIPE, stderr=subprocess.PIPE if
                             not sys.stderr.isatty() else None, text=True)
    try:
        return json.loads(process.stdout)
    except json.JSONDecodeError:
        text = (process.stderr or "").strip() or f"kiln {command} ended with status {process.returncode}"
        raise Error(_CODES.get(process.returncode, "internal"), text) from None
