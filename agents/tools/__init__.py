"""The native tools, one file each; `base` is the protocol, `registry` the list, `schema` checks arguments."""
