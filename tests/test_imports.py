"""What may import what, what must start without torch, and what must not occur in the sources at all."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "regard"

ORDER = (
    "text",
    "data",
    "kernels",
    "nn",
    "models",
    "metrics",
    "search",
    "training",
    "insight",
    "engine",
    "tasks",
    "recipe",
    "report",
    "run",
    "human",
    "interchange",
    "studio",
    "cli",
)
"""A part may use itself and the parts before it; everything may use the foundations."""

FOUNDATIONS = {"special", "errors", "files", "lazy", "process"}
WITH_TORCH = {
    "regard.data.batch",
    "regard.data.collation",
    "regard.data.corpus",
    "regard.data.corruption",
    "regard.data.joint",
    "regard.recipe.build",
    "regard.recipe.decoders",
    "regard.recipe.objectives",
    "regard.recipe.texts",
    "regard.cli.progress",
}
"""Modules that are for torch; the others of their parts import them inside functions only, if at all."""

WITHOUT_TORCH = (
    "regard.special",
    "regard.errors",
    "regard.files",
    "regard.lazy",
    "regard.process",
    "regard.text",
    "regard.data",
    "regard.recipe",
    "regard.cli",
    "regard",
)

FILES = sorted(PACKAGE.rglob("*.py"))


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def part_of(module: str) -> str:
    """`text` for regard.text.word; the empty part is the package itself."""
    return [*module.split("."), ""][1]


def permitted(importer: str, imported: str) -> bool:
    """Whether a module of one part may import a module of another."""
    source, target = part_of(importer), part_of(imported)
    if target in FOUNDATIONS or source == target:
        return True
    if source in ("", "__main__"):
        return True
    if source in FOUNDATIONS or target == "":
        # The version is all that the package itself has to offer to its parts.
        return target == "" and source in ("cli", "studio", "report", "run")
    return ORDER.index(target) < ORDER.index(source)


def imports_of(tree: ast.AST, module: str, *, is_package: bool) -> Iterator[tuple[int, str]]:
    """Every module that a source names in an import, at the top or inside a function, with its line."""
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                yield from ((node.lineno, alias.name) for alias in node.names)
            case ast.ImportFrom(module=name, level=0) if name == "regard":
                yield from ((node.lineno, f"regard.{alias.name}") for alias in node.names)
            case ast.ImportFrom(module=str(name), level=0):
                yield node.lineno, name
            case ast.ImportFrom():
                base = module.split(".") if is_package else module.split(".")[:-1]
                base = base[: len(base) - node.level + 1]
                yield from ((node.lineno, ".".join([*base, node.module or alias.name])) for alias in node.names)


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def test_every_part_has_its_place_in_the_order():
    folders = {path.parent.relative_to(PACKAGE).parts[0] for path in FILES if path.parent != PACKAGE}
    assert folders <= set(ORDER)
    assert {path.stem for path in PACKAGE.glob("*.py")} <= FOUNDATIONS | {"__init__", "__main__"}


@pytest.mark.parametrize(
    ("importer", "imported", "allowed"),
    [
        ("regard.text.word", "regard.special", True),
        ("regard.search.beam", "regard.metrics", True),
        ("regard.cli.train", "regard.run", True),
        ("regard", "regard.run", True),
        ("regard.training.loop", "regard.report", False),
        ("regard.nn.attention", "regard.recipe.schema", False),
        ("regard.text.word", "regard.data", False),
        ("regard.errors", "regard.text", False),
        ("regard.studio.routes", "regard.cli", False),
        ("regard.data.lines", "regard", False),
    ],
)
def test_the_table_of_edges_itself(importer, imported, allowed):
    assert permitted(importer, imported) is allowed


def test_imports_are_found_wherever_they_hide():
    source = (
        "import a.b\ndef f():\n    from regard import run\n    from . import word\n    from ..data.lines import x\n"
    )
    found = [name for _, name in imports_of(ast.parse(source), "regard.text.byte", is_package=False)]
    assert sorted(found) == ["a.b", "regard.data.lines", "regard.run", "regard.text.word"]
    found = imports_of(ast.parse("from .word import x"), "regard.text", is_package=True)
    assert [name for _, name in found] == ["regard.text.word"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: module_name(path))
def test_imports_point_one_way(path):
    module = module_name(path)
    ours = [
        (line, name)
        for line, name in imports_of(parse(path), module, is_package=path.name == "__init__.py")
        if name.split(".")[0] == "regard" and name not in (f"regard.{constant}" for constant in ("__version__",))
    ]
    wrong = [f"{module}:{line} imports {name}" for line, name in ours if not permitted(module, name)]
    assert wrong == []


PROBE = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
    if "torch" in sys.modules:
        sys.exit(f"importing {name} imports torch")
"""


