"""What the target learns: the next token, of solutions mostly."""
import torch
import torch.nn.functional as F

import batches
from model import Target


class TargetLearner:
    def __init__(self, config, weights, tokenizer, seed, tokens, question_weight=0.1):
        self.model = Target(config)
        self.model.load_state_dict(weights)
        self.stream = batches.Stream(batches.generated(tokenizer, seed), tokens, seed)
        self.question_weight = question_weight

    def position(self):
        return self.stream.position()

    def seek(self, position):
        self.stream.seek(position)

    def loss(self, _):
        ids, prompts, lengths = next(self.stream)
        labels, position = ids[:, 1:], torch.arange(1, ids.shape[1])[None]
        of_solution = ((position >= prompts[:, None]) & (position < lengths[:, None])).float()
        weight = of_solution + self.question_weight * (position < prompts[:, None]).float()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            hidden, _ = self.model(ids[:, :-1])
            logits = self.model.logits(hidden)
        each = F.cross_entropy(logits.float().flatten(0, 1), labels.flatten(), reduction="none").view_as(weight)
        with torch.no_grad():
            texts_right = ((logits.argmax(-1) == labels) | (of_solution == 0)).all(1).float().mean().item()
            loss_a_token = ((each * of_solution).sum() / of_solution.sum()).item()
        values = dict(loss=loss_a_token, texts_right=texts_right, tokens=float(lengths.sum()))
        return (each * weight).sum() / weight.sum(), values
