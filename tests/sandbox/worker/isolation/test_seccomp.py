"""The filter by itself: its numbers, and the ways around it."""

from __future__ import annotations

import errno
import platform
import re
from pathlib import Path

import pytest

from egg_mcp.sandbox.worker.isolation import filter_program, syscalls
from tests.sandbox.worker.isolation.opening import Opener, Route, route_named

HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
FILTERED = Route("seccomp-alone", False, frozenset({"seccomp"}))

only_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="a way of x86_64 alone")


@pytest.mark.parametrize(("machine", "column"), [("x86_64", 0), ("aarch64", 1)])
def test_numbers_are_the_kernels(machine: str, column: int) -> None:
    header = HEADERS[machine]
    if not header.is_file():
        pytest.skip(f"{header} is not installed")
    found = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", header.read_text(encoding="utf-8"))
    known = {name: int(number) for name, number in reversed(found)}
    ours = {name: numbers[column] for name, numbers in syscalls.NUMBERS.items()}
    wrong = {name for name, number in ours.items() if name in known and known[name] != number}
    assert wrong == set()
    newer = {name for name in ours if ours[name] != -1 and name not in known}
    assert all(ours[name] > 450 for name in newer), newer


@only_x86
def test_calls_of_the_32_bit_kind_are_refused(opener: Opener) -> None:
    opened = opener.open(
        FILTERED,
        """
# mov eax, 20 (getpid); int 0x80; ret
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(bytes.fromhex("b814000000cd80c3"))
address = ctypes.addressof(ctypes.c_char.from_buffer(page))
say(ctypes.CFUNCTYPE(ctypes.c_int)(address)())
""",
    )
    assert opened.said == [-1]


@only_x86
def test_calls_by_x32_numbers_are_refused(opener: Opener) -> None:
    work = """
libc = ctypes.CDLL(None, use_errno=True)
say([libc.syscall(0x40000000 + 39), ctypes.get_errno()])
"""
    assert opener.open(FILTERED, work).said == [[-1, 1]]


def test_calls_newer_than_the_filter_do_not_exist(opener: Opener) -> None:
    work = """
libc = ctypes.CDLL(None, use_errno=True)
say([libc.syscall(467, -1, None, 0, None, 0), ctypes.get_errno()])
"""
    assert opener.open(FILTERED, work).said == [[-1, errno.ENOSYS]]


def test_upper_half_of_an_argument_hides_nothing(opener: Opener) -> None:
    work = """
libc = ctypes.CDLL(None, use_errno=True)
sock = ctypes.c_long((1 << 32) | socket.AF_INET)
say([libc.syscall(syscalls.number("socket"), sock, 1, 0), ctypes.get_errno()])
request = ctypes.c_ulong((1 << 32) | 0x5412)
say([libc.syscall(syscalls.number("ioctl"), 1, request, b"x"), ctypes.get_errno()])
"""
    assert opener.open(FILTERED, work).said == [[-1, 1], [-1, 1]]


def test_filter_holds_for_what_is_started(opener: Opener, boxed: Route) -> None:
    work = """
child = os.fork()
if child == 0:
    try:
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        os._exit(1)
    except PermissionError:
        os._exit(0)
say(os.waitpid(child, 0)[1])
say(subprocess.run(["/bin/sh", "-c", "echo started"], capture_output=True, text=True).stdout)
"""
    assert opener.open(boxed, work).said == [0, "started\n"]


def test_what_cuda_and_python_need_is_allowed(opener: Opener, boxed: Route) -> None:
    opened = opener.open(
        boxed,
        """
os.close(os.memfd_create("x"))
say("memfd")
for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
    with socket.socket(socket.AF_UNIX, kind) as sock:
        sock.bind("\\0box-test-" + str(os.getpid()) + str(int(kind)))
        sock.listen(1)
say("listening")
ends = socket.socketpair()
ends[0].send(b"x")
say(ends[1].recv(1).decode())
say(os.path.exists(f"/proc/self/task/{os.getpid()}/comm"))
with open(f"/proc/self/task/{os.getpid()}/comm", "w") as file:
    file.write("named")
say(open("/proc/self/comm").read())
thread = threading.Thread(target=lambda: say("thread"))
thread.start()
thread.join()
""",
    )
    assert opened.said == ["memfd", "listening", "x", True, "named\n", "thread"]


@pytest.mark.parametrize("name", ["root-shared", "user-shared"])
def test_where_the_network_is_shared_no_datagram_leaves(opener: Opener, name: str) -> None:
    work = """
for make in (
    lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM),
    lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM),
    lambda: socket.socketpair()[0].sendto(b"x", "/dev/log"),
):
    try:
        make()
        say("made")
    except OSError as error:
        say(error.errno)
"""
    assert opener.open(route_named(name), work).said == [1, 1, 1]


def test_steps_after_a_test_are_skipped_by_count() -> None:
    end = filter_program.refuse(1)
    assert [each.no for each in filter_program.if_equal(7, end, end)] == [2, 0, 0]
    assert [each.yes for each in filter_program.unless_one_of([1, 2], end)] == [2, 1, 0]
    assert len(filter_program.assemble([end, filter_program.allow()])) == 16
