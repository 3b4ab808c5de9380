"""Text of another sort: JSON records, small programs with their traces, tables, unit tables, sorting.

The same form as kinds_numbers.py; the answer is None where the whole text is judged.
"""
import json

import words


def record(rng):
    """A person, a thing for sale or an event, asked for in words."""
    sort = rng.choice(["person", "product", "event"])
    if sort == "person":
        name = f"{rng.choice(words.NAMES)} {rng.choice(words.FAMILY_NAMES)}"
        age, city = rng.randint(18, 89), rng.choice(words.CITIES)
        spoken, hobbies = rng.sample(words.LANGUAGES, rng.randint(1, 3)), rng.sample(words.HOBBIES, rng.randint(1, 2))
        value = {"name": name, "age": age, "city": city, "languages": spoken, "hobbies": hobbies}
        said = f"{name} is {age} years old, lives in {city}, speaks {listed(spoken)} and likes {listed(hobbies)}"
    elif sort == "product":
        color, thing = rng.choice(words.COLORS), rng.choice(words.GOODS)
        price, stock, sizes = rng.randint(3, 999), rng.randint(0, 99), rng.sample(["small", "medium", "large"], rng.randint(1, 3))
        value = {"product": thing, "color": color, "price": {"amount": price, "currency": "dollars"}, "stock": stock,
                 "sizes": sizes, "available": stock > 0}
        said = f"a {color} {thing} costs {price} dollars, comes in {listed(sizes)}, and {stock} are in stock"
    else:
        event, day, city = rng.choice(words.EVENTS), rng.choice(words.DAYS), rng.choice(words.CITIES)
        time, guests = f"{rng.randint(7, 22):02d}:{rng.choice([0, 15, 30, 45]):02d}", rng.sample(words.NAMES, rng.randint(2, 4))
        value = {"event": event, "day": day, "time": time, "place": {"city": city, "room": rng.randint(1, 40)},
                 "guests": [{"name": guest} for guest in guests], "count": len(guests)}
        said = f"the {event} is on {day} at {time} in {city}, room {value['place']['room']}, with {listed(guests)}"

    def solve(layout):
        return (json.dumps(value) if layout == "line" else json.dumps(value, indent=2)).split("\n"), None
    return (said,), dict(said=said, Said=said[0].upper() + said[1:], sort=sort), solve


def listed(items):
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]


RECORD_PHRASINGS = [
    ("indent", "{Said}. Please make JSON of it."), ("line", "{Said}. Make a JSON record of it on one line."),
    ("line", "Give JSON on one line of this: {said}."), ("indent", "Please write a JSON record of this {sort}: {said}."),
    ("indent", "Write a JSON record: {said}."), ("indent", "Make JSON of this: {said}."), ("indent", "{Said}. Write that as JSON."),
    ("indent", "Give a JSON record of the {sort}: {said}."), ("line", "Write JSON on one line: {said}."),
    ("line", "{Said}. Give JSON on one line."), ("line", "On one line, write a JSON record: {said}."), ("indent", "JSON for this {sort}, please: {said}."),
    ("indent", "{Said}. Make a JSON record of it."), ("line", "Make JSON on one line of this: {said}."),
]


