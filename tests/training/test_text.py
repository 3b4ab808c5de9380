"""The generated text and its tokenizer. Needs Python alone."""
import collections
import json
import random
import re
import unittest

import arithmetic
import problems
import tokenizer as bpe
import words

ONE_COLUMN = re.compile(r"^(\w[\w ]*): (.+) = (\d+), write (\d)(?:, carry (\d))?\.$")


def pairs(count, most=9999, seed=3):
    rng = random.Random(seed)
    edges = [(0, 0), (5, 5), (10, 9), (999, 1), (1000, 1), (1003, 958), (9999, 9999), (100, 99)]
    return edges + [(rng.randint(0, most), rng.randint(0, most)) for _ in range(count)]


class Arithmetic(unittest.TestCase):
    def test_every_equation_in_the_lines_holds(self):
        """Whatever stands between a colon, comma or line's begin and an "=" is what stands behind it."""
        equation = re.compile(r"(?:^|[:,|] |borrow, )(\d+(?: [-+*] \d+)+) = (\d+)")
        seen = 0
        for a, b in pairs(200):
            a, b = max(a, b), min(a, b)
            k = 2 + b % 8
            lines = (arithmetic.add_columns(a, b) + arithmetic.sub_columns(a, b) + arithmetic.mul_columns(a, k) +
                     [arithmetic.add_line(a, b), arithmetic.sub_line(a, b), arithmetic.mul_line(a, k)] +
                     arithmetic.divide(a, k)[0])
            for line in lines:
                for left, right in equation.findall(line):
                    self.assertEqual(eval(left), int(right), line)
                    seen += 1
        self.assertGreater(seen, 5000)

    def test_written_digits_give_the_result(self):
        for a, b in pairs(300):
            lines = arithmetic.add_columns(a, b)
            digits = [re.search(r"write (\d)", line).group(1) for line in lines if "write" in line]
            self.assertEqual(int("".join(reversed(digits))), a + b, lines)
            a, b = max(a, b), min(a, b)
            lines = arithmetic.sub_columns(a, b)
            digits = [re.search(r"write (\d)", line).group(1) for line in lines if "write" in line]
            self.assertEqual(int("".join(reversed(digits))), a - b, lines)

    def test_leading_zeros_are_written_before_they_are_dropped(self):
        self.assertEqual(arithmetic.sub_columns(1003, 958)[-1], "The digits are 0045, which is 45.")
        self.assertEqual(arithmetic.sub_columns(45, 2)[-1], "The digits are 43.")
        self.assertTrue(arithmetic.sub_line(1003, 958).endswith("so 0045 or 45."))

    def test_tables_state_the_same_digits(self):
        for a, b in pairs(100):
            rows = [line.strip("| ").split(" | ") for line in arithmetic.add_table(a, b)[1:-1]]
            self.assertEqual(int("".join(row[-1] for row in reversed(rows))), a + b)
            a, b = max(a, b), min(a, b)
            rows = [line.strip("| ").split(" | ") for line in arithmetic.sub_table(a, b)[1:-1]]
            self.assertEqual(int("".join(row[-1] for row in reversed(rows))), a - b)

    def test_division(self):
        for a, k in ((5285, 7), (44, 3), (10, 9), (99, 9), (1000, 8)):
            _, quotient, rest = arithmetic.divide(a, k)
            self.assertEqual((int(quotient), rest), divmod(a, k))


def unit_tables():
    """The sets of numbers that a unit table can have."""
    return [(unit, first, last) for unit, _, _ in words.UNITS for first in range(2, 7) for last in range(first + 2, first + 5)]


def renamed(p):
    """The sets of numbers of the same program under other names of its variable."""
    before, behind = p.template.split("{said}")
    said = p.question[len(before):-len(behind)]
    own = re.search(r"^(\w+) = \d+$", p.solution, re.MULTILINE).group(1)
    assert said.replace(own, "x") == p.numbers[0]
    for name in set(words.VARIABLES) - {own}:
        yield (re.sub(rf"(starts|while) {own}\b", rf"\1 {name}", said).replace(name, "x"),)


TWINS = {"add": lambda p: [p.numbers[::-1]], "long multiply": lambda p: [p.numbers[::-1]], "program": renamed}


