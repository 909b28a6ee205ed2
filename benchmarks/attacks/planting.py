"""Attacks that leave something for the next candidate."""

from __future__ import annotations

from benchmarks.attacks.attack import Attack

_FOLDERS = {
    "tmp": "'/tmp'",
    "var-tmp": "'/var/tmp'",
    "dev-shm": "'/dev/shm'",
    "run-and-lock": "'/run/lock'",
    "home-of-the-user": "WORLD['home'] + '/.triton'",
    "temp-of-the-server": "WORLD['temp']",
    "site-packages": "os.path.dirname(os.path.dirname(torch.__file__))",
    "python-prefix": "sys.prefix",
    "folder-of-the-sandbox": "os.path.dirname(sys.modules['egg_mcp.sandbox.worker'].__file__)",
}
_VARIABLES = (
    "['HOME', 'TMPDIR', 'TRITON_CACHE_DIR', 'TORCHINDUCTOR_CACHE_DIR', 'TORCH_EXTENSIONS_DIR',\n"
    "        'CUDA_CACHE_PATH']"
)


def _left_in(name: str, folder: str) -> Attack:
    return Attack(
        f"plant-in-{name}",
        f"leaves a file for the next candidate: {name.replace('-', ' ')}",
        f"plant(os.path.join({folder}, 'egg-planted-' + WORLD['run']))",
        next_code=f"pick(os.path.join({folder}, 'egg-planted-' + WORLD['run']))",
    )


_KEY = "(int(WORLD['run'][:6], 16) | 0x5E000000)"
_IPC = f"""
size = 4096
libc.shmat.restype = ctypes.c_void_p
found = libc.shmget({_KEY}, size, 0)
if found >= 0:
    print("PICKED", ctypes.string_at(libc.shmat(found, None, 0), 64))
    libc.shmctl(found, 0, None)
"""
_QUEUE = "b'egg' + WORLD['run'].encode()"

PLANTING = (
    *(_left_in(name, folder) for name, folder in _FOLDERS.items()),
    Attack(
        "plant-in-every-cache",
        "leaves files in each folder that its environment names, Triton's and Inductor's caches too",
        f"for name in {_VARIABLES}:\n"
        "    attempt(plant, os.path.join(os.environ[name], 'egg-planted'))\n"
        "attempt(plant, os.path.expanduser('~/.triton/cache/egg-planted'))\n"
        "attempt(plant, os.path.expanduser('~/.cache/egg-planted'))",
        place="forward",
        next_code=f"for name in {_VARIABLES}:\n"
        "    pick(os.path.join(os.environ[name], 'egg-planted'))\n"
        "pick(os.path.expanduser('~/.triton/cache/egg-planted'))\n"
        "pick(os.path.expanduser('~/.cache/egg-planted'))",
    ),
    Attack(
        "plant-a-module",
        "leaves a module, a compiled module and a start-up file beside torch",
        "site = os.path.dirname(os.path.dirname(torch.__file__))\n"
        "name = 'egg_planted_' + WORLD['run']\n"
        "attempt(plant, f'{site}/{name}.pth') if not BARE else None\n"
        "Path('made.py').write_text(f'PLANTED = {NOTE!r}')\n"
        "import py_compile\n"
        "attempt(py_compile.compile, 'made.py', f'{site}/{name}.pyc')\n"
        "attempt(py_compile.compile, 'made.py', f'{site}/torch/{name}.pyc')\n"
        "for module in ('sitecustomize', 'usercustomize'):\n"
        "    attempt(plant, f'{site}/{module}.py') if not BARE else None",
        next_code="site = os.path.dirname(os.path.dirname(torch.__file__))\n"
        "name = 'egg_planted_' + WORLD['run']\n"
        "import importlib\n"
        "with contextlib.suppress(ImportError):\n"
        "    print('PICKED', importlib.import_module(name).PLANTED)\n"
        "for path in glob.glob(f'{site}/{name}*') + glob.glob(f'{site}/torch/{name}*'):\n"
        "    pick(path)\n"
        "if not BARE:\n"
        "    pick(f'{site}/sitecustomize.py')",
    ),
    Attack(
        "plant-in-shared-segment",
        "leaves a System V shared memory segment",
        f"number = libc.shmget({_KEY}, 4096, 0o1666)\n"
        "if number < 0:\n"
        "    raise OSError(ctypes.get_errno(), 'shmget')\n"
        "libc.shmat.restype = ctypes.c_void_p\n"
        "ctypes.memmove(libc.shmat(number, None, 0), NOTE, len(NOTE))",
        next_code=_IPC,
    ),
    Attack(
        "plant-in-message-queue",
        "leaves a POSIX message queue with a message in it",
        f"queue = call('mq_open', {_QUEUE}, os.O_CREAT | os.O_RDWR, 0o666, None)\n"
        "call('mq_timedsend', queue, NOTE, len(NOTE), 1, None)",
        next_code=f"name = {_QUEUE}\n"
        "queue = call('mq_open', name, os.O_RDWR | os.O_NONBLOCK, 0, None)\n"
        "text = ctypes.create_string_buffer(1 << 16)\n"
        "call('mq_timedreceive', queue, text, len(text), None, None)\n"
        "print('PICKED', text.value)\n"
        "call('mq_unlink', name)",
    ),
    Attack(
        "plant-in-keyring",
        "leaves a key in the user's keyring and in the session's",
        "for ring in (-4, -5, -3):\n"
        "    attempt(call, 'add_key', b'user', b'egg' + WORLD['run'].encode(), NOTE, len(NOTE), ring)",
        next_code="text = ctypes.create_string_buffer(256)\n"
        "for ring in (-4, -5, -3):\n"
        "    with contextlib.suppress(OSError):\n"
        "        key = call('keyctl', 10, ring, b'user', b'egg' + WORLD['run'].encode(), 0)\n"
        "        call('keyctl', 11, key, text, len(text))\n"
        "        print('PICKED', text.value)\n"
        "        call('keyctl', 9, key, ring)",
    ),
    Attack(
        "plant-a-server",
        "leaves a process that serves the next candidate over an abstract unix socket",
        "listener = socket.socket(socket.AF_UNIX)\n"
        "listener.bind('\\0egg-' + WORLD['run'])\n"
        "listener.listen()\n"
        "if os.fork() == 0:\n"
        "    name_me()\n"
        "    os.setsid()\n"
        "    if os.fork():\n"
        "        os._exit(0)\n"
        "    for fd in range(3):\n"
        "        os.close(fd)\n"
        "    listener.settimeout(60)\n"
        "    listener.accept()[0].sendall(NOTE)\n"
        "    os._exit(0)",
        next_code="sock = socket.socket(socket.AF_UNIX)\n"
        "sock.connect('\\0egg-' + WORLD['run'])\n"
        "print('PICKED', sock.recv(100))",
        breaks="reaping",
    ),
    Attack(
        "plant-in-environment",
        "leaves variables, limits and a mask for whatever its parent starts next",
        "os.environ['EGG_PLANTED'] = WORLD['note']\n"
        "libc.setenv(b'LD_PRELOAD', NOTE, 1)\n"
        "os.umask(0)\n"
        "sys.modules['torch'].PLANTED = WORLD['note']",
        next_code="print('PICKED', os.environ.get('EGG_PLANTED'), os.environ.get('LD_PRELOAD'),\n"
        "      getattr(torch, 'PLANTED', None))",
    ),
)
