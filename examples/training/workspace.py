"""The folder of a training run: its lock, the files of its stages and the settings that shaped them."""
import fcntl
import glob
import json
import os

import files
import settings

# The settings that shape what a stage keeps, in the order of the stages. The other stages keep nothing: they run every time.
SHAPED_BY = {
    "tokenizer": ("SEED", "VOCABULARY", "TOKENIZER_TEXTS"),
    "small": ("SEED", "TOKENS", "SMALL_SHAPE", "SMALL_PLAN"),
    "large": ("SEED", "TOKENS", "ORIGIN", "LARGE_PLAN"),
    "answers": ("SEED", "ANSWER_PARTS", "ANSWER_PART"),
    "draft": ("SEED", "TOKENS", "OWN_SHARE", "TAPS", "DRAFT_LAYERS", "DRAFT_TAPS", "BLOCK", "DRAFT_PLAN"),
    "ablations": ("SEED", "TOKENS", "OWN_SHARE", "TAPS", "BLOCK", "ABLATIONS", "ABLATION_PLAN"),
}
# The stages whose output a stage reads.
READS = {
    "tokenizer": (), "small": ("tokenizer",), "large": ("tokenizer", "small"), "check": ("tokenizer", "large"),
    "answers": ("tokenizer", "large"), "draft": ("tokenizer", "large", "answers"), "export": ("tokenizer", "large", "draft"),
    "measure": ("export",), "ablations": ("tokenizer", "large", "answers"),
}


def lock(folder):
    """Takes the folder for this process and the workers it forks, until the last of them ends. Keep the file that it returns."""
    held = open(f"{folder}/lock", "a")
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        held.close()
        raise SystemExit(f"already running: another run, or a worker that outlived its run, works in {folder}") from None
    return held


def outputs(stage):
    """The files that are there when a stage is done, without the folder."""
    if stage == "answers":
        return [f"answers.{part}" for part in range(settings.ANSWER_PARTS)]
    if stage == "tokenizer":
        return ["tokenizer.json"]
    if stage == "export":
        return ["pair/target/config.json", "pair/draft/config.json"]
    return [f"{stage}.pt"]


def done(folder, stage):
    return all(os.path.exists(f"{folder}/{name}") for name in outputs(stage))


def begun(folder, stage):
    """Whether a stage has left files of any sort: output, checkpoints or a log."""
    pattern = {"tokenizer": "tokenizer.json", "answers": "answers.*"}.get(stage, f"{stage}.pt*")
    return bool(glob.glob(f"{glob.escape(folder)}/{pattern}"))


def check_inputs(folder, stages):
    """Stops where a stage that will do something reads what is not there and is not made by a stage before it."""
    for i, stage in enumerate(stages):
        if stage in SHAPED_BY and stage != "ablations" and done(folder, stage):
            continue
        for other in READS[stage]:
            missing = [name for name in outputs(other) if not os.path.exists(f"{folder}/{name}")]
            if missing and other not in stages[:i]:
                raise SystemExit(f"{stage} needs {missing[0]} in {folder}: run the stage {other} first")


def shape(stage):
    """{name: value} of the settings that shape a stage, as JSON gives them back; one entry for each part of a plan."""
    values = {}
    for name in SHAPED_BY[stage]:
        value = getattr(settings, name)
        if isinstance(value, settings.Plan):
            value = value.shape()
        values.update({f"{name}.{key}": part for key, part in value.items()} if isinstance(value, dict) else {name: value})
    return json.loads(json.dumps(values))


def recorded(folder):
    """{stage: shape} of the stages that have begun."""
    path = f"{folder}/settings.json"
    return files.read_json(path) if os.path.exists(path) else {}


def check_settings(folder):
    """Stops where a stage was begun with other settings than the present ones, and its files or those of a later stage are
    there."""
    records, stages = recorded(folder), list(SHAPED_BY)
    for i, stage in enumerate(stages):
        if not any(begun(folder, later) for later in stages[i:]):
            continue
        advice = "take another folder, or remove the files of this stage and of the later ones"
        if stage not in records:
            if begun(folder, stage):
                raise SystemExit(f"{folder} has files of the stage {stage}, but no settings.json that tells their settings: "
                                 f"{advice}")
            continue
        now, then = shape(stage), records[stage]
        for name in sorted({*now, *then}):
            if now.get(name) != then.get(name):
                raise SystemExit(f"the stage {stage} in {folder} was begun with {name} = {then.get(name)}, now it is "
                                 f"{now.get(name)}: {advice}")


def record_settings(folder, stage):
    """Keeps the settings of a stage that begins."""
    if stage in SHAPED_BY and not begun(folder, stage):
        files.write_json(f"{folder}/settings.json", {**recorded(folder), stage: shape(stage)}, indent=1)