def test_text_data_recipes_and_commands_start_without_torch():
    modules = [
        module_name(path)
        for path in FILES
        if module_name(path) not in WITH_TORCH
        and path.stem != "__main__"
        and (module_name(path) in WITHOUT_TORCH or part_of(module_name(path)) in ("text", "data", "recipe", "cli"))
    ]
    assert "regard.recipe.read" in modules
    result = subprocess.run(
        [sys.executable, "-c", PROBE, *modules], capture_output=True, text=True, cwd=ROOT, timeout=120, check=False
    )
    assert result.returncode == 0, result.stderr


FORBIDDEN_MODULES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "telnetlib"}
FORBIDDEN_CALLS = {
    "eval", "exec", "compile", "__import__", "os.system", "os.popen", "torch.load", "torch.save", "torch.jit.load",
    "yaml.load", "yaml.load_all", "yaml.unsafe_load", "yaml.full_load", "subprocess.getoutput", "tempfile.mktemp",
}  # fmt: skip
FORBIDDEN_ARGUMENTS = {"shell", "allow_pickle", "trust_remote_code"}
FORBIDDEN_NAMES = {"utils", "helpers", "common", "util", "helper", "misc"}


def called(function: ast.expr) -> str:
    """The dotted name of what is called: `torch.load`; empty for anything that has no name."""
    parts: list[str] = []
    while isinstance(function, ast.Attribute):
        parts.append(function.attr)
        function = function.value
    return ".".join([function.id, *reversed(parts)]) if isinstance(function, ast.Name) else ""


def forbidden(tree: ast.AST) -> list[str]:
    """What a source does that it must not do, with its line."""
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [
                f"{node.lineno}: import {a.name}" for a in node.names if a.name.split(".")[0] in FORBIDDEN_MODULES
            ]
        if isinstance(node, ast.ImportFrom) and node.module:
            if node.module.split(".")[0] in FORBIDDEN_MODULES:
                found.append(f"{node.lineno}: from {node.module}")
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [f"{node.lineno}: from {node.module} import {name}" for name in names if name in FORBIDDEN_CALLS]
        if isinstance(node, ast.Call):
            if called(node.func) in FORBIDDEN_CALLS:
                found.append(f"{node.lineno}: {called(node.func)}()")
            for keyword in node.keywords:
                off = isinstance(keyword.value, ast.Constant) and keyword.value.value is False
                if keyword.arg in FORBIDDEN_ARGUMENTS and not off:
                    found.append(f"{node.lineno}: {keyword.arg}=")
    return found


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("import pickle", 1),
        ("from pickle import loads", 1),
        ("def f():\n    import dill.x", 1),
        ("torch.load(x)", 1),
        ("from torch import load", 1),
        ("eval('1')", 1),
        ("model.eval()", 0),
        ("re.compile('a')", 0),
        ("yaml.load(x, Loader=y)", 1),
        ("yaml.safe_load(x)", 0),
        ("subprocess.run(x, shell=True)", 1),
        ("subprocess.run(x, shell=False)", 0),
        ("np.load(x, allow_pickle=True)", 1),
        ("np.load(x, allow_pickle=flag)", 1),
        ("np.load(x, allow_pickle=False)", 0),
    ],
)
def test_the_search_for_forbidden_calls_itself(source, count):
    assert len(forbidden(ast.parse(source))) == count


def test_nothing_runs_code_from_files():
    found = [f"{path.relative_to(ROOT)}:{what}" for path in FILES for what in forbidden(parse(path))]
    assert found == []


def test_names_of_files_say_what_is_in_them():
    assert [str(path.relative_to(ROOT)) for path in FILES if path.stem in FORBIDDEN_NAMES] == []
