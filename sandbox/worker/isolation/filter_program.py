"""The small programs that seccomp runs over every system call: written as bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

ALLOW = 0x7FFF_0000
_ERRNO = 0x0005_0000

_LOAD = 0x20
_IF_EQUAL = 0x15
_IF_MORE = 0x25
_IF_AT_LEAST = 0x35
_IF_ANY_BIT = 0x45
_AND = 0x54
_RETURN = 0x06

_AT_NUMBER, _AT_MACHINE, _AT_ARGUMENTS = 0, 4, 16


@dataclass(frozen=True)
class Instruction:
    """One step; `yes` and `no` are how many steps to jump over."""

    code: int
    value: int
    yes: int = 0
    no: int = 0

    def packed(self) -> bytes:
        """Eight bytes, as the kernel reads them."""
        return struct.pack("HBBI", self.code, self.yes, self.no, self.value)


Steps = list[Instruction]


def refuse(error: int) -> Instruction:
    """End: the call fails with this errno."""
    return Instruction(_RETURN, _ERRNO | error)


def allow() -> Instruction:
    """End: the call is made."""
    return Instruction(_RETURN, ALLOW)


def load_machine() -> Instruction:
    """Look at the kind of machine that the call is meant for."""
    return Instruction(_LOAD, _AT_MACHINE)


def load_number() -> Instruction:
    """Look at the call's number."""
    return Instruction(_LOAD, _AT_NUMBER)


def load_argument(index: int, upper: bool = False) -> Instruction:
    """Look at 32 bits of an argument: the lower ones, or the upper ones. Little-endian."""
    return Instruction(_LOAD, _AT_ARGUMENTS + 8 * index + (4 if upper else 0))


def mask(bits: int) -> Instruction:
    """Keep only these bits of what is looked at."""
    return Instruction(_AND, bits)


def unless_equal(value: int, *then: Instruction) -> Steps:
    """Do `then` if what is looked at is something else."""
    return [Instruction(_IF_EQUAL, value, yes=len(then)), *then]


def if_equal(value: int, *then: Instruction) -> Steps:
    """Do `then` if what is looked at is this."""
    return [Instruction(_IF_EQUAL, value, no=len(then)), *then]


def if_more(value: int, *then: Instruction) -> Steps:
    """Do `then` if what is looked at is more than this."""
    return [Instruction(_IF_MORE, value, no=len(then)), *then]


def if_at_least(value: int, *then: Instruction) -> Steps:
    """Do `then` if what is looked at is this or more."""
    return [Instruction(_IF_AT_LEAST, value, no=len(then)), *then]


def if_any_bit(bits: int, *then: Instruction) -> Steps:
    """Do `then` if what is looked at has any of these bits."""
    return [Instruction(_IF_ANY_BIT, bits, no=len(then)), *then]


def unless_one_of(values: Iterable[int], then: Instruction) -> Steps:
    """Do `then` if what is looked at is none of these."""
    wanted = list(values)
    tests = [
        Instruction(_IF_EQUAL, value, yes=len(wanted) - index) for index, value in enumerate(wanted)
    ]
    return [*tests, then]


def for_call(number: int, *steps: Instruction) -> Steps:
    """Do the steps for this call alone, then look at the number again."""
    return if_equal(number, *steps, load_number())


def assemble(steps: Iterable[Instruction]) -> bytes:
    """The whole program, as the kernel reads it."""
    return b"".join(each.packed() for each in steps)
