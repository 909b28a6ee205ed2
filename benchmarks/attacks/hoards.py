"""Attacks that take more than the limits allow. None is run without a box."""

from __future__ import annotations

from functools import partial

from benchmarks.attacks.aftermath import has_swelled_server, others_were_blamed, was_kept_whole
from benchmarks.attacks.attack import Attack
from benchmarks.attacks.belongings import (
    descriptors_over,
    files_over,
    folder_over,
    has_raised_limits,
    is_spared_when_memory_ends,
    memory_over,
    one_process_over,
    processes_over,
)

_hoard = partial(Attack, bare=False)

_FILL = """
block = os.urandom(1 << 20)
most = LIMITS["{limit}"] * 3 >> 20
size = max(1, (LIMITS["file_bytes"] >> 20) - 1)
for number in range(most // size + 1):
    HELD.append(os.open(f"{path}/fill{{number}}", os.O_CREAT | os.O_RDWR))
    for _ in range(size):
        os.write(HELD[-1], block)
"""
_SPREAD = """
def hold_much():
    block = mmap.mmap(-1, {each}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for at in range(0, {each}, 4096):
        block[at] = 1
    os.write(done, b"x")
    pause_for_ever()

ready, done = os.pipe()
for _ in range({count}):
    if os.fork() == 0:
        attempt(hold_much)
        os._exit(1)
for _ in range({count}):
    os.read(ready, 1)
"""

