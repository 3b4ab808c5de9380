"""Training in several processes of one thread each, which average their weights every few steps (local SGD).

On a machine with few cores this is faster than one process with several threads. A run is fixed by its seed and its step
count, not by the clock: it can be stopped at any time and taken up again from its last checkpoint.
"""
import glob
import json
import os
import re
import signal
import time
from multiprocessing import connection

import torch
import torch.multiprocessing as mp

import files


class Plan:
    """steps: of each process. The rate rises over `warm` steps, stays, and falls over the last `decay` steps to the share
    `last` of itself."""

    def __init__(self, steps, rate, warm, decay, weight_decay, last=0.01, workers=2, average_every=8, save_seconds=120):
        self.steps, self.rate, self.warm, self.decay, self.last = steps, rate, warm, decay, last
        self.weight_decay, self.workers = weight_decay, workers
        self.average_every, self.save_seconds = average_every, save_seconds

    def shape(self):
        """{name: value} of what decides the weights that come out."""
        return {name: value for name, value in vars(self).items() if name != "save_seconds"}

    def rate_at(self, step):
        fall = min(1.0, (self.steps - step) / self.decay)
        return self.rate * min((step + 1) / self.warm, self.last + (1 - self.last) * fall)


def optimizer(model, plan):
    """AdamW; what tells rare words apart in the embedding must not decay between their visits, and norms do not decay."""
    named = list(model.named_parameters())
    tables = [p for name, p in named if "embed" in name]
    matrices = [p for name, p in named if "embed" not in name and p.dim() == 2]
    others = [p for name, p in named if "embed" not in name and p.dim() != 2]
    groups = [dict(params=tables, weight_decay=0.0), dict(params=matrices, weight_decay=plan.weight_decay),
              dict(params=others, weight_decay=0.0)]
    return torch.optim.AdamW([group for group in groups if group["params"]], lr=plan.rate, betas=(0.9, 0.95), foreach=True)


def train(learner_of, plan, path):
    """learner_of(rank) gives an object with `model` (trained in place; a ModuleList is several models), `loss(step)` ->
    (loss, {name: value}) and `position()` / `seek(position)` for its stream of data. Leaves the averaged weights in `path`."""
    if os.path.exists(path):
        return
    begin = common_step(path, plan.workers)
    first = learner_of(0).model
    shared = [[p.detach().clone().share_memory_() for p in first.parameters()] for _ in range(plan.workers)]
    save = torch.zeros(1, dtype=torch.int64).share_memory_()
    barrier = mp.get_context("fork").Barrier(plan.workers)
    run_workers(lambda rank: _work(rank, learner_of, plan, path, begin, shared, save, barrier), plan.workers,
                f"training of {path}")


def run_workers(work, count, what):
    """work(rank) in `count` processes, to the end of all. When one fails, the others are ended too, as they would wait for it;
    so are all when this process is stopped."""
    context = mp.get_context("fork")
    workers = [context.Process(target=_begin, args=(work, rank), daemon=True) for rank in range(count)]
    try:
        for worker in workers:
            worker.start()
        while any(worker.is_alive() for worker in workers) and not any(worker.exitcode for worker in workers):
            # Looked at again each second: a process may end between the two looks at who is alive.
            connection.wait([worker.sentinel for worker in workers if worker.is_alive()], timeout=1)
    finally:
        for worker in workers:
            if worker.pid is not None:
                worker.terminate()
                worker.join()
    if any(worker.exitcode for worker in workers):
        raise SystemExit(f"{what} stopped early; run it again to go on")


def _begin(work, rank):
    """A worker leaves Ctrl-C to its parent, which ends it, and does not share its parent's way to end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    torch.set_num_threads(1)
    work(rank)


def checkpoints(path, rank):
    """{step: file} of what a rank has written whole."""
    pattern = re.compile(re.escape(f"{path}.rank{rank}.step") + r"(\d+)")
    found = [pattern.fullmatch(file) for file in glob.glob(f"{glob.escape(path)}.rank{rank}.step*")]
    return {int(match[1]): match[0] for match in found if match}


def keep_only(path, rank, step):
    """Removes the checkpoints of a rank but that of `step`."""
    for other, file in checkpoints(path, rank).items():
        if other != step:
            os.remove(file)


def common_step(path, workers):
    """The newest step that all ranks have a checkpoint of, 0 where there are none at all; what else there is of them
    is removed. A run that is stopped while its ranks write leaves a newer one of some of them."""
    for half in glob.glob(f"{glob.escape(path)}.rank*.new"):
        os.remove(half)
    steps = [set(checkpoints(path, rank)) for rank in range(workers)]
    if not any(steps):
        return 0
    common = set.intersection(*steps)
    if not common:
        have = "; ".join(f"rank {rank}: {sorted(own) or 'none'}" for rank, own in enumerate(steps))
        raise SystemExit(f"the checkpoints {path}.rank*.step* have no step in common ({have}): remove them to begin again")
    for rank in range(workers):
        keep_only(path, rank, max(common))
    return max(common)


def _work(rank, learner_of, plan, path, begin, shared, save, barrier):
    learner = learner_of(rank)
    model = learner.model
    adam = optimizer(model, plan)
    step = begin
    if begin:
        _resume(f"{path}.rank{rank}.step{begin}", model, adam, learner)
    started, saved, shown = time.time(), time.time(), {}
    log = open(path + ".log", "a") if rank == 0 else None
    while step < plan.steps:
        for group in adam.param_groups:
            group["lr"] = plan.rate_at(step)
        loss, values = learner.loss(step)
        adam.zero_grad(set_to_none=True)
        loss.backward()
        for part in model if isinstance(model, torch.nn.ModuleList) else [model]:
            torch.nn.utils.clip_grad_norm_(part.parameters(), 1.0)
        adam.step()
        step += 1
        for name, value in values.items():
            shown[name] = value if name not in shown else 0.98 * shown[name] + 0.02 * value
        if step % plan.average_every and step < plan.steps:
            continue
        with torch.no_grad():
            for own, place in zip(model.parameters(), shared[rank]):
                place.copy_(own)
            if rank == 0:
                save[0] = int(step >= plan.steps or time.time() - saved > plan.save_seconds)
            barrier.wait()
            for i, own in enumerate(model.parameters()):
                own.copy_(sum(shared[r][i] for r in range(plan.workers)) / plan.workers)
            saving = bool(save[0])
            barrier.wait()
        if rank == 0 and (step % (6 * plan.average_every) == 0 or saving):
            line = dict(step=step, of=plan.steps, seconds=round(time.time() - started), rate=round(plan.rate_at(step), 6),
                        seconds_a_step=round((time.time() - started) / max(1, step - begin), 3),
                        **{name: round(value, 4) for name, value in shown.items()})
            print(json.dumps(line), flush=True)
            print(json.dumps(line), file=log, flush=True)
        if saving:
            saved = time.time()
            state = dict(step=step, model=model.state_dict(), adam=adam.state_dict(), position=learner.position())
            with files.replacing(f"{path}.rank{rank}.step{step}") as new:
                torch.save(state, new)
            barrier.wait()  # all have written before any removes its last checkpoint
            keep_only(path, rank, step)
    if rank == 0:
        log.close()
        with files.replacing(path) as new:
            torch.save(model.state_dict(), new)


def _resume(path, model, adam, learner):
    state = torch.load(path)
    model.load_state_dict(state["model"])
    adam.load_state_dict(state["adam"])
    learner.seek(state["position"])
