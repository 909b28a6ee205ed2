"""Attacks that outlive their candidate."""

from __future__ import annotations

from benchmarks.attacks.attack import Attack

_DAEMON = """
if os.fork() == 0:
    os.setsid()
    libc.prctl(1, 0, 0, 0, 0)
    if os.fork():
        os._exit(0)
{before}
    pause_for_ever()
"""
_REOPEN = """
    null = os.open("/dev/null", os.O_RDWR)
    for fd in range(4096):
        with contextlib.suppress(OSError):
            if fd != null:
                os.close(fd)
    os.closerange(0, null)
"""
_DEAF = """
    for one in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        with contextlib.suppress(OSError, ValueError):
            signal.signal(one, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
    os.setpgid(0, 0) if os.getsid(0) != os.getpid() else None
"""

SURVIVORS = (
    Attack(
        "daemon",
        "forks twice into a session of its own",
        _DAEMON.format(before=""),
    ),
    Attack(
        "daemon-without-descriptors",
        "the same, with every descriptor closed, so that no pipe tells that it lives",
        _DAEMON.format(before=_REOPEN),
        place="construct",
    ),
    Attack(
        "deaf-daemon",
        "the same, with every signal ignored and blocked",
        _DAEMON.format(before=_DEAF),
        place="forward",
    ),
    Attack(
        "program-as-daemon",
        "starts a shell by vfork in a new session, with an empty environment",
        "subprocess.Popen(['/bin/sh', '-c', 'sleep 600; :', LABEL], stdin=subprocess.DEVNULL,\n"
        "    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={}, start_new_session=True)",
    ),
    Attack(
        "sibling",
        "forks a child of its parent instead of its own (CLONE_PARENT)",
        "if call('clone', 0x8000 | signal.SIGCHLD, 0, 0, 0, 0) == 0:\n"
        "    os.setsid()\n"
        "    pause_for_ever()",
    ),
    Attack(
        "unsignalled-child",
        "forks a child whose end sends no signal, in a session of its own",
        "if call('clone', 0, 0, 0, 0, 0) == 0:\n    os.setsid()\n    pause_for_ever()",
    ),
    Attack(
        "daemons-from-many-generations",
        "leaves a daemon at every depth of a long chain of forks",
        "first = os.getpid()\n"
        "for _ in range(12):\n"
        "    if os.fork():\n"
        "        if os.getpid() != first:\n"
        "            pause_for_ever()\n"
        "        break\n"
        "    os.setsid()\n"
        "else:\n"
        "    pause_for_ever()",
    ),
    Attack(
        "late-thread",
        "leaves a thread that goes on after forward has returned, and forks then",
        "def later():\n"
        "    time.sleep(0.01)\n"
        "    if os.fork() == 0:\n"
        "        os.setsid()\n"
        "        pause_for_ever()\n"
        "threading.Thread(target=later, daemon=True).start()",
        place="forward",
    ),
    Attack(
        "daemon-and-exit",
        "leaves a daemon and ends its own process at once",
        _DAEMON.format(before=_REOPEN) + "\nos._exit(0)",
    ),
    Attack(
        "daemon-and-segfault",
        "leaves a daemon and crashes",
        _DAEMON.format(before=_DEAF) + "\nctypes.string_at(0)",
        place="forward",
    ),
    Attack(
        "running-daemon",
        "forks and ends over and over, so that no signal finds it",
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    name_me()\n"
        "    until = time.monotonic() + 60\n"
        "    while time.monotonic() < until:\n"
        "        if os.fork():\n"
        "            os._exit(0)",
        bare=False,
    ),
)
