"""Worked arithmetic and word problems.

A kind is a function of a random generator that returns (numbers, fields for the phrasing, solve), where solve(layout)
gives the lines of the solution and the answer. Its phrasings are (layout, template) pairs; the wording decides the
layout of the solution. The last two phrasings of every kind are held out: training never sees them.
"""
import words
from arithmetic import ADD, MUL, SUB, add_line, divide, mul_line, sub_line


def number(rng, most=4):
    """Two to `most` digits."""
    width = rng.choice([2, 3, 3, 4][:most])
    return rng.randint(10 ** (width - 1), 10 ** width - 1)


def add(rng):
    a, b = number(rng), number(rng)

    def solve(layout):
        if layout == "check":
            return [add_line(a, b), "Check: " + sub_line(a + b, b)], str(a + b)
        return ADD[layout](a, b), str(a + b)
    return (a, b), dict(a=a, b=b), solve


ADD_PHRASINGS = [
    ("columns", "Please calculate {a} + {b}."), ("table", "In a table, add {a} and {b}."),
    ("table", "Find {a} + {b} in a table of columns."), ("columns", "Please add {a} and {b}."),
    ("check", "Find the sum of {a} and {b} and check it."),
    ("columns", "What is {a} + {b}?"), ("columns", "Calculate {a} + {b} column by column."),
    ("columns", "Find the sum of {a} and {b}."), ("columns", "Add {a} and {b}, please."),
    ("table", "Add {a} and {b} in a table."), ("table", "Show {a} + {b} as a table of columns."),
    ("check", "What is {a} + {b}? Check it."), ("check", "Add {a} and {b} and check the result."),
    ("table", "Make a table of columns to add {a} and {b}."),
    ("check", "Calculate {a} + {b} and check it."),
    ("columns", "Please find {a} + {b}."), ("table", "In a table, find the sum of {a} and {b}."),
]


def subtract(rng):
    a, b = sorted((number(rng), number(rng)), reverse=True)

    def solve(layout):
        if layout == "check":
            return [sub_line(a, b), "Check: " + add_line(a - b, b)], str(a - b)
        return SUB[layout](a, b), str(a - b)
    return (a, b), dict(a=a, b=b), solve


SUBTRACT_PHRASINGS = [
    ("columns", "Please calculate {a} - {b}."), ("table", "In a table, subtract {b} from {a}."),
    ("table", "Find {a} - {b} in a table of columns."), ("columns", "Please subtract {b} from {a}."),
    ("check", "Find the difference of {a} and {b} and check it."),
    ("columns", "What is {a} - {b}?"), ("columns", "Calculate {a} - {b} column by column."),
    ("columns", "Find the difference of {a} and {b}."), ("columns", "Subtract {b} from {a}, please."),
    ("table", "Subtract {b} from {a} in a table."), ("table", "Show {a} - {b} as a table of columns."),
    ("check", "What is {a} - {b}? Check it."), ("check", "Subtract {b} from {a} and check the result."),
    ("table", "Make a table of columns to subtract {b} from {a}."),
    ("check", "Calculate {a} - {b} and check it."),
    ("columns", "Please find {a} - {b}."), ("table", "In a table, find the difference of {a} and {b}."),
]


def multiply(rng):
    a, k = number(rng), rng.randint(2, 9)

    def solve(layout):
        if layout == "check":
            return [mul_line(a, k), "Check:"] + divide(a * k, k)[0], str(a * k)
        return MUL[layout](a, k), str(a * k)
    return (a, k), dict(a=a, k=k), solve


MULTIPLY_PHRASINGS = [
    ("columns", "Please calculate {a} * {k}."), ("table", "In a table, multiply {a} by {k}."),
    ("table", "Find {a} * {k} in a table of digits."), ("columns", "Please multiply {a} by {k}."),
    ("check", "Find the product of {a} and {k} and check it."),
    ("columns", "What is {a} * {k}?"), ("columns", "Calculate {a} * {k} digit by digit."),
    ("columns", "Find the product of {a} and {k}."), ("columns", "Multiply {a} by {k}, please."),
    ("table", "Multiply {a} by {k} in a table."), ("table", "Show {a} * {k} as a table of digits."),
    ("check", "What is {a} * {k}? Check it."), ("check", "Multiply {a} by {k} and check the result."),
    ("table", "Make a table of digits to multiply {a} by {k}."),
    ("check", "Calculate {a} * {k} and check it."),
    ("columns", "Please find {a} * {k}."), ("table", "In a table, find the product of {a} and {k}."),
]


