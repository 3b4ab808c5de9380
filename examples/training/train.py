"""From nothing to a pair, stage by stage; a stage whose output is there is skipped, a stopped one goes on.

usage: train.py FOLDER [STAGE]
"""
import os
import sys

import torch

import averaging
import problems
import settings
from model import Target, init_weights
from target_learner import TargetLearner
from tokenizer import Tokenizer, train as train_tokenizer


def stage_tokenizer(folder):
    path = f"{folder}/tokenizer.json"
    if not os.path.exists(path):
        texts = [p.question + "\n" + p.solution for p in problems.examples(f"{settings.SEED} tokenizer", 6000)]
        Tokenizer(train_tokenizer(texts, settings.VOCABULARY)).save(path)


def loaded_tokenizer(folder):
    tokenizer = Tokenizer.load(f"{folder}/tokenizer.json")
    return tokenizer, dict(end=tokenizer.end, mask=tokenizer.mask, pad=tokenizer.pad)


def stage_small(folder):
    tokenizer, special = loaded_tokenizer(folder)
    config = settings.small_config(len(tokenizer), special)
    start = Target(config)
    init_weights(start, config["num_hidden_layers"], settings.SEED)
    weights = start.state_dict()
    averaging.train(lambda rank: TargetLearner(config, weights, tokenizer, f"{settings.SEED} small {rank}", settings.TOKENS),
                    settings.SMALL_PLAN, f"{folder}/small.pt")


STAGES = dict(tokenizer=stage_tokenizer, small=stage_small)


def main():
    torch.set_num_threads(1)
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    for name in sys.argv[2:] or STAGES:
        print(f"== {name}", flush=True)
        STAGES[name](folder)


if __name__ == "__main__":
    main()
