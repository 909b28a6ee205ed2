"""Assembly: what Triton compiled, as text, from its cache folder."""

from __future__ import annotations

import os
from pathlib import Path

KINDS = ("ttir", "ttgir", "llir", "ptx")
MAX_KIND_BYTES = 256 * 1024


def read() -> dict[str, str]:
    """Kind -> texts of all kernels, newest first, at most 256 KB a kind."""
    folder = Path(os.environ.get("TRITON_CACHE_DIR") or Path.home() / ".triton" / "cache")
    texts = {kind: _newest(folder, kind) for kind in KINDS}
    return {kind: text for kind, text in texts.items() if text}


def _newest(folder: Path, kind: str) -> str:
    files = sorted(folder.glob(f"*/*.{kind}"), key=lambda path: path.stat().st_mtime, reverse=True)
    parts: list[str] = []
    left = MAX_KIND_BYTES
    for path in files:
        with path.open("rb") as file:
            data = file.read(left)
        parts.append(data.decode("utf-8", "replace"))
        left -= len(data)
        if left <= 0:
            break
    return "\n".join(parts)
