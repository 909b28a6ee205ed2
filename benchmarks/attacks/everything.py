"""Everything: all attacks, in the order in which they are shown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from benchmarks.attacks.attack import Attack
from benchmarks.attacks.gpu import GPU
from benchmarks.attacks.hoards import HOARDS
from benchmarks.attacks.kernel import KERNEL
from benchmarks.attacks.machine import MACHINE
from benchmarks.attacks.meddling import MEDDLING
from benchmarks.attacks.network import NETWORK
from benchmarks.attacks.own_end import OWN_END
from benchmarks.attacks.planting import PLANTING
from benchmarks.attacks.reading import READING
from benchmarks.attacks.signals import SIGNALS
from benchmarks.attacks.survivors import SURVIVORS
from egg_mcp.vocabulary.sandbox import PropertyName


def _breaking(what: PropertyName, attacks: Iterable[Attack]) -> Iterator[Attack]:
    """These, where they do not say themselves what they break."""
    return (replace(one, breaks=one.breaks or what) for one in attacks)


ATTACKS: tuple[Attack, ...] = (
    *_breaking("net", NETWORK),
    *_breaking("fs_read", READING),
    *_breaking("other_procs", MEDDLING),
    *_breaking("other_procs", SIGNALS),
    *_breaking("reaping", SURVIVORS),
    *_breaking("limits", HOARDS),
    *_breaking("kernel_surface", KERNEL),
    *_breaking("fs_write", MACHINE),
    *_breaking("fs_write", PLANTING),
    *OWN_END,
    *_breaking("gpu_devices", GPU),
)
