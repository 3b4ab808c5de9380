"""Problems of all kinds, and which of them are held out."""
import random
import zlib
from dataclasses import dataclass, field

import kinds_numbers
import kinds_text

KINDS = {**kinds_numbers.KINDS, **kinds_text.KINDS}
# How often each kind comes in training; copying in order is learned late, so texts that need it come more often.
SHARES = {**dict.fromkeys(KINDS, 0.5), "add": 1.0, "subtract": 1.5, "multiply": 1.0, "shopping": 1.0, "unit table": 2.0,
          "people table": 2.5, "story": 2.5, "JSON": 3.0, "program": 2.5, "sorting": 2.5}
HELD_OUT_PHRASINGS = 2  # the last ones of every kind
HELD_OUT_SHARE = 16     # one in so many sets of numbers is held out
CHECKED_SET = 99        # the held-out problems that were looked at while the shares above were chosen
MEASURED_SET = 7        # those that are reported
NEAR_TRAINING = ("program", "unit table")  # kinds whose held-out sets may stand in training in another form
LONGEST_ANSWER = 420    # tokens that a model may write, the end token included


@dataclass(frozen=True)
class Problem:
    kind: str
    question: str
    solution: str
    answer: object  # the text after "Answer: ", or None: then the whole solution is judged
    new_wording: bool
    template: str = field(compare=False, repr=False)   # the phrasing
    numbers: tuple = field(compare=False, repr=False)  # the set of numbers that held_out looks at

    def right(self, text):
        """Whether a solution is right."""
        return text == self.solution if self.answer is None else text.rsplit("Answer: ", 1)[-1] == self.answer


def held_out(kind, numbers):
    return zlib.crc32(repr((kind, numbers)).encode()) % HELD_OUT_SHARE == 0


def problem(rng, kind=None, held=False, new_wording=False):
    """One problem. held: with numbers that training never sees; new_wording: with a phrasing that it never sees."""
    kind = kind or rng.choices(list(SHARES), list(SHARES.values()))[0]
    make, phrasings = KINDS[kind]
    while True:
        numbers, fields, solve = make(rng)
        if held_out(kind, numbers) == held:
            break
    layout, template = rng.choice(phrasings[-HELD_OUT_PHRASINGS:] if new_wording else phrasings[:-HELD_OUT_PHRASINGS])
    lines, answer = solve(layout)
    if answer is not None:
        lines = lines + [f"Answer: {answer}"]
    return Problem(kind, template.format(**fields), "\n".join(lines), answer, new_wording, template, numbers)


def held_out_set(count, seed=CHECKED_SET):
    """`count` held-out problems, all kinds in turn, a third of them in held-out phrasings."""
    rng, kinds = random.Random(seed), list(KINDS)
    return [problem(rng, kinds[i % len(kinds)], held=True, new_wording=(i // len(kinds)) % 3 == 0) for i in range(count)]


def examples(seed, count):
    """`count` training problems, the same for the same seed."""
    rng = random.Random(seed)
    return [problem(rng) for _ in range(count)]


if __name__ == "__main__":
    for one in held_out_set(2 * len(KINDS)):
        print(f"[{one.kind}] {one.question}\n{one.solution}\n")
