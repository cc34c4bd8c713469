"""The search engine of Glob and Grep.

`patterns` reads the one pattern dialect, `globs` the file patterns, `lines` finds lines in bytes, `sieve` leaves
out files without a match: all pure. `scopes` loads the ignore rules that hold somewhere, `walk` lists a tree by
descriptors, `reading` reads its text files, `worker` runs a search in a thread that can be given up, `files` and
`content` are the two searches, `query` is what the second is asked.

A large tree is searched by several processes: `helpers` keeps them for a session, `helper` is what such a process
runs, `shares` says what it is asked and answers, `sharing` is the search that asks. A search never depends on them.
"""