def program(rng):
    """A loop with a trace. Values stay below 200."""
    name = rng.choice(words.VARIABLES)
    sort = rng.choice(["add", "subtract", "list", "if"])
    lines, trace = [], []
    if sort == "add":
        start, step, times = rng.randint(0, 60), rng.randint(2, 19), rng.randint(3, 6)
        said = f"starts {name} at {start} and adds {step} {times} times"
        lines = [f"{name} = {start}", f"for step in range({times}):", f"    {name} = {name} + {step}", f"print({name})"]
        value = start
        for i in range(times):
            trace.append((f"step {i}", f"{name} = {value} + {step} = {value + step}"))
            value += step
    elif sort == "subtract":
        step, limit = rng.randint(3, 19), rng.randint(5, 40)
        start = limit + rng.randint(1, 6 * step)
        said = f"starts {name} at {start} and takes away {step} while {name} is more than {limit}"
        lines = [f"{name} = {start}", f"while {name} > {limit}:", f"    {name} = {name} - {step}", f"print({name})"]
        value = start
        while value > limit:
            trace.append((f"{value} > {limit}", f"{name} = {value} - {step} = {value - step}"))
            value -= step
    else:
        numbers = [rng.randint(1, 30) for _ in range(rng.randint(3, 6))]
        limit = rng.randint(5, 20) if sort == "if" else 0
        said = f"sums the numbers {', '.join(map(str, numbers))}" + (f" that are more than {limit}" if limit else "")
        body = [f"    {name} = {name} + number"]
        if limit:
            body = [f"    if number > {limit}:", "    " + body[0]]
        lines = [f"numbers = [{', '.join(map(str, numbers))}]", f"{name} = 0", "for number in numbers:"] + body + [f"print({name})"]
        value = 0
        for n in numbers:
            if limit and n <= limit:
                trace.append((f"number {n}", f"{n} > {limit} is false"))
            else:
                trace.append((f"number {n}", f"{name} = {value} + {n} = {value + n}"))
                value += n

    def solve(layout):
        if layout == "table":
            shown = ["| step | effect |"] + [f"| {where} | {what} |" for where, what in trace]
        else:
            shown = ["Trace:"] + [f"{where}: {what}" for where, what in trace]
        return lines + shown, str(value)
    return (said.replace(name, "x"),), dict(said=said), solve


PROGRAM_PHRASINGS = [
    ("trace", "Please write a program that {said}, with a trace."),
    ("table", "Write a program that {said} and show a table of the steps."),
    ("table", "Please write a program that {said}, with a table of its steps."), ("trace", "Trace a program that {said}."),
    ("table", "Write and show in a table of steps a program that {said}."),
    ("trace", "Write a program that {said}. Trace it."), ("trace", "Write and trace a program that {said}."),
    ("trace", "A program {said}. Write it with its trace."), ("trace", "Show a program that {said}, with a trace."),
    ("table", "Write a program that {said}. Show a table of its steps."), ("table", "Show a program that {said}, with a table of its steps."),
    ("table", "A program {said}. Write it with a table of the steps."), ("trace", "What does a program print that {said}? Write and trace it."),
    ("trace", "Show and trace a program that {said}."), ("table", "Write a program that {said} and a table of the steps."),
]


def people_table(rng):
    count = rng.choice([3, 4])
    people = list(zip(rng.sample(words.NAMES, count), rng.sample(range(18, 90), count), rng.sample(words.CITIES, count)))
    said = ", ".join(f"{name} {age} {city}" for name, age, city in people)

    def solve(layout):
        rows = sorted(people, key=lambda p: p[1]) if layout == "sorted" else people
        if layout == "list":
            out = [f"{i}. {name} is {age} and lives in {city}." for i, (name, age, city) in enumerate(rows, 1)]
        else:
            out = ["| name | age | city |", "| --- | --- | --- |"] + [f"| {name} | {age} | {city} |" for name, age, city in rows]
        oldest = max(people, key=lambda p: p[1])
        return out + [f"There are {count} people and {oldest[0]} is the oldest."], None
    return tuple(people), dict(said=said), solve


PEOPLE_PHRASINGS = [
    ("table", "Please write a table of name, age and city: {said}."), ("list", "Please show these people as a list: {said}."),
    ("list", "Put these people in a list: {said}."), ("sorted", "Please make a table of these people by age: {said}."),
    ("table", "In a table, show these people: {said}."),
    ("table", "Make a table of name, age and city: {said}."), ("table", "Show these people in a table: {said}."),
    ("table", "Put {said} in a table."), ("sorted", "Make a table sorted by age: {said}."),
    ("sorted", "Sort these people by age in a table: {said}."), ("sorted", "By age, put {said} in a table."),
    ("list", "Make a list of these people: {said}."), ("list", "Write a list: {said}."),
    ("table", "Write a table of these people: {said}."), ("list", "Show these people in a list: {said}."),
]


def unit_table(rng):
    big, small, factor = rng.choice(words.UNITS)
    first = rng.randint(2, 6)
    last = first + rng.randint(2, 4)

    def solve(layout):
        out = ["| {} | {} |".format(big, small)] if layout == "table" else []
        for n in range(first, last + 1):
            out.append(f"| {n} | {n * factor} |" if layout == "table" else f"{n} {big} = {n} * {factor} {small} = {n * factor} {small}.")
        return [f"There are {factor} {small} in one of the {big}."] + out, None
    return (big, first, last), dict(big=big, small=small, first=first, last=last), solve


