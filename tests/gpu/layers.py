"""Layers between Vulkan's loader and the driver (CMake's vulkan_layers) for processes that a test starts."""

from __future__ import annotations

import json
import os
import pathlib

from tests.failing_calls import FailingCalls


def layer_environment(library: pathlib.Path, folder: pathlib.Path) -> dict[str, str]:
    """Variables that put the layer in, above those that are there; its description is written to the folder."""
    layer = {
        "name": f"VK_LAYER_SPECDEC_{library.stem}",
        "description": "for a test",
        "type": "INSTANCE",
        "library_path": str(library),
        "api_version": "1.3.0",
        "implementation_version": "1",
    }
    manifest = {"file_format_version": "1.2.0", "layer": layer}
    (folder / f"{library.stem}.json").write_text(json.dumps(manifest))
    own = {"VK_LAYER_PATH": str(folder), "VK_INSTANCE_LAYERS": layer["name"]}
    return {name: os.pathsep.join([value, *filter(None, [os.environ.get(name)])]) for name, value in own.items()}


class FailingVulkan(FailingCalls):
    """A call of Vulkan that fails: the library is failing_vulkan.cpp."""

    def loading(self) -> dict[str, str]:
        return layer_environment(self.library, self.folder)
