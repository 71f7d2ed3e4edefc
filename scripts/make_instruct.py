#!/usr/bin/env python3
"""Writes the instruction set in data/instruct/: questions with answers that can be checked, and others held out.

    scripts/make_instruct.py            # writes train.jsonl and held-out.jsonl
    scripts/make_instruct.py --check    # writes nothing; status 1 where the files are not what this script writes

train.jsonl has rows of format alpaca, each with several questions (`history` before the last); held-out.jsonl has one
question a row, of format messages, and its kind in `task`. What a question is about (a word, a number, two numbers in
either order) is in training or held out, never both, whatever is asked about it. Words in training are made up, letter by
letter; those held out are English. So a word cannot be answered from memory, only by looking at it.

All choices follow SHA-256 of (seed, what is chosen), which is the same in every version of Python.
"""
import argparse
import hashlib
import itertools
import json
import pathlib
import sys

SEED = 1
ROWS = 600
QUESTIONS_IN_A_ROW = 5
HELD_OUT_PER_TASK = 20
LETTERS = "abcdefghijklmnopqrstuvwxyz"
LENGTHS = (3, 4, 5)

# Held out.
ENGLISH = """
    apple arm baker band barn beach bell bird boat bone book bread brick bus cake candy car cat chair clock cloud coat corn cow
    cup desk dog door dress drum duck ear egg face farm fish flag floor fork fox frog glass goat grape green hall hand hat
    heart hill honey horse house ice ink jar jump key king kite knee lake lamp leaf lemon light lion map milk moon mouse music
    nail nest night nose oak oil onion owl paint park peach pen piano pig plant queen rain ring river road roof rose salt sand
    shelf ship shoe snow soap sock song stone sugar sun table tea tiger tooth tree uncle vase voice wall water whale wind wolf
    yard zebra zoo
""".split()

# The question of a task, its answer, and how often it is asked for one of the others: copying takes longest to learn.
TASKS = {
    "repeat": ("Repeat {}.", lambda word: word, 3),
    "first_letter": ("First letter of {}?", lambda word: word[0], 1),
    "last_letter": ("Last letter of {}?", lambda word: word[-1], 1),
    "count_letters": ("How many letters has {}?", len, 1),
    "next_number": ("What comes after {}?", lambda n: n + 1, 1),
    "add": ("What is {} + {}?", lambda a, b: a + b, 2),
    "larger": ("Which is larger, {} or {}?", max, 2),
}


def carries(a, b):
    return a % 10 + b % 10 > 9 or a // 10 + b // 10 > 9


# What the tasks on numbers ask about. Sums have two digits and carry nothing.
PAIRS = [(a, b) for a in range(10, 100) for b in range(a, 100)]
NUMBERS = {
    "next_number": [(n,) for n in range(10, 400)],
    "add": [pair for pair in PAIRS if not carries(*pair)],
    "larger": [pair for pair in PAIRS if pair[0] != pair[1]],
}


def dice(*what):
    return int.from_bytes(hashlib.sha256(json.dumps([SEED, *what]).encode()).digest(), "big")


def shuffled(items, *purpose):
    return sorted(items, key=lambda item: dice(*purpose, item))


def made_up_word(n):
    for attempt in itertools.count():
        length = LENGTHS[dice("length", n, attempt) % len(LENGTHS)]
        word = "".join(LETTERS[dice("letter", n, attempt, i) % 26] for i in range(length))
        if word not in ENGLISH:
            return word


def ask(task, about, n):
    """A question and its answer; two numbers come in either order."""
    form, answer, _ = TASKS[task]
    said = about[::-1] if dice("order", task, n) % 2 else about
    return form.format(*said), str(answer(*about))


def held_out():
    """What is held out, by task: the same pairs for all tasks on pairs."""
    first = [shuffled(NUMBERS[task], "held out")[:HELD_OUT_PER_TASK] for task in ("add", "larger")]
    pairs = set(itertools.chain(*first))
    about = {task: [(word,) for word in shuffled(ENGLISH, task)] for task in TASKS}
    about["next_number"] = shuffled(NUMBERS["next_number"], "held out")
    for task in ("add", "larger"):
        about[task] = shuffled(pairs & set(NUMBERS[task]), task)
    return {task: things[:HELD_OUT_PER_TASK] for task, things in about.items()}, pairs


def training_questions(count, kept_back, pairs):
    turns = [task for task, (_, _, times) in TASKS.items() for _ in range(times)]
    allowed = {task: [t for t in things if t not in kept_back[task] and t not in pairs] for task, things in NUMBERS.items()}
    for n in range(count):
        task = turns[n % len(turns)]
        about = (made_up_word(n),)
        if task in NUMBERS:
            about = allowed[task][dice("number", task, n) % len(allowed[task])]
        yield ask(task, about, n)


def alpaca(questions):
    *before, (instruction, output) = questions
    return {"history": [list(pair) for pair in before], "instruction": instruction, "output": output}


def messages(task, question, answer):
    turns = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    return {"task": task, "messages": turns}


def instruction_set():
    about, pairs = held_out()
    questions = shuffled(training_questions(ROWS * QUESTIONS_IN_A_ROW, about, pairs), "rows")
    rows = [questions[i : i + QUESTIONS_IN_A_ROW] for i in range(0, len(questions), QUESTIONS_IN_A_ROW)]
    return {
        "train.jsonl": [alpaca(row) for row in rows],
        "held-out.jsonl": [messages(task, *ask(task, t, n)) for task in TASKS for n, t in enumerate(about[task])],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 where the files differ")
    check = parser.parse_args().check
    folder = pathlib.Path(__file__).resolve().parent.parent / "data" / "instruct"
    status = 0
    for name, rows in instruction_set().items():
        text = "".join(json.dumps(row) + "\n" for row in rows)
        path = folder / name
        if not check:
            folder.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"{path}: {len(rows)} rows, {len(text)} bytes")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            print(f"{path} is not what scripts/make_instruct.py writes", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