HOARDS = (
    _hoard(
        "fork-bomb",
        "forks twice as many children as it may have processes",
        "for _ in range(2 * LIMITS['processes']):\n    attempt(child, signal.pause)",
        during=processes_over,
    ),
    _hoard(
        "fork-tree",
        "has every child fork again, for some generations",
        "first = os.getpid()\n"
        "for _ in range(9):\n"
        "    attempt(os.fork)\n"
        "if os.getpid() != first:\n"
        "    pause_for_ever()",
        during=processes_over,
    ),
    _hoard(
        "thread-bomb",
        "starts twice as many threads as it may have",
        "threading.stack_size(65536)\n"
        "for _ in range(2 * LIMITS['processes']):\n"
        "    if attempt(threading.Thread(target=signal.pause, daemon=True).start):\n"
        "        break",
        during=processes_over,
    ),
    _hoard(
        "starve-the-referee",
        "takes every process that its user may have while the reference computes",
        "for _ in range(2 * LIMITS['processes']):\n"
        "    attempt(threading.Thread(target=signal.pause, daemon=True).start)\n"
        "    attempt(os.pipe)\n"
        "    libc.inotify_init()",
        place="forward",
        after=others_were_blamed,
    ),
    _hoard(
        "fill-tmp",
        "writes three times its disk limit into /tmp, in many files",
        _FILL.format(limit="disk_bytes", path="/tmp"),  # noqa: S108 - the box's own
        during=folder_over("/tmp", "disk_bytes"),  # noqa: S108 - the box's own
    ),
    _hoard(
        "fill-dev-shm",
        "writes three times its limit into /dev/shm, in many files",
        _FILL.format(limit="shared_memory_bytes", path="/dev/shm"),  # noqa: S108 - the box's own
        during=folder_over("/dev/shm", "shared_memory_bytes"),  # noqa: S108 - the box's own
    ),
    _hoard(
        "fill-every-folder",
        "writes wherever a file can be made: /, /dev, /etc, /proc, /sys, /usr, /run, /var",
        "for folder in ('/', '/dev', '/etc', '/usr', '/run', '/var', '/sys', '/proc', '/root',\n"
        "               '/home', '/mnt', sys.prefix, *glob.glob('/*')):\n"
        "    with contextlib.suppress(OSError):\n"
        "        descriptor = os.open(f'{folder}/{LABEL}', os.O_CREAT | os.O_RDWR)\n"
        "        os.write(descriptor, b'x' * (LIMITS['file_bytes'] // 2))\n"
        "        HELD.append(descriptor)",
        during=folder_over("/dev", "shared_memory_bytes"),
    ),
    _hoard(
        "one-large-file",
        "makes a sparse file, a long file and a memfd of four times the largest size",
        "for make in (lambda: os.open('large', os.O_CREAT | os.O_RDWR),\n"
        "             lambda: os.memfd_create(LABEL),\n"
        "             lambda: os.open('/tmp', os.O_TMPFILE | os.O_RDWR)):\n"
        "    HELD.append(make())\n"
        "    attempt(os.ftruncate, HELD[-1], LIMITS['file_bytes'] * 4)\n"
        "    attempt(os.posix_fallocate, HELD[-1], 0, LIMITS['file_bytes'] * 4)\n"
        "    attempt(os.pwrite, HELD[-1], b'x', LIMITS['file_bytes'] * 4)\n"
        "    attempt(os.pwrite, HELD[-1], bytes(LIMITS['file_bytes'] * 2), 0)",
        during=files_over("file_bytes"),
    ),
    _hoard(
        "many-files",
        "makes empty files until there are no more inodes",
        "for number in range(150_000):\n"
        "    os.close(os.open(f'/tmp/f{number}', os.O_CREAT | os.O_WRONLY))",
        during=folder_over("/tmp", "disk_bytes"),  # noqa: S108 - the box's own
    ),
    _hoard(
        "many-descriptors",
        "opens four times as many descriptors as it may",
        "for _ in range(4 * LIMITS['open_files']):\n"
        "    HELD.append(os.open('/dev/null', os.O_RDONLY))",
        during=descriptors_over,
    ),
    _hoard(
        "heap",
        "maps twice the memory that its process may have, in one piece and in small ones",
        "HELD.append(attempt(mmap.mmap, -1, 2 * LIMITS['host_memory_bytes'],\n"
        "    mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))\n"
        "for _ in range(2 * LIMITS['host_memory_bytes'] >> 26):\n"
        "    HELD.append(mmap.mmap(-1, 1 << 26, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))",
        during=one_process_over("VmData", "host_memory_bytes"),
    ),
    _hoard(
        "heap-in-many-processes",
        "has children that each stay below the limit, and together take 4 GiB",
        _SPREAD.format(each=512 << 20, count=8),
        during=memory_over("RssAnon", "watched_bytes"),
        place="construct",
        needs="6 GiB of free memory",
        watched=True,
    ),
    _hoard(
        "memfd-hoard",
        "fills memfds, each below the file limit, with 4 GiB in all",
        "block = bytes(1 << 20)\n"
        "size = LIMITS['file_bytes']\n"
        "for _ in range((4 << 30) // size):\n"
        "    fd = os.memfd_create(LABEL)\n"
        "    os.ftruncate(fd, size)\n"
        "    for at in range(0, size, 1 << 20):\n"
        "        os.pwrite(fd, block, at)\n"
        "    HELD.append(mmap.mmap(fd, size))\n"
        "    os.close(fd)\n"
        "for one in HELD:\n"
        "    sum(one[at] for at in range(0, len(one), 4096))",
        during=memory_over("RssShmem", "watched_bytes"),
        needs="6 GiB of free memory",
        watched=True,
    ),
    _hoard(
        "shared-anonymous-memory",
        "maps shared memory, which no limit of a process counts, and fills 4 GiB of it",
        "block = bytes(1 << 20)\n"
        "for _ in range(16):\n"
        "    HELD.append(mmap.mmap(-1, 256 << 20))\n"
        "    for at in range(0, 256 << 20, 1 << 20):\n"
        "        HELD[-1][at : at + (1 << 20)] = block",
        during=memory_over("RssShmem", "watched_bytes"),
        needs="6 GiB of free memory",
        watched=True,
    ),
    Attack(
        "flood-of-output",
        "prints 256 MiB to standard output and error",
        "block = (LABEL * 100000).encode()[: 1 << 20]\n"
        "for _ in range(128):\n"
        "    os.write(1, block)\n"
        "    os.write(2, block)",
        after=lambda left: was_kept_whole(left) or has_swelled_server(left),
    ),
    Attack(
        "raise-own-limits",
        "raises its own limits again, hard ones included",
        "for which in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE):\n"
        "    attempt(resource.setrlimit, which, (1 << 24, 1 << 24))\n"
        "    attempt(resource.setrlimit, which, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))\n"
        "    attempt(resource.prlimit, 0, which, (1 << 24, 1 << 24))",
        during=has_raised_limits,
    ),
    Attack(
        "be-killed-last",
        "asks the kernel to spare it when the machine has no memory left",
        "for pid in ('self', os.getpid()):\n"
        "    for score in (-1000, -1, 0, 500):\n"
        "        attempt(Path(f'/proc/{pid}/oom_score_adj').write_text, str(score))",
        during=is_spared_when_memory_ends,
        known="a score that was raised without CAP_SYS_RESOURCE may be lowered again to 0; the "
        "kernel then ends the largest process, and not this one first",
    ),
)
