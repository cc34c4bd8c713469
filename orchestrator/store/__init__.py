"""The store: `base` is the interface, `sqlite` and `memory` implement it.

Pure: `codec` (events as JSON), `projection` (what an event changes), `schema` (tables, versions),
`units` (what is committed as a whole), `rows`, `queries`, `holders`, `mail` (letters to a session's holder,
and which come too late). Around SQLite: `asyncio_host` (aiosqlite's room), `transaction` (on the asyncio
side), `writer` (group commit), `files` (the file and its companions), `leases` (who holds a session),
`callers` (who may leave a letter: nobody that a tool started).
"""
