from __future__ import annotations

from typing import Any

import pytest
import torch

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")

REFERENCE = """
import torch

class Model(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.randn(n))

    def forward(self, x, y):
        return x + y + self.bias

def get_inputs():
    return [torch.rand(5, 300), torch.rand(5, 300)]

def get_init_inputs():
    return [300]
"""

CANDIDATE = """
import torch
import triton
import triton.language as tl

@triton.jit
def add(x, y, bias, out, n, m, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    total = tl.load(x + i, mask=mask, other=0.0) + tl.load(y + i, mask=mask, other=0.0)
    total += tl.load(bias + i % m, mask=mask, other=0.0)
    tl.store(out + i, total, mask=mask)

class ModelNew(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.randn(n))

    def forward(self, x, y):
        assert x.is_contiguous()
        out = torch.empty_like(x)
        n = x.numel()
        grid = (triton.cdiv(n, 256),)
        add[grid](x, y, self.bias, out, n, x.shape[-1], BLOCK=256)
        return out
"""

SAYS_CUDA = CANDIDATE.replace(
    "        out = torch.empty_like(x)",
    """        assert x.is_cuda and x.device.type == "cuda" and torch.cuda.is_available()
        torch.ones(3, device=torch.device("cuda:0")).cuda().to("cuda", torch.float16)
        with torch.cuda.device(x.device), torch.device("cuda"):
            torch.zeros(2)
        out = torch.empty(x.shape, device="cuda", dtype=x.dtype)
        torch.cuda.synchronize()""",
)

AUTOTUNED = (
    CANDIDATE.replace(
        "@triton.jit",
        """@triton.autotune([triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 512})], key=["n"])
@triton.jit""",
    )
    .replace("(triton.cdiv(n, 256),)", 'lambda meta: (triton.cdiv(n, meta["BLOCK"]),)')
    .replace(", BLOCK=256)", ")")
)


class Bench:
    """A referee with a loaded Problem, and candidates that are built on it."""

    def __init__(self, start: Any, reference: str = REFERENCE, device: str = "emulated") -> None:
        self._candidate = start("candidate", device)
        self.referee = start("referee", device)
        self.referee.done("load", source=reference, name="add.py", weight_seed=11)
        self.init = self.referee.done("export_init")
        self.trial = 0

    def build(self, source: str, **changes: Any) -> tuple[Any, dict[str, Any]]:
        # One process for many sources: the server starts a fresh one for each, at 2 s apiece.
        candidate = self._candidate
        request = {key: self.init[key] for key in ("init", "init_style")} | changes
        return candidate, candidate.ask("build", source=source, seed=11, **request)

    def ready(self, source: str) -> Any:
        candidate, reply = self.build(source)
        assert reply == {"ok": True}
        assert candidate.done("weights", state=self.init["state"])["how"] == "copied"
        return candidate

    def prepare(self, kind: str = "given", seed: int = 5) -> dict[str, Any]:
        self.trial += 1
        offset = self.init["end"]
        request = {"trial": self.trial, "kind": kind, "seed": seed, "offset": offset}
        return self.referee.done("prepare", **request)

    def judge(self, call: dict[str, Any]) -> dict[str, Any]:
        request = {key: call[key] for key in ("outputs", "inputs_after")}
        return self.referee.done("judge", trial=self.trial, **request)

    def call(self, candidate: Any, **changes: Any) -> dict[str, Any]:
        trial = self.prepare(**changes)
        return candidate.ask("call", inputs=trial["inputs"], swap=False, audit=True, out_offset=0)


@pytest.fixture(scope="module")
def bench(start: Any) -> Bench:
    return Bench(start)


def test_ready_says_what_it_runs_on(bench: Bench) -> None:
    device = bench.referee.hello["device"]
    assert device["kind"] == "emulated"
    assert device["name"] == "CPU (Triton interpreter)"
    assert device["torch"] == str(torch.__version__)
    assert device["arch"] is None


