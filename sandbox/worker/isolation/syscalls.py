"""System calls by name, on x86_64 and aarch64."""

from __future__ import annotations

import ctypes
import os
import platform

_libc = ctypes.CDLL(None, use_errno=True)

_COLUMNS = {"x86_64": 0, "aarch64": 1, "arm64": 1}
_ABSENT = -1

# name: (x86_64, aarch64). From asm/unistd_64.h and asm-generic/unistd.h of the kernel.
NUMBERS: dict[str, tuple[int, int]] = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "statmount": (457, 457),
    "listmount": (458, 458),
    "unshare": (272, 97),
    "setns": (308, 268),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "userfaultfd": (323, 282),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    "openat2": (437, 437),
    "acct": (163, 89),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "syslog": (103, 116),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "vhangup": (153, 58),
    "nfsservctl": (180, 42),
    "lookup_dcookie": (212, 18),
    "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263),
    "migrate_pages": (256, 238),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "shmdt": (67, 197),
    "semget": (64, 190),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "mq_timedsend": (242, 182),
    "mq_timedreceive": (243, 183),
    "mq_notify": (244, 184),
    "mq_getsetattr": (245, 185),
    "iopl": (172, -1),
    "ioperm": (173, -1),
    "modify_ldt": (154, -1),
    "uselib": (134, -1),
    "ustat": (136, -1),
    "sysfs": (139, -1),
    "_sysctl": (156, -1),
    "lsm_get_self_attr": (459, 459),
    "lsm_set_self_attr": (460, 460),
    "lsm_list_modules": (461, 461),
    "clone": (56, 220),
    "clone3": (435, 435),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "connect": (42, 203),
    "sendto": (44, 206),
    "ioctl": (16, 29),
    "open": (2, -1),
    "creat": (85, -1),
    "openat": (257, 56),
    "mkdir": (83, -1),
    "mkdirat": (258, 34),
    "mknod": (133, -1),
    "mknodat": (259, 33),
    "chmod": (90, -1),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "personality": (135, 92),
    "prlimit64": (302, 261),
    "setpriority": (141, 140),
    "seccomp": (317, 277),
    "prctl": (157, 167),
    "capget": (125, 90),
    "capset": (126, 91),
    "landlock_create_ruleset": (444, 444),
    "landlock_add_rule": (445, 445),
    "landlock_restrict_self": (446, 446),
    "close_range": (436, 436),
    "sendmmsg": (307, 269),
    "kill": (62, 129),
    "tgkill": (234, 131),
    "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424),
    "bind": (49, 200),
    "listen": (50, 201),
}


def machine() -> str:
    """`x86_64` or `aarch64`; another name where the numbers are not known."""
    name = platform.machine()
    return "aarch64" if name == "arm64" else name


def number(name: str) -> int | None:
    """The call's number here; None where this machine has no such call.

    Raises:
        OSError: ENOSYS, the machine is of a kind whose numbers are not known.
    """
    column = _COLUMNS.get(platform.machine())
    if column is None:
        raise OSError(38, f"no system call numbers for {platform.machine()}")
    found = NUMBERS[name][column]
    return None if found == _ABSENT else found


def call(name: str, *arguments: object) -> int:
    """Make the call; integers, bytes, None and ctypes pointers pass as they are.

    Raises:
        OSError: it failed, or this machine has no such call.
    """
    which = number(name)
    if which is None:
        raise OSError(38, f"{name}: no such call on this machine")
    ready = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    answer = int(_libc.syscall(ctypes.c_long(which), *ready))
    if answer < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{name}: {os.strerror(error)}")
    return answer


def prctl(option: int, *arguments: int) -> int:
    """`prctl(2)` with zeros for what is not given.

    Raises:
        OSError: it failed.
    """
    return call("prctl", option, *arguments, *[0] * (4 - len(arguments)))