def long_multiply(rng):
    a, b = rng.randint(12, 99), rng.randint(12, 99)
    tens, ones = divmod(b, 10)

    def solve(layout):
        parts = [f"Split {b} into {10 * tens} and {ones}."]
        inner = "columns" if layout == "columns" else "short"
        if tens == 1:
            parts += [f"{a} * 10 = {a}0."]
        else:
            parts += MUL[inner](a, tens) + [f"So {a} * {10 * tens} = {a * tens}0."]
        if ones == 0:
            parts += [f"{a} * 0 = 0."]
        elif ones == 1:
            parts += [f"{a} * 1 = {a}."]
        else:
            parts += MUL[inner](a, ones)
        return parts + ADD[inner](a * tens * 10, a * ones), str(a * b)
    return (a, b), dict(a=a, b=b), solve


LONG_MULTIPLY_PHRASINGS = [
    ("columns", "Calculate {a} * {b} with all the steps."), ("columns", "Find {a} times {b} in full."),
    ("short", "Find {a} * {b}, split by place."), ("short", "Please find {a} * {b}, split by place."),
    ("columns", "Please work out {a} * {b} in full."),
    ("columns", "Work out {a} * {b} in full."), ("columns", "Use long multiplication for {a} * {b}."),
    ("columns", "Multiply {a} by {b} with all the steps."), ("columns", "What is {a} times {b}? Show all the steps."),
    ("short", "Work out {a} * {b}."), ("short", "What is {a} times {b}?"), ("short", "Multiply {a} and {b}, split by place."),
    ("short", "Split {b} to find {a} * {b}."),
    ("short", "Please work out {a} times {b}."), ("columns", "Find {a} * {b} with all the steps."),
]


