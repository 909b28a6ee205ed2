"""Segment: device memory that another process can map too, through the CUDA driver.

Standard library only. The driver's virtual-memory calls, not its IPC handles: a segment is an
allocation of its own, so nothing else of this process's memory lies in it, and it goes to one
other process as a descriptor.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from typing import Any

from egg_mcp.sandbox.worker.op_error import OpError

_PINNED = 1
_ON_DEVICE = 1
_AS_DESCRIPTOR = 1
_READ_WRITE = 3
_DEVICE = 0
"""A worker's only device."""


class _Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class _Flags(ctypes.Structure):
    _fields_ = (
        ("compression", ctypes.c_ubyte),
        ("rdma", ctypes.c_ubyte),
        ("usage", ctypes.c_ushort),
        ("reserved", ctypes.c_ubyte * 4),
    )


class _Properties(ctypes.Structure):
    """CUmemAllocationProp."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", _Location),
        ("win32", ctypes.c_void_p),
        ("flags", _Flags),
    )


class _Access(ctypes.Structure):
    """CUmemAccessDesc."""

    _fields_ = (("location", _Location), ("flags", ctypes.c_int))


class Segment:
    """A mapping of one segment in this process; the memory lives as long as any process's does.

    Attributes:
        address: where it begins, on the device.
        size_bytes: how long it is.
    """

    def __init__(self, driver: Driver, address: int, size_bytes: int) -> None:
        self._driver = driver
        self._is_open = True
        self.address = address
        self.size_bytes = size_bytes

    def close(self) -> None:
        """Take the mapping away; nothing may be running on it. May be called again.

        Raises:
            OpError: `no_segment`: the driver refuses, after a fault on the device, say.
        """
        if self._is_open:
            self._is_open = False
            self._driver.unmap(self.address, self.size_bytes)


class Driver:
    """The driver's calls that segments need."""

    def __init__(self, library: str = "libcuda.so.1") -> None:
        try:
            self._library: Any = ctypes.CDLL(library)
        except OSError as error:
            raise OpError("no_segment", f"{library}: {error}") from None

    def create(self, size_bytes: int) -> tuple[Segment, int]:
        """New memory of at least that size, mapped here, and a descriptor to hand over.

        Raises:
            OpError: `no_segment`: no memory, or a driver or device that cannot share any.
        """
        wanted = _Properties(
            type=_PINNED, handle_types=_AS_DESCRIPTOR, location=_Location(_ON_DEVICE, _DEVICE)
        )
        grain = ctypes.c_size_t()
        self._call("cuMemGetAllocationGranularity", _at(grain), _at(wanted), 0)
        size_bytes = -(-max(size_bytes, 1) // grain.value) * grain.value
        handle = ctypes.c_uint64()
        size = ctypes.c_size_t(size_bytes)
        self._call("cuMemCreate", _at(handle), size, _at(wanted), ctypes.c_ulonglong(0))
        descriptor = ctypes.c_int(-1)
        try:
            self._call(
                "cuMemExportToShareableHandle",
                _at(descriptor),
                handle,
                _AS_DESCRIPTOR,
                ctypes.c_ulonglong(0),
            )
            os.set_inheritable(descriptor.value, False)
            return self._mapped(handle, size_bytes), descriptor.value
        except OpError:
            if descriptor.value >= 0:
                os.close(descriptor.value)
            raise
        finally:
            # The mapping and the descriptor hold the memory from here on.
            self._call("cuMemRelease", handle)

    def adopt(self, descriptor: int, size_bytes: int) -> Segment:
        """Map memory that another process made; the descriptor stays the caller's.

        Args:
            descriptor: as from `create` there.
            size_bytes: the other's `size_bytes`; more than there is cannot be mapped.

        Raises:
            OpError: `no_segment`.
        """
        handle = ctypes.c_uint64()
        self._call(
            "cuMemImportFromShareableHandle",
            _at(handle),
            ctypes.c_void_p(descriptor),
            _AS_DESCRIPTOR,
        )
        try:
            return self._mapped(handle, size_bytes)
        finally:
            self._call("cuMemRelease", handle)

    def unmap(self, address: int, size_bytes: int) -> None:
        """Give a mapping and its addresses back.

        Raises:
            OpError: `no_segment`.
        """
        where, size = ctypes.c_uint64(address), ctypes.c_size_t(size_bytes)
        self._call("cuMemUnmap", where, size)
        self._call("cuMemAddressFree", where, size)

    def _mapped(self, handle: ctypes.c_uint64, size_bytes: int) -> Segment:
        where, size, none = ctypes.c_uint64(), ctypes.c_size_t(size_bytes), ctypes.c_ulonglong(0)
        nowhere = ctypes.c_uint64(0)
        self._call("cuMemAddressReserve", _at(where), size, ctypes.c_size_t(0), nowhere, none)
        try:
            self._call("cuMemMap", where, size, ctypes.c_size_t(0), handle, none)
        except OpError:
            self._call("cuMemAddressFree", where, size)
            raise
        access = _Access(_Location(_ON_DEVICE, _DEVICE), _READ_WRITE)
        try:
            self._call("cuMemSetAccess", where, size, _at(access), ctypes.c_size_t(1))
        except OpError:
            with contextlib.suppress(OpError):
                self.unmap(where.value, size_bytes)
            raise
        return Segment(self, where.value, size_bytes)

    def _call(self, name: str, *arguments: Any) -> None:
        try:
            code = getattr(self._library, name)(*arguments)
        except AttributeError:
            raise OpError("no_segment", f"the driver has no {name}") from None
        if code:
            raise OpError("no_segment", f"{name} gave error {code}")


def _at(value: Any) -> Any:
    return ctypes.byref(value)
