from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.desk import REFERENCE, Era, in_both_eras, kernel, open_desk

pytestmark = pytest.mark.anyio


@in_both_eras
async def test_module_starts_with_the_facts_and_ends_with_model(era: Era, tmp_path: Path) -> None:
    async with open_desk(tmp_path, era) as desk:
        session_id = await desk.open()
        await desk.submit(session_id, kernel(1.5))
        quick = await desk.call("export_kernel", session_id=session_id)
        assert "quick rigor only" in quick["warnings"][0]
        assert (
            f'verify_and_benchmark(session_id="{session_id}", candidate=1)' in (quick["next_step"])
        )
        await desk.call("verify_and_benchmark", session_id=session_id)
        final = await desk.call("export_kernel", session_id=session_id)
        assert final["warnings"] == []
        code = final["code"]
        assert code.startswith("# Softmax over rows: kernel made and judged with EGG MCP")
        head = code.split(kernel(1.5).strip())[0]
        for fact in ("pass under precision policy strict", "Rigor: final", "1.5x", "Fake GPU"):
            assert fact in head
        assert f"Session {session_id}, candidate 1" in head
        assert code.endswith("\n\n\nModel = ModelNew\n")
        compile(code, "exported", "exec")


async def test_wrong_candidate_is_exported_only_by_number_and_with_a_warning(
    tmp_path: Path,
) -> None:
    async with open_desk(tmp_path) as desk:
        session_id = await desk.open()
        await desk.submit(session_id, kernel())
        await desk.submit(session_id, kernel(1.5))
        assert (await desk.call("export_kernel", session_id=session_id))["candidate"] == 2
        wrong = await desk.call("export_kernel", session_id=session_id, candidate=1)
        assert "not known to be correct" in wrong["warnings"][0]
        assert "Verdict: wrong" in wrong["code"]


async def test_output_file_is_written_once_and_never_overwritten(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        session_id = await desk.open()
        await desk.submit(session_id, kernel(1.5))
        written = await desk.call(
            "export_kernel", session_id=session_id, output_file="made/fast.py"
        )
        file = desk.settings.workspace / "made" / "fast.py"
        assert (written["file"], written["code"]) == (str(file), None)
        text = file.read_text(encoding="utf-8")
        assert text.endswith("Model = ModelNew\n")
        file.write_text("mine now", encoding="utf-8")
        refusal = await desk.refused(
            "export_kernel", session_id=session_id, output_file="made/fast.py"
        )
        assert "never overwritten; name another output_file" in refusal
        assert file.read_text(encoding="utf-8") == "mine now"


@pytest.mark.parametrize("place", ["../out.py", "{outside}/out.py", "link/out.py", "dangling.py"])
async def test_output_file_outside_the_workspace_is_refused(place: str, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    async with open_desk(tmp_path) as desk:
        (desk.settings.workspace / "link").symlink_to(outside)
        (desk.settings.workspace / "dangling.py").symlink_to(outside / "out.py")
        session_id = await desk.open()
        await desk.submit(session_id, kernel(1.5))
        refusal = await desk.refused(
            "export_kernel", session_id=session_id, output_file=place.format(outside=outside)
        )
        assert "outside the workspace" in refusal
        assert "--workspace" in refusal
    assert list(outside.iterdir()) == []
    assert not (tmp_path / "out.py").exists()


async def test_nothing_is_written_over_http(tmp_path: Path) -> None:
    async with open_desk(tmp_path, transport="http") as desk:
        session_id = await desk.open()
        await desk.submit(session_id, kernel(1.5))
        refusal = await desk.refused("export_kernel", session_id=session_id, output_file="a.py")
        assert "not available over HTTP" in refusal
        assert list(desk.settings.workspace.iterdir()) == []


async def test_code_too_long_to_send_goes_into_a_file_or_a_resource(tmp_path: Path) -> None:
    long = kernel(1.5) + "# padding\n" * 2_000
    async with open_desk(tmp_path) as desk:
        session_id = await desk.open()
        await desk.submit(session_id, long)
        cut = await desk.call("export_kernel", session_id=session_id)
        assert cut["code"] is None
        uri = f"egg://sessions/{session_id}/candidates/1"
        assert uri in cut["next_step"]
        assert await desk.read(uri) == long
        whole = await desk.call("export_kernel", session_id=session_id, output_file="a.py")
        assert whole["file"]


@pytest.mark.parametrize("title", ["a\\rimport os", "a\\0b", "half \\ud800", "page\\x0cbreak"])
async def test_odd_title_of_the_reference_cannot_break_the_module(
    title: str, tmp_path: Path
) -> None:
    reference = REFERENCE.replace("Softmax over rows.", title)
    async with open_desk(tmp_path) as desk:
        session_id = await desk.open(reference_code=reference)
        await desk.submit(session_id, kernel(1.5))
        await desk.call("export_kernel", session_id=session_id, output_file="module.py")
        file = desk.settings.workspace / "module.py"
    text = file.read_bytes().decode("utf-8")
    compile(text, "exported", "exec")
    assert "\nimport os" not in text.replace("\r", "\n")
