"""Rows of the tables as the values of `base`, for every store. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from agents.requests import PermissionRequest
from agents.results import TaskResult
from agents.rules.effects import EffectIntent, EffectResult
from orchestrator.store.base import CallRow, EffectRow, RequestRow, SessionRow, TaskRow, TurnRow
from orchestrator.store.codec import Row, encode_json

_results = msgspec.json.Decoder(TaskResult)
_requests = msgspec.json.Decoder(PermissionRequest)
_intents = msgspec.json.Decoder(EffectIntent)


def session_row(row: Row) -> SessionRow:
    """From a row of `sessions` with `first_prompt`, `updated`, `turns`, `status`, `last_seq` beside it."""
    lines = (row["first_prompt"] or "").strip().splitlines()
    return SessionRow(
        session_id=row["session_id"],
        workspace=row["workspace"],
        mode=row["mode"],
        permission_mode=row["permission_mode"],
        model=row["model"],
        base_url=row["base_url"],
        agent=row["agent"],
        title=lines[0] if lines else "",
        created=row["created"],
        updated=row["updated"],
        turns=row["turns"],
        status=row["status"],
        last_seq=row["last_seq"],
    )


def turn_row(row: Row) -> TurnRow:
    return TurnRow(
        turn_id=row["turn_id"],
        session_id=row["session_id"],
        index=row["idx"],
        prompt=row["prompt"],
        status=row["status"],
        error_code=row["error_code"],
        text=row["text"],
        started=row["started"],
        finished=row["finished"],
        trace_id=row["trace_id"],
        span_id=row["span_id"],
        resumes_task=row["resumes_task"],
    )


def task_row(row: Row) -> TaskRow:
    return TaskRow(
        task_id=row["task_id"],
        run_id=row["run_id"],
        chain_id=row["chain_id"],
        session_id=row["session_id"],
        turn_id=row["turn_id"],
        agent_name=row["agent_name"],
        label=row["label"],
        description=row["description"],
        prompt=row["prompt"],
        model=row["model"],
        parent_owner=row["parent_owner"],
        depth=row["depth"],
        resumes=row["resumes"],
        status=row["status"],
        started=row["started"],
        finished=row["finished"],
        result=None if row["result"] is None else _results.decode(row["result"]),
        delivered=bool(row["delivered"]),
        trace_id=row["trace_id"],
        span_id=row["span_id"],
    )


def request_row(row: Row) -> RequestRow:
    return RequestRow(
        request=_requests.decode(row["body"]),
        decision=row["decision"],
        source=row["source"],
        wait_ms=row["wait_ms"],
        decided_by=row["decided_by"],
        closed=row["closed"],
    )


def call_row(row: Row) -> CallRow:
    return CallRow(
        call_id=row["call_id"],
        session_id=row["session_id"],
        turn_id=row["turn_id"],
        task_id=row["task_id"],
        owner=row["owner"],
        tool=row["tool"],
        ok=None if row["ok"] is None else bool(row["ok"]),
        error_code=row["error_code"],
        started=row["started"],
        finished=row["finished"],
    )


def effect_row(row: Row) -> EffectRow:
    result = None
    if row["ok"] is not None:
        result = EffectResult(effect_id=row["effect_id"], ok=bool(row["ok"]), after_hash=row["after_hash"])
    return EffectRow(
        intent=_intents.decode(row["intent"]), result=result, verdict=row["verdict"], at=row["at"]
    )


def intent_values(intent: EffectIntent, image: str | None, at: str) -> dict[str, Any]:
    """The new row of `effects`; `image` is the SHA-256 under which the bytes before are kept."""
    return {
        "effect_id": intent.effect_id,
        "session_id": intent.session_id,
        "intent": encode_json(msgspec.structs.replace(intent, before_image=None)),
        "image": image,
        "ok": None,
        "after_hash": None,
        "verdict": None,
        "at": at,
        "finished": None,
    }


def result_values(result: EffectResult, at: str) -> dict[str, Any]:
    """What an effect's end changes in its row."""
    return {"ok": int(result.ok), "after_hash": result.after_hash, "finished": at}
