"""The library as C++ has it: generator, runtime, kernels, cache."""
from __future__ import annotations

import json
import os
from typing import Any, List, Union

from . import _command, _native
from ._configs import text_of
from ._errors import Error
from ._native import Kernel

Config = Union[dict, str, "os.PathLike[str]"]


def generate(config: Config) -> tuple[str, dict[str, Any]]:
    """Source and manifest of a config. Needs no compiler and no device; the same config gives the same bytes.

    `config`: a dict, JSON text, a path, or the name of a shipped config. Raises Error (bad_config), with all `violations`."""
    source, manifest = _native.generate(text_of(config))
    return source, json.loads(manifest)


def plan(config: Config) -> dict[str, Any]:
    """Every derived value of a config: name, resolved (the config with every key), systems, resources (bytes, threads, registers).
    Raises Error (bad_config)."""
    return json.loads(_native.plan(text_of(config)))


class Cache:
    """The kernel cache of a runtime: memory and one directory, shared by processes."""

    # In annotations of this class `list` would be its method, so they say List.

    def __init__(self, native: _native.Runtime):
        self._native = native

    def stats(self) -> dict[str, Any]:
        """Directory, entries, bytes, and what this process saw: memory_hits, disk_hits, misses, compiles, ..."""
        return self._native.cache_stats()

    def list(self) -> List[dict[str, Any]]:
        """Entries, most recently used first: key, name, target, compiler, kiln_version, bytes, compile_ms, created, used (seconds)."""
        return self._native.cache_list()

    def verify(self) -> tuple[int, List[str]]:
        """Checks every entry; returns how many, and "KEY: what is wrong" of those that were moved to quarantine."""
        return self._native.cache_verify()

    def clear(self) -> int:
        """Removes every entry; returns how many."""
        return self._native.cache_clear()

    def prune(self, max_bytes: int) -> int:
        """Removes entries, oldest use first, down to `max_bytes`; returns how many."""
        return self._native.cache_prune(max_bytes)

    def export(self, path: str | os.PathLike[str], keys: List[str] | None = None) -> int:
        """Writes every entry (or those of `keys`) into one file; returns how many."""
        return self._native.cache_export(os.fspath(path), keys or [])

    def import_(self, path: str | os.PathLike[str]) -> int:
        """Adds every entry of such a file; returns how many were new. Raises Error (bad_input) on a damaged file."""
        return self._native.cache_import(os.fspath(path))


class Runtime:
    """A device with its compilers and kernel cache. Safe to use from several threads. Opens nothing before its first use."""

    def __init__(self, device: str | None = None, cache_dir: str | os.PathLike[str] | None = None, *, ptx_only: bool = False):
        """`device`: auto, cuda[:n], hip[:n] or emulated (default: $KILN_DEVICE, else auto: the first GPU, else the emulated device).
        `cache_dir`: a directory, "" for memory only (default: $KILN_CACHE_DIR, else the user's cache).
        `ptx_only`: with device "emulated" said here, NVIDIA kernels are compiled to PTX, which it runs, and no further: half the
        time, and their resources (registers, spills) are unknown."""
        self._native = _native.Runtime(device, None if cache_dir is None else os.fspath(cache_dir), ptx_only)
        self.cache = Cache(self._native)

    @property
    def device(self) -> dict[str, Any]:
        """selector ("cuda:0"), name, target ("sm_90a"; "" for the emulated device), num_sms, memory_bytes.
        Raises Error (environment) when there is no such device."""
        return self._native.device()

    @property
    def target(self) -> str | None:
        """The best config target of the device: "sm_90a", "sm_80", "gfx942", ...; None for the emulated device, which runs all."""
        found = self.device["target"]
        if found in ("sm_90a", "sm_100a", "sm_103a") or found.startswith("gfx"):
            return found
        number = int("".join(c for c in found if c.isdigit()) or 0)
        return "sm_80" if number >= 80 else None

    def doctor(self) -> dict[str, Any]:
        """What was found on this machine: compilers, choices, drivers, devices, cache, kiln_version. Never raises for what is missing."""
        return self._native.doctor()

    def load(self, config: Config) -> Kernel:
        """The kernel of a config (a dict, JSON text, a path, or the name of a shipped config), from the cache or compiled.
        Raises Error: bad_config, environment (no compiler, or no device for the target), compile, device."""
        return self._native.load(text_of(config), None)

    def load_source(self, config: Config, source: str | os.PathLike[str]) -> Kernel:
        """The kernel of a config with other text: an emitted kernel that was edited, as a path or as text. Its parameters stay."""
        return self._native.load(text_of(config), _source_text(source))

    def load_image(self, manifest: dict[str, Any] | str, image: bytes) -> Kernel:
        """A compiled kernel as it is: a cubin or PTX text (the emulated device takes PTX), or a code object of AMD, with its manifest.
        Needs no compiler."""
        return self._native.load_image(manifest if isinstance(manifest, str) else json.dumps(manifest), image)

    def synchronize(self) -> None:
        """Waits for all work on the device."""
        self._native.synchronize()


def _source_text(source) -> str:
    if isinstance(source, str) and "\n" in source:
        return source
    if not isinstance(source, (str, os.PathLike)):  # a number would be a descriptor, which is not ours to close
        raise Error("bad_input", f"source: {type(source).__name__}; a path or the text of a kernel is needed")
    try:
        with open(source, encoding="utf-8") as file:
            return file.read()
    except (OSError, ValueError) as problem:
        raise Error("bad_input", f"source: cannot read it as a file: {problem}") from problem


def verify(config: Config, *options: str) -> dict[str, Any]:
    """`kiln verify`: static proofs and emulated runs under adversarial schedules. `options` as on the command line ("--mutate",
    "--quick", ...). Returns its document (findings, mutants, killed, survivors, ...) whether or not the checks passed;
    progress goes to standard error. Raises Error where it could not run."""
    return _command.document("verify", text_of(config), options)


def tune(config: Config, *options: str) -> dict[str, Any]:
    """`kiln tune`: searches a config's open keys on the device for the problem that `options` describe ("--batch", "8", ...).
    Returns its document: best, tried, table."""
    return _command.document("tune", text_of(config), options)
