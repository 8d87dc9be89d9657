"""Networks that keep state, draw random numbers or write to their input have the same centre on any number of ranks."""

from pathlib import Path

from support.worlds import needs_mpi, program

PROGRAM = Path(__file__).with_name("isolation_program.py")


@needs_mpi
def test_centres_do_not_depend_on_the_ranks(tmp_path):
    lines = []
    for ranks in (1, 2, 3):
        done = program(PROGRAM, cwd=tmp_path, ranks=ranks)
        assert done.returncode == 0, done.stderr
        lines.append(done.stdout.splitlines())
    assert len(set(lines[0])) == len(lines[0]) == 5
    assert lines[1] == lines[0]
    assert lines[2] == lines[0]