class Problems(unittest.TestCase):
    def test_kinds_and_wordings(self):
        self.assertGreaterEqual(len(problems.KINDS), 12)
        for kind, (_, phrasings) in problems.KINDS.items():
            known = phrasings[:-problems.HELD_OUT_PHRASINGS]
            self.assertGreaterEqual(len(known), 8, kind)
            self.assertGreaterEqual(len({layout for layout, _ in known}), 2, kind)
            self.assertEqual(len({template for _, template in phrasings}), len(phrasings), kind)
            for layout, _ in phrasings:
                self.assertIn(layout, {known_layout for known_layout, _ in known}, kind)

    def test_training_never_sees_held_out_numbers_or_wordings(self):
        held = {p.question for p in problems.held_out_set(600)}
        seen = {p.question for p in problems.examples("any", 4000)}
        self.assertFalse(held & seen)
        kinds = collections.Counter(p.kind for p in problems.held_out_set(300) if p.new_wording)
        self.assertEqual(set(kinds), set(problems.KINDS))
        unseen = {(kind, template) for kind, (_, phrasings) in problems.KINDS.items()
                  for _, template in phrasings[-problems.HELD_OUT_PHRASINGS:]}
        for p in problems.examples("any", 4000):
            self.assertNotIn((p.kind, p.template), unseen)
            self.assertFalse(problems.held_out(p.kind, p.numbers))
        for p in problems.held_out_set(600):
            self.assertTrue(problems.held_out(p.kind, p.numbers))
            self.assertEqual((p.kind, p.template) in unseen, p.new_wording)

    def test_a_problem_tells_its_wording_and_numbers(self):
        for p in problems.examples("told", 400) + problems.held_out_set(100):
            self.assertIn(p.template, [template for _, template in problems.KINDS[p.kind][1]])
            parts = [re.escape(part) for part in re.split(r"\{\w+\}", p.template)]
            self.assertRegex(p.question, "^" + ".+".join(parts) + "$")
            if p.kind in ("add", "subtract", "multiply", "long multiply", "sorting"):
                self.assertEqual(set(map(int, re.findall(r"\d+", p.question))), set(p.numbers))

    def test_what_of_the_measured_set_has_a_near_twin_in_training(self):
        """The counts that the model card and docs/training.md give."""
        asked, twins = problems.held_out_set(300, problems.MEASURED_SET), collections.Counter()
        for p in asked:
            twins[p.kind] += p.kind in TWINS and any(not problems.held_out(p.kind, other) for other in TWINS[p.kind](p))
        self.assertEqual(+twins, {"add": 18, "long multiply": 16, "program": 18})
        trained = [key for key in unit_tables() if not problems.held_out("unit table", key)]
        self.assertEqual((len(unit_tables()), len(trained)), (180, 170))
        tables = [p.numbers for p in asked if p.kind == "unit table"]
        for unit, first, last in tables:
            for row in range(first, last + 1):
                self.assertTrue(any(other == unit and low <= row <= high for other, low, high in trained))
        within = sum(any(other == unit and low <= first and last <= high for other, low, high in trained)
                     for unit, first, last in tables)
        self.assertEqual((len(tables), within), (18, 15))
        self.assertEqual(len({p.question for p in asked}), 297)
        checked = {(p.kind, p.solution) for p in problems.held_out_set(300)}
        self.assertEqual(sum((p.kind, p.solution) in checked for p in asked), 15)
        self.assertEqual(sum(p.kind not in problems.NEAR_TRAINING for p in asked), 264)

    def test_the_same_seed_gives_the_same_text(self):
        self.assertEqual(problems.examples("a", 50), problems.examples("a", 50))
        self.assertNotEqual(problems.examples("a", 50), problems.examples("b", 50))

    def test_the_solution_is_right_and_a_wrong_one_is_not(self):
        for p in problems.examples("judge", 600):
            self.assertTrue(p.right(p.solution))
            self.assertFalse(p.right(p.solution + "0"), p.solution)

    def test_answers_to_plain_sums(self):
        asked = {"add": r"(\d+) (\+) (\d+)", "subtract": r"(\d+) (-) (\d+)", "multiply": r"(\d+) (\*) (\d+)"}
        seen = 0
        for p in problems.examples("plain", 4000):
            found = re.search(asked[p.kind], p.question) if p.kind in asked else None
            if found:
                self.assertEqual(str(eval(found.group())), p.answer)
                seen += 1
        self.assertGreater(seen, 200)

    def test_records_are_json_and_programs_print_their_answer(self):
        counts = collections.Counter()
        for p in problems.examples("run", 3000):
            if p.kind == "JSON":
                json.loads(p.solution)
            elif p.kind == "program":
                code = re.split(r"\nTrace:|\n\| step", p.solution)[0]
                printed = []
                exec(code, {"print": printed.append, "range": range})
                self.assertEqual(str(printed[0]), p.answer, p.solution)
            counts[p.kind] += 1
        self.assertGreater(min(counts.values()), 50)


class Tokens(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.texts = [p.question + "\n" + p.solution for p in problems.examples("tokens", 400)]
        cls.words = bpe.Tokenizer(bpe.train(cls.texts, 700))

    def test_round_trip_of_any_text(self):
        for text in self.texts + ["", "é\r\n\tΩ  x\n\n   y", "日本 12", "\x00\x7f", "don't stop"]:
            self.assertEqual(self.words.decode(self.words.encode(text)), text)

    def test_the_pattern_covers_every_character(self):
        for text in self.texts + ["a\t\tb  \r\n  c_é7"]:
            self.assertEqual("".join(bpe.PATTERN.findall(text)), text)

    def test_digits_stay_alone(self):
        self.assertEqual(len(self.words.encode("12345")), 5)

    def test_frequent_words_are_one_token(self):
        self.assertEqual(len(self.words.encode(" digits")), 1)

    def test_the_document_holds_what_the_tokenizer_knows(self):
        document = json.loads(json.dumps(self.words.document()))
        self.assertEqual(len(document["model"]["vocab"]) + 3, len(self.words))
        self.assertEqual({t["content"]: t["id"] for t in document["added_tokens"]},
                         {bpe.END: self.words.end, bpe.MASK: self.words.mask, bpe.PAD: self.words.pad})
        again = bpe.Tokenizer(document["model"]["merges"])
        self.assertEqual(again.encode(self.texts[0]), self.words.encode(self.texts[0]))


if __name__ == "__main__":
    unittest.main()