@pytest.mark.parametrize("source", [CANDIDATE, SAYS_CUDA, AUTOTUNED], ids=["plain", "cuda", "auto"])
def test_right_candidate_holds_in_every_trial(source: str, bench: Bench) -> None:
    candidate = bench.ready(source)
    for kind in ("given", "zero_mean", "rescaled"):
        call = bench.call(candidate, kind=kind)
        assert call["ok"], call
        judged = bench.judge(call)
        (output,) = judged["outputs"]
        assert output["name"] == "outputs[0]"
        assert output["elementwise_ok"]
        assert output["ratio"] <= 2
        assert judged["structure"] is None
        assert judged["inputs_changed"] == []
        assert call["on_device"]
        assert not call["aliases_input"]
        bench.referee.done("forget", trial=bench.trial)
    assert call["launches"] == {"add": 1}
    assert "add" not in call["operators"]


def test_wrong_candidate_is_told_where(bench: Bench) -> None:
    candidate = bench.ready(CANDIDATE.replace("mask=mask)", "mask=mask & (i != 301))"))
    bench.call(candidate)
    judged = bench.judge(bench.call(candidate))
    mismatch = judged["outputs"][0]["mismatch"]
    assert not judged["outputs"][0]["elementwise_ok"]
    assert mismatch["index"] == [1, 1]
    assert 0 < mismatch["bad_share"] < 0.01


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return (x + y + self.bias,)", "a tuple of 1"),
        ("return (x + y + self.bias).half()", "dtype is float16"),
        ("return (x + y + self.bias)[:4]", "shape is [4, 300]"),
        ("return torch.nn.Parameter(x + y + self.bias)", "torch.nn.parameter.Parameter"),
        ("return (x + y + self.bias).repeat(4000, 1)", "shape is [20000, 300]"),
    ],
)
def test_other_structure_is_named(body: str, said: str, bench: Bench) -> None:
    candidate = bench.ready(CANDIDATE.replace("assert x.is_contiguous()", body))
    judged = bench.judge(bench.call(candidate))
    mismatch = judged["outputs"][0]["mismatch"]["what"] if judged["outputs"] else ""
    assert said in (judged["structure"] or mismatch)


def test_changed_input_and_alias_are_seen(bench: Bench) -> None:
    body = "y.add_(1); return x.add_(y + self.bias - 1)"
    candidate = bench.ready(CANDIDATE.replace("assert x.is_contiguous()", body))
    call = bench.call(candidate)
    assert call["aliases_input"]
    assert bench.judge(call)["inputs_changed"] == ["inputs[0]", "inputs[1]"]


def test_swapped_inputs_keep_pointer_and_version(bench: Bench) -> None:
    remember = """key = (x.data_ptr(), x._version)
        if key == getattr(self, "key", None): return self.old
        self.key, self.old = key, x + y + self.bias
        return self.old"""
    candidate = bench.ready(CANDIDATE.replace("assert x.is_contiguous()", remember))
    assert bench.judge(bench.call(candidate))["outputs"][0]["elementwise_ok"]
    trial = bench.prepare(seed=6)
    call = candidate.done("call", inputs=trial["inputs"], swap=True, audit=False, out_offset=0)
    assert not bench.judge(call)["outputs"][0]["elementwise_ok"]
    assert "launches" not in call


@pytest.mark.parametrize(
    ("source", "phase", "kind", "said"),
    [
        ("def broken(:\n", "import", "syntax", "line 1"),
        ("x = '\0'\n", "import", "syntax", "null bytes"),
        ("import no_such_module_here\n", "import", "import", "no_such_module_here"),
        ("x = 1\n", "import", "missing", "ModelNew"),
        ("1 / 0\n", "import", "exception", "ZeroDivisionError"),
        ("raise SystemExit(0)\n", "import", "exit", "SystemExit"),
        (CANDIDATE.replace("super().__init__()", "oops"), "construct", "exception", "oops"),
        (
            CANDIDATE.replace("torch.nn.Module", "object"),
            "construct",
            "exception",
            "ModelNew is not",
        ),
    ],
)
def test_build_error_is_a_reply(
    source: str, phase: str, kind: str, said: str, bench: Bench
) -> None:
    _, reply = bench.build(source)
    error = reply["error"]
    assert (error["phase"], error["kind"]) == (phase, kind)
    assert said in error["message"]


