"""Exit codes of every command."""

BAD_INPUT, FAILED, INTERRUPTED = 2, 1, 130  # the last as a shell counts a command that Ctrl-C has ended
