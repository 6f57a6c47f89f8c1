"""What of the tree goes into the wheel of the runtime, and the native library, which it is nothing without."""

import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

TREE = Path(__file__).resolve().parents[2]
MODULES = (
    "__init__.py",
    "py.typed",
    "errors.py",
    "files.py",
    "lazy.py",
    "special.py",
    "cli/__init__.py",
    "cli/runtime.py",
    "data/__init__.py",
    "data/example.py",
    "data/excerpt.py",
    "data/ledger.py",
    "data/lines.py",
    "engine/__init__.py",
    "engine/calling.py",
    "engine/constraints.py",
    "engine/library.py",
    "engine/links.py",
    "engine/prepared.py",
    "engine/requests.py",
    "engine/runtime.py",
)


class RuntimeFiles(BuildHookInterface[Any]):
    """Takes the modules from where regard has them."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        if Path(self.root) != TREE / "packaging" / "runtime":
            raise SystemExit("regard-runtime is built as a wheel, in a source tree of regard: make runtime-wheel")
        sys.path.insert(0, str(TREE))
        try:
            from regard.engine.build import build
        finally:
            sys.path.remove(str(TREE))
        paths = [TREE / "regard" / name for name in MODULES]
        paths += sorted((TREE / "regard" / "text").glob("*.py"))
        paths.append(build())
        build_data["force_include"].update({str(path): str(path.relative_to(TREE)) for path in paths})
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"