@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        ("import sys; sys.exit(0)", "exit", "SystemExit"),
        ("raise KeyboardInterrupt", "exit", "KeyboardInterrupt"),
        ("raise StopIteration", "exception", "StopIteration"),
        ("raise ValueError('\\ud800' * 9999)", "exception", "ValueError: ?"),
        ("raise MemoryError", "out_of_host_memory", "MemoryError"),
    ],
)
def test_forward_error_is_a_reply_and_the_loop_goes_on(
    body: str, kind: str, said: str, bench: Bench
) -> None:
    candidate = bench.ready(CANDIDATE.replace("assert x.is_contiguous()", body))
    for _ in range(2):
        error = bench.call(candidate)["error"]
        assert (error["phase"], error["kind"]) == ("forward", kind)
        assert said in error["message"]
        assert len(error["message"]) <= 2000
        assert "in forward" in error["traceback"]


def test_error_inside_a_kernel_shows_its_cause(bench: Bench) -> None:
    candidate = bench.ready(CANDIDATE.replace("mask = i < n", "mask = i < undefined_name"))
    error = bench.call(candidate)["error"]
    assert "undefined_name" in error["message"]


def test_weights_of_other_names_are_left_to_the_seed(bench: Bench) -> None:
    candidate, reply = bench.build(CANDIDATE.replace("self.bias", "self.shift"))
    assert reply["ok"]
    reply = candidate.done("weights", state=bench.init["state"])
    assert reply["how"] == "seed_only"
    assert sorted(reply["unmatched"]) == ["bias", "shift"]
    assert bench.judge(bench.call(candidate))["outputs"][0]["elementwise_ok"]


def test_unknown_and_broken_requests_are_replies(bench: Bench) -> None:
    candidate, _ = bench.build(CANDIDATE)
    assert candidate.ask("fly")["error"]["kind"] == "bad_request"
    assert candidate.ask("call")["error"]["kind"] == "bad_request"
    assert candidate.ask("call", inputs={}, out_offset=0)["error"]["kind"] == "bad_tree"
    assert bench.referee.ask("judge", trial=99, outputs={})["error"]["kind"] == "bad_request"
    assert candidate.done("asm") == {"ok": True, "asm": {}}


def test_nothing_is_timed_without_a_gpu(bench: Bench) -> None:
    candidate = bench.ready(CANDIDATE)
    made = bench.referee.done("time_prepare", seeds=[1, 2], offset=bench.init["end"])
    candidate.done("time_prepare", sets=made["sets"])
    for worker in (bench.referee, candidate):
        reply = worker.ask("time_block", calls=3, start=0, keep=1, out_offset=0)
        assert reply["error"]["kind"] == "no_cuda"
        assert worker.ask("warm", min_ms=1, max_s=1)["error"]["kind"] == "no_cuda"
    assert bench.referee.done("time_facts")["output_bytes"] == 6000


def problem(forward: str, inputs: str = "[torch.randn(8, 64)]", init: str = "pass") -> str:
    return f"""
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        {init}

    def forward(self, x):
        {forward}

def get_inputs():
    return {inputs}
"""


