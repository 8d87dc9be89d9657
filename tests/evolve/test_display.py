"""Display of a cluster on the terminal."""

import io

from rich.console import Console

from neuro_cli.evolve.display import ClusterDisplay, picture

A, B, C = "aaaaaaaaaaaa@10.0.0.1:1", "bbbbbbbbbbbb@10.0.0.2:2", "cccccccccccc@10.0.0.3:3"
STATUS = {
    "me": A, "members": [A, B, C], "leader": B, "term": 4, "iteration": 17, "best": -0.5,
    "ages": {B: 0.25}, "progress": {B: 17},
}  # fmt: skip


def test_peers_leader_term_iteration_best_fitness_and_last_words_are_shown():
    text = io.StringIO()
    Console(file=text, width=120).print(picture(STATUS, "generation 17/20"))
    lines = text.getvalue().splitlines()
    assert any("iteration 17, term 4, leader bbbbbb, best fitness -0.5" in line for line in lines)
    rows = {name: next(line for line in lines if name in line and "10.0.0" in line) for name in ("aaaaaa", "bbbbbb", "cccccc")}
    assert "this one" in rows["aaaaaa"]
    assert "leader" in rows["bbbbbb"]
    assert "0.2" in rows["bbbbbb"]
    assert "never" in rows["cccccc"]
    assert "generation 17/20" in lines[-1]


def test_a_terminal_gets_the_table_up_to_the_last_iteration_and_a_file_gets_lines():
    for terminal in (True, False):
        text = io.StringIO()
        with ClusterDisplay(20, Console(file=text, force_terminal=terminal, width=120)) as view:
            for generation in (19, 20):
                view.update({"generation": generation, "fitness_mean": -1.0, "candidates_per_second": 10.0})
                view.show(STATUS | {"iteration": generation})
        assert "generation 20/20" in text.getvalue()
        assert ("last seen" in text.getvalue()) == ("iteration 20" in text.getvalue()) == terminal
