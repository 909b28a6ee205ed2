"""WarmTriton: what every first launch would do again, done once before the forks.

Nothing here touches the device: a fork after `cuInit` could not use it.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import contextlib
import functools
import importlib
from types import ModuleType
from typing import Any

_DRIVER = "triton.backends.nvidia.driver"
_KEY_PLACES = ("triton.runtime.cache", "triton.compiler.compiler")
_LAZY_IMPORTS = ("triton.experimental.gluon", "triton.backends.nvidia.compiler")


def warm_up() -> None:
    """Hash Triton's libraries, import what it imports late, build its driver module."""
    for name in _LAZY_IMPORTS:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    _hash_libraries()
    _build_driver_module()


def _hash_libraries() -> None:
    # Cached by Triton itself: forks inherit the result.
    for place in _KEY_PLACES:
        with contextlib.suppress(ImportError, AttributeError):
            importlib.import_module(place).triton_key()
            return


def _build_driver_module() -> None:
    """Compile and load `cuda_utils`, and let every fork find it loaded.

    Loading it maps libcuda and calls nothing in it. Where that fails (no compiler, no libcuda)
    the fork will say so in its own words.
    """
    with contextlib.suppress(Exception):
        driver: Any = importlib.import_module(_DRIVER)
        driver.compile_module_from_src = _remembering(driver.compile_module_from_src)
        driver.CudaUtils()


def _remembering(build: Any) -> Any:
    """Triton's builder of C modules with a memory: the same source, the same loaded module."""
    loaded: dict[tuple[str, str], ModuleType] = {}

    @functools.wraps(build)
    def remembered(src: str, name: str, *args: Any, **kwargs: Any) -> ModuleType:
        module = loaded.get((src, name))
        if module is None:
            module = loaded[src, name] = build(src, name, *args, **kwargs)
        return module

    return remembered
