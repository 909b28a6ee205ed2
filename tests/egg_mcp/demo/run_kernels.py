"""Run kernels against their references in one process and write how far off they are as JSON.

Started by `test_recordings.py`. Triton decides on the interpreter when it is imported, and it
reads a kernel's source from its file: hence a process of its own, and real files.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import torch
from torch import nn

from egg_mcp.sandbox.worker import emulated_dot


def load(path: Path) -> ModuleType:
    """Import one file under a name of its own."""
    name = f"{path.parent.name}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rms_error(got: torch.Tensor, exact: torch.Tensor) -> float:
    """Root mean square distance from the float64 result."""
    return (got.double() - exact).square().mean().sqrt().item()


class Problem:
    """A reference on inputs drawn once, in its own precision and in float64."""

    def __init__(self, reference: Path, device: str) -> None:
        torch.manual_seed(0)  # pyright: ignore[reportUnknownMemberType]  # untyped in torch
        module = load(reference)
        get_inputs: Callable[[], Sequence[torch.Tensor]] = module.get_inputs
        get_init_inputs: Callable[[], Sequence[object]] = module.get_init_inputs
        self.device = device
        self.init_inputs = get_init_inputs()
        self.inputs = [each.to(device) for each in get_inputs()]
        model: nn.Module = module.Model(*self.init_inputs).to(device)
        self.state = {name: value.clone() for name, value in model.state_dict().items()}
        self.native: torch.Tensor = model(*self.inputs)
        self.exact: torch.Tensor = model.double()(*(each.double() for each in self.inputs))

    def compare(self, kernel_file: Path) -> dict[str, str | float]:
        """How many times the reference's own error a kernel's error is."""
        try:
            candidate: nn.Module = load(kernel_file).ModelNew(*self.init_inputs).to(self.device)
            candidate.load_state_dict(self.state)
            got: torch.Tensor = candidate(*(each.clone() for each in self.inputs))
            if (got.shape, got.dtype) != (self.native.shape, self.native.dtype):
                return {"error": f"returns {got.dtype} {tuple(got.shape)}"}
            return {"ratio": rms_error(got, self.exact) / rms_error(self.native, self.exact)}
        except Exception:  # noqa: BLE001 - one kernel that fails must not end the others
            return {"error": traceback.format_exc()}


def main(folder: Path, report: Path, device: str) -> None:
    """Compare every kernel file of every Problem in the folder."""
    outcomes: dict[str, dict[str, dict[str, str | float]]] = {}
    with torch.no_grad():
        for reference in sorted(folder.glob("*/reference.py")):
            problem = Problem(reference, device)
            kernel_files = sorted(reference.parent.glob("[0-9]*.py"))
            outcomes[reference.parent.name] = {
                path.name: problem.compare(path) for path in kernel_files
            }
    report.write_text(json.dumps(outcomes), encoding="utf-8")


if __name__ == "__main__":
    DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
    if DEVICE == "cpu":
        emulated_dot.install()
    main(Path(sys.argv[1]), Path(sys.argv[2]), DEVICE)
