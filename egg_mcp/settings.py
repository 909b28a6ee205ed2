"""Settings: every EGG_* variable and flag, in one frozen model."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from platformdirs import user_state_path
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from egg_mcp.errors import RequestError

LOCAL_PRINCIPAL = "local"
"""Who a stdio or token-less loopback caller is: whoever may start the server."""


SandboxMode = Literal["auto", "strict", "off"]


class Settings(BaseModel):
    """What a server was started with. Field names in capitals after EGG_ are the variables."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        allow_inf_nan=False,  # every wait has a bound
    )

    state_dir: Path = Field(default_factory=lambda: user_state_path("egg-mcp"))
    """Folder of the state file; made when missing."""
    workspace: Path = Field(default_factory=Path.cwd)
    """Folder that `reference_file`, `kernel_file` and `output_file` must lie in."""
    worker_python: Path = Field(default_factory=lambda: Path(sys.executable))
    """Python that runs references and candidates; needs torch and triton, nothing of ours."""
    device: Literal["auto", "cuda", "emulated"] = "auto"
    """`auto`: a GPU when the worker's torch sees one, else the Triton interpreter."""
    transport: Literal["stdio", "http"] = "stdio"
    """How clients reach this server. Over HTTP no file of this machine is read or written."""
    max_source_bytes: int = Field(default=1_000_000, ge=1_000)
    """A reference or kernel of more UTF-8 bytes than this is refused."""
    start_deadline_s: float = Field(default=120.0, gt=0)
    """A worker that is not ready by then is given up (an infra error)."""
    build_deadline_s: float = Field(default=120.0, gt=0)
    """Import and construct; past it the candidate has timed out."""
    first_call_deadline_s: float = Field(default=180.0, gt=0)
    """First forward, with its compiles; past it the candidate has timed out."""
    trial_deadline_s: float = Field(default=60.0, gt=0)
    """Every further forward; past it the candidate has timed out."""
    timing_deadline_s: float = Field(default=120.0, gt=0)
    """Each block of timed calls; past it the candidate has timed out."""
    referee_deadline_s: float = Field(default=300.0, gt=0)
    """Each step of the reference; past it the reference has failed."""
    sandbox: SandboxMode = "auto"
    """`auto`: the best box that can be had, none: refuse. `strict`: every property or refuse.
    `off`: a plain process; over stdio only, and said in every verdict."""
    max_host_memory_bytes: int | None = Field(default=None, ge=1 << 28)
    """Heap of each process of a worker; past it allocations fail (the candidate has crashed).
    None: three quarters of the machine's memory."""
    least_free_memory_bytes: int | None = Field(default=None, ge=0)
    """While a worker is asked something and the machine has less than this free, it is ended
    (crashed): shared memory that no limit of a process caps. None: 3 % of the memory."""
    max_cpu_s: int = Field(default=1_800, ge=1)
    """CPU time of each process of a worker; past it the kernel ends it (crashed)."""
    max_processes: int = Field(default=4_096, ge=64)
    """Processes and threads of a worker together; past it no more start (crashed)."""
    max_open_files: int = Field(default=4_096, ge=64)
    """Descriptors of each process; past it `open` fails (crashed)."""
    max_file_bytes: int = Field(default=64 << 30, ge=1 << 20)
    """One file, outputs in shared memory included; past it writing fails (crashed)."""
    max_disk_bytes: int = Field(default=4 << 30, ge=1 << 20)
    """All that a worker's private `/tmp` holds, caches included; past it writing fails."""
    max_shared_memory_bytes: int = Field(default=1 << 30, ge=1 << 20)
    """All that a worker's private `/dev/shm` holds; past it writing fails."""
    max_launches: int = Field(default=100_000, ge=1)
    """Triton kernels that one forward may launch; past it the candidate has crashed."""
    gpu_memory_share: float = Field(default=0.9, gt=0, le=1)
    """Share of the GPU's memory that a candidate's torch may take; past it torch raises."""
    max_output_bytes: int = Field(default=65_536, ge=1_024)
    """Of what a worker prints, this much is kept: the first quarter and the end."""
    referee_idle_s: float = Field(default=300.0, gt=0)
    """A reference process not used for so long is ended."""

    @property
    def state_file(self) -> Path:
        """Where the SQLite file is."""
        return self.state_dir / "egg.sqlite3"


def settings_from(environment: Mapping[str, str], **flags: object) -> Settings:
    """The settings of one start: flags beat variables, variables beat defaults.

    The workspace falls back to the project folder that the client names
    (`CLAUDE_PROJECT_DIR`), then to the current folder.

    Args:
        environment: usually `os.environ`.
        flags: values by field name; None means not given.

    Raises:
        RequestError: a value out of range; the message names variable and field.

    >>> settings_from({"EGG_DEVICE": "emulated"}).device
    'emulated'
    >>> settings_from({"EGG_DEVICE": "emulated"}, device="cuda").device
    'cuda'
    """
    values: dict[str, object] = {}
    if project := environment.get("CLAUDE_PROJECT_DIR"):
        values["workspace"] = project
    for name in Settings.model_fields:
        if (value := environment.get(f"EGG_{name.upper()}")) not in (None, ""):
            values[name] = value
    values.update({name: value for name, value in flags.items() if value is not None})
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        raise RequestError(
            f"{name!r} (EGG_{name.upper()} or --{name.replace('_', '-')}) is "
            f"{first['input']!r}: {first['msg']}"
        ) from error
    if settings.sandbox == "off" and settings.transport == "http":
        raise RequestError(
            "sandbox 'off' (EGG_SANDBOX or --sandbox) is for stdio only: over HTTP others may send "
            "code. Use 'auto' or 'strict'; `egg-mcp doctor` says what works here"
        )
    return settings.model_copy(
        update={
            "state_dir": settings.state_dir.expanduser().absolute(),
            "workspace": settings.workspace.expanduser().resolve(),
            # Not resolved: a virtual environment's python is a link that must stay one.
            "worker_python": Path(os.path.abspath(settings.worker_python.expanduser())),  # noqa: PTH100
        }
    )
