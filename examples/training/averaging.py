"""Training in several processes of one thread each, which average their weights every few steps.

On a machine with few cores this is faster than one process with several threads. A run is fixed by its seed and its step
count, not by the clock: it can be stopped at any time and taken up again from its last checkpoint.
"""
import json
import os
import time
from multiprocessing import connection

import torch
import torch.multiprocessing as mp


class Plan:
    """steps: of each process. The rate rises over `warm` steps, stays, and falls over the last `decay` steps to the share
    `last` of itself."""

    def __init__(self, steps, rate, warm, decay, weight_decay, last=0.01, workers=2, average_every=8, save_seconds=120):
        self.steps, self.rate, self.warm, self.decay, self.last = steps, rate, warm, decay, last
        self.weight_decay, self.workers = weight_decay, workers
        self.average_every, self.save_seconds = average_every, save_seconds

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
    """learner_of(rank) gives an object with `model` (trained in place; a ModuleList is several models), `loss(step)` -> (loss, {name: value}) and
    `position()` / `seek(position)` for its stream of data. Leaves the averaged weights in `path`."""
    if os.path.exists(path):
        return
    first = learner_of(0).model
    shared = [[p.detach().clone().share_memory_() for p in first.parameters()] for _ in range(plan.workers)]
    save = torch.zeros(1, dtype=torch.int64).share_memory_()
    context = mp.get_context("fork")
    barrier = context.Barrier(plan.workers)
    workers = [context.Process(target=_work, args=(rank, learner_of, plan, path, shared, save, barrier))
               for rank in range(plan.workers)]
    for worker in workers:
        worker.start()
    finish(workers, f"training of {path}")


def finish(workers, what):
    """Waits for all; when one fails, the others are ended too, as they would wait for it."""
    while any(worker.is_alive() for worker in workers):
        # Looked at again each second: a process may end between the two looks at who is alive.
        connection.wait([worker.sentinel for worker in workers if worker.is_alive()], timeout=1)
        if any(worker.exitcode for worker in workers):
            for worker in workers:
                worker.terminate()
    for worker in workers:
        worker.join()
    if any(worker.exitcode for worker in workers):
        raise SystemExit(f"{what} stopped early; run it again to go on")


def _work(rank, learner_of, plan, path, shared, save, barrier):
    torch.set_num_threads(1)
    learner = learner_of(rank)
    model = learner.model
    adam = optimizer(model, plan)
    step = _resume(f"{path}.rank{rank}", model, adam, learner)
    started, first, saved, shown = time.time(), step, time.time(), {}
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
                        seconds_a_step=round((time.time() - started) / max(1, step - first), 3),
                        **{name: round(value, 4) for name, value in shown.items()})
            print(json.dumps(line), flush=True)
            print(json.dumps(line), file=log, flush=True)
        if saving:
            saved = time.time()
            state = dict(step=step, model=model.state_dict(), adam=adam.state_dict(), position=learner.position())
            torch.save(state, f"{path}.rank{rank}.new")
            barrier.wait()  # all have written before any replaces its last checkpoint
            os.replace(f"{path}.rank{rank}.new", f"{path}.rank{rank}")
    if rank == 0:
        log.close()
        torch.save(model.state_dict(), path + ".new")
        os.replace(path + ".new", path)


def _resume(path, model, adam, learner):
    if not os.path.exists(path):
        return 0
    state = torch.load(path)
    model.load_state_dict(state["model"])
    adam.load_state_dict(state["adam"])
    learner.seek(state["position"])
    return state["step"]
