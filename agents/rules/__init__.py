"""Pure rules: each decides, none does I/O. A rule that lacks a fact asks for it and is called again."""
