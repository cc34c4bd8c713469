"""The command line. `main` maps how a command ends to exit statuses; one module per group of verbs.

main       the command itself;  starting: signals before it has begun
command    verbs by name, imported when chosen, and how each ends
leaving    exit statuses;  logs: the log file
options    what `run` and `resume` share;  run: the two verbs;  playing: one turn from here to its exit status
printers   text, json and stream-json;  narration: events as lines (pure);  output: bytes to standard output
prompt     permission requests on a terminal;  stopping: Ctrl-C
approvals  open requests and answers to them;  stop: turns and tasks of other processes;  check: before a run
show trace demo config schema missing: the other verbs;  lookup: ids, prefixes and labels
"""
