"""`SpanTree`: the spans of one trace with their children. Pure; bears with every broken trace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs

from telemetry.records import SpanRecord


@attrs.frozen
class SpanTree:
    """Spans by id and by parent. Of several spans with one id the first counts."""

    spans: dict[str, SpanRecord]
    roots: tuple[SpanRecord, ...]
    """Spans without a parent here, by start; with them one span of every circle of parents."""
    _children: dict[str, tuple[SpanRecord, ...]]

    def children(self, span: SpanRecord) -> tuple[SpanRecord, ...]:
        """By start; of spans that start together the longer one first."""
        return self._children.get(span.span_id, ())

    def walk(self, span: SpanRecord) -> Iterator[tuple[int, SpanRecord]]:
        """`span` and everything below it, depth first, with the depth below `span`; each span once."""
        seen: set[str] = set()
        stack = [(0, span)]
        while stack:
            depth, current = stack.pop()
            if current.span_id in seen:
                continue
            seen.add(current.span_id)
            yield depth, current
            stack.extend((depth + 1, child) for child in reversed(self.children(current)))

    def everything(self) -> Iterator[tuple[int, SpanRecord]]:
        """All spans, root by root."""
        for root in self.roots:
            yield from self.walk(root)


def build_tree(records: Iterable[SpanRecord]) -> SpanTree:
    """The tree of one trace's spans."""
    spans: dict[str, SpanRecord] = {}
    for record in records:
        spans.setdefault(record.span_id, record)
    below: dict[str, list[SpanRecord]] = {}
    roots: list[SpanRecord] = []
    for span in sorted(spans.values(), key=_by_start):
        if span.parent_span_id is None or span.parent_span_id not in spans:
            roots.append(span)
        else:
            below.setdefault(span.parent_span_id, []).append(span)
    tree = SpanTree(spans, tuple(roots), {parent: tuple(found) for parent, found in below.items()})
    return attrs.evolve(tree, roots=(*roots, *_circle_roots(tree)))


def _circle_roots(tree: SpanTree) -> list[SpanRecord]:
    """One span of each circle that no root leads to, so that nothing is hidden."""
    reached = {span.span_id for _, span in tree.everything()}
    found: list[SpanRecord] = []
    for span in sorted(tree.spans.values(), key=_by_start):
        if span.span_id not in reached:
            found.append(span)
            reached.update(below.span_id for _, below in tree.walk(span))
    return found


def _by_start(span: SpanRecord) -> tuple[int, int, str]:
    return span.start_ns, -span.end_ns, span.span_id
