"""The search engine of Glob and Grep, in process and without a helper program.

`patterns` reads the one pattern dialect, `globs` the file patterns, `lines` finds lines in bytes: all pure.
`scopes` loads the ignore rules that hold somewhere, `walk` lists a tree by descriptors, `worker` runs a
search in a thread that can be given up, `files` and `content` are the two searches.
"""
