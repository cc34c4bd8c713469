"""Opening and ending spans, and the ids that cross process borders."""

from __future__ import annotations

import os

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import trace as otel_trace

from telemetry.attributes import service_of_agent
from telemetry.records import MAX_EVENT_ATTRIBUTES, MAX_EVENTS, MAX_LINKS, SpanRef
from telemetry.spans import (
    end_interrupted,
    instance_id,
    leaf_exceptions,
    new_span_id,
    new_trace_id,
    parse_traceparent,
    reopened_span,
    start_span,
    traceparent,
    use,
)


def test_a_child_has_its_parents_trace_and_service() -> None:
    root = start_span("invoke_workflow turn", parent=None, service="orchestrator")
    child = root.child("invoke_agent main")
    record = child.end()
    assert (root.trace_id, root.span_id, "orchestrator") == (
        record.trace_id,
        record.parent_span_id,
        record.service,
    )


def test_a_second_end_changes_nothing() -> None:
    span = start_span("settle", parent=None)
    first = span.end()
    span.set_error("INTERNAL")
    assert first is span.end()


def test_a_span_never_ends_before_its_start() -> None:
    record = start_span("settle", parent=None, start_ns=100).end(50)
    assert record.end_ns == 100


def test_an_error_keeps_its_type_even_on_a_full_span() -> None:
    span = start_span("settle", {f"key{n}": n for n in range(500)}, parent=None)
    span.set_error("STORE_WRITE_FAILED", "x" * 1000)
    record = span.end()
    assert record.attributes["error.type"] == "STORE_WRITE_FAILED"
    assert len(record.status_description) == 256


def test_events_links_and_their_attributes_are_bounded() -> None:
    span = start_span("invoke_agent main", parent=None)
    for _ in range(400):
        span.add_event("retry", {f"key{n}": n for n in range(50)})
        span.add_link(SpanRef(new_trace_id(), new_span_id()))
    record = span.end()
    assert (len(record.events), len(record.links)) == (MAX_EVENTS, MAX_LINKS)
    assert len(record.events[0].attributes) == MAX_EVENT_ATTRIBUTES


def test_all_spans_of_a_process_name_the_same_instance() -> None:
    ids = {start_span("settle", parent=None).end().instance_id for _ in range(3)}
    assert len(ids) == 1
    assert ids != {""}


@pytest.mark.parametrize(
    ("name", "service"),
    [
        ("fixer", "fixer"),
        ("person", "person-agent"),
        ("orchestrator", "orchestrator-agent"),
        ("Person", "Person-agent"),
    ],
)
def test_an_agent_is_a_service_of_its_name_unless_the_name_is_ours(name: str, service: str) -> None:
    assert service == service_of_agent(name)


async def test_a_used_span_is_current_in_tasks_started_inside_the_block() -> None:
    seen: list[int] = []

    async def look() -> None:
        seen.append(otel_trace.get_current_span().get_span_context().span_id)

    span = start_span("execute_tool Read", parent=None)
    async with trio.open_nursery() as nursery:
        with use(span):
            nursery.start_soon(look)
    assert [int(span.span_id, 16)] == seen
    assert not otel_trace.get_current_span().get_span_context().is_valid


def test_a_traceparent_is_read_back() -> None:
    ref = start_span("x", parent=None).ref
    assert ref == parse_traceparent(f" {traceparent(ref)} ")


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "garbage",
        f"00-{'0' * 32}-{'1' * 16}-01",
        f"00-{'1' * 32}-{'0' * 16}-01",
        f"ff-{'1' * 32}-{'1' * 16}-01",
        f"00-{'1' * 32}-{'1' * 16}-01-more",
        f"00-{'A' * 32}-{'1' * 16}-01",
    ],
)
def test_a_malformed_traceparent_names_no_parent(header: str | None) -> None:
    assert parse_traceparent(header) is None


def test_a_later_version_of_traceparent_is_read_as_far_as_known() -> None:
    assert SpanRef("1" * 32, "2" * 16) == parse_traceparent(f"01-{'1' * 32}-{'2' * 16}-00-more")


@given(st.text())
def test_no_traceparent_raises(header: str) -> None:
    parse_traceparent(header)


def test_a_span_of_a_dead_process_is_ended_under_its_own_ids() -> None:
    ref = SpanRef(new_trace_id(), new_span_id())
    span = reopened_span("settle", ref=ref, parent_span_id=None, start_ns=5)
    record = end_interrupted(span, 9, "instance of the dead")
    assert record.instance_id == "instance of the dead"
    assert (ref.trace_id, ref.span_id, 5, 9) == (
        record.trace_id,
        record.span_id,
        record.start_ns,
        record.end_ns,
    )
    assert (
        record.status,
        record.status_description,
        record.attributes["error.type"],
    ) == ("ERROR", "process died", "INTERRUPTED")


def test_leaves_of_nested_groups_come_one_by_one() -> None:
    a, b = ValueError("a"), KeyError("b")
    assert [a, b] == list(leaf_exceptions(ExceptionGroup("outer", [ExceptionGroup("inner", [a]), b])))


def test_a_forked_process_draws_ids_of_its_own() -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, f"{new_trace_id()} {new_span_id()} {instance_id()}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    told = os.read(reading, 200).decode().split()
    os.close(reading)
    os.close(writing)
    assert set(told).isdisjoint({new_trace_id(), new_span_id(), instance_id()})
    assert len(told[0]) == 32
    assert len(told[1]) == 16
