"""Attacks by signals."""

from __future__ import annotations

from benchmarks.attacks.attack import Attack

_TARGETS = {"victim": "[VICTIM]", "zygote": "[ZYGOTE]", "referee": "REFEREES"}
_KINDS = ("KILL", "TERM", "STOP")
_MORE = ", in a box also to every process in sight"


def _signalling(target: str, kind: str) -> Attack:
    more = "" if target == "victim" else " + ([] if BARE else others())"
    return Attack(
        f"{kind.lower()}-{target}",
        f"sends SIG{kind} to the {target}{'' if target == 'victim' else _MORE}",
        f"for pid in {_TARGETS[target]}{more}:\n    attempt(os.kill, pid, signal.SIG{kind})",
        place="construct" if target == "referee" else "import",
    )


SIGNALS = (
    *(
        _signalling(target, kind)
        for target in _TARGETS
        for kind in _KINDS
        if (target, kind) not in (("zygote", "TERM"), ("referee", "TERM"))
    ),
    Attack(
        "signal-server",
        "sends the server a signal by every call there is for that",
        "attempt(os.kill, SERVER, signal.SIGUSR1)\n"
        "attempt(call, 'tgkill', SERVER, SERVER, signal.SIGUSR1)\n"
        "attempt(lambda: signal.pidfd_send_signal(os.pidfd_open(SERVER), signal.SIGUSR1))\n"
        "attempt(libc.sigqueue, SERVER, int(signal.SIGUSR1), None)",
    ),
    Attack(
        "signal-through-descriptor",
        "makes a process outside the owner of its socket, whose traffic then signals it",
        "ours, theirs = socket.socketpair()\n"
        "HELD.extend((ours, theirs))\n"
        "for pid in [VICTIM] if BARE else others():\n"
        "    attempt(fcntl.fcntl, ours, fcntl.F_SETOWN, pid)\n"
        "    attempt(fcntl.fcntl, ours, fcntl.F_SETSIG, signal.SIGKILL)\n"
        "    fcntl.fcntl(ours, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)\n"
        "    theirs.send(b'x')\n"
        "    ours.recv(1)",
    ),
    Attack(
        "killpg-victim",
        "kills the victim's process group",
        "os.killpg(VICTIM, signal.SIGKILL)",
    ),
    Attack(
        "killpg-of-the-server",
        "kills the process groups of server, zygote and parent",
        "for pid in (0, SERVER, ZYGOTE, os.getppid()):\n"
        "    with contextlib.suppress(OSError):\n"
        "        group = os.getpgid(pid)\n"
        "        if group not in (0, 1, os.getpgrp()):\n"
        "            os.killpg(group, signal.SIGKILL)\n"
        "    if pid > 1:\n"
        "        attempt(os.killpg, pid, signal.SIGKILL)",
        bare=False,
    ),
    Attack(
        "kill-all",
        "kills every process that it may, with kill(-1)",
        "os.kill(-1, signal.SIGTERM)\nos.kill(-1, signal.SIGSTOP)\nos.kill(-1, signal.SIGKILL)",
        bare=False,
    ),
    Attack(
        "stop-keeper",
        "stops and ends its own parent, the keeper of the box",
        "for kind in (signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):\n"
        "    attempt(os.kill, os.getppid(), kind)\n"
        "    attempt(os.kill, 1, kind) if not BARE else None",
        bare=False,
    ),
)
