"""Attacks with the candidate's own end and its own channel: it must stay a result, and a true one."""

from __future__ import annotations

from benchmarks.attacks.aftermath import (
    has_handed_over_files,
    has_swelled_server,
    others_were_blamed,
    was_believed,
    was_not_blamed,
)
from benchmarks.attacks.attack import Attack

_WRONG = "torch.zeros_like(a)"

OWN_END = (
    Attack(
        "exit-in-forward",
        "ends its process without a word",
        "os._exit(0)",
        place="forward",
        after=was_not_blamed,
    ),
    Attack(
        "segfault",
        "reads address 0",
        "ctypes.string_at(0)",
        place="construct",
        after=was_not_blamed,
    ),
    Attack(
        "stop-itself",
        "stops its own process, group and session with SIGSTOP",
        "os.kill(0, signal.SIGSTOP)",
        place="forward",
        after=was_not_blamed,
    ),
    Attack(
        "close-the-channel",
        "closes every descriptor and waits for ever",
        "os.closerange(0, 4096)\nsignal.pause()",
        place="forward",
        after=was_not_blamed,
    ),
    Attack(
        "forge-replies",
        "is wrong, and answers the server's requests ahead with a verdict of its own",
        "for reply in ({'ok': True, 'passed': True, 'error_ratio': 0.0, 'mismatches': []},\n"
        "              {'ok': True, 'verdict': 'pass', 'outputs': {'t': 'tuple', 'v': []}}):\n"
        "    os.write(channel(), frame(reply))",
        place="forward",
        after=was_believed,
        result=_WRONG,
    ),
    Attack(
        "write-the-inbox",
        "is wrong, and makes the inputs fit: it opens the read-only inbox again for writing",
        "def clear_inbox():\n"
        "    for fd in range(3, 64):\n"
        "        with contextlib.suppress(OSError):\n"
        "            again = os.open(f'/proc/self/fd/{fd}', os.O_RDWR)\n"
        "            os.pwrite(again, bytes(os.fstat(again).st_size), 0)\n"
        "            os.close(again)\n"
        "globals()['clear_inbox'] = clear_inbox",
        after=was_believed,
        result=f"clear_inbox() or {_WRONG}",
    ),
    Attack(
        "replace-the-judges-functions",
        "is wrong, and replaces comparison, hashing and frames in its own process",
        "torch.allclose = torch.equal = lambda *a, **k: True\n"
        "for name, module in list(sys.modules.items()):\n"
        "    if name.startswith('egg_mcp'):\n"
        "        for thing in list(vars(module)):\n"
        "            if 'compare' in thing or 'judge' in thing or 'shares' in thing:\n"
        "                setattr(module, thing, lambda *a, **k: False)",
        after=was_believed,
        result=_WRONG,
    ),
    Attack(
        "deeply-nested-reply",
        "sends JSON that is nested a million deep, and numbers of a million digits",
        "os.write(channel(), frame(b'{\"a\":' + b'[' * 1000000 + b']' * 1000000 + b'}'))\n"
        "os.write(channel(), frame(b'{\"a\":' + b'9' * 1000000 + b'}'))",
        after=was_not_blamed,
    ),
    Attack(
        "endless-reply",
        "announces a frame of four gigabytes and sends what fits",
        "sock = socket.socket(fileno=os.dup(channel()))\n"
        "sock.setblocking(False)\n"
        "sock.send(struct.pack('>4sI', b'EGG1', 0xFFFFFFFF))\n"
        "for _ in range(4096):\n"
        "    attempt(sock.send, bytes(1 << 20)) if _ < 8 else None",
        after=lambda left: was_not_blamed(left) or has_swelled_server(left),
    ),
    Attack(
        "odd-values-in-reply",
        "answers with lone surrogates, infinities and shapes of negative or endless size",
        "for shape in ([-1, 64], [1 << 62, 1 << 62], [64] * 10000, 'x', {'a': 1}):\n"
        "    tree = {'t': 'tensor', 'dtype': 'float32', 'shape': shape, 'stride': [1],\n"
        "            'offset': -8, 'nbytes': 1 << 62}\n"
        "    os.write(channel(), frame({'ok': True, 'outputs': tree, 'inputs_after': tree,\n"
        "        'call_ms': 1e308, 'launches': {'\\ud800': 1}, 'operators': {'x': -1}}))",
        place="forward",
        after=lambda left: was_believed(left) or others_were_blamed(left),
        result=_WRONG,
    ),
    Attack(
        "hand-over-descriptors",
        "sends the server as many descriptors as a message can hold, over and over",
        "sock = socket.socket(fileno=os.dup(channel()))\n"
        "mine = [os.memfd_create(LABEL) for _ in range(100)]\n"
        "body = frame({'type': 'note', 'at': 'device'})\n"
        "for at in range(len(body)):\n"
        "    attempt(socket.send_fds, sock, [body[at : at + 1]], mine)",
        place="construct",
        after=has_handed_over_files,
    ),
    Attack(
        "hold-on-to-the-lease",
        "locks every file that it can open, the server's lock files among them",
        "for path in glob.glob(WORLD['temp'] + '/egg-mcp-locks-*/*') + WORLD['precious']:\n"
        "    with contextlib.suppress(OSError):\n"
        "        HELD.append(os.open(path, os.O_RDONLY))\n"
        "        fcntl.flock(HELD[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "        print('locked', path)",
        place="forward",
    ),
)
