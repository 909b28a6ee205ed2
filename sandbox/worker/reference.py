"""Reference: the user's Model with its inputs, and the same Model in other precisions."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import contextlib
import copy
import gc
from collections.abc import Callable, Generator
from pathlib import PurePath
from typing import Any

import torch

from egg_mcp.sandbox.worker import rounding
from egg_mcp.sandbox.worker.device import Device
from egg_mcp.sandbox.worker.input_maker import InputMaker
from egg_mcp.sandbox.worker.op_error import OpError, user_code
from egg_mcp.sandbox.worker.seeds import seed_all
from egg_mcp.sandbox.worker.user_module import execute, require
from egg_mcp.sandbox.worker.values import map_tensors, tensors

WIDER = {
    torch.float64: {torch.complex32: torch.complex128, torch.complex64: torch.complex128},
    torch.float32: {torch.complex32: torch.complex64},
}


@contextlib.contextmanager
def ieee_math() -> Generator[None]:
    """Float32 products in float32: cuDNN's default TF32 would widen what candidates may err."""
    undo = [_without_tf32(flag) for flag in (torch.backends.cuda.matmul, torch.backends.cudnn)]
    try:
        yield
    finally:
        for flag, name, value in undo:
            setattr(flag, name, value)


def _without_tf32(flag: Any) -> tuple[Any, str, Any]:
    """Turn TF32 off; where, under which name and from what it must be set back."""
    try:
        before = flag.allow_tf32
        flag.allow_tf32 = False
    except RuntimeError:
        # The user's code took torch's newer setting; torch refuses a mix of both.
        before = flag.fp32_precision
        flag.fp32_precision = "ieee"
        return flag, "fp32_precision", before
    return flag, "allow_tf32", before


def clone(values: Any) -> Any:
    """The same values in memory of their own, strides kept."""
    return map_tensors(values, lambda tensor: tensor.detach().clone())


class Reference:
    """One Problem's reference on one device."""

    def __init__(self, source: str, name: str, device: Device) -> None:
        self.user_file = PurePath(name or "reference.py").name
        self.device = device
        module = execute(source, "reference", self.user_file, "import")
        self._model_class = require(module, "Model", "import")
        self._maker = InputMaker(require(module, "get_inputs", "import"), device.torch)
        self._get_init_inputs: Any = getattr(module, "get_init_inputs", list)

    def construct(self, weight_seed: int) -> tuple[torch.nn.Module, Any]:
        """A new Model on the device, in the mode it was constructed in, and its init inputs.

        Raises:
            OpError: `construct`.
        """
        with user_code("construct", self.user_file, kind="construct"):
            seed_all(weight_seed)
            init = self._get_init_inputs()
            if not isinstance(init, (list, tuple, dict)):
                name = type(init).__name__
                raise TypeError(f"get_init_inputs() returns {name}, not a list or dict")
            given = clone(init)
            model = (
                self._model_class(**given) if isinstance(given, dict) else self._model_class(*given)
            )
            if not isinstance(model, torch.nn.Module):
                raise TypeError("Model is not a torch.nn.Module")
            return model.to(self.device.torch), init

    def inputs(self, seed: int) -> list[Any]:
        """`get_inputs()` under a seed, on the device.

        Raises:
            OpError: `inputs`.
        """
        with user_code("inputs", self.user_file, kind="inputs"):
            return self._maker.inputs(seed)

    def run(self, model: torch.nn.Module, inputs: list[Any]) -> Any:
        """One forward without gradients, finished when this returns.

        Raises:
            OpError: what the forward raised.
        """
        with user_code("forward", self.user_file), torch.no_grad():
            outputs = model(*inputs)
            self.device.synchronize()
            return outputs

    def oracle(self, model: torch.nn.Module, inputs: list[Any], native: Any) -> tuple[Any, str]:
        """Expected outputs, and what they were computed in: `float64`, else `float32`.

        Args:
            model: the Model in its own precision.
            inputs: as given to it; not changed.
            native: its outputs, whose structure the oracle must have.
        """
        for name, dtype in (("float64", torch.float64), ("float32", torch.float32)):
            try:
                outputs = self.run(_widened(model, dtype), _widen(inputs, dtype))
            except OpError:
                self.release()
                continue
            if _fits(outputs, native, dtype):
                return outputs, name
        return native, "float32"

    def rounded(self, model: torch.nn.Module, inputs: list[Any], form: str) -> Any:
        """Outputs with float32 inputs and weights rounded to `tf32` or `bf16`; None if it fails."""
        change: Callable[[torch.Tensor], torch.Tensor] = (
            rounding.to_tf32 if form == "tf32" else rounding.to_bf16
        )

        def cut(tensor: torch.Tensor) -> torch.Tensor:
            return change(tensor) if tensor.dtype == torch.float32 else tensor.clone()

        try:
            twin = copy.deepcopy(model)
            for tensor in (*twin.parameters(), *twin.buffers()):
                tensor.data.copy_(cut(tensor.data))
            return self.run(twin, map_tensors(inputs, cut))
        except (OpError, RuntimeError):
            self.release()
            return None

    def release(self) -> None:
        """Give unused device memory back."""
        gc.collect()
        if not self.device.emulated:
            torch.cuda.empty_cache()


def _widened(model: torch.nn.Module, dtype: torch.dtype) -> torch.nn.Module:
    with user_code("oracle", ""):
        return copy.deepcopy(model).to(dtype)


def _widen(inputs: Any, dtype: torch.dtype) -> Any:
    def change(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.is_complex():
            return tensor.to(WIDER[dtype].get(tensor.dtype, tensor.dtype), copy=True)
        return tensor.to(dtype if tensor.is_floating_point() else tensor.dtype, copy=True)

    return map_tensors(inputs, change)


def _fits(outputs: Any, native: Any, dtype: torch.dtype) -> bool:
    """Whether they are the same tensors as the native ones, in no lower precision."""
    found, wanted = tensors(outputs), tensors(native)
    if [one.shape for one in found] != [one.shape for one in wanted]:
        return False
    if dtype == torch.float32:
        return True
    # A forward that casts to float32 by itself gives no float64, whatever it is fed.
    wide = (torch.float64, torch.complex128)
    pairs = zip(found, wanted, strict=True)
    return all(one.dtype in wide for one, own in pairs if own.is_floating_point())
