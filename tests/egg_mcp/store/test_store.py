"""Round trips: what was put comes back, in this store and in another one on the same file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from egg_mcp.errors import StateError, UnknownSession
from egg_mcp.settings import Settings
from egg_mcp.store import Store
from egg_mcp.vocabulary.problem import Problem
from egg_mcp.vocabulary.record import content_hash
from egg_mcp.vocabulary.session import SessionRecord, StageEntry
from egg_mcp.vocabulary.stage import Stage
from egg_mcp.vocabulary.verdict import Verdict, VerdictStatus


def test_state_file_is_where_the_settings_say(store: Store, state_dir: Path) -> None:
    assert store.file == Settings(state_dir=state_dir).state_file
    assert store.file.is_file()


@pytest.mark.parametrize("text", ["", "x = 1\n", "nul \x00, half a pair \udc80, é"])
def test_source_comes_back_as_it_was(store: Store, text: str) -> None:
    source_hash = store.sources.put(text)
    assert source_hash == store.sources.put(text) == content_hash(text)
    assert store.sources.get(source_hash) == text


def test_source_that_was_never_kept_is_a_state_error(store: Store) -> None:
    with pytest.raises(StateError, match="no source 'abc'"):
        store.sources.get("abc")


def test_problem_keeps_its_first_title(store: Store, problem: Problem) -> None:
    store.problems.put(problem.model_copy(update={"title": "another"}))
    assert store.problems.get(problem.problem_hash) == problem


def test_problem_with_a_wrong_hash_is_refused_and_leaves_nothing(
    store: Store, problem: Problem
) -> None:
    with pytest.raises(ValueError, match="not the hash"):
        store.problems.put(problem.model_copy(update={"source": "other"}))
    with pytest.raises(StateError):
        store.sources.get(content_hash("other"))


def test_session_comes_back_and_an_unknown_one_is_none(
    store: Store, new_session: Callable[..., SessionRecord]
) -> None:
    assert store.sessions.get("one") == new_session("one")
    assert store.sessions.get("two") is None
    assert store.sessions.get("\ud800") is None


def test_session_cannot_be_created_twice_or_without_its_problem(
    store: Store, new_session: Callable[..., SessionRecord]
) -> None:
    with pytest.raises(StateError, match="UNIQUE"):
        store.sessions.create(new_session("one"))
    with pytest.raises(StateError, match="FOREIGN KEY"):
        store.sessions.create(new_session("two").model_copy(update={"problem_hash": "none"}))


def _entered(record: SessionRecord) -> SessionRecord:
    entry = StageEntry(stage=Stage.TUNE_TILING, reason="next", at="2026-12-01T11:00:00+00:00")
    return record.model_copy(update={"stages_entered": (*record.stages_entered, entry)})


def test_change_replaces_the_session_and_counts_a_revision(store: Store) -> None:
    changed = store.sessions.change("one", _entered)
    assert changed.stage is Stage.TUNE_TILING
    assert store.sessions.get("one") == changed
    assert store.sessions.revision("one") == 2


def test_changes_by_two_stores_in_turn_are_both_kept(store: Store, state_dir: Path) -> None:
    with Store.open(state_dir) as other:
        for each in (store, other, store):
            each.sessions.change("one", _entered)
    kept = store.sessions.get("one")
    assert kept is not None
    assert len(kept.stages_entered) == 3


def test_change_of_an_unknown_session_says_so(store: Store) -> None:
    with pytest.raises(UnknownSession, match="'two'"):
        store.sessions.change("two", _entered)


def test_change_that_fails_or_renames_the_session_changes_nothing(
    store: Store, new_session: Callable[..., SessionRecord]
) -> None:
    def fail(record: SessionRecord) -> SessionRecord:
        raise LookupError(record.session_id)

    with pytest.raises(LookupError, match="one"):
        store.sessions.change("one", fail)
    with pytest.raises(ValueError, match="became"):
        store.sessions.change("one", lambda record: new_session("two"))
    assert store.sessions.get("one") == new_session("one")
    assert store.sessions.revision("one") == 1


def test_sessions_are_listed_newest_first_for_their_principal_only(
    store: Store, new_session: Callable[..., SessionRecord]
) -> None:
    store.sessions.create(new_session("newer", created_at="2026-12-02T00:00:00.000+00:00"))
    store.sessions.create(new_session("same time"))
    store.sessions.create(new_session("hers", principal="ann"))
    listed = [record.session_id for record in store.sessions.list("local", limit=10)]
    assert listed == ["newer", "same time", "one"]
    page = store.sessions.list("local", limit=1, offset=1)
    assert [record.session_id for record in page] == ["same time"]
    assert store.sessions.count("local") == 3
    assert store.sessions.count("ann") == 1
    assert store.sessions.count("nobody") == 0


def test_candidates_are_numbered_per_session(
    store: Store, add_candidate: Callable[[str], int], new_session: Callable[..., SessionRecord]
) -> None:
    store.sessions.create(new_session("two"))
    assert [add_candidate("a"), add_candidate("b")] == [1, 2]
    other, created = store.candidates.add("two", Stage.TUNE_TILING, "a", 1, "why", ())
    assert (other.number, other.parent, created) == (1, 1, True)


def test_same_source_in_a_session_is_the_first_candidate(
    store: Store, add_candidate: Callable[[str], int]
) -> None:
    number = add_candidate("a")
    again, created = store.candidates.add("one", Stage.TUNE_TILING, "a", 7, "other", ("g9",))
    assert not created
    assert again == store.candidates.get("one", number)
    assert again.rationale == "because"


def test_candidate_of_an_unknown_session_is_refused(store: Store) -> None:
    with pytest.raises(UnknownSession, match="'two'"):
        store.candidates.add("two", Stage.TUNE_TILING, "a", None, "why", ())


def test_candidate_and_its_source_come_back(
    store: Store, add_candidate: Callable[[str], int]
) -> None:
    candidate = store.candidates.get("one", add_candidate("kernel = 1"))
    assert candidate is not None
    assert store.candidates.source_of(candidate) == "kernel = 1"
    assert candidate.guidelines_applied == ("g1", "g2")


@pytest.mark.parametrize("number", [0, -1, 2, 10**30])
def test_candidate_of_a_number_never_given_is_none(
    store: Store, add_candidate: Callable[[str], int], number: int
) -> None:
    add_candidate("a")
    assert store.candidates.get("one", number) is None
    assert store.verdicts.latest("one", number) is None


def test_two_stores_number_candidates_together_and_see_each_others(
    store: Store, state_dir: Path, add_candidate: Callable[[str], int]
) -> None:
    assert add_candidate("a") == 1
    assert len(store.candidates.of_session("one")) == 1
    with Store.open(state_dir) as other:
        theirs, _ = other.candidates.add("one", Stage.DESIGN_ALGORITHM, "b", 1, "why", ())
        assert theirs.number == 2
        assert add_candidate("c") == 3
        assert other.candidates.of_session("one") == store.candidates.of_session("one")
    assert [each.number for each in store.candidates.of_session("one")] == [1, 2, 3]


def test_ten_thousand_candidates_are_listed_in_order(
    store: Store, state_dir: Path, add_candidate: Callable[[str], int]
) -> None:
    with store.transaction():
        for number in range(1, 10_001):
            assert add_candidate(f"kernel = {number}") == number
    listed = store.candidates.of_session("one")
    assert [candidate.number for candidate in listed] == list(range(1, 10_001))
    with Store.open(state_dir) as other:
        assert other.candidates.of_session("one") == listed


def test_transaction_that_fails_keeps_nothing_not_even_in_memory(
    store: Store, add_candidate: Callable[[str], int]
) -> None:
    add_candidate("a")

    def add_then_fail() -> None:
        add_candidate("b")
        assert len(store.candidates.of_session("one")) == 2
        raise LookupError

    with pytest.raises(LookupError), store.transaction():
        add_then_fail()
    assert [each.number for each in store.candidates.of_session("one")] == [1]
    assert add_candidate("c") == 2
    assert [each.number for each in store.candidates.of_session("one")] == [1, 2]


def test_verdict_comes_back_without_samples_unless_asked(
    store: Store, add_candidate: Callable[[str], int], timed_verdict: Verdict
) -> None:
    store.verdicts.add("one", add_candidate("a"), timed_verdict, job_id="j1")
    assert store.verdicts.latest("one", 1, samples=True) == timed_verdict
    assert store.verdicts.of_session("one", samples=True) == {1: (timed_verdict,)}
    bare = store.verdicts.latest("one", 1)
    assert bare is not None
    assert bare.timing is not None
    assert timed_verdict.timing is not None
    assert bare.timing == timed_verdict.timing.model_copy(update={"samples_ms": {}})
    assert store.verdicts.of_session("one") == {1: (bare,)}


def test_verdicts_pile_up_and_the_newest_is_the_latest(
    store: Store, state_dir: Path, add_candidate: Callable[[str], int], timed_verdict: Verdict
) -> None:
    wrong = timed_verdict.model_copy(update={"status": VerdictStatus.WRONG, "timing": None})
    add_candidate("a")
    add_candidate("b")
    store.verdicts.add("one", 2, wrong)
    assert store.verdicts.of_session("one") == {2: (wrong,)}
    with Store.open(state_dir) as other:
        other.verdicts.add("one", 1, wrong)
        other.verdicts.add("one", 2, timed_verdict)
    found = store.verdicts.of_session("one")
    assert {number: [each.status for each in all_] for number, all_ in found.items()} == {
        1: [VerdictStatus.WRONG],
        2: [VerdictStatus.WRONG, VerdictStatus.PASS],
    }
    assert store.verdicts.latest("one", 2) == found[2][-1]


def test_verdict_about_no_candidate_is_refused(store: Store, timed_verdict: Verdict) -> None:
    with pytest.raises(StateError, match="FOREIGN KEY"):
        store.verdicts.add("one", 1, timed_verdict)
    assert store.verdicts.of_session("one") == {}


def test_artifact_comes_back_and_a_new_one_takes_its_place(
    store: Store, add_candidate: Callable[[str], int]
) -> None:
    number = add_candidate("a")
    store.artifacts.put("one", number, "ptx", "old \udcff")
    assert store.artifacts.get("one", number, "ptx") == "old \udcff"
    store.artifacts.put("one", number, "ptx", "new")
    store.artifacts.put("one", number, "amdgcn", "")
    assert store.artifacts.get("one", number, "ptx") == "new"
    assert store.artifacts.get("one", number, "sass") is None
    assert store.artifacts.kinds("one", number) == ("amdgcn", "ptx")
