"""Helpers that the tests share: real MPI worlds, ranks as threads, commands inside the process, composed configs."""
