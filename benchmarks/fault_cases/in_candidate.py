"""Faults in a candidate's own code: hangs, ends, signals, exceptions, and what it prints."""

from __future__ import annotations

from functools import partial

from benchmarks.fault_cases.bench import Bench
from benchmarks.fault_cases.case import Case, Outcome
from benchmarks.fault_cases.sources import candidate

_LOOP = "while True:\n    pass"
_SLEEP_IN_C = "ctypes.CDLL(None).sleep(1000)"
_LOCK = "lock = threading.Lock()\nlock.acquire()\nlock.acquire()"
_CHILD = "subprocess.run(['sleep', '1000'])"
_BLOCKED = (
    "for one in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:\n"
    "    try:\n"
    "        signal.signal(one, signal.SIG_IGN)\n"
    "    except (OSError, ValueError):\n"
    "        pass\n"
    "signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())\n"
    f"{_LOOP}"
)
_HANG = "timed_out/hang_on_host"
_IN_THREAD = "one = threading.Thread(target=fail)\none.start()\none.join()"
_HOSTILE = (
    "class Hostile(Exception):\n"
    "    def __str__(self):\n"
    "        raise SystemExit(0)\n"
    "    __repr__ = __str__\n"
)
_MESSAGE = "class Long(Exception):\n    pass\n"
_BUS = (
    "file = open('short', 'w+b')\n"
    "file.truncate(8192)\n"
    "pages = mmap.mmap(file.fileno(), 8192)\n"
    "file.truncate(0)\n"
    "pages[4096]"
)


async def inject(bench: Bench, source: str) -> Outcome:
    """Have the shared executor judge that source."""
    return await bench.observe(bench.shared, source)


def _case(name: str, expected: str, source: str, says: str = "") -> Case:
    return Case(name, expected, partial(inject, source=source), says)


def _kill(which: str) -> str:
    return f"os.kill(os.getpid(), signal.{which})"


HANGS = (
    _case("hang-in-import", _HANG, candidate(at_import=_LOOP), "build took longer"),
    _case("hang-in-constructor", _HANG, candidate(construct=_LOOP), "build took longer"),
    _case("hang-in-first-call", _HANG, candidate(forward=_LOOP), "first_call took longer"),
    _case(
        "hang-in-a-later-trial",
        _HANG,
        candidate(forward="while self.calls > 1:\n    pass"),
        "trial took longer",
    ),
    _case("sleep-in-c", _HANG, candidate(forward=_SLEEP_IN_C)),
    _case("lock-taken-twice", _HANG, candidate(forward=_LOCK)),
    _case("wait-for-a-child", _HANG, candidate(forward=_CHILD)),
    _case("hang-with-all-signals-blocked", _HANG, candidate(forward=_BLOCKED)),
    _case("stops-itself", "timed_out/stopped_itself", candidate(forward=f"{_kill('SIGSTOP')}")),
)

ENDS = (
    *(
        _case(f"ends-with-{code}", "crashed/ended_itself", candidate(forward=f"os._exit({code})"))
        for code in (0, 1, 139)
    ),
    _case("ends-in-import", "crashed/ended_itself", candidate(at_import="os._exit(0)")),
    _case("ends-in-constructor", "crashed/ended_itself", candidate(construct="os._exit(3)")),
    _case("sys-exit", "crashed/ended_itself", candidate(forward="sys.exit(0)")),
    _case("sys-exit-in-import", "build_failed/ended_itself", candidate(at_import="sys.exit(0)")),
    _case("reads-address-0", "crashed/ended_by_signal", candidate(forward="ctypes.string_at(0)")),
    _case("aborts", "crashed/ended_by_signal", candidate(forward="os.abort()"), "SIGABRT"),
    _case("bus-error", "crashed/ended_by_signal", candidate(forward=_BUS), "SIGBUS"),
    *(
        _case(
            f"sends-itself-{which.lower()}",
            "crashed/ended_by_signal",
            candidate(forward=_kill(which)),
            which,
        )
        for which in ("SIGSEGV", "SIGFPE", "SIGILL", "SIGTERM")
    ),
    _case("kills-itself", "crashed/killed", candidate(forward=_kill("SIGKILL"))),
    _case(
        "recursion-in-c",
        "crashed/ended_by_signal",
        candidate(
            at_import="class Deep:\n    def __getattr__(self, name):\n"
            "        return getattr(self, name + 'x')",
            forward="sys.setrecursionlimit(10**9)\nthreading.stack_size(1 << 16)\n"
            "one = threading.Thread(target=lambda: [(f := lambda n: sorted([n], key=f))(0)])\n"
            "one.start()\none.join()",
        ),
    ),
)

EXCEPTIONS = (
    _case("raises", "crashed/raised", candidate(forward="raise KeyError('x')"), "KeyError"),
    _case("raises-in-import", "build_failed/raised", candidate(at_import="1 / 0")),
    _case("raises-in-constructor", "build_failed/raised", candidate(construct="1 / 0")),
    _case("deep-recursion", "crashed/raised", candidate(forward="self.forward(a, b)")),
    _case(
        "exception-that-cannot-be-printed",
        "crashed/raised",
        candidate(at_import=_HOSTILE, forward="raise Hostile()"),
        "Hostile",
    ),
    _case(
        "message-of-a-hundred-megabytes",
        "crashed/raised",
        candidate(at_import=_MESSAGE, forward="raise Long('x' * 100_000_000)"),
    ),
    _case(
        "exception-in-a-thread",
        "pass/-",
        candidate(at_import="def fail():\n    raise KeyError('x')", forward=_IN_THREAD),
    ),
    _case(
        "exit-in-a-thread",
        "pass/-",
        candidate(at_import="def fail():\n    raise SystemExit(1)", forward=_IN_THREAD),
    ),
    _case(
        "hard-exit-in-a-thread",
        "crashed/ended_itself",
        candidate(at_import="def fail():\n    os._exit(0)", forward=_IN_THREAD),
    ),
)

PRINTING = (
    *(
        _case(
            f"floods-{name}", "pass/-", candidate(forward=f"os.write({number}, b'x' * (1 << 25))")
        )
        for number, name in ((1, "stdout"), (2, "stderr"))
    ),
    _case(
        "floods-for-ever",
        _HANG,
        candidate(forward="while True:\n    os.write(1, b'x' * 65536)"),
    ),
    _case("closes-its-output", "pass/-", candidate(construct="os.close(1)\nos.close(2)")),
    _case(
        "leaves-a-child",
        "pass/-",
        candidate(forward="subprocess.Popen(['sleep', '1000'], start_new_session=True)"),
    ),
)

CASES = (*HANGS, *ENDS, *EXCEPTIONS, *PRINTING)
