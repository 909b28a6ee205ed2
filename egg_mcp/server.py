"""build_server: puts settings, state, executor, tools, resources and prompts together."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager

import anyio
import uvicorn
from mcp.server import CacheHint, MCPServer
from mcp.server.subscriptions import InMemorySubscriptionBus, ResourceUpdated
from mcp.server.transport_security import TransportSecuritySettings

from egg_mcp import __version__
from egg_mcp.completions import Completions
from egg_mcp.errors import RequestError
from egg_mcp.executor import Executor, LocalExecutor
from egg_mcp.guard import guard
from egg_mcp.prompts import register_prompts
from egg_mcp.resources import register_resources
from egg_mcp.sandbox import live_groups
from egg_mcp.service import Egg
from egg_mcp.settings import Settings
from egg_mcp.stdio_transport import serve_stdio
from egg_mcp.tools import register_tools

INSTRUCTIONS = """\
EGG MCP makes a PyTorch module faster with GPU kernels that are proven right. You write the kernels
(Triton); the server judges, times, remembers and advises.

Order: design_algorithm (opens a session from a reference in KernelBench form: class Model,
get_inputs, get_init_inputs) -> tune_parallel_mapping -> tune_tiling -> optimize_memory ->
verify_and_benchmark -> export_kernel. In each stage call the tool first with session_id alone: it
returns a brief with what is decided, what was tried and which guidelines fit. Then hand in kernels
(class ModelNew) with parent and rationale.

Every result names next_step, the exact next call: do it. status "running" means: call get_job.
session_id is all that is needed to go on later, from any client. Only a correct and measurably
faster candidate becomes champion; without a GPU nothing is timed and the newest correct one leads,
verdicts are emulated_pass at best and no speed is given: never report a speedup then."""

ExecutorFactory = Callable[[Settings], AbstractAsyncContextManager[Executor]]

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def build_server(
    settings: Settings,
    make_executor: ExecutorFactory = LocalExecutor,
    *,
    handle_signals: bool = False,
) -> MCPServer[Egg]:
    """The server, ready to be run over any transport.

    Args:
        settings: what it was started with.
        make_executor: what runs code; tests put a fake here.
        handle_signals: whether SIGTERM and SIGINT end this process and all its workers at once.
    """
    bus = InMemorySubscriptionBus()
    running: list[Egg] = []

    async def publish(uri: str) -> None:
        await bus.publish(ResourceUpdated(uri=uri))

    @contextlib.asynccontextmanager
    async def lifespan(_: MCPServer[Egg]) -> AsyncGenerator[Egg]:
        if handle_signals:
            _end_on_signals()
        # A print left in the buffer would reach the wire at exit.
        with contextlib.redirect_stdout(sys.stderr):
            async with (
                make_executor(settings) as executor,
                Egg.open(settings, executor, publish) as egg,
            ):
                running[:] = [egg]
                yield egg

    server = MCPServer[Egg](
        "egg-mcp",
        title="EGG: expert-guided GPU kernels",
        version=__version__,
        instructions=INSTRUCTIONS,
        lifespan=lifespan,
        middleware=[guard],
        subscriptions=bus,
        log_level="WARNING",
        cache_hints={"tools/list": CacheHint(ttl_ms=60_000, scope="public")},
    )
    register_tools(server)
    register_resources(server, lambda: running[0])
    register_prompts(server)
    server.completion()(Completions(lambda: running[0]).complete)
    return server


def run_stdio(settings: Settings) -> None:
    """Serve one client over standard input and output."""
    try:
        anyio.run(serve_stdio, build_server(settings, handle_signals=True))
    finally:
        # What is printed at exit must not follow the protocol's last line.
        with contextlib.suppress(OSError):
            os.dup2(2, 1)


def run_http(settings: Settings, host: str, port: int) -> None:
    """Serve clients over streamable HTTP at http://HOST:PORT/mcp, on this machine only.

    Raises:
        RequestError: a host that others could reach: this server runs code.
    """
    if host not in _LOOPBACK:
        raise RequestError(
            f"--host {host} would let other machines run code here; only {', '.join(_LOOPBACK)} "
            "are served. For a remote GPU use `ssh HOST egg-mcp` as the client's command, or an "
            "SSH tunnel to the loopback port."
        )
    server = build_server(settings, handle_signals=True)
    app = server.streamable_http_app(
        host=host,
        transport_security=TransportSecuritySettings(
            enable_dns_rebinding_protection=True,
            allowed_hosts=[f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")],
            allowed_origins=[
                f"http://{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")
            ],
        ),
    )
    uvicorn.run(app, host=host, port=port, log_level="warning")


def _end_on_signals() -> None:
    """SIGTERM and SIGINT kill every worker and end the process.

    At once and without unwinding: an orderly end would wait for a client that may never close
    standard input. The state needs no farewell; its jobs come back as interrupted.
    """

    def end(signal_number: int) -> None:
        live_groups.kill_all()
        os._exit(128 + signal_number)

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end, int(number))
