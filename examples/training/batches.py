"""Batches of texts of similar length, made as they are needed: nothing is stored, and any place can be sought."""
import random

import torch

import problems


def collate(rows):
    """rows: (prompt length, ids). Gives ids [B, T] padded with 0, prompt lengths [B] and lengths [B]."""
    ids = torch.zeros(len(rows), max(len(row) for _, row in rows), dtype=torch.long)
    for i, (_, row) in enumerate(rows):
        ids[i, :len(row)] = torch.tensor(row)
    return ids, torch.tensor([prompt for prompt, _ in rows]), torch.tensor([len(row) for _, row in rows])


def by_length(rows, tokens, rng):
    """The rows in batches of at most `tokens` places, in random order."""
    batches, current = [], []
    for row in sorted(rows, key=lambda r: len(r[1])):
        if current and (len(current) + 1) * len(row[1]) > tokens:
            batches.append(current)
            current = []
        current.append(row)
    batches.append(current)
    rng.shuffle(batches)
    return batches


def row_of(problem, tokenizer):
    prompt = tokenizer.encode(problem.question + "\n")
    return len(prompt), prompt + tokenizer.encode(problem.solution) + [tokenizer.end]


class Stream:
    """Endless batches; chunk(n) gives the rows of the n-th chunk of the text."""

    def __init__(self, chunk, tokens, seed):
        self.chunk, self.tokens, self.seed = chunk, tokens, seed
        self.at, self.batch, self.batches = 0, 0, None

    def __next__(self):
        if self.batches is None:
            self.batches = by_length(self.chunk(self.at), self.tokens, random.Random(f"{self.seed} {self.at}"))
        rows = self.batches[self.batch]
        self.batch += 1
        if self.batch == len(self.batches):
            self.at, self.batch, self.batches = self.at + 1, 0, None
        return collate(rows)

    def position(self):
        return self.at, self.batch

    def seek(self, position):
        (self.at, self.batch), self.batches = position, None


def generated(tokenizer, seed, size=128):
    """Chunks of `size` new problems each."""
    return lambda n: [row_of(p, tokenizer) for p in problems.examples(f"{seed} {n}", size)]
