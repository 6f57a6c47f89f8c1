"""The step of building a wheel (or an editable install) that compiles the native engine.

Where there is no compiler the wheel is made without it: everything then works through torch.
"""

import sys
import sysconfig
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class NativeEngine(BuildHookInterface[Any]):
    """Puts the library into the wheel, which then is for one kind of processor and any Python."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        sys.path.insert(0, self.root)
        try:
            from regard.engine.build import BuildError, build
        finally:
            sys.path.remove(self.root)
        try:
            library = build()
        except BuildError as error:
            self.app.display_warning(f"regard is built without its native engine: {error}")
            return
        build_data["artifacts"].append(f"/{library.relative_to(self.root)}")
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"
