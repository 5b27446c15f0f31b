"""Checks a block of Python against the sources of the package `kiln`, importing nothing: what it imports exists, and the
keywords of its calls are parameters of the functions. Used by check_docs.py for blocks that need PyTorch or a GPU."""
import ast
import pathlib

PACKAGE = pathlib.Path(__file__).resolve().parent.parent / "python"


def module_path(name):
    base = PACKAGE.joinpath(*name.split("."))
    for path in (base / "__init__.py", base.with_suffix(".py")):
        if path.exists():
            return path
    return None


def definitions(path):
    """Names that a module binds at its top level, with the node of each function and class."""
    out = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            out[node.name] = node
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                out[alias.asname or alias.name.split(".")[0]] = resolve(path, node, alias)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                for name in ast.walk(target):
                    if isinstance(name, ast.Name):
                        out[name.id] = None
        elif isinstance(node, (ast.If, ast.Try, ast.With)):
            for inner in ast.walk(node):
                if isinstance(inner, (ast.FunctionDef, ast.ClassDef)):
                    out[inner.name] = inner
                elif isinstance(inner, (ast.Import, ast.ImportFrom)):
                    out.update({alias.asname or alias.name: None for alias in inner.names})
    return out


def resolve(path, node, alias):
    """The definition that `from .module import name` brings, where it is in the package."""
    if isinstance(node, ast.Import) or node.level != 1 or not node.module:
        return None
    source = path.parent / f"{node.module.replace('.', '/')}.py"
    if source.exists():
        return definitions(source).get(alias.name)
    # The extension module: its functions are not Python.
    return None


def parameters(node):
    """Names that a call of a function or class may give; None where anything goes."""
    if isinstance(node, ast.ClassDef):
        node = next((item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == "__init__"), None)
    if not isinstance(node, ast.FunctionDef) or node.args.kwarg:
        return None
    return {item.arg for item in node.args.posonlyargs + node.args.args + node.args.kwonlyargs}


def dotted(node):
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = dotted(node.value)
        return inner and f"{inner}.{node.attr}"
    return None


class Blocks:
    """Imports hold from one block of a page to the next."""

    def __init__(self):
        self.functions, self.modules = {}, {}

    def check(self, text):
        """One line for each import or keyword that the package does not have."""
        problems, tree = [], ast.parse(text)
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                problems += self.modules_of(node)
            elif isinstance(node, ast.ImportFrom):
                problems += self.names_of(node)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                problems += self.call(node)
        return problems

    def modules_of(self, node):
        for alias in node.names:
            if alias.name.split(".")[0] != "kiln":
                continue
            path = module_path(alias.name)
            if path is None:
                yield f"no module {alias.name}"
            else:
                self.modules[alias.asname or alias.name] = path

    def names_of(self, node):
        if node.level or not node.module or node.module.split(".")[0] != "kiln":
            return
        path = module_path(node.module)
        if path is None:
            yield f"no module {node.module}"
            return
        known = definitions(path)
        for alias in node.names:
            if alias.name in known:
                self.functions[alias.asname or alias.name] = known[alias.name]
            else:
                yield f"{node.module} has no {alias.name}"

    def call(self, node):
        name = dotted(node.func)
        if name in self.functions:
            function = self.functions[name]
        elif name and name.rpartition(".")[0] in self.modules:
            module, _, last = name.rpartition(".")
            known = definitions(self.modules[module])
            if last not in known:
                yield f"{module} has no {last}"
                return
            function = known[last]
        else:
            return
        allowed = parameters(function)
        for keyword in node.keywords:
            if allowed is not None and keyword.arg and keyword.arg not in allowed:
                yield f"{name} has no parameter {keyword.arg}"
