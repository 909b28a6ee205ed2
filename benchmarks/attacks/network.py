"""Attacks over the network and over sockets of this machine."""

from __future__ import annotations

from benchmarks.attacks.attack import Attack
from benchmarks.attacks.sight import answers_on_port, holds_socket

_CONNECT = """
sock = socket.socket({family}, socket.SOCK_STREAM)
sock.settimeout(2)
sock.connect({address})
sock.sendall(NOTE)
"""


def _connecting(family: str, address: str) -> str:
    return _CONNECT.format(family=family, address=address)


NETWORK = (
    Attack(
        "tcp-to-loopback",
        "connects to a TCP port of this machine on 127.0.0.1",
        _connecting("socket.AF_INET", '("127.0.0.1", WORLD["tcp"])'),
    ),
    Attack(
        "tcp-to-other-address",
        "connects to the same port by the machine's own outer address",
        _connecting("socket.AF_INET", '(WORLD["address"], WORLD["tcp"])'),
        place="construct",
        needs="another address",
    ),
    Attack(
        "tcp-over-ipv6",
        "connects to a TCP port on ::1",
        _connecting("socket.AF_INET6", '("::1", WORLD["tcp6"])'),
    ),
    Attack(
        "tcp-in-forward",
        "connects from a thread while forward runs, in a process of its own",
        "pid = child(lambda: socket.create_connection(('127.0.0.1', WORLD['tcp']), 2))\n"
        "os.waitpid(pid, os.WNOHANG)\n"
        "one = threading.Thread(\n"
        "    target=attempt, args=(socket.create_connection, ('127.0.0.1', WORLD['tcp']), 2))\n"
        "one.start()\n"
        "one.join()",
        place="forward",
    ),
    Attack(
        "tcp-listen",
        "binds a TCP port on all addresses and listens",
        "HELD.append(socket.create_server(('0.0.0.0', WORLD['free_port'])))",
        during=answers_on_port,
    ),
    Attack(
        "udp",
        "sends a datagram to 127.0.0.1, and what it knows to a name server",
        "sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "sock.sendto(NOTE, ('127.0.0.1', WORLD['udp']))",
    ),
    Attack(
        "raw-udp",
        "writes a UDP packet by hand into a raw IP socket",
        "sock = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP)\n"
        "head = struct.pack('!HHHH', 9, WORLD['udp'], 8 + len(NOTE), 0)\n"
        "sock.sendto(head + NOTE, ('127.0.0.1', 0))",
    ),
    Attack(
        "packet-socket",
        "opens a socket that sees every packet",
        "HELD.append(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3))",
        during=holds_socket,
    ),
    Attack(
        "netlink",
        "opens netlink sockets, which configure the network",
        "for kind in (0, 4, 9, 15, 16):\n"
        "    attempt(lambda: HELD.append(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, kind)))",
        during=holds_socket,
    ),
    Attack(
        "vsock",
        "connects to the machine over VM sockets, by both of its numbers",
        "for machine in (1, 2):\n"
        "    sock = socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)\n"
        "    sock.settimeout(1)\n"
        "    HELD.append(sock)\n"
        "    attempt(sock.connect, (machine, WORLD['vsock'] or 1))",
        during=holds_socket,
    ),
    Attack(
        "every-family",
        "opens a socket of every family and kind that there is",
        "for family in range(2, 46):\n"
        "    for kind in (1, 2, 3, 4, 5, 6):\n"
        "        with contextlib.suppress(OSError):\n"
        "            HELD.append(socket.socket(family, kind))",
        during=holds_socket,
    ),
    Attack(
        "unix-path",
        "connects to a unix socket outside by its path, and by ways around the path",
        "for root in ('', '/proc/1/root', '/proc/self/root', f'/proc/{SERVER}/root'):\n"
        "    sock = socket.socket(socket.AF_UNIX)\n"
        "    attempt(sock.connect, root + WORLD['path'])",
    ),
    Attack(
        "unix-abstract",
        "connects to an abstract unix socket outside",
        "sock = socket.socket(socket.AF_UNIX)\nsock.connect(WORLD['abstract'])",
    ),
    Attack(
        "descriptors-over-unix",
        "sends its descriptors to an abstract datagram socket outside",
        "sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
        "handed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [os.memfd_create(LABEL)]))]\n"
        "sock.sendmsg([NOTE], handed, 0, WORLD['datagram'])",
    ),
)
