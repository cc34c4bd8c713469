"""Everything one agent needs: values, rules, tools, models, the gate and the loop.

messages, results, requests, errors, events, outcome, steps   the values (pure)
spec, definitions, guidance     what an agent is and what it is told
ports, emitter                  the doors upward
rules/                          pure decisions
workspace, snapshots, locks, journal   the shells around files
permit, gate, execution, loop   one call's way: permit, run, count, answer
tools/, models/                 one file per tool, one codec per provider format

On the wire values are frozen msgspec Structs (camelCase, tagged); inside the process they are frozen attrs
classes where nothing is ever encoded.
"""
