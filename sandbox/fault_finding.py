"""FaultFinding: from how a candidate's process failed to the Fault it is."""

from __future__ import annotations

import signal

from egg_mcp.errors import ProtocolError, WorkerDied, WorkerTimedOut
from egg_mcp.sandbox.worker_process import UserCodeError
from egg_mcp.vocabulary.fault import Fault

_BY_KIND = {
    "exit": Fault.ENDED_ITSELF,
    "device_fault": Fault.DEVICE_FAULT,
    "out_of_device_memory": Fault.OUT_OF_DEVICE_MEMORY,
    "out_of_host_memory": Fault.OUT_OF_HOST_MEMORY,
    "disk_full": Fault.DISK_FULL,
    "too_many_processes": Fault.TOO_MANY_PROCESSES,
    "too_many_files": Fault.TOO_MANY_FILES,
    "too_many_launches": Fault.TOO_MANY_LAUNCHES,
}
_BY_SIGNAL = {
    signal.SIGXCPU: Fault.OVER_CPU_TIME,
    signal.SIGKILL: Fault.KILLED,
}


def fault_of_error(error: UserCodeError) -> Fault:
    """What the worker, which lives, says has happened."""
    return _BY_KIND.get(error.kind, Fault.RAISED)


def fault_of_end(error: WorkerTimedOut | WorkerDied | ProtocolError) -> Fault:
    """What the end of the process shows."""
    if isinstance(error, ProtocolError):
        return Fault.BROKE_THE_CHANNEL
    if error.reason:
        return Fault(error.reason)
    if isinstance(error, WorkerTimedOut):
        return Fault.HANG_ON_HOST
    code = error.exit_code or 0
    if code >= 0:
        return Fault.ENDED_ITSELF
    return _BY_SIGNAL.get(signal.Signals(-code), Fault.ENDED_BY_SIGNAL)
