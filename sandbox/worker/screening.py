"""Screening: whether a verdict on this Problem would mean anything."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import math
import time
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from egg_mcp.sandbox.worker import numeric_rule, trial
from egg_mcp.sandbox.worker.audit import OperatorCounter
from egg_mcp.sandbox.worker.comparison import Judge
from egg_mcp.sandbox.worker.op_error import OpError
from egg_mcp.sandbox.worker.reference import Reference, clone, ieee_math
from egg_mcp.sandbox.worker.values import (
    facts,
    is_real_float,
    map_tensors,
    same_bytes,
    size_bytes,
    tensors,
)

REPEAT_UNITS = 4.0
"""Two runs on the same inputs may differ by this many unit roundoffs, in RMS."""
LOOSE_RATIO = {"float32": 16.0}
LOOSE_RATIO_16_BIT = 3.0

Finding = tuple[str, str]


class Screening:
    """Runs a reference alone; `report` says what was found."""

    def __init__(self, reference: Reference, model: torch.nn.Module) -> None:
        self._reference = reference
        self._model = model
        self._found: dict[str, Any] = {"inputs": [], "outputs": [], "oracle": None}

    def report(self, seeds: list[int], weight_seed: int) -> dict[str, Any]:
        """The fields of a Screening record, `families` left to the parent.

        Raises:
            OpError: `inputs`.
        """
        self._found["parameter_count"] = elements(self._model)
        status, explanation = self._screen(seeds, weight_seed)
        return {"status": status, "explanation": explanation, **self._found}

    def _screen(self, seeds: list[int], weight_seed: int) -> Finding:
        inputs = self._reference.inputs(seeds[0])
        other_inputs = self._reference.inputs(seeds[1])
        self._found["inputs"] = facts(inputs, "inputs")
        try:
            with ieee_math():
                first = clone(self._run(inputs))
                failure = self._check_outputs(first)
                if failure:
                    return failure
                again = clone(self._run(inputs))
                other = clone(self._run(other_inputs))
                other_weights = self._with_weights(inputs, weight_seed)
                self._measure(inputs)
            failure = differs(first, again)
            if failure:
                return failure
            expected = trial.prepare(self._reference, self._model, inputs)
        except OpError as error:
            return "reference_failed", (
                f"The reference's forward raised {error.message}. {error.trace} "
                "Fix the reference so that Model(*get_init_inputs())(*get_inputs()) runs."
            )
        self._found["oracle"] = expected.oracle
        return self._degenerate(inputs, first, other, expected) or self._fine(
            first, other_weights, expected.oracle
        )

    def _run(self, inputs: list[Any]) -> Any:
        return self._reference.run(self._model, clone(inputs))

    def _with_weights(self, inputs: list[Any], weight_seed: int) -> Any:
        model, _ = self._reference.construct(weight_seed)
        return clone(self._reference.run(model, clone(inputs)))

    def _check_outputs(self, outputs: Any) -> Finding | None:
        self._found["outputs"] = facts(outputs, "outputs")
        found = tensors(outputs)
        if not found:
            return "reference_failed", (
                f"The reference's forward returns {type(outputs).__name__}, not a tensor. "
                "Return a tensor, or a tuple, list or dict of tensors."
            )
        share = trial.not_finite(found)
        if share == 1.0:
            return "task_degenerate", (
                "Every value the reference gives is NaN or infinite, so nothing can be compared. "
                "Scale the inputs in get_inputs() or the weights down."
            )
        if share > trial.MOST_NOT_FINITE:
            return "reference_failed", (
                f"{100 * share:.3g} % of the reference's output is NaN or infinite. "
                "Scale the inputs in get_inputs() or the weights down."
            )
        return None

    def _measure(self, inputs: list[Any]) -> None:
        """Operators, flops, bytes, and the time of one warm forward."""
        operators = OperatorCounter()
        given = clone(inputs)
        started = time.perf_counter()
        outputs = self._reference.run(self._model, given)
        self._found["reference_ms"] = (time.perf_counter() - started) * 1000
        flops: int | None = None
        counted = clone(inputs)
        try:
            with FlopCounterMode(display=False) as counter, operators:
                self._reference.run(self._model, counted)
            flops = counter.get_total_flops() or None
        except (OpError, RuntimeError):
            # Some operators can't run under a dispatch mode; the counts are only facts.
            operators.counts.clear()
        state = [*self._model.parameters(), *self._model.buffers()]
        self._found["operators"] = dict(operators.counts)
        self._found["flops"] = flops
        self._found["least_bytes"] = size_bytes(inputs) + size_bytes(state) + size_bytes(outputs)

    def _degenerate(
        self,
        inputs: list[Any],
        first: Any,
        other: Any,
        expected: trial.Trial,
    ) -> Finding | None:
        has_floats = any(is_real_float(one) for one in tensors(inputs))
        if has_floats and passes(expected.expected, other):
            return "task_degenerate", (
                "The output does not depend on the input: on other random inputs the reference "
                "gives the same within rounding, so a kernel that reads nothing would pass. "
                "Change the reference or the scale of get_inputs()."
            )
        for name, fill in (("zeros", torch.zeros_like), ("its own mean everywhere", mean_like)):
            if passes(expected.expected, map_tensors(first, fill)):
                return "task_degenerate", (
                    f"The output is constant: {name} would pass within rounding. "
                    "Change the reference, its weights or the scale of get_inputs()."
                )
        return None

    def _fine(self, first: Any, other_weights: Any, oracle: str) -> Finding:
        words = ["The reference runs, gives the same twice, and depends on its inputs."]
        if self._found["parameter_count"] and same(first, other_weights):
            words.append("Its output did not change with other weights.")
        if oracle == "float32":
            words.append("It has no float64 form, so errors are judged against float32.")
        return "ok", " ".join(words)


def elements(model: torch.nn.Module) -> int:
    """Elements in parameters and buffers."""
    return sum(one.numel() for one in (*model.parameters(), *model.buffers()))


def mean_like(values: torch.Tensor) -> torch.Tensor:
    """A tensor that holds its own finite mean everywhere; integers their first value."""
    if not values.numel():
        return values
    if not values.is_floating_point():
        return values.reshape(-1)[:1].expand(values.numel()).reshape(values.shape).clone()
    wide = values.double()
    wide = wide[torch.isfinite(wide)]
    return torch.full_like(values, float(wide.mean()) if wide.numel() else 0.0)


def same(left: Any, right: Any) -> bool:
    """Whether all tensors are equal bit by bit."""
    pairs = list(zip(tensors(left), tensors(right), strict=False))
    return all(same_bytes(one, two) for one, two in pairs)


def passes(expected: Any, outputs: Any) -> bool:
    """Whether the outputs would be taken for right."""
    judge = Judge()
    judge.compare(expected, outputs)
    if judge.structure:
        return False
    return all(_passes(record) for record in judge.records)


def _passes(record: dict[str, Any]) -> bool:
    if record["exact"] is not None:
        return record["exact"]
    limit = LOOSE_RATIO.get(record["dtype"], LOOSE_RATIO_16_BIT)
    ratio = record["ratio"]
    return record["elementwise_ok"] and ratio is not None and ratio <= limit


def differs(first: Any, again: Any) -> Finding | None:
    """`task_nondeterministic` when two runs on the same inputs differ by more than rounding."""
    one_run, two_run = tensors(first), tensors(again)
    if [one.shape for one in one_run] != [two.shape for two in two_run]:
        return _nondeterministic("other shapes")
    for index, (one, two) in enumerate(zip(one_run, two_run, strict=True)):
        if same_bytes(one, two):
            continue
        if not is_real_float(one):
            return _nondeterministic(f"other integers in outputs[{index}]")
        flat = numeric_rule.flatten(one)
        off = numeric_rule.error_scale(numeric_rule.flatten(two), flat).rms
        level = numeric_rule.signal_rms(flat, one.dtype)
        units = off / (numeric_rule.unit_roundoff(one.dtype) * level) if level else math.inf
        if units > REPEAT_UNITS or trial.not_finite([one]) != trial.not_finite([two]):
            return _nondeterministic(
                f"outputs[{index}] off by {off:.3g} RMS, {units:.3g} rounding units (limit 4)"
            )
    return None


def _nondeterministic(what: str) -> Finding:
    return "task_nondeterministic", (
        f"Two runs of the reference on the same inputs differ: {what}. No candidate can match "
        "that. Take out dropout, random numbers and state kept between calls."
    )