def division(rng):
    k = rng.randint(2, 9)
    a = number(rng)
    exact = rng.random() < 0.4
    a = max(k * (a // k), k) if exact else a

    def solve(layout):
        lines, quotient, rest = divide(a, k)
        value = str(int(quotient))
        if layout == "short":
            lines = [" ".join(lines)]
        lines.append(f"The digits are {quotient}" + ("." if value == quotient else f", which is {value}."))
        if layout == "check":
            lines += ["Check:"] + (MUL["columns"](int(value), k) if int(value) else [f"0 * {k} = 0."])
            lines.append(f"Add the rest: {k * int(value)} + {rest} = {a}.")
        return lines, value + (f" rest {rest}" if rest else "")
    return (a, k), dict(a=a, k=k), solve


DIVISION_PHRASINGS = [
    ("columns", "Please divide {a} by {k}."), ("columns", "Calculate {a} / {k} digit by digit."),
    ("check", "Please divide {a} by {k} and check it."), ("short", "In one line, find {a} / {k}."),
    ("columns", "What is {a} / {k}?"), ("columns", "Divide {a} by {k}."), ("columns", "Share {a} into {k} equal parts."),
    ("columns", "How many times does {k} go into {a}?"), ("check", "Divide {a} by {k} and check the result."),
    ("check", "What is {a} / {k}? Check it."), ("short", "In one line, divide {a} by {k}."), ("short", "Briefly, what is {a} / {k}?"),
    ("columns", "Please calculate {a} / {k}."), ("check", "Calculate {a} / {k} and check it."),
]


def equation(rng):
    k, x, c, minus = rng.randint(2, 9), rng.randint(2, 60), rng.randint(1, 99), rng.random() < 0.5
    c = min(c, k * x - 1) if minus else c
    value = k * x - c if minus else k * x + c
    text = f"{k} * x {'-' if minus else '+'} {c} = {value}"

    def solve(layout):
        lines = [f"{'Add' if minus else 'Subtract'} {c} on both sides: {k} * x = {value} {'+' if minus else '-'} {c}.",
                 add_line(value, c) if minus else sub_line(value, c), f"Divide {k * x} by {k}."]
        steps, quotient, _ = divide(k * x, k)
        lines += steps + [f"The digits are {quotient}" + ("." if quotient == str(x) else f", which is {x}.")]
        if layout == "check":
            lines += [f"Check: {k} * {x} {'-' if minus else '+'} {c}.", mul_line(x, k),
                      sub_line(k * x, c) if minus else add_line(k * x, c)]
        return lines, f"x = {x}"
    return (k, x, c, minus), dict(e=text), solve


EQUATION_PHRASINGS = [
    ("columns", "Please find x if {e}."), ("check", "Please solve {e} and check it."),
    ("check", "Find the x with {e} and check it."), ("columns", "Calculate x if {e}."),
    ("columns", "Solve {e}."), ("columns", "Find x if {e}."), ("columns", "What is x when {e}?"),
    ("columns", "For which x is {e}?"), ("check", "Solve {e} and check the result."), ("check", "Find x if {e}. Check it."),
    ("check", "Solve and check {e}."), ("columns", "Which number x gives {e}?"),
    ("columns", "Please solve {e}."), ("check", "What is x when {e}? Check it."),
]


def units(rng):
    big, small, factor = rng.choice(words.UNITS)
    n, extra = rng.randint(2, 9), rng.randint(1, min(factor - 1, 999))

    def solve(layout):
        inner = "columns" if layout == "columns" else "short"
        lines = [f"There are {factor} {small} in one of the {big}.", f"{n} {big} are {n} * {factor} {small}."]
        lines += MUL[inner](factor, n)
        return lines + [f"Then add {extra} {small}."] + ADD[inner](n * factor, extra), f"{n * factor + extra} {small}"
    return (big, n, extra), dict(n=n, big=big, e=extra, small=small), solve


UNITS_PHRASINGS = [
    ("short", "Please write {n} {big} and {e} {small} in {small}."),
    ("columns", "Please change {n} {big} and {e} {small} to {small} with all the steps."),
    ("short", "Please change {n} {big} {e} {small} to {small}."),
    ("columns", "Convert {n} {big} {e} {small} into {small} with all the steps."),
    ("short", "How many {small} are {n} {big} and {e} {small}?"), ("short", "Convert {n} {big} and {e} {small} to {small}."),
    ("short", "Write {n} {big} and {e} {small} in {small}."), ("columns", "Convert {n} {big} and {e} {small} to {small} column by column."),
    ("columns", "With all the steps, how many {small} are {n} {big} and {e} {small}?"), ("short", "Change {n} {big} {e} {small} into {small}."),
    ("short", "What is {n} {big} and {e} {small} in {small}?"), ("columns", "Write {n} {big} and {e} {small} in {small} with all the steps."),
    ("short", "Please convert {n} {big} and {e} {small} into {small}."), ("columns", "Change {n} {big} {e} {small} into {small} with all the steps."),
]


def shopping(rng):
    count = rng.choice([2, 2, 3])
    goods = rng.sample(words.ITEMS, count)
    lines = [(rng.randint(2, 9), item, rng.randint(2, 60)) for item in goods]
    name = rng.choice(words.NAMES)
    parts = [f"{n} {item} for {price} dollars each" for n, item, price in lines]
    bought = ", ".join(parts[:-1]) + " and " + parts[-1]

    def solve(layout):
        if layout == "bill":
            out = ["| item | count | each | cost |"]
            out += [f"| {item} | {n} | {price} | {mul_line(price, n)[:-1]} |" for n, item, price in lines]
        else:
            out = [f"The {item} cost {mul_line(price, n)}" for n, item, price in lines]
        total = lines[0][0] * lines[0][2]
        for n, _, price in lines[1:]:
            out.append("Add " + add_line(total, n * price))
            total += n * price
        return out, f"{total} dollars"
    return tuple(lines), dict(name=name, bought=bought), solve


SHOPPING_PHRASINGS = [
    ("bill", "Please make a bill for {bought}."), ("lines", "Please find the cost of {bought}."),
    ("bill", "Write the bill of {name} for {bought}."), ("lines", "{name} has to pay for {bought}. How much is that?"),
    ("lines", "{name} buys {bought}. How much does {name} pay?"), ("lines", "{name} buys {bought}. What is the total?"),
    ("lines", "What do {bought} cost together?"), ("lines", "How much are {bought}?"),
    ("bill", "Write a bill for {bought}."), ("bill", "Make a bill: {name} buys {bought}."),
    ("bill", "{name} buys {bought}. Write the bill."), ("lines", "{name} wants {bought}. How many dollars is that?"),
    ("lines", "{name} pays for {bought}. What is the total?"), ("bill", "Please write the bill of {name} for {bought}."),
]


def story(rng):
    """A quantity that changes two to four times."""
    name, other = rng.sample(words.NAMES, 2)
    item = rng.choice(words.ITEMS)
    have = start = number(rng, 3)
    steps, events = rng.choice([2, 2, 3, 3, 4]), []
    for i in range(steps):
        kinds = ["buy", "find"] + (["give", "lose"] if have > 30 else []) + (["pack"] if i and have < 400 else [])
        kind = rng.choice(kinds)
        if kind == "pack":
            amount = rng.randint(2, 6)
            have *= amount
        else:
            amount = rng.randint(11, min(have - 1, 400)) if kind in ("give", "lose") else rng.randint(11, 400)
            have += -amount if kind in ("give", "lose") else amount
        events.append((kind, amount))
    tell = dict(buy="buys {n} more", find="finds {n} more", give="gives {n} to {other}", lose="loses {n}",
                pack="then gets {n} times as many")
    said = ", ".join(tell[k].format(n=n, other=other) for k, n in events[:-1])
    said = (said + " and " if said else "") + tell[events[-1][0]].format(n=events[-1][1], other=other)

    def solve(layout):
        value, out = start, [f"At first there are {start} {item}."]
        for number_of, (kind, n) in enumerate(events, 1):
            head = f"Step {number_of}: " if layout == "steps" else ""
            if kind == "pack":
                out.append(f"{head}{n} times as many: {mul_line(value, n)}")
                value *= n
            elif kind in ("give", "lose"):
                out.append(f"{head}{name} {'gives away' if kind == 'give' else 'loses'} {n}: {sub_line(value, n)}")
                value -= n
            else:
                out.append(f"{head}{name} {'buys' if kind == 'buy' else 'finds'} {n}: {add_line(value, n)}")
                value += n
        return out + [f"{name} has {value} {item} at the end."], f"{value} {item}"
    fields = dict(name=name, start=start, item=item, said=said)
    return (start, tuple(events)), fields, solve


STORY_PHRASINGS = [
    ("plain", "Please find how many {item} {name} has, who had {start} and {said}."),
    ("steps", "{name} had {start} {item}. Then {name} {said}. Show step by step how many are left."),
    ("steps", "At first {name} had {start} {item}, {said}. Show each step."),
    ("plain", "{name} had {start} {item}, {said}. How many {item} are there now?"),
    ("plain", "{name} has {start} {item}, {said}. How many {item} does {name} have now?"),
    ("plain", "{name} has {start} {item}. {name} {said}. How many {item} are there at the end?"),
    ("plain", "At first {name} has {start} {item}. Then {name} {said}. How many {item} does {name} have?"),
    ("plain", "{name} starts with {start} {item}, {said}. How many are left?"),
    ("steps", "{name} has {start} {item}. {name} {said}. Work out step by step how many {item} there are."),
    ("steps", "Step by step: {name} has {start} {item}, {said}. How many {item} are there?"),
    ("steps", "{name} starts with {start} {item}, {said}. Show each step."),
    ("plain", "How many {item} does {name} have, who had {start} and {said}?"),
    ("plain", "{name} had {start} {item}. Then {name} {said}. How many {item} does {name} have now?"),
    ("steps", "{name} has {start} {item}, {said}. Show step by step how many are left."),
]


def clock(rng):
    hour, minute, hours, minutes = rng.randint(1, 14), rng.randint(1, 59), rng.randint(1, 8), rng.randint(2, 59)
    begin = f"{hour:02d}:{minute:02d}"
    what = rng.choice(["train", "bus", "film", "ship", "flight", "lesson"])

    def solve(layout):
        total, carry = minute + minutes, int(minute + minutes > 59)
        lines = [f"It begins at {begin} and takes {hours} hours and {minutes} minutes.", "Minutes: " + add_line(minute, minutes)]
        if carry:
            lines.append(f"{total} is more than 59, so take away 60: {total} - 60 = {total - 60}, and one hour more.")
        lines.append(f"Hours: {hour} + {hours}{' + 1' if carry else ''} = {hour + hours + carry}.")
        end = f"{hour + hours + carry:02d}:{total - 60 * carry:02d}"
        if layout == "table":
            lines += ["| | hours | minutes |", f"| begin | {hour} | {minute} |", f"| takes | {hours} | {minutes} |",
                      f"| end | {hour + hours + carry} | {total - 60 * carry} |"]
        return lines, end
    return (hour, minute, hours, minutes), dict(t=begin, h=hours, m=minutes, w=what), solve


CLOCK_PHRASINGS = [
    ("plain", "A {w} begins at {t} and takes {h} hours and {m} minutes. When does it end?"),
    ("plain", "What time is it {h} hours and {m} minutes after {t}?"),
    ("plain", "The {w} starts at {t} and takes {h} hours {m} minutes. When is it over?"),
    ("plain", "Add {h} hours and {m} minutes to {t}."),
    ("table", "A {w} begins at {t} and takes {h} hours and {m} minutes. Show the times in a table."),
    ("table", "In a table, add {h} hours and {m} minutes to {t}."),
    ("table", "Make a table of times: a {w} at {t} that takes {h} hours and {m} minutes."),
    ("plain", "When does a {w} end that starts at {t} and takes {h} hours and {m} minutes?"),
    ("plain", "The {w} at {t} takes {h} hours and {m} minutes. What time does it end?"),
    ("table", "Show in a table when a {w} ends that begins at {t} and takes {h} hours and {m} minutes."),
]

KINDS = {
    "add": (add, ADD_PHRASINGS), "subtract": (subtract, SUBTRACT_PHRASINGS), "multiply": (multiply, MULTIPLY_PHRASINGS),
    "long multiply": (long_multiply, LONG_MULTIPLY_PHRASINGS), "divide": (division, DIVISION_PHRASINGS),
    "equation": (equation, EQUATION_PHRASINGS), "units": (units, UNITS_PHRASINGS), "shopping": (shopping, SHOPPING_PHRASINGS),
    "story": (story, STORY_PHRASINGS), "clock": (clock, CLOCK_PHRASINGS),
}