@pytest.mark.parametrize(
    ("source", "status", "said"),
    [
        (problem("return torch.relu(x) * 2"), "ok", "runs"),
        (problem("return x.argmax(1)"), "ok", "runs"),
        (problem("return torch.tril(x).masked_fill(x > 1, float('-inf'))"), "ok", "runs"),
        (problem("return x.float().double().float() + 1"), "ok", "float64"),
        (problem("return torch.zeros(8, 64)"), "task_degenerate", "input"),
        (problem("return x * 0 + 3"), "task_degenerate", "input"),
        (problem("return x / 0 * 0"), "task_degenerate", "NaN"),
        (problem("return torch.where(x > -0.5, x.log() * 0 / 0, x)"), "reference_failed", "%"),
        (problem("return torch.nn.functional.dropout(x)"), "task_nondeterministic", "dropout"),
        (problem("return x.sum().item()"), "reference_failed", "float, not a tensor"),
        (problem("return x @ x"), "reference_failed", "RuntimeError"),
    ],
)
def test_screening_names_what_is_wrong(source: str, status: str, said: str, bench: Bench) -> None:
    own = bench.referee
    own.done("load", source=source, name="task.py", weight_seed=1)
    report = own.done("screen", seeds=[1, 2], weight_seed2=3)
    assert report["status"] == status, report
    assert said in report["explanation"]
    if status == "ok":
        assert report["reference_ms"] > 0
        assert report["inputs"][0] == {
            "name": "inputs[0]",
            "kind": "tensor",
            "shape": [8, 64],
            "dtype": "float32",
            "size_bytes": 2048,
        }
    own.done("load", source=REFERENCE, name="add.py", weight_seed=11)


def test_screening_counts_work(bench: Bench) -> None:
    own = bench.referee
    linear = problem("return self.layer(x)", init="self.layer = torch.nn.Linear(64, 32)")
    assert own.done("load", source=linear, name="", weight_seed=1)["parameter_count"] == 2080
    report = own.done("screen", seeds=[1, 2], weight_seed2=3)
    assert report["flops"] == 2 * 8 * 64 * 32
    assert report["operators"]["addmm"] == 1
    assert report["least_bytes"] == 2048 + 4 * 2080 + 8 * 32 * 4
    assert report["oracle"] == "float64"
    own.done("load", source=REFERENCE, name="add.py", weight_seed=11)


@pytest.mark.parametrize(
    ("source", "kind", "said"),
    [
        ("def x(:", "syntax", "SyntaxError"),
        ("import no_such_module_here", "import", "no_such_module_here"),
        ("class Model: pass", "missing", "get_inputs"),
        ("def get_inputs(): pass", "missing", "Model"),
        (problem("return x", init="1 / 0"), "construct", "ZeroDivisionError"),
        (problem("return x", inputs="1 / 0"), "inputs", "ZeroDivisionError"),
        (problem("return x", inputs="7"), "inputs", "not a list"),
    ],
)
def test_reference_that_cannot_load_says_why(
    source: str, kind: str, said: str, bench: Bench
) -> None:
    error = bench.referee.ask("load", source=source, name="task.py", weight_seed=1)["error"]
    assert error["kind"] == kind
    assert said in error["message"]
    bench.referee.done("load", source=REFERENCE, name="add.py", weight_seed=11)


def test_varied_inputs_out_of_the_domain_are_skipped(bench: Bench) -> None:
    own = bench.referee
    request = {"trial": 1, "kind": "zero_mean", "seed": 3, "offset": 0}
    source = problem("return x.sqrt()", inputs="[torch.rand(64)]")
    own.done("load", source=source, name="task.py", weight_seed=1)
    assert "NaN" in own.done("prepare", **request)["skipped"]
    source = problem("return x + 1", inputs="[torch.arange(64)]")
    own.done("load", source=source, name="task.py", weight_seed=1)
    assert "no floating-point" in own.done("prepare", **request)["skipped"]
    own.done("load", source=REFERENCE, name="add.py", weight_seed=11)


