from __future__ import annotations

import hashlib

from agents.rules.edits import digest_of, tag_of
from agents.snapshots import SnapshotStore


def grep_shows(store: SnapshotStore, canonical: str, data: bytes, seen: list[int]) -> str:
    return store.record_grep(canonical, data, digest=digest_of(data), seen=seen)


def numbered(index: int, size: int = 0) -> bytes:
    return f"version {index}\n".encode() + b"x" * size


def test_the_tag_is_the_low_16_bits_of_the_sha_256_in_upper_case() -> None:
    data = b"hello\n"
    assert tag_of(data) == f"{int(hashlib.sha256(data).hexdigest(), 16) & 0xFFFF:04X}"


def test_reading_the_same_content_again_unions_what_was_seen() -> None:
    store = SnapshotStore()
    tag = store.record_read("/f", b"a\nb\nc\n", seen=[1])
    assert store.record_read("/f", b"a\nb\nc\n", seen=[3]) == tag
    found = store.find("/f", tag)
    assert found is not None
    assert set(found.seen) == {1, 3}


def test_nothing_recorded_and_nothing_seen_are_different() -> None:
    store = SnapshotStore()
    tag = store.record_read("/f", b"a\n", seen=[])
    found = store.find("/f", tag)
    assert found is not None
    assert len(found.seen) == 0
    assert store.find("/f", "0000") is None
    assert store.find("/g", tag) is None


def test_another_store_knows_nothing() -> None:
    first, second = SnapshotStore(), SnapshotStore()
    tag = first.record_read("/f", b"a\n", seen=[1])
    assert second.find("/f", tag) is None


def test_four_versions_of_a_path_are_kept() -> None:
    store = SnapshotStore()
    tags = [store.record_read("/f", numbered(index), seen=[1]) for index in range(5)]
    assert [store.find("/f", tag) is not None for tag in tags] == [False, True, True, True, True]


def test_64_paths_are_kept_and_the_least_recently_used_goes_first() -> None:
    store = SnapshotStore()
    tag = store.record_read("/0", numbered(0), seen=[1])
    other = store.record_read("/1", numbered(1), seen=[1])
    for index in range(2, 64):
        store.record_read(f"/{index}", numbered(index), seen=[1])
    assert store.find("/0", tag) is not None
    store.record_read("/64", numbered(64), seen=[1])
    assert store.find("/0", tag) is not None
    assert store.find("/1", other) is None


def test_at_most_8_mib_of_text_is_kept() -> None:
    store = SnapshotStore()
    size = 1024 * 1024 + 1
    tags = [store.record_read(f"/{index}", numbered(index, size), seen=[1]) for index in range(8)]
    assert store.find("/0", tags[0]) is None
    assert store.find("/1", tags[1]) is not None


def test_a_file_over_2_mib_is_hashed_but_its_text_not_kept() -> None:
    store = SnapshotStore()
    data = numbered(1, 2 * 1024 * 1024)
    found = store.find("/f", store.record_read("/f", data, seen=[1]))
    assert found is not None
    assert (found.data, found.digest) == (None, digest_of(data))
    same = store.record_read_large("/f", tag=tag_of(data), digest=digest_of(data), seen=[2])
    union = store.find("/f", same)
    assert union is not None
    assert set(union.seen) == {1, 2}


def test_what_grep_showed_never_pushes_out_what_was_read() -> None:
    store = SnapshotStore()
    tag = store.record_read("/read", b"a\n", seen=[1])
    for index in range(200):
        grep_shows(store, f"/{index}", numbered(index), [1])
    assert store.find("/read", tag) is not None


def test_grep_and_read_of_one_version_share_what_was_seen() -> None:
    store = SnapshotStore()
    tag = grep_shows(store, "/f", b"a\nb\nc\n", [2])
    store.record_read("/f", b"a\nb\nc\n", seen=[1])
    grep_shows(store, "/f", b"a\nb\nc\n", [3])
    found = store.find("/f", tag)
    assert found is not None
    assert set(found.seen) == {1, 2, 3}


def test_everything_the_agent_wrote_is_seen() -> None:
    store = SnapshotStore()
    found = store.find("/f", store.record_written("/f", b"a\nb\nc"))
    assert found is not None
    assert set(found.seen) == {1, 2, 3}


def test_latest_is_the_version_shown_last_by_whatever_tool() -> None:
    store = SnapshotStore()
    store.record_read("/f", b"a\n", seen=[1])
    grep_shows(store, "/f", b"b\n", [1])
    latest = store.latest("/f")
    assert latest is not None
    assert latest.data == b"b\n"
    store.record_read("/f", b"a\n", seen=[1])
    latest = store.latest("/f")
    assert latest is not None
    assert latest.data == b"a\n"


def test_lines_can_be_marked_seen_later() -> None:
    store = SnapshotStore()
    tag = store.record_read("/f", b"a\nb\n", seen=[1])
    store.mark_seen("/f", digest_of(b"a\nb\n"), [2])
    store.mark_seen("/f", digest_of(b"gone"), [1])
    found = store.find("/f", tag)
    assert found is not None
    assert set(found.seen) == {1, 2}
