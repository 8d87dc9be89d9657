"""Problems in words: the same from every kind of file, made ones as they are meant, a test set that training never reads."""

import json

import pytest

from neuro_cli.core.errors import ConfigError
from neuro_cli.task.language.generated import MADE, WORDS, made
from neuro_cli.task.language.problems import Problem, Source, digest_of, split
from neuro_cli.task.language.reward_functions import expression

ROWS = [{"question": f"{k} and one is ", "answer": str(k + 1), "options": ["1", str(k + 1)]} for k in range(1, 6)]
FIELDS = {"prompt": "question", "choices": "options"}


def test_every_word_is_drawn_as_often():
    assert len(set(WORDS)) == len(WORDS)


def test_all_kinds_of_files_have_the_same_problems(tmp_path):
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, ROWS)) + "\n\n")
    (tmp_path / "a.json").write_text(json.dumps(ROWS))
    lines = [f"{row['question']},{row['answer']},{'|'.join(row['options'])}" for row in ROWS]
    (tmp_path / "a.csv").write_text("\n".join(["question,answer,options", *lines]))
    kinds = ["jsonl", "json", "csv"]
    wanted = [Problem(row["question"], row["answer"], tuple(row["options"])) for row in ROWS]
    for kind in kinds:
        assert Source(str(tmp_path / f"a.{kind}"), fields=FIELDS).read() == wanted
    assert Source(str(tmp_path / "a.csv"), count=2, fields=FIELDS).read() == wanted[:2]


def test_a_parquet_file_has_problems(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    pandas.DataFrame(ROWS).to_parquet(tmp_path / "a.parquet")
    assert Source(str(tmp_path / "a.parquet"), fields=FIELDS).read()[4] == Problem("5 and one is ", "6", ("1", "6"))


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.jsonl", '{"prompt": "x"}', "row 1 has no text answer (it has prompt); task.fields.answer=NAME"),
        ("a.jsonl", '{"prompt": "x", "answer": "9", "choices": ["a", "b"]}', "row 1 has the answer '9', which is none of its"),
        ("a.jsonl", "[1]", "row 1 is '[1]': an object"),
        ("a.jsonl", "{", "Expecting property name"),
        ("a.csv", "prompt,answer", "the file has no problem"),
        ("a.txt", "", "must be additions, sorting, format, countdown, compare, or a file that ends in"),
        ("b.csv", None, "it cannot be read: no such file"),
    ],
)
def test_what_is_no_problem_is_refused_in_one_line(tmp_path, name, text, said):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError) as error:
        Source(str(tmp_path / name)).read()
    assert str(error.value).startswith(f"task.problems={tmp_path / name}: ")
    assert said in str(error.value)


def test_an_answer_may_be_the_number_or_the_letter_of_a_choice(tmp_path):
    rows = [{"prompt": "x", "choices": ["no", "yes"], "answer": answer} for answer in ("B", 1, "yes")]
    (tmp_path / "a.json").write_text(json.dumps(rows))
    assert {problem.answer for problem in Source(str(tmp_path / "a.json")).read()} == {"yes"}


@pytest.mark.parametrize("name", MADE)
def test_made_problems_differ_and_depend_on_the_seed_alone(name):
    problems = made(name, 60, None, 3)
    assert len(set(problems)) == 60
    assert problems == made(name, 60, None, 3) != made(name, 60, None, 4)


def test_made_answers_are_right():
    for size in (1, 2, 5):
        for prompt, answer in made("additions", 40, size, 0):
            a, b = map(int, prompt.removesuffix(" = ").split(" + "))
            assert (a + b, len(str(a)), len(answer)) == (int(answer), size, size + 1)
    for prompt, answer in made("sorting", 20, 4, 0):
        assert sorted(prompt.removeprefix("Sort ").removesuffix(" : ").split()) == answer.split()
    for prompt, answer in made("countdown", 20, 4, 0):
        value, numbers = prompt.removeprefix("Make ").removesuffix(": ").split(" of ")
        assert eval(answer) == int(value)
        assert expression(prompt, " + ".join(numbers.split(", ")), answer) in (0.1, 1.0)
        assert (expression(prompt, answer, answer), expression(prompt, value, answer)) == (1.0, 0.0)
    for prompt, answer, choices in made("compare", 20, 3, 0):
        assert answer == max(choices)
        assert all(choice in prompt for choice in choices)
    with pytest.raises(ConfigError, match=r"task\.count=99: task.problems=additions has 45 different ones of this size"):
        made("additions", 99, 1, 0)


def test_no_prompt_of_the_test_is_in_the_training():
    problems = [Problem(f"{k % 50}", str(k)) for k in range(90)]
    training, test = split(problems, 10)
    assert len(test) == 10
    assert len(training) == 40
    assert {each.prompt for each in training}.isdisjoint(each.prompt for each in test)
    assert split(problems, 10)[1] == test
    assert not (digest_of(training) == digest_of(test)).all()
    with pytest.raises(ConfigError, match=r"task\.test_size=50: leaves no training problem, of 50 different ones"):
        split(problems, 50)