def test_low_precision_fails_strictly_and_holds_loosely(start: Any) -> None:
    source = problem(
        "return x @ self.w",
        inputs="[torch.rand(64, 512)]",
        init="self.w = torch.nn.Parameter(torch.rand(512, 64))",
    )
    bench = Bench(start, source)
    candidate = source.replace("Model(", "ModelNew(").replace(
        "x @ self.w", "(x.bfloat16().float() @ self.w.bfloat16().float())"
    )
    judged = bench.judge(bench.call(bench.ready(candidate), kind="zero_mean"))
    output = judged["outputs"][0]
    assert output["ratio"] > 1000
    assert not output["elementwise_ok"]
    assert output["ratio_tf32"] > 3
    assert output["ratio_bf16"] < 1.5
    assert output["elementwise_ok_bf16"]


def test_worker_ends_with_its_socket(start: Any) -> None:
    assert start("candidate").close() == 0


def test_no_cuda_is_said_and_ends(start: Any) -> None:
    if torch.cuda.is_available():
        pytest.skip("has a CUDA device")
    worker = start("referee", "cuda")
    assert worker.hello["type"] == "failed"
    assert worker.hello["error"]["kind"] == "no_cuda"
    assert worker.process.wait(timeout=20) == 3


@pytest.mark.gpu
@gpu
@pytest.mark.parametrize("source", [CANDIDATE, AUTOTUNED], ids=["plain", "auto"])
def test_gpu_candidate_holds_in_every_trial(source: str, start: Any) -> None:
    bench = Bench(start, device="cuda")
    assert bench.referee.hello["device"]["arch"].startswith("sm_")
    report = bench.referee.done("screen", seeds=[1, 2], weight_seed2=3)
    assert (report["status"], report["oracle"]) == ("ok", "float64")
    candidate = bench.ready(source)
    for kind in ("given", "zero_mean", "rescaled"):
        call = bench.call(candidate, kind=kind)
        assert call["ok"], call
        judged = bench.judge(call)
        assert judged["outputs"][0]["elementwise_ok"]
        assert judged["inputs_changed"] == []
        assert call["on_device"]
    assert call["launches"] == {"add": 1}


@pytest.mark.gpu
@gpu
def test_gpu_compile_error_is_named(start: Any) -> None:
    bench = Bench(start, device="cuda")
    candidate = bench.ready(CANDIDATE.replace("mask = i < n", "mask = i < undefined_name"))
    error = bench.call(candidate)["error"]
    assert (error["kind"], error["phase"]) == ("triton_compile", "forward")
    assert "undefined_name" in error["message"]
    huge = "torch.empty(1 << 45, device=x.device)"
    candidate = bench.ready(CANDIDATE.replace("assert x.is_contiguous()", huge))
    assert bench.call(candidate)["error"]["kind"] == "out_of_device_memory"


@pytest.mark.gpu
@gpu
def test_gpu_calls_are_timed_and_kept(start: Any) -> None:
    bench = Bench(start, device="cuda")
    candidate = bench.ready(CANDIDATE)
    assert bench.judge(bench.call(candidate))["outputs"][0]["elementwise_ok"]
    made = bench.referee.done("time_prepare", seeds=[1, 2, 3], offset=bench.init["end"])
    candidate.done("time_prepare", sets=made["sets"])
    assert candidate.done("warm", min_ms=20, max_s=20)["calls"] >= 10
    assert bench.referee.done("warm", min_ms=20, max_s=20)["calls"] >= 10
    times = bench.referee.done("time_block", calls=10, start=0, spin=100)["ms"]
    assert len(times) == 10
    assert min(times) > 0
    reply = candidate.done("time_block", calls=10, start=1, keep=4, out_offset=0)
    # Call 4 of a block that starts at 1 takes set 2, which came from seed 3.
    bench.prepare(seed=3)
    judged = bench.referee.done("judge", trial=bench.trial, outputs=reply["kept"])
    assert judged["outputs"][0]["elementwise_ok"]
    assert "add" in candidate.done("asm")["asm"]["ptx"]
