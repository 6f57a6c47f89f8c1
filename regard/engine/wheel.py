"""The step of building a wheel (or an editable install) that compiles the native libraries.

Where there is no compiler the wheel is made without them: everything then works through torch.
"""

import sys
import sysconfig
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class NativeEngine(BuildHookInterface[Any]):
    """Puts the libraries into the wheel, which then is for one kind of processor and any Python."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        sys.path.insert(0, self.root)
        try:
            from regard.engine.build import ENGINE, TRAINING, BuildError, build
        finally:
            sys.path.remove(self.root)
        libraries = []
        for native in (ENGINE, TRAINING):
            try:
                libraries.append(build(native=native))
            except BuildError as error:
                self.app.display_warning(f"regard is built without a native library ({native.name}): {error}")
        if not libraries:
            return
        build_data["artifacts"] += [f"/{library.relative_to(self.root)}" for library in libraries]
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"