UNIT_TABLE_PHRASINGS = [
    ("table", "Please make a table of {big} in {small}, {first} to {last}."),
    ("table", "Please show {first} to {last} {big} in {small} in a table."),
    ("list", "Please list {big} in {small} from {first} to {last}."),
    ("table", "In a table, show {big} in {small} from {first} to {last}."),
    ("list", "Show {big} in {small} from {first} to {last}, one on each line."),
    ("table", "Make a table of {big} in {small} from {first} to {last}."), ("table", "Show {first} to {last} {big} in {small} as a table."),
    ("table", "Write a table of {big} and {small} from {first} to {last}."), ("table", "Table of {big} in {small}, {first} to {last}."),
    ("list", "List {first} to {last} {big} in {small}."), ("list", "Make a list of {big} in {small} from {first} to {last}."),
    ("list", "Write {first} to {last} {big} in {small}, one on each line."), ("list", "Convert {first} to {last} {big} to {small}, one on each line."),
    ("table", "Please show {big} in {small} from {first} to {last} in a table."), ("list", "Show a list of {first} to {last} {big} in {small}."),
]


def sorting(rng):
    numbers = rng.sample(range(10, 1000), rng.choice([4, 4, 5]))

    def solve(layout):
        left, done, out, down = list(numbers), [], [], layout == "down"
        while len(left) > 1:
            pick = max(left) if down else min(left)
            out.append(f"The {'largest' if down else 'smallest'} of {', '.join(map(str, left))} is {pick}.")
            left.remove(pick)
            done.append(pick)
        return out + [f"Only {left[0]} is left."], ", ".join(map(str, done + left))
    return tuple(numbers), dict(said=", ".join(map(str, numbers))), solve


SORTING_PHRASINGS = [
    ("up", "Please put {said} in order."), ("down", "From the largest, put {said} in order."),
    ("down", "From the largest, please sort the numbers {said}."), ("up", "From the smallest, sort {said}."),
    ("up", "Put the numbers {said} in order from the smallest."),
    ("up", "Sort {said}."), ("up", "Sort {said} from the smallest."), ("up", "Put {said} in order."), ("up", "Sort the numbers {said}."),
    ("down", "Sort {said} from the largest."), ("down", "Sort the numbers {said} from the largest."),
    ("down", "Put {said} in order from the largest."), ("up", "Please sort {said}."),
    ("up", "Put the numbers {said} in order."), ("down", "From the largest, sort {said}."),
]

def stock(rng):
    """Things and their numbers, copied into another form: nothing to reckon, but nothing to guess either."""
    things = [(rng.randint(2, 99), item) for item in rng.sample(words.ITEMS, rng.randint(4, 9))]
    said = ", ".join(f"{n} {item}" for n, item in things)

    def solve(layout):
        if layout == "table":
            out = ["| item | count |", "| --- | --- |"] + [f"| {item} | {n} |" for n, item in things]
        elif layout == "list":
            out = [f"{i}. {item}: {n}" for i, (n, item) in enumerate(things, 1)]
        else:
            out = [f"There are {n} {item}." for n, item in things]
        return out + [f"The last is {things[-1][1]}."], None
    return tuple(things), dict(said=said), solve


STOCK_PHRASINGS = [
    ("list", "Please show the list of {said}."), ("table", "Please make a table of {said}."),
    ("lines", "Please show {said}, one on each line."), ("table", "In a table, write {said}."),
    ("list", "Show the count of each as a list: {said}."),
    ("table", "Make a table of item and count: {said}."), ("table", "Show {said} in a table."), ("table", "Write {said} as a table."),
    ("list", "Make a list of {said}."), ("list", "List the count of each: {said}."), ("list", "Write {said} as a list."),
    ("lines", "Write {said}, one on each line."), ("lines", "One on each line, show {said}."),
    ("table", "In a table, show {said}."), ("list", "Show {said} as a list."),
]

KINDS = {
    "stock": (stock, STOCK_PHRASINGS), "JSON": (record, RECORD_PHRASINGS), "program": (program, PROGRAM_PHRASINGS), "people table": (people_table, PEOPLE_PHRASINGS),
    "unit table": (unit_table, UNIT_TABLE_PHRASINGS), "sorting": (sorting, SORTING_PHRASINGS),
}
