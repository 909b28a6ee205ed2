"""Attacks on other processes: their memory, descriptors, limits and scheduling."""

from __future__ import annotations

from benchmarks.attacks.attack import Attack
from benchmarks.attacks.sight import traces_victim

MEDDLING = (
    Attack(
        "ptrace",
        "attaches to processes outside as a debugger",
        "for pid in [VICTIM, *REFEREES] if BARE else others():\n"
        "    attempt(call, 'ptrace', 0x4206, pid, 0, 0)",
        place="construct",
        during=traces_victim,
    ),
    Attack(
        "process-vm-readv",
        "copies another process's environment out of its memory",
        "start, end = address_of_environment(VICTIM)\n"
        "buffer = ctypes.create_string_buffer(end - start)\n"
        "here = struct.pack('PN', ctypes.addressof(buffer), end - start)\n"
        "call('process_vm_readv', VICTIM, here, 1, struct.pack('PN', start, end - start), 1, 0)\n"
        "leak(buffer.raw, 'memory of the victim')",
    ),
    Attack(
        "process-vm-readv-of-referee",
        "copies the referee's memory at its own heap's addresses: both are forks of the zygote",
        "buffer = ctypes.create_string_buffer(64 << 20)\n"
        "for line in Path('/proc/self/maps').read_text().splitlines():\n"
        "    span, mode = line.split()[:2]\n"
        "    start, end = (int(one, 16) for one in span.split('-'))\n"
        "    if 'w' in mode and end - start <= len(buffer):\n"
        "        here = struct.pack('PN', ctypes.addressof(buffer), end - start)\n"
        "        for pid in REFEREES:\n"
        "            with contextlib.suppress(OSError):\n"
        "                there = struct.pack('PN', start, end - start)\n"
        "                count = call('process_vm_readv', pid, here, 1, there, 1, 0)\n"
        "                leak(buffer.raw[:count], f'memory of {pid}')",
        place="forward",
    ),
    Attack(
        "process-vm-writev",
        "overwrites another process's environment in its memory",
        "start, end = address_of_environment(VICTIM)\n"
        "text = ctypes.create_string_buffer(b'OVERWRITTEN')\n"
        "here = struct.pack('PN', ctypes.addressof(text), 11)\n"
        "call('process_vm_writev', VICTIM, here, 1, struct.pack('PN', start, 11), 1, 0)",
    ),
    Attack(
        "proc-mem-write",
        "overwrites another process's environment through /proc/PID/mem",
        "start, _ = address_of_environment(VICTIM)\n"
        "with open(f'/proc/{VICTIM}/mem', 'r+b', 0) as memory:\n"
        "    memory.seek(start)\n"
        "    memory.write(b'OVERWRITTEN')",
    ),
    Attack(
        "steal-descriptor",
        "takes a socket out of another process with pidfd_getfd and sends through it",
        "handle = os.pidfd_open(VICTIM)\n"
        "sock = socket.socket(fileno=call('pidfd_getfd', handle, 0, 0))\n"
        "sock.sendall(NOTE)",
    ),
    Attack(
        "steal-zygotes-socket",
        "takes the zygote's own socket and sends it orders in the server's name",
        "handle = os.pidfd_open(ZYGOTE)\n"
        "for fd in range(3, 64):\n"
        "    with contextlib.suppress(OSError):\n"
        "        mine = call('pidfd_getfd', handle, fd, 0)\n"
        "        if stat.S_ISSOCK(os.fstat(mine).st_mode):\n"
        "            os.write(mine, b'no frame' * 64)",
    ),
    Attack(
        "write-to-their-descriptors",
        "opens the descriptors of others through /proc/PID/fd and writes to them",
        "for pid in [VICTIM, *REFEREES] if BARE else others():\n"
        "    for fd in range(64):\n"
        "        with contextlib.suppress(OSError):\n"
        "            os.write(os.open(f'/proc/{pid}/fd/{fd}', os.O_WRONLY | os.O_NONBLOCK), NOTE)",
    ),
    Attack(
        "inherited-descriptors",
        "writes a frame to every descriptor from 3 to 4096 that it did not open",
        "for fd in range(3, 4096):\n"
        "    with contextlib.suppress(OSError):\n"
        "        if fd != channel():\n"
        "            os.write(fd, frame({'op': 'fork', 'id': 1, 'role': 'referee', 'env': {}}))\n"
        "    with contextlib.suppress(OSError):\n"
        "        if stat.S_ISDIR(os.fstat(fd).st_mode):\n"
        "            for file in WORLD['files']:\n"
        "                leak(os.read(os.open(file[1:], os.O_RDONLY, dir_fd=fd), 4096), file)",
        place="forward",
    ),
    Attack(
        "prlimit",
        "lowers the limits of other processes",
        "for pid in [VICTIM, *REFEREES] if BARE else others():\n"
        "    attempt(resource.prlimit, pid, resource.RLIMIT_NOFILE, (3, 3))\n"
        "    attempt(resource.prlimit, pid, resource.RLIMIT_FSIZE, (0, 0))",
    ),
    Attack(
        "scheduling",
        "changes priority, processors and scheduler of other processes",
        "for pid in [VICTIM] if BARE else others():\n"
        "    attempt(os.sched_setaffinity, pid, {0})\n"
        "    attempt(os.setpriority, os.PRIO_PROCESS, pid, 19)\n"
        "    attempt(os.sched_setscheduler, pid, os.SCHED_IDLE, os.sched_param(0))",
    ),
    Attack(
        "nice-of-the-user",
        "changes the priority of all that its user and its group run, so of the referee",
        "attempt(os.setpriority, os.PRIO_USER, os.getuid(), 19)\n"
        "attempt(os.setpriority, os.PRIO_USER, 0, 19)\n"
        "attempt(os.setpriority, os.PRIO_PGRP, 0, 19)\n"
        "attempt(call, 'ioprio_set', 3, os.getuid(), 0x6000)",
        bare=False,
    ),
    Attack(
        "switches-of-others",
        "writes names, out-of-memory scores and dump filters of other processes in /proc",
        "for pid in [VICTIM, *REFEREES] if BARE else [*others(), os.getppid()]:\n"
        "    for name, text in (('comm', 'hit'), ('oom_score_adj', '900'),\n"
        "                       ('coredump_filter', '0x7f')):\n"
        "        attempt(Path(f'/proc/{pid}/{name}').write_text, text)",
    ),
)
