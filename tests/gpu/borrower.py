"""Maps device memory that came as a descriptor, writes into it, and ends as it is told to."""

# pyright: reportUnknownMemberType=false
from __future__ import annotations

import os
import signal
import sys

import torch

from egg_mcp.sandbox.worker import device_memory
from egg_mcp.sandbox.worker.op_error import OpError


def main(descriptor: int, size_bytes: int, end: str) -> None:
    """Say what the first byte is, write sevens, end."""
    try:
        device_memory.adopt(descriptor, 2 * size_bytes)
    except OpError as error:
        print(error.kind)  # noqa: T201
    memory = device_memory.adopt(descriptor, size_bytes)
    first = torch.empty(1, dtype=torch.uint8, device="cuda")
    memory.read(0, first)
    print(int(first.item()), flush=True)  # noqa: T201
    memory.write(0, torch.full((size_bytes,), 7, dtype=torch.uint8, device="cuda"))
    torch.cuda.synchronize()
    if end == "fault":
        # An index far outside: an assertion on the device, which the context does not survive.
        torch.zeros(4, device="cuda")[torch.tensor([1 << 30], device="cuda")].tolist()
    if end == "kill":
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
