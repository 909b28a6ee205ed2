from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from egg_mcp.sandbox.worker import tensors
from egg_mcp.sandbox.worker.mailbox import Mailbox
from egg_mcp.sandbox.worker.shared_file import NoRoom

pytest.importorskip("triton")

SOURCE = """
import torch, triton, triton.language as tl

@triton.jit
def double(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)

@triton.autotune([triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 256})], key=["n"])
@triton.jit
def triple(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, 3 * tl.load(x + at, mask=at < n), mask=at < n)

class ModelNew(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn(size))
    def forward(self, x):
        y, z = torch.empty_like(x), torch.empty_like(x)
        double[(triton.cdiv(x.numel(), 256),)](x + self.w, y, x.numel(), BLOCK=256)
        MIDDLE
        triple[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](y, z, x.numel())
        return z
"""
ELF = b"\x7fELF"


def _request(source: str) -> dict[str, Any]:
    forms = {"inputs": [torch.zeros(64, 300)], "init": [300]}
    trees = {name: tensors.encode(value, Mailbox(NoRoom()), 0)[0] for name, value in forms.items()}
    return {"source": source, "arch": 90, "init_style": "positional", **trees}


def _compile(start: Any, middle: str = "") -> tuple[dict[str, Any], Any]:
    worker = start("compiler")
    return worker.done("compile", **_request(SOURCE.replace("MIDDLE", middle))), worker


def test_every_kernel_is_compiled_for_the_target_without_a_device(start: Any) -> None:
    reply, worker = _compile(start)
    assert reply["ended"] == "whole"
    cubins = [entry for entry in reply["cache"] if entry["path"].endswith(".cubin")]
    names = sorted(Path(entry["path"]).name for entry in cubins)
    assert names == ["double.cubin", "triple.cubin", "triple.cubin"]
    for entry in cubins:
        content = (worker.folder / "triton" / entry["path"]).read_bytes()
        assert content.startswith(ELF)
        assert len(content) == entry["nbytes"]


@pytest.mark.parametrize(
    ("middle", "ended"),
    [
        ("raise RuntimeError('later')", "RuntimeError"),
        ("x.sum().item()", "DataDependentOutputException"),
        ("import sys; sys.exit(0)", "SystemExit"),
    ],
)
def test_what_was_compiled_before_an_early_end_is_kept(start: Any, middle: str, ended: str) -> None:
    reply, _ = _compile(start, middle)
    assert reply["ended"] == ended
    assert any(entry["path"].endswith("double.cubin") for entry in reply["cache"])


def test_source_that_cannot_run_gives_an_empty_cache(start: Any) -> None:
    worker = start("compiler")
    reply = worker.done("compile", **_request("1 / 0"))
    assert (reply["cache"], reply["kernels"], reply["ended"]) == ([], 0, "OpError")


def test_candidate_takes_over_what_was_compiled(start: Any) -> None:
    _, worker = _compile(start)
    # The outbox of the one is the inbox of the other.
    candidate = start("candidate", swap=True)
    made = worker.done("compile", **_request(SOURCE.replace("MIDDLE", "")))["cache"]
    assert candidate.done("adopt", cache=made) == {"ok": True}
    for entry in made:
        mine = candidate.folder / "triton" / entry["path"]
        assert mine.read_bytes() == (worker.folder / "triton" / entry["path"]).read_bytes()
