#!/usr/bin/env python3
"""Writes the reference pages of the manual from what they describe: commands.md from `kiln COMMAND --help`, cpp.md and
c.md from the comments of the public headers, python.md from the docstrings of the package's sources. And the report page
of each kernel of the gallery.

usage: scripts/make_reference.py KILN OUT_FOLDER
"""
import ast
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def commands(kiln):
    def help_of(*words):
        return subprocess.run([kiln, *words, "--help"], check=True, capture_output=True, text=True).stdout

    out = ["# Options of every command", "", "What `kiln COMMAND --help` prints. [The command line](../cli.md) explains.", ""]
    names = re.findall(r"^  (\w+)\s", help_of().split("SUBCOMMANDS:")[-1], flags=re.M)
    for name in names:
        out += [f"## kiln {name}", "", "```text", help_of(name).rstrip(), "```", ""]
    return "\n".join(out)


def header(path):
    """The comment that opens a header, then each declaration under a `///` comment."""
    lines = path.read_text().splitlines()
    opening = []
    for line in lines:
        if not line.startswith(("//", "/*", " *")):
            break
        opening.append(line.strip("/* ").rstrip())
    out = [f"## {path.relative_to(ROOT / 'include')}", "", " ".join(opening).strip(), "", "```cpp"]
    body = lines[len(opening):]
    keep = False
    for line in body:
        if line.startswith(("#", "namespace", "}  // namespace", "extern \"C\"")):
            continue
        keep = keep or bool(line.strip())
        if keep:
            out.append(line)
    while out[-1] == "":
        out.pop()
    return "\n".join(out + ["```", ""])


def python_module(path):
    tree = ast.parse(path.read_text())
    name = "kiln" if path.stem == "__init__" else "kiln." + ".".join(path.relative_to(ROOT / "python/kiln").with_suffix("").parts)
    out = [f"## {name}", "", ast.get_docstring(tree) or "", ""]

    def add(node, prefix):
        if node.name.startswith("_") and node.name != "__call__":
            return
        text = ast.get_docstring(node)
        if isinstance(node, ast.ClassDef):
            out.extend([f"### class {node.name}", "", text or "", ""])
            for inner in node.body:
                if isinstance(inner, (ast.FunctionDef, ast.ClassDef)):
                    add(inner, node.name + ".")
        elif text:
            out.extend([f"### {prefix}{node.name}", "", f"`{prefix}{node.name}({ast.unparse(node.args)})`", "", text, ""])

    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            add(node, "")
    return "\n".join(out)


def gallery(kiln, out):
    """The report page of each config in docs/gallery.md."""
    out.mkdir(parents=True, exist_ok=True)
    blocks = re.findall(r"<!-- check: file (\w+)\.json -->\n```json\n(.*?)```", (ROOT / "docs/gallery.md").read_text(), flags=re.S)
    for name, text in blocks:
        subprocess.run([kiln, "inspect", "-", "--html", out / f"{name}.html"], check=True, capture_output=True, text=True, input=text)
    return len(blocks)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip())
    kiln, out = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    (out / "commands.md").write_text(commands(kiln))
    headers = sorted((ROOT / "include/kiln").glob("*.hpp")) + sorted((ROOT / "include/kiln/emulator").glob("*.hpp"))
    (out / "cpp.md").write_text("# C++ headers\n\nThe public headers with their comments: meaning, units, errors.\n\n" +
                                "\n".join(header(path) for path in headers))
    (out / "c.md").write_text("# C header\n\n" + header(ROOT / "include/kiln/kiln.h"))
    package = ROOT / "python/kiln"
    modules = [p for p in sorted(package.rglob("*.py")) if not p.name.startswith("_") or p.name == "__init__.py"]
    (out / "python.md").write_text("# Python\n\nDocstrings of the package.\n\n" + "\n".join(python_module(p) for p in modules))
    kernels = gallery(kiln, out.parent / "gallery")
    print(f"{len(list(out.glob('*.md')))} pages of reference and {kernels} of kernels in {out.parent}")


if __name__ == "__main__":
    main()
