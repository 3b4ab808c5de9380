"""Measures a pair on held-out problems with dflash-generate: answers, acceptance lengths, slots, equality with serial decoding.

usage: evaluate.py PAIR PROGRAM [--problems N] [--set SEED] [--block B] [--temperature T] [--activation f32|bf16] [--json FILE]
"""
import argparse
import functools
import json
import math
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import files
import problems


def run(program, pair, question, temperature, seed, activation, *how):
    """One problem: what the program prints as JSON. how: --serial, or the block length."""
    command = [program, "--target", f"{pair}/target", "--draft", f"{pair}/draft", "--prompt", question + "\n", "--json",
               "--threads", "1", "--temperature", str(temperature), "--seed", str(seed), "--max-new-tokens",
               str(problems.LONGEST_ANSWER), "--activation", activation, *how]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr.strip())
    return json.loads(done.stdout)


@functools.lru_cache(maxsize=None)
def serial(*problem):
    return run(*problem, "--serial")["tokens"]


def decode(block, *problem):
    """In blocks, with `identical`: whether one token at a time gives the same."""
    out = run(*problem, "--block-size", str(block))
    return dict(out, identical=out["tokens"] == serial(*problem))


def ratio(part, whole):
    """0 where there is nothing: no texts, or texts that end with their first token and so have no rounds."""
    return part / whole if whole else 0.0


class Count:
    """Sums over some of the runs."""

    def __init__(self):
        self.texts = self.right = self.tokens = self.rounds = self.best_rounds = self.different = self.unended = 0

    def add(self, one, run, block):
        self.texts += 1
        self.right += one.right(run["text"])
        self.tokens += len(run["tokens"]) - 1  # the first comes from the prompt
        self.rounds += len(run["acceptance_lengths"])
        self.best_rounds += math.ceil((len(run["tokens"]) - 1) / block)
        self.different += not run["identical"]
        self.unended += run["finish_reason"] != "stop"

    def line(self, name):
        return (f"| {name} | {self.right} of {self.texts} | {ratio(self.tokens, self.texts):.0f} | "
                f"{ratio(self.tokens, self.rounds):.2f} | {ratio(self.tokens, self.best_rounds):.2f} |")

    def numbers(self):
        return dict(vars(self), length=round(ratio(self.tokens, self.rounds), 3),
                    ceiling=round(ratio(self.tokens, self.best_rounds), 3))


def slots(runs, block):
    """For each slot 1 .. block - 1: of all whole blocks the share where the draft stood up to it, and of those where it stood
    up to the slot before, the share where it stood there too. The last block of a text is left out: its end cuts it."""
    lengths = [length for run in runs
               for length, size in list(zip(run["acceptance_lengths"], run["block_lengths"]))[:-1] if size == block]
    reached = [sum(length > slot for length in lengths) for slot in range(block)]
    return [(reached[k] / max(1, reached[0]), reached[k] / max(1, reached[k - 1])) for k in range(1, block)]


def measure(program, pair, asked, block, temperature=0.0, activation="f32", together=2):
    """What decode gives for each problem; says on stderr how far it is."""
    runs = []
    with ThreadPoolExecutor(together) as pool:
        for run in pool.map(lambda i: decode(block, program, pair, asked[i].question, temperature, i, activation),
                            range(len(asked))):
            runs.append(run)
            if len(runs) % 20 == 0:
                print(f"block {block}, temperature {temperature:g}: {len(runs)} of {len(asked)} problems", file=sys.stderr,
                      flush=True)
    return runs


def summary(asked, runs, block):
    counts = {"all": Count(), "known wording": Count(), "held-out wording": Count()}
    counts.update((kind, Count()) for kind in problems.KINDS)
    for one, run in zip(asked, runs):
        for name in ("all", one.kind, "held-out wording" if one.new_wording else "known wording"):
            counts[name].add(one, run, block)
    return {name: count for name, count in counts.items() if count.texts or name == "all"}


def report(asked, runs, block):
    counts = summary(asked, runs, block)
    lines = ["| problems | right | tokens | tokens a round | ceiling |", "|---|---|---|---|---|"]
    lines += [count.line(name) for name, count in counts.items()]
    lines += ["", "| slot | stood up to here, % | stood, if the one before did, % |", "|---|---|---|"]
    lines += [f"| {k} | {100 * whole:.1f} | {100 * given:.1f} |" for k, (whole, given) in enumerate(slots(runs, block), 1)]
    whole = counts["all"]
    lines += ["", f"{whole.texts - whole.different} of {whole.texts} outputs equal serial decoding; {whole.unended} did not end."]
    apart = [count for kind, count in counts.items() if kind in problems.KINDS and kind not in problems.NEAR_TRAINING]
    lines += ["", f"Without {' and '.join(f'{kind}s' for kind in problems.NEAR_TRAINING)}, {sum(c.right for c in apart)} of "
              f"{sum(c.texts for c in apart)} are right."]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("pair")
    parser.add_argument("program")
    parser.add_argument("--problems", type=int, default=300)
    parser.add_argument("--block", type=int, default=16)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--activation", default="f32")
    parser.add_argument("--set", type=int, default=problems.MEASURED_SET, help="seed of the set of problems")
    parser.add_argument("--json")
    args = parser.parse_args()
    asked = problems.held_out_set(args.problems, args.set)
    runs = measure(args.program, args.pair, asked, args.block, args.temperature, args.activation)
    print(f"Block {args.block}, temperature {args.temperature}, {args.activation}:\n")
    print(report(asked, runs, args.block))
    if args.json:
        counts = summary(asked, runs, args.block)
        files.write_json(args.json, {name: count.numbers() for name, count in counts.items()}, end="", indent=1)


if __name__ == "__main__":
    main()
