"""UserModule: source from outside, run as a module of this process."""

from __future__ import annotations

import linecache
import sys
from types import ModuleType
from typing import Any

from egg_mcp.sandbox.worker.op_error import OpError, user_code


def execute(source: str, name: str, path: str, phase: str) -> ModuleType:
    """Run the source as module `name`.

    Args:
        source: Python.
        name: its name in `sys.modules`.
        path: the file it says it is from; need not exist, tracebacks show its lines anyway.
        phase: for errors.

    Raises:
        OpError: `syntax`, `import`, or what the code raised.
    """
    lines = source.splitlines(keepends=True)
    linecache.cache[path] = (len(source), None, lines, path)
    with user_code(phase, path, kind="syntax"):
        code = compile(source, path, "exec", dont_inherit=True)
    module = ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module
    with user_code(phase, path):
        exec(code, module.__dict__)  # noqa: S102 - running the user's code is the work
    return module


def require(module: ModuleType, name: str, phase: str) -> Any:
    """The callable of that name.

    Raises:
        OpError: `missing`.
    """
    found = getattr(module, name, None)
    if not callable(found):
        kind = "class" if name.startswith("Model") else "function"
        what = "no" if found is None else f"{name} is a {type(found).__name__}, not a"
        raise OpError("missing", f"the source defines {what} {kind} {name}", phase)
    return found
