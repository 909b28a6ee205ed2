"""Fault: how a piece of work came to an early end, whose doing it was, and what to do next."""

from __future__ import annotations

from enum import StrEnum


class Fault(StrEnum):
    """One word for each way to end early. The first group is the candidate's own doing."""

    RAISED = "raised"
    HANG_ON_HOST = "hang_on_host"
    HANG_ON_DEVICE = "hang_on_device"
    STOPPED_ITSELF = "stopped_itself"
    ENDED_BY_SIGNAL = "ended_by_signal"
    ENDED_ITSELF = "ended_itself"
    KILLED = "killed"
    DEVICE_FAULT = "device_fault"
    OUT_OF_DEVICE_MEMORY = "out_of_device_memory"
    OUT_OF_HOST_MEMORY = "out_of_host_memory"
    OVER_CPU_TIME = "over_cpu_time"
    DISK_FULL = "disk_full"
    TOO_MANY_PROCESSES = "too_many_processes"
    TOO_MANY_FILES = "too_many_files"
    TOO_MANY_LAUNCHES = "too_many_launches"
    BROKE_THE_CHANNEL = "broke_the_channel"

    WORKER_UNAVAILABLE = "worker_unavailable"
    SANDBOX_REFUSED = "sandbox_refused"
    ZYGOTE_DIED = "zygote_died"
    REFERENCE_DIED = "reference_died"
    DEVICE_SICK = "device_sick"
    SERVER_DIED = "server_died"
    CANCELLED = "cancelled"
    MACHINE = "machine"

    @property
    def is_candidates(self) -> bool:
        """Whether the candidate is to blame."""
        return self in _CANDIDATES

    @property
    def next_step(self) -> str:
        """What the one who handed in the work should do.

        >>> Fault.SERVER_DIED.next_step
        'Make the same call again: it starts over.'
        """
        return _NEXT_STEPS[self]


_AGAIN = "Make the same call again: it starts over."
_DOCTOR = "Run `egg-mcp doctor`: it says what is wrong and the command that mends it."

_NEXT_STEPS = {
    Fault.RAISED: "Mend what the exception names.",
    Fault.HANG_ON_HOST: "Look for a Python loop, a lock or a wait that does not end.",
    Fault.HANG_ON_DEVICE: "Look for a loop in a kernel whose exit no program reaches, or a wait "
    "between programs that are not all resident.",
    Fault.STOPPED_ITSELF: "Do not send signals to your own process.",
    Fault.ENDED_BY_SIGNAL: "Look for an access outside a tensor on the host: a raw pointer, ctypes, "
    "an extension.",
    Fault.ENDED_ITSELF: "Return a result from forward; do not end the process.",
    Fault.KILLED: "It was killed in two runs, and not by this server: check for signals it sends "
    "itself, and the machine's log for the kernel's out-of-memory killer.",
    Fault.DEVICE_FAULT: "Look for an address outside a tensor: a missing mask, an int32 offset that "
    "overflows, a wrong stride.",
    Fault.OUT_OF_DEVICE_MEMORY: "Allocate less on the GPU: reuse buffers, work in pieces. The limit "
    "is EGG_GPU_MEMORY_SHARE.",
    Fault.OUT_OF_HOST_MEMORY: "Allocate less on the host. The limit is EGG_MAX_HOST_MEMORY_BYTES.",
    Fault.OVER_CPU_TIME: "Do less work on the host. The limit is EGG_MAX_CPU_S.",
    Fault.DISK_FULL: "Write less: the limits are EGG_MAX_DISK_BYTES, EGG_MAX_FILE_BYTES and "
    "EGG_MAX_SHARED_MEMORY_BYTES.",
    Fault.TOO_MANY_PROCESSES: "Start fewer processes and threads. The limit is EGG_MAX_PROCESSES.",
    Fault.TOO_MANY_FILES: "Close what you open. The limit is EGG_MAX_OPEN_FILES.",
    Fault.TOO_MANY_LAUNCHES: "Launch fewer kernels in one forward: put the loop into the kernel. "
    "The limit is EGG_MAX_LAUNCHES.",
    Fault.BROKE_THE_CHANNEL: "Do not touch descriptors that your code has not opened.",
    Fault.WORKER_UNAVAILABLE: _DOCTOR,
    Fault.SANDBOX_REFUSED: _DOCTOR,
    Fault.ZYGOTE_DIED: _AGAIN,
    Fault.REFERENCE_DIED: _AGAIN,
    Fault.DEVICE_SICK: "The GPU does not compute a known sum. Look at nvidia-smi and the kernel's "
    "log for Xid errors; the next call tries it again.",
    Fault.SERVER_DIED: _AGAIN,
    Fault.CANCELLED: _AGAIN,
    Fault.MACHINE: _AGAIN,
}

_CANDIDATES = frozenset(list(Fault)[: list(Fault).index(Fault.WORKER_UNAVAILABLE)])
