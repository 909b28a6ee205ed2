"""What a box sees of the host's files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from egg_mcp.sandbox.worker.isolation.view import Entry, entries_of, trace
from tests.sandbox.worker.isolation.opening import Opener, Route, route_named

BOXED_AT_HOME = ["root", "user"]


@pytest.fixture
def tree(open_folder: Path) -> Path:
    """A project with a library, a state folder and links in it."""
    project = open_folder / "project"
    for name in ("library/inner", "state/deep", "state/python"):
        (project / name).mkdir(parents=True)
    for name in ("library/module", "library/inner/module", "state/secret", "state/python/module"):
        (project / name).write_bytes(name.encode())
    (project / "current").symlink_to("library")
    (project / "absolute").symlink_to(project / "library")
    (project / "secret-file").write_bytes(b"secret")
    for path in (project, *project.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755)
    return project


def see(opener: Opener, route: Route, tree: Path, names: list[str], **changes: Any) -> list[Any]:
    """What is at each name: a listing, a text, or the error."""
    work = f"""
for name in {names!r}:
    path = {str(tree)!r} + "/" + name
    try:
        say(sorted(os.listdir(path)) if os.path.isdir(path) else open(path).read())
    except OSError as error:
        say(errno.errorcode[error.errno])
"""
    opened = opener.open(route, work, changes=changes)
    assert opened.failed == ""
    return opened.said


@pytest.mark.parametrize("name", BOXED_AT_HOME)
def test_only_what_is_read_only_is_there(opener: Opener, tree: Path, name: str) -> None:
    names = ["library", "library/module", "state", "state/secret", ".", ".."]
    seen = see(opener, route_named(name), tree, names, read_only=(str(tree / "library"),))
    assert seen == [
        ["inner", "module"],
        "library/module",
        "ENOENT",
        "ENOENT",
        ["library"],
        ["project"],
    ]


@pytest.mark.parametrize("name", BOXED_AT_HOME)
def test_hidden_folder_and_file_are_empty(opener: Opener, tree: Path, name: str) -> None:
    names = ["library/module", "state", "state/secret", "secret-file"]
    seen = see(
        opener,
        route_named(name),
        tree,
        names,
        read_only=(str(tree),),
        hidden=(str(tree / "state"), str(tree / "secret-file")),
    )
    assert seen == ["library/module", [], "ENOENT", ""]


@pytest.mark.parametrize("name", ["root-shared", "user-shared"])
def test_hidden_is_refused_where_the_root_is_shared(opener: Opener, tree: Path, name: str) -> None:
    names = ["library/module", "library/inner", "state", "state/secret", "secret-file"]
    seen = see(
        opener,
        route_named(name),
        tree,
        names,
        read_only=(str(tree),),
        hidden=(str(tree / "state"), str(tree / "secret-file")),
    )
    assert seen == ["library/module", ["module"], "EACCES", "EACCES", "EACCES"]


@pytest.mark.parametrize("name", BOXED_AT_HOME)
def test_read_only_inside_hidden_is_seen_and_its_neighbours_are_not(
    opener: Opener, tree: Path, name: str
) -> None:
    seen = see(
        opener,
        route_named(name),
        tree,
        ["state", "state/python/module", "state/secret"],
        read_only=(str(tree), str(tree / "state/python")),
        hidden=(str(tree / "state"),),
    )
    assert seen == [["python"], "state/python/module", "ENOENT"]


@pytest.mark.parametrize("name", BOXED_AT_HOME)
@pytest.mark.parametrize("link", ["current", "absolute"])
def test_links_on_the_way_are_kept(opener: Opener, tree: Path, name: str, link: str) -> None:
    seen = see(
        opener,
        route_named(name),
        tree,
        [f"{link}/inner/module", "library/inner/module", "library"],
        read_only=(str(tree / link / "inner"),),
    )
    assert seen == ["library/inner/module", "library/inner/module", ["inner"]]


@pytest.mark.parametrize("name", BOXED_AT_HOME)
def test_what_is_shown_cannot_be_written_even_by_its_owner(
    opener: Opener, tree: Path, name: str
) -> None:
    route = route_named(name)
    layers = route.layers - {"landlock", "uid"}
    work = f"""
for path in ({str(tree)!r} + "/library/module", "/new", "/etc/new", "/usr/new", "/dev/new"):
    try:
        open(path, "w")
        say(path)
    except OSError as error:
        say(errno.errorcode[error.errno])
"""
    (tree / "library/module").chmod(0o666)
    opened = opener.open(
        route, work, changes={"read_only": (str(tree / "library"),), "layers": layers}
    )
    assert opened.said == ["EROFS"] * 5


@pytest.mark.parametrize(
    "path", ["/proc/sys/kernel/core_pattern", "/proc/sys/vm/overcommit_memory"]
)
def test_kernel_switches_are_read_only_for_root_without_other_layers(
    opener: Opener, path: str
) -> None:
    work = f"""
try:
    os.open({path!r}, os.O_WRONLY)
    say("opened")
except OSError as error:
    say(errno.errorcode[error.errno])
"""
    route = Route("namespaces-alone", True, frozenset({"namespaces"}))
    assert opener.open(route, work).said == ["EROFS"]


def test_links_at_the_root_of_the_host_are_links_in_the_box(opener: Opener) -> None:
    links = {path.name: str(path.readlink()) for path in Path("/").iterdir() if path.is_symlink()}
    wanted = {name: links[name] for name in ("bin", "sbin", "lib", "lib64") if name in links}
    work = f"say({{name: os.readlink('/' + name) for name in {sorted(wanted)!r}}})"
    assert opener.open(route_named("user"), work).said == [wanted]


def test_nothing_else_is_at_the_root_of_a_box(opener: Opener) -> None:
    opened = opener.open(route_named("user"), "say(sorted(os.listdir('/')))")
    known = {"bin", "dev", "etc", "gnu", "lib", "lib32", "lib64", "libx32", "nix", "proc", "run"}
    assert set(opened.said[0]) <= known | {"sbin", "sys", "tmp", "usr"}
    opened = opener.open(route_named("user"), "say(open('/etc/passwd').read())")
    assert "root:x:0:0" in opened.said[0]
    assert len(opened.said[0].splitlines()) == 2


def test_trace_follows_links_as_the_system_does(tree: Path) -> None:
    (tree / "up").symlink_to("state/../current/inner")
    real = str(tree / "library/inner/module")
    for name in ("up/module", "current/inner/module", "absolute/inner/module"):
        found = trace(str(tree / name))
        assert found is not None
        assert found.path == str(Path(tree / name).resolve()) == real
    assert trace(str(tree / "nothing/there")) is None
    assert trace(str(tree / "library/module/below-a-file")) is None


def test_trace_gives_up_on_a_circle(tree: Path) -> None:
    (tree / "circle").symlink_to("circle")
    with pytest.raises(OSError, match="too many symbolic links"):
        trace(str(tree / "circle"))


def test_what_lies_in_what_is_shown_is_not_shown_twice(opener: Opener, tree: Path) -> None:
    plan = opener.plan(
        route_named("user"),
        read_only=(str(tree / "library/inner"), str(tree / "library"), str(tree / "nothing")),
        hidden=(str(tree / "state"),),
    )
    below = [each for each in entries_of(plan) if each.path.startswith(str(tree))]
    assert below == [Entry(str(tree / "library"), "show")]
