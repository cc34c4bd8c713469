"""The store: `base` is the interface, `sqlite` and `memory` implement it.

Pure: `codec` (events as JSON), `projection` (what an event changes), `schema` (tables, versions),
`units` (what is committed as a whole), `rows`, `queries`. Around SQLite: `asyncio_host` (aiosqlite's room),
`transaction` (on the asyncio side), `writer` (group commit), `files` (the file and its companions), `leases`
(who holds a session).
"""
