"""The questions asked of the SQLite store, one statement each: an answer is one snapshot. Pure."""

from __future__ import annotations

SESSIONS = """
select s.*,
    (select count(*) from turns t where t.session_id = s.session_id) as turns,
    coalesce(
        (select t.status from turns t where t.session_id = s.session_id order by t.idx desc limit 1),
        'running'
    ) as status,
    (select t.prompt from turns t where t.session_id = s.session_id order by t.idx limit 1) as first_prompt,
    (select max(e.seq) from events e where e.session_id = s.session_id) as last_seq,
    (select e.ts from events e where e.session_id = s.session_id order by e.seq desc limit 1) as updated
from sessions s
"""
NEWEST_SESSIONS = SESSIONS + " order by updated desc, s.created desc, s.session_id desc limit ?"
ONE_SESSION = SESSIONS + " where s.session_id = ?"

UNSETTLED = """
select s.session_id from sessions s where
    exists (select 1 from turns t where t.session_id = s.session_id and t.status = 'running')
    or exists (select 1 from tasks k where k.session_id = s.session_id and k.status = 'running')
order by s.created, s.session_id
"""

TURNS = "select * from turns where session_id = ? order by idx, started"

TASKS_OF_SESSION = """
select * from (select * from tasks where session_id = ? order by seq desc limit ?) order by seq
"""
NEWEST_TASKS = "select * from tasks order by started desc, session_id desc, seq desc limit ?"
ONE_TASK = "select * from tasks where task_id = ?"
CHAIN = "select * from tasks where chain_id = ? order by seq"
LABELLED = "select * from tasks where session_id = ? and label = ? order by seq desc limit 1"

FIND_EXACT = """
select 'session' as kind, session_id as id, session_id, 0 as rank from sessions where session_id = :id
union select 'turn', turn_id, session_id, 1 from turns where turn_id = :id
union select 'task', task_id, session_id, 2 from tasks where task_id = :id
union select 'run', run_id, session_id, 3 from tasks where run_id = :id
union select 'chain', chain_id, session_id, 4 from tasks where chain_id = :id
order by rank, id limit :limit
"""
FIND_PREFIX = """
select 'session' as kind, session_id as id, session_id, 0 as rank from sessions
    where session_id >= :id and session_id < :end
union select 'turn', turn_id, session_id, 1 from turns where turn_id >= :id and turn_id < :end
union select 'task', task_id, session_id, 2 from tasks where task_id >= :id and task_id < :end
union select 'run', run_id, session_id, 3 from tasks where run_id >= :id and run_id < :end
union select 'chain', chain_id, session_id, 4 from tasks where chain_id >= :id and chain_id < :end
order by rank, id limit :limit
"""

EVENTS = "select * from events where session_id = ? and seq > ? order by seq"
SPANS = "select span from events where session_id = ? and span is not null order by seq"
WATERMARK = "select seq from exports where session_id = ? and target = ?"

MAIN_MESSAGES = """
select e.* from messages m join events e using (session_id, seq)
where m.session_id = ? and m.task_id is null order by m.seq
"""
TASK_MESSAGES = """
select e.* from messages m join events e using (session_id, seq)
where m.session_id = ? and m.task_id in ({places}) order by m.seq
"""

REQUESTS = "select * from requests where session_id = ? order by seq"
OPEN_REQUESTS = "select * from requests where session_id = ? and decision is null order by seq"
ALL_REQUESTS = """
select r.* from requests r join events e using (session_id, seq) order by e.ts, r.session_id, r.seq
"""
ALL_OPEN_REQUESTS = """
select r.* from requests r join events e using (session_id, seq)
where r.decision is null order by e.ts, r.session_id, r.seq
"""

CALLS = "select * from calls where session_id = ? order by seq"

EFFECTS = "select * from effects where session_id = ? order by position"
OPEN_EFFECTS = """
select * from effects where session_id = ? and ok is null and verdict is null order by position
"""
SESSION_OF_EFFECT = "select session_id from effects where effect_id = ?"
IMAGE_OF_EFFECT = "select image from effects where effect_id = ?"

LEASE = "select epoch, holder, beat from leases where session_id = ?"

HOLDERS = "select holder from leases where holder is not null"

MAIL = "select position, body from mail where session_id = ? and taken = 0 order by position"
KEEP_LETTER = """
insert into mail (session_id, kind, target, body, posted) values (:session_id, :kind, :target, :body, :posted)
"""
TAKE_LETTERS = "update mail set taken = 1 where session_id = ? and taken = 0 and position <= ?"
DROP_MAIL = "delete from mail where session_id = ?"
ANSWER_ON_ITS_WAY = "select 1 from mail where session_id = ? and target = ? and kind = 'answer'"

STATE_OF = {
    "answer": """
        select decision is null as open from requests where session_id = :session_id and request_id = :target
    """,
    "stop-task": """
        select status = 'running' as open from tasks where session_id = :session_id and task_id = :target
    """,
    "stop-session": """
        select exists (
            select 1 from turns t where t.session_id = s.session_id and t.status = 'running'
        ) as open from sessions s where s.session_id = :session_id and s.session_id = :target
    """,
}
"""By a letter's kind: one row if what it is about exists, and whether that is open."""
