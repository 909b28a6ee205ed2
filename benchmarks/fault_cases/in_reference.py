"""Faults in the reference's code: in its screening, and later, in a trial."""

from __future__ import annotations

from functools import partial

from benchmarks.fault_cases.bench import Bench, aftermath, attempt, warm
from benchmarks.fault_cases.case import NEEDS_BOX, Case, Need, Outcome
from benchmarks.fault_cases.sources import HONEST, reference

_FAILED = "reference_failed/-"
_LOOP = "while True:\n    pass"


async def _inject(bench: Bench, forward: str, at_import: str, title: str) -> Outcome:
    await warm(bench.shared)
    problem = reference(forward=forward, at_import=at_import, title=title)
    zygote = bench.shared.zygote
    got, text = await attempt(bench.shared, HONEST, None, problem)
    return await aftermath(bench.shared, got, text, zygote)


def _case(
    name: str, forward: str = "", at_import: str = "", expected: str = _FAILED, needs: Need = ""
) -> Case:
    inject = partial(_inject, forward=forward, at_import=at_import, title=name)
    return Case(name, expected, inject, needs=needs)


def _later(name: str, forward: str, expected: str = _FAILED, needs: Need = "") -> Case:
    lines = "\n".join(f"    {line}" for line in forward.splitlines())
    return _case(f"reference-{name}-later", f"if is_trial():\n{lines}", "", expected, needs)


CASES = (
    _case("reference-hangs", _LOOP),
    _case("reference-hangs-in-import", at_import=_LOOP),
    _case("reference-reads-address-0", "ctypes.string_at(0)"),
    _case("reference-ends-its-process", "os._exit(0)"),
    _case("reference-kills-itself", "os.kill(os.getpid(), 9)", expected="failed/reference_died"),
    _case("reference-raises", "raise KeyError('x')"),
    _case("reference-floods-stdout", "os.write(1, b'x' * (1 << 25))", expected="pass/-"),
    _case("reference-fills-memory", "torch.ones(1 << 31)", needs=NEEDS_BOX),
    _case("reference-breaks-its-channel", "os.write(channel(), b'x' * 4096)"),
    _case("reference-lies-on-its-channel", "os.write(channel(), frame({'ok': True}))"),
    _later("hangs", _LOOP),
    _later("reads-address-0", "ctypes.string_at(0)"),
    _later("ends-its-process", "os._exit(3)"),
    _later("raises", "raise KeyError('x')"),
    _later("fills-memory", "torch.ones(1 << 31)", needs=NEEDS_BOX),
    _later("floods-stdout", "os.write(1, b'x' * (1 << 25))", expected="pass/-"),
    _later("kills-itself", "os.kill(os.getpid(), 9)", expected="failed/reference_died"),
)
