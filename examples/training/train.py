"""From nothing to a pair, stage by stage; a stage that keeps its output is skipped where it is there, a stopped one goes on.

usage: train.py FOLDER [--program PATH] [STAGE ...], PATH: dflash-generate, which measures the pair
"""
import argparse
import json
import os
import shutil
import signal

import torch

import answers
import averaging
import batches
import card
import evaluate
import export
import files
import grow
import problems
import settings
import workspace
from draft_learner import DraftLearner, SharedTarget, SideBySide, draft_config
from model import Draft, Target, init_weights
from target_learner import TargetLearner
from tokenizer import Tokenizer, train as train_tokenizer


def stage_tokenizer(folder):
    """The vocabulary, from generated text."""
    if not workspace.done(folder, "tokenizer"):
        asked = problems.examples(f"{settings.SEED} tokenizer", settings.TOKENIZER_TEXTS)
        texts = [p.question + "\n" + p.solution for p in asked]
        Tokenizer(train_tokenizer(texts, settings.VOCABULARY)).save(f"{folder}/tokenizer.json")


def stage_small(folder):
    """A small target, from random weights."""
    tokenizer, config = loaded_tokenizer(folder)
    start = Target(config)
    init_weights(start, config["num_hidden_layers"], settings.SEED)
    train_target(folder, "small", config, start.state_dict(), settings.SMALL_PLAN, tokenizer)


def stage_large(folder):
    """The target: the small one grown, and trained on."""
    if workspace.done(folder, "large"):
        return
    tokenizer, config = loaded_tokenizer(folder)
    weights = grow.deepened(grow.widened(torch.load(f"{folder}/small.pt")), settings.ORIGIN)
    train_target(folder, "large", large_config(config), weights, settings.LARGE_PLAN, tokenizer)


def stage_check(folder):
    """How often the target is right; quick, in bf16."""
    tokenizer, _ = loaded_tokenizer(folder)
    result, wrong = answers.accuracy(loaded_target(folder), tokenizer, problems.held_out_set(settings.CHECKED))
    print(sum(right for right, _ in result.values()), f"of {settings.CHECKED} right:", result)
    for one, text in wrong[:8]:
        print(f"--- {one.question}\n{text}\n--- should be {one.answer or one.solution}")


def stage_answers(folder):
    """The target answers the problems that the draft learns from."""
    if workspace.done(folder, "answers"):
        return
    tokenizer, _ = loaded_tokenizer(folder)
    answers.write(loaded_target(folder), tokenizer, settings.SEED, settings.ANSWER_PARTS, settings.ANSWER_PART,
                  f"{folder}/answers")


def stage_draft(folder):
    """The draft."""
    if workspace.done(folder, "draft"):
        return
    train_drafts(folder, "draft", [(settings.DRAFT_LAYERS, settings.DRAFT_TAPS)], settings.DRAFT_PLAN)


def stage_export(folder):
    """The pair in the Hugging Face layout."""
    tokenizer, _ = loaded_tokenizer(folder)
    save_pair(folder, "draft", settings.DRAFT_LAYERS, settings.DRAFT_TAPS, f"{folder}/pair", tokenizer)


