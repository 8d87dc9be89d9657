"""No control character reaches a terminal or a log: names, messages of peers and files may hold any text."""

import logging
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.inside import close_logs, neuro_inside, well

from neuro_cli.core.errors import lines_apart, one_line, printable
from neuro_cli.core.messages.verbosity import say
from neuro_cli.election.messages import MEMBERS, NAME
from neuro_cli.evolve.network.messages import MalformedError, checked
from neuro_cli.run_folder.log import log_to, messages
from neuro_cli.run_folder.progress import Progress

# the terminal's title, red, C1, an order of writing turned around, a line of the log's own form
HOSTILE = "a\x1b]0;owned\x07b\x1b[31mred\x9b31m\u202eevil\u2066\u2028c\rd"
FORGED = "\n2026-11-27 10:00:00,000 INFO neuro_cli.cli.verbs.train: failed: forged"


def obeyed(text: str) -> list[str]:
    """Characters of ``text`` that a terminal obeys, line ends aside."""
    return [one for one in text if one != "\n" and unicodedata.category(one) in ("Cc", "Cf", "Zl", "Zp")]


@given(st.text())
def test_any_text_is_printable(text: str) -> None:
    for clean in (printable(text), one_line(text)):
        assert obeyed(clean) == []
        assert "\n" not in clean
    assert obeyed(lines_apart(text)) == []
    assert all(line.startswith("    ") for line in lines_apart(text).split("\n")[1:])


def test_what_is_printable_stays() -> None:
    for text in ("", "mean return 0.5, é x̂ 漢字 [3/7]", "a  b"):
        assert printable(text) == text
    assert printable(HOSTILE).startswith(r"a\x1b]0;owned\x07b\x1b[31mred\x9b31m\u202eevil")


def test_lines_of_the_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log_to(tmp_path, 0)
    logging.getLogger("neuro_cli.evolve").warning("%s is connected", HOSTILE + FORGED)
    logging.getLogger("my_model").warning("%s", HOSTILE + FORGED)
    close_logs()
    text = (tmp_path / "log.txt").read_text()
    assert obeyed(text) == []
    assert [line for line in text.split("\n") if "failed: forged" in line and not line.startswith("    ")] == []
    assert [line for line in messages(tmp_path) if line.startswith("failed: ")] == []
    assert obeyed(capsys.readouterr().err) == []


def test_lines_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    say(HOSTILE)
    Progress(3, plain=True).say(HOSTILE)
    assert obeyed(capsys.readouterr().out) == []


def test_the_report_of_a_folder_with_any_name(tmp_path: Path) -> None:
    """The name of a run was printed as it is."""
    for part in (HOSTILE, "1"):
        run = tmp_path / "sweep" / part / ".hydra"
        run.mkdir(parents=True)
        (run / "config.yaml").write_text("seed: 1\n")
        (run / "overrides.yaml").write_text(f'- seed={part[-1]}\n- "note=\\e[3{len(part)}m"\n')
    for folder in ("sweep", f"sweep/{HOSTILE}"):
        done = well(neuro_inside("report", folder, "html=false", cwd=tmp_path))
        assert obeyed(done.stdout) == []
        assert "owned" in done.stdout


PEER = "0" * 32 + "@127.0.0.1:7701"


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "led", "leader": HOSTILE},
        {"type": "removed", "term": 1, "leader": "no name"},
        {"type": "beat", "members": [PEER, "\x1b[31m"]},
        {"type": "append", "entries": [[1, [PEER, HOSTILE]]]},
    ],
)
def test_an_elections_message_names_peers_only(fields: dict[str, object]) -> None:
    """`led` and `removed` put what a member made up into the logs and onto the terminals of the others."""
    for kind, more in (("election", {}), ("word", {"peer": PEER})):
        with pytest.raises(MalformedError, match="is not a message of the election, its texts names") as refused:
            checked({"k": kind, "m": fields, **more}, kind)
        assert obeyed(str(refused.value)) == []
    good = {"type": "led", "leader": PEER, "entries": [[1, [PEER]], [2, b"\x1b"], [3, None]]}
    assert checked({"k": "election", "m": good}, "election")["m"] == good


def test_an_election_takes_printable_names_only() -> None:
    for value in (HOSTILE, "", 3, "a\n"):
        assert not NAME.holds(value)
        assert not MEMBERS.holds([value])