def stage_measure(folder, program):
    """The pair on held-out problems, by dflash-generate; the model card."""
    asked = problems.held_out_set(settings.MEASURED, problems.MEASURED_SET)
    sections = []
    for temperature in (0.0, 1.0):
        runs = evaluate.measure(program, f"{folder}/pair", asked, settings.BLOCK, temperature)
        sections.append(f"Block {settings.BLOCK}, temperature {temperature:g}:\n\n" +
                        evaluate.report(asked, runs, settings.BLOCK))
    few = asked[:len(asked) // 5]
    lines = [f"| block, on the first {len(few)} of them | tokens a round, temperature 0 | ceiling |", "|---|---|---|"]
    for block in (4, 8, 12, 16):
        counts = evaluate.summary(few, evaluate.measure(program, f"{folder}/pair", few, block), block)["all"].numbers()
        lines.append(f"| {block} | {counts['length']:.2f} | {counts['ceiling']:.2f} |")
    sections.append("\n".join(lines))
    print("\n\n".join(sections))
    card.write(folder, f"{folder}/pair", settings.NAME, settings.MEASURED, sections)


def stage_ablations(folder, program):
    """Drafts of other depths and numbers of taps, side by side on the same text."""
    tokenizer, _ = loaded_tokenizer(folder)
    train_drafts(folder, "ablations", settings.ABLATIONS, settings.ABLATION_PLAN)
    weights = torch.load(f"{folder}/ablations.pt")
    asked = problems.held_out_set(settings.MEASURED // 6)  # not those that are reported: this is to choose by
    for i, (layers, taps) in enumerate(settings.ABLATIONS):
        name = f"ablation_layers{layers}_taps{taps}"
        own = {key.split(".", 1)[1]: value for key, value in weights.items() if key.split(".", 1)[0] == str(i)}
        with files.replacing(f"{folder}/{name}.pt") as new:
            torch.save(own, new)
        save_pair(folder, name, layers, taps, f"{folder}/{name}", tokenizer)
        row = [f"{layers} layers, {taps} taps"]
        for block in (4, 8, 16):
            runs = evaluate.measure(program, f"{folder}/{name}", asked, block)
            row.append(f"{evaluate.summary(asked, runs, block)['all'].numbers()['length']:.2f}")
        print("| " + " | ".join(row) + " |", flush=True)


STAGES = dict(tokenizer=stage_tokenizer, small=stage_small, large=stage_large, check=stage_check, answers=stage_answers,
              draft=stage_draft, export=stage_export, measure=stage_measure, ablations=stage_ablations)
MEASURING = ("measure", "ablations")  # the stages that run dflash-generate
USUAL = [name for name in STAGES if name != "ablations"]


def loaded_tokenizer(folder):
    """The tokenizer and the small target's config."""
    tokenizer = Tokenizer.load(f"{folder}/tokenizer.json")
    return tokenizer, settings.small_config(len(tokenizer), dict(end=tokenizer.end, pad=tokenizer.pad))


def large_config(config):
    return grow.grown_config(config, len(settings.ORIGIN))


def loaded_target(folder):
    """The target as it will be stored: its weights rounded to bf16."""
    _, config = loaded_tokenizer(folder)
    target = Target(large_config(config))
    target.load_state_dict({name: value.bfloat16().float() for name, value in torch.load(f"{folder}/large.pt").items()})
    return target.requires_grad_(False)


def train_target(folder, name, config, weights, plan, tokenizer):
    averaging.train(lambda rank: TargetLearner(config, weights, tokenizer, f"{settings.SEED} {name} {rank}", settings.TOKENS),
                    plan, f"{folder}/{name}.pt")


def train_drafts(folder, name, shapes, plan):
    """shapes: (layers, number of taps) of each draft; all learn from the same text."""
    tokenizer, _ = loaded_tokenizer(folder)
    target = SharedTarget(loaded_target(folder), {tap for _, taps in shapes for tap in settings.TAPS[taps]})
    rows = answers.read(f"{folder}/answers", settings.ANSWER_PARTS)

    def learner(rank):
        seed = f"{settings.SEED} {name} {rank}"
        chunk = answers.chunks(rows[rank::plan.workers], settings.OWN_SHARE, batches.generated(tokenizer, seed))
        learners = []
        for layers, taps in shapes:
            config = draft_config(target.config, layers, settings.TAPS[taps], settings.BLOCK, tokenizer.mask)
            start = Draft(config)
            init_weights(start, layers, settings.SEED)
            start.norm.weight.data.copy_(target.target.norm.weight)
            learners.append(DraftLearner(target, config, start.state_dict(), chunk, seed, settings.TOKENS))
        return learners[0] if len(learners) == 1 else SideBySide(learners)
    averaging.train(learner, plan, f"{folder}/{name}.pt")


def save_pair(folder, name, layers, taps, path, tokenizer):
    target = loaded_target(folder)
    draft = Draft(draft_config(target.config, layers, settings.TAPS[taps], settings.BLOCK, tokenizer.mask))
    draft.load_state_dict(torch.load(f"{folder}/{name}.pt"))
    export.save_pair(path, tokenizer, target, draft)
    sizes = {part: sum(p.numel() for p in model.parameters()) for part, model in (("target", target), ("draft", draft))}
    print(json.dumps(dict(pair=path, **sizes)))


def run(folder, stages, program):
    """The stages, in the order given. All that can be known to be missing or not to fit stops it before the first one."""
    workspace.check_settings(folder)
    workspace.check_inputs(folder, stages)
    for name in stages:
        if name in MEASURING and not shutil.which(program):
            raise SystemExit(f"{name} needs the program dflash-generate, and {program} is none: build it or name it by --program")
    for name in stages:
        print(f"== {name}: {STAGES[name].__doc__}", flush=True)
        workspace.record_settings(folder, name)
        STAGES[name](folder, program) if name in MEASURING else STAGES[name](folder)


def stop(*_):
    """SIGTERM and Ctrl-C end this process in the usual way, so that it ends its workers."""
    raise SystemExit("stopped; run it again to go on")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--program", default="build/release/bin/dflash-generate", help="dflash-generate, which measures the pair")
    parser.add_argument("stages", nargs="*", metavar="STAGE",
                        help="in this order: " + " ".join(USUAL) + "; and, only when named: ablations")
    args = parser.parse_intermixed_args()
    for name in args.stages:
        if name not in STAGES:
            parser.error(f"no stage {name!r}: there are {' '.join(STAGES)}")
    torch.set_num_threads(1)
    os.makedirs(args.folder, exist_ok=True)
    held = workspace.lock(args.folder)
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    run(args.folder, args.stages or USUAL, args.program)
    held.close()


if __name__ == "__main__":
    main()
