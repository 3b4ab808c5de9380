"""Models, growth, export, decoding and training on tiny sizes. Skipped where torch or numpy is missing."""
import collections
import contextlib
import copy
import io
import os
import random
import sys
import tempfile
import unittest

try:
    import numpy  # noqa: F401
    import torch
except ImportError as missing:
    print(f"skipped: {missing} (Debian: python3-torch, python3-numpy)")
    sys.exit(77)

import averaging
import batches
import decode
import draft_learner
import evaluate
import export
import grow
import problems
import settings
import tokenizer as bpe
from model import Draft, Target, _RmsNorm, init_weights
from target_learner import TargetLearner

torch.set_num_threads(1)  # processes are forked: a pool of threads would not survive that

SPECIAL = dict(end=0, mask=1, pad=2)


def tiny_target(seed=1, layers=3, scale=8.0):
    config = settings.config(40, 32, layers, 2, 1, 48, SPECIAL)
    target = Target({**config, "head_dim": 16})
    init_weights(target, layers, seed)
    target.embed_tokens.weight.data *= scale
    for name, p in target.named_parameters():
        if p.dim() == 1:  # norms of all ones would hide mistakes
            p.data.uniform_(0.5, 1.5, generator=torch.Generator().manual_seed(len(name)))
    return target.double().requires_grad_(False)


def lively_target(seed):
    """One that does not go on with the same token: what its layers add weighs more than the embedding."""
    target = tiny_target(seed, scale=1.0)
    for p in target.layers.parameters():
        if p.dim() == 2:
            p *= 12
    return target


def tiny_draft(target, layers=2, taps=(0, 2), seed=2):
    config = draft_learner.draft_config(target.config, layers, taps, 8, SPECIAL["mask"])
    draft = Draft(config)
    init_weights(draft, layers, seed)
    return draft.double().requires_grad_(False)


class RunningSum:
    """A learner with one matrix that is pulled towards a number which its stream gives."""

    def __init__(self):
        self.model = torch.nn.Linear(2, 2, bias=False)
        self.model.weight.data.zero_()
        self.at = 0

    def position(self):
        return self.at

    def seek(self, at):
        self.at = at

    def loss(self, step):
        self.at += 1
        return (self.model.weight - self.at % 3).square().mean(), dict(at=float(self.at))


class Dying(RunningSum):
    """One that each rank gives other numbers to, and whose rank 1 dies in a step."""

    def __init__(self, rank, dies_at=None):
        super().__init__()
        self.rank, self.dies_at = rank, dies_at

    def loss(self, step):
        if self.rank == 1 and step == self.dies_at:
            os._exit(3)
        self.at += 1
        return (self.model.weight - self.at * (1 + self.rank)).square().mean(), dict(at=float(self.at))


class Growth(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.ids = torch.randint(0, 40, (2, 12))
        self.small = tiny_target()

    def outputs(self, target):
        return target.logits(target(self.ids)[0])

    def test_wider_and_deeper_computes_the_same(self):
        wanted = self.outputs(self.small)
        state = grow.widened(self.small.state_dict())
        wide = Target(grow.grown_config(self.small.config, 3)).double()
        wide.load_state_dict(state)
        torch.testing.assert_close(self.outputs(wide), wanted, rtol=1e-9, atol=1e-9)
        origin = [0, 0, 1, 1, 2]
        deep = Target(grow.grown_config(self.small.config, 5)).double()
        deep.load_state_dict(grow.deepened(state, origin))
        torch.testing.assert_close(self.outputs(deep), wanted, rtol=1e-9, atol=1e-9)

    def test_the_copies_are_not_equal(self):
        state = grow.widened(self.small.state_dict())
        q = state["layers.0.self_attn.q_proj.weight"]
        self.assertEqual(tuple(q.shape), (64, 64))
        self.assertGreater((q[:32] - q[32:]).abs().mean(), 0.01)

    def test_a_new_layer_can_learn(self):
        deep = Target(grow.grown_config(self.small.config, 4)).double()
        deep.load_state_dict(grow.deepened(grow.widened(self.small.state_dict()), [0, 1, 1, 2]))
        self.outputs(deep).square().sum().backward()
        self.assertGreater(deep.layers[2].self_attn.o_proj.weight.grad.abs().sum(), 0)
        self.assertEqual(deep.layers[2].self_attn.o_proj.weight.abs().sum(), 0)


class Norm(unittest.TestCase):
    def test_the_backward_pass_is_the_derivative(self):
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(2, 3, 5, dtype=torch.float64, generator=generator, requires_grad=True)
        weight = torch.randn(5, dtype=torch.float64, generator=generator, requires_grad=True)
        self.assertTrue(torch.autograd.gradcheck(lambda x, weight: _RmsNorm.apply(x, weight, 1e-6), (x, weight)))


class Targets(unittest.TestCase):
    def test_the_loss_weighs_solutions_and_a_little_the_questions(self):
        words = bpe.Tokenizer([])
        target = Target({**settings.config(len(words), 32, 2, 2, 1, 48, SPECIAL), "head_dim": 16})
        init_weights(target, 2, 1)
        learner = TargetLearner(target.config, target.state_dict(), words, "s", 900)
        rows = [(4, [9, 8, 7, 6, 5, 4, 3]), (2, [11, 12, 13, 14, 15]), (3, [21, 22, 23, 24])]
        learner.stream = iter([batches.collate(rows)])
        loss, values = learner.loss(0)
        sums, weights, of_solution, right = 0.0, 0.0, [], []
        for prompt, ids in rows:
            padded = torch.tensor([ids + [0] * (7 - len(ids))])
            with torch.autocast("cpu", dtype=torch.bfloat16):
                hidden, _ = learner.model(padded[:, :-1])
                logits = learner.model.logits(hidden)[0].float()
            for position in range(1, len(ids)):
                each = -torch.log_softmax(logits[position - 1], 0)[ids[position]].item()
                weight = 0.1 if position < prompt else 1.0
                sums, weights = sums + weight * each, weights + weight
                if position >= prompt:
                    of_solution.append(each)
        self.assertAlmostEqual(loss.item(), sums / weights, places=3)
        self.assertAlmostEqual(values["loss"], sum(of_solution) / len(of_solution), places=3)
        self.assertEqual((values["tokens"], values["texts_right"]), (16.0, 0.0))


class Blocks(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.target = tiny_target()
        self.draft = tiny_draft(self.target)
        self.features = torch.randn(2, 20, 64, dtype=torch.float64)
        self.blocks = torch.randn(2, 3, 8, 32, dtype=torch.float64)
        self.anchors = torch.tensor([[2, 9, 14], [0, 5, 19]])

    def test_training_computes_what_decoding_computes(self):
        out = self.draft.train_blocks(self.features, self.blocks, self.anchors)
        for text in range(2):
            for block in range(3):
                anchor = int(self.anchors[text, block])
                cache = [None, None]
                alone = self.draft.step(self.features[text:text + 1, :anchor], self.blocks[text:text + 1, block], cache,
                                        anchor)
                torch.testing.assert_close(out[text, block], alone[0], rtol=1e-9, atol=1e-9)

    def test_a_block_sees_itself_and_what_lies_before_its_anchor(self):
        before = self.draft.train_blocks(self.features, self.blocks, self.anchors)

        def touched(features, blocks):
            after = self.draft.train_blocks(features, blocks, self.anchors)
            return (after - before).abs().amax((2, 3)) > 1e-12

        features = self.features.clone()
        features[0, 9] += 1  # the anchor of block 1: only block 2 may see it
        self.assertEqual(touched(features, self.blocks).tolist(), [[False, False, True], [False, False, False]])
        features = self.features.clone()
        features[0, 8] += 1
        self.assertEqual(touched(features, self.blocks).tolist(), [[False, True, True], [False, False, False]])
        blocks = self.blocks.clone()
        blocks[0, 1, 7] += 1
        self.assertEqual(touched(self.features, blocks).tolist(), [[False, True, False], [False, False, False]])
        after = self.draft.train_blocks(self.features, blocks, self.anchors)
        self.assertGreater((after - before)[0, 1, 0].abs().max(), 1e-6)  # the last slot reaches the anchor's row

    def test_labels_and_weights(self):
        ids = torch.arange(30).view(2, 15)
        prompts, lengths = torch.tensor([4, 6]), torch.tensor([15, 12])
        labels, inside = draft_learner.block_labels(ids, lengths, torch.tensor([[4, 12], [6, 10]]), 4)
        self.assertEqual(labels[0, 0].tolist(), [4, 5, 6, 7])
        self.assertEqual(inside[0].tolist(), [[1, 1, 1], [1, 1, 0]])
        self.assertEqual(inside[1].tolist(), [[1, 1, 1], [1, 0, 0]])
        for seed in range(20):
            anchors = draft_learner.pick_anchors(prompts, lengths, 3, torch.Generator().manual_seed(seed))
            self.assertTrue(bool(((anchors >= prompts[:, None]) & (anchors <= lengths[:, None] - 2)).all()))
        weights = draft_learner.slot_weights(16)
        self.assertEqual(len(weights), 15)
        self.assertAlmostEqual(float(weights[7]), 2.718281828 ** -1, places=5)


class Oracle:
    """A draft that knows the text and is wrong at places drawn by a seed: `text` has prompt and continuation."""
    taps, layers = (0,), ()

    def __init__(self, target, text, seed):
        self.target, self.text, self.seed, self.seen = target, text, seed, 0

    def guess(self, position):
        rng = random.Random(f"{self.seed} {position}")
        return rng.randrange(40) if rng.random() < 0.2 else self.text[position]

    def step(self, features, block, cache, anchor):
        """Rows whose logits are highest, by far, at the guesses."""
        self.seen += features.shape[1]
        assert self.seen == anchor  # every position before the anchor was given, once
        guesses = [self.guess(min(anchor + k, len(self.text) - 1)) for k in range(block.shape[1])]
        rows = 1e6 * torch.nn.functional.normalize(self.target.embed_tokens.weight, dim=1)[guesses]
        return rows[None]


class Decoding(unittest.TestCase):
    def setUp(self):
        self.target = tiny_target()
        self.draft = tiny_draft(self.target)

    def test_blocks_give_the_serial_text(self):
        seen = collections.Counter()
        for seed in range(4):
            target = lively_target(seed)
            prompt = torch.randint(3, 40, (5,), generator=torch.Generator().manual_seed(seed)).tolist()
            for choose in (decode.Chooser(), decode.Chooser(1.0, seed)):
                free = decode.serial(target, prompt, 40, -1, choose)
                end = free[max(free.index(token) for token in free)]  # the token that comes last for the first time
                serial = decode.serial(target, prompt, 40, end, choose)
                self.assertEqual(serial, free[:free.index(end) + 1])

                def in_blocks(draft, wanted, block, stop):
                    text, rounds = decode.speculative(target, draft, prompt, 40, stop, block, 1, choose)
                    self.assertEqual(text, wanted)
                    self.assertEqual(1 + sum(rounds), len(text))
                    self.assertLessEqual(max(rounds, default=1), block)
                    return rounds
                in_blocks(tiny_draft(target), serial, 5, end)
                in_blocks(Oracle(target, prompt + free, seed), serial, 1, end)
                for block in (3, 8):
                    rounds = in_blocks(Oracle(target, prompt + free, seed), serial, block, end)
                    longer = in_blocks(Oracle(target, prompt + free, seed), free, block, -1)
                    self.assertEqual(rounds[:-1], longer[:len(rounds) - 1])
                    seen["whole"] += rounds.count(block)
                    seen["part"] += sum(1 < length < block for length in rounds[:-1])
                    seen["one"] += rounds[:-1].count(1)
                    seen["ends inside"] += rounds[-1] < longer[len(rounds) - 1]
        self.assertGreaterEqual(min(seen[what] for what in ("whole", "part", "one", "ends inside")), 4, seen)

    def test_many_texts_at_once(self):
        target = copy.deepcopy(self.target).float()
        prompts = torch.randint(3, 40, (4, 5), generator=torch.Generator().manual_seed(3))
        rows = decode.generate_batch(target, prompts, 6, 0)
        agree = 0
        for row, prompt in zip(rows, prompts):
            one = decode.serial(target, prompt.tolist(), 6, -1)
            agree += sum(a == b for a, b in zip(row[5:].tolist(), one))
        self.assertGreater(agree, 12)  # bf16 may choose otherwise now and then

    def test_noise_is_a_function_of_seed_and_position(self):
        self.assertTrue(torch.equal(decode.gumbel(1, 2, 5), decode.gumbel(1, 2, 5)))
        self.assertFalse(torch.equal(decode.gumbel(1, 2, 5), decode.gumbel(1, 3, 5)))


class Files(unittest.TestCase):
    def test_a_pair_comes_back_as_it_was_written(self):
        target, draft = tiny_target().float(), None
        draft = tiny_draft(target).float()
        with tempfile.TemporaryDirectory() as folder:
            export.save_pair(folder, bpe.Tokenizer([]), target, draft)
            again, again_draft = export.load_pair(folder)
            for name, value in target.state_dict().items():
                self.assertTrue(torch.equal(again.state_dict()[name], value.bfloat16().float()), name)
            for name, value in draft.state_dict().items():
                self.assertTrue(torch.equal(again_draft.state_dict()[name], value.bfloat16().float()), name)
            export.save_model(f"{folder}/shards", target.config, export.target_names(target.state_dict()), 8000)
            _, tensors = export.load_model(f"{folder}/shards")
            self.assertEqual(set(tensors), set(export.target_names(target.state_dict())))

    def test_training_goes_on_where_it_stopped(self):
        def run(folder, stops):
            for steps in stops:
                if os.path.exists(f"{folder}/a"):  # as if it had been stopped: the checkpoints stay, the result goes
                    os.remove(f"{folder}/a")
                plan = averaging.Plan(steps, 0.1, 1, 1, 0.0, workers=2, average_every=2, save_seconds=0)
                plan.rate_at = lambda step: 0.1
                with open(os.devnull, "w") as quiet, contextlib.redirect_stdout(quiet):
                    averaging.train(lambda rank: RunningSum(), plan, f"{folder}/a")
            return torch.load(f"{folder}/a")["weight"]
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
            self.assertTrue(torch.equal(run(one, [12]), run(other, [4, 8, 12])))

    def test_a_run_that_dies_midway_ends_with_the_same_weights(self):
        def run(folder, dies_at=None):
            plan = averaging.Plan(12, 0.1, 2, 8, 0.1, workers=2, average_every=2, save_seconds=0)
            with contextlib.redirect_stdout(io.StringIO()):
                averaging.train(lambda rank: Dying(rank, dies_at), plan, f"{folder}/a")
            return torch.load(f"{folder}/a")["weight"]
        with tempfile.TemporaryDirectory() as folder:
            wanted = run(folder)
        for dies_at in (0, 3, 4, 7, 11):
            with tempfile.TemporaryDirectory() as folder:
                with self.assertRaises(SystemExit):
                    run(folder, dies_at)
                self.assertFalse(os.path.exists(f"{folder}/a"))
                kept = [sorted(averaging.checkpoints(f"{folder}/a", rank)) for rank in range(2)]
                self.assertEqual(kept, [[dies_at // 2 * 2]] * 2 if dies_at > 1 else [[], []])
                self.assertTrue(torch.equal(run(folder), wanted), dies_at)

    def test_ranks_resume_from_a_step_that_all_have(self):
        def touch(folder, *names):
            for name in names:
                with open(f"{folder}/{name}", "w"):
                    pass
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(averaging.common_step(f"{folder}/a", 2), 0)
            touch(folder, "a.rank0.step8", "a.rank0.step16", "a.rank1.step8", "a.rank1.step16.new", "a.log", "ba.rank1.step16")
            self.assertEqual(averaging.common_step(f"{folder}/a", 2), 8)
            self.assertEqual(sorted(os.listdir(folder)), ["a.log", "a.rank0.step8", "a.rank1.step8", "ba.rank1.step16"])
            os.rename(f"{folder}/a.rank1.step8", f"{folder}/a.rank1.step9")
            with self.assertRaisesRegex(SystemExit, r"no step in common \(rank 0: \[8\]; rank 1: \[9\]\)"):
                averaging.common_step(f"{folder}/a", 2)
            self.assertEqual(len(os.listdir(folder)), 4)

    def test_a_missing_newest_checkpoint_does_not_change_the_weights(self):
        def plan():
            return averaging.Plan(12, 0.1, 2, 8, 0.1, workers=2, average_every=2, save_seconds=0)
        with contextlib.redirect_stdout(io.StringIO()), tempfile.TemporaryDirectory() as folder:
            averaging.train(lambda rank: Dying(rank), plan(), f"{folder}/whole")
            for dies_at in (5, 7):
                with self.assertRaises(SystemExit):
                    averaging.train(lambda rank: Dying(rank, dies_at), plan(), f"{folder}/{dies_at}")
            os.rename(f"{folder}/5.rank0.step4", f"{folder}/7.rank0.step4")
            os.rename(f"{folder}/5.rank1.step4", f"{folder}/7.rank1.step4")
            os.remove(f"{folder}/7.rank1.step6")  # as if it had been stopped between the two
            averaging.train(lambda rank: Dying(rank), plan(), f"{folder}/7")
            self.assertTrue(torch.equal(torch.load(f"{folder}/7")["weight"], torch.load(f"{folder}/whole")["weight"]))

    def test_drafts_side_by_side_learn_what_they_learn_alone(self):
        target = tiny_target().float()
        shapes = [(1, (1,)), (2, (0, 2))]

        def trained(folder, which):
            shared = draft_learner.SharedTarget(target, {0, 1, 2})

            def learner(rank):
                rng = numpy.random.default_rng(rank)
                rows = [(3, rng.integers(3, 40, size=12).tolist()) for _ in range(6)]
                made = []
                for layers, taps in which:
                    draft = tiny_draft(target, layers, taps).float()
                    made.append(draft_learner.DraftLearner(target if len(which) == 1 else shared, draft.config,
                                                           draft.state_dict(), lambda n: rows, f"seed {rank}", 40, rows=16))
                return made[0] if len(made) == 1 else draft_learner.SideBySide(made)
            averaging.train(learner, averaging.Plan(steps=3, rate=0.01, warm=1, decay=1, weight_decay=0.1,
                                                    average_every=2), f"{folder}/weights.pt")
            return torch.load(f"{folder}/weights.pt")
        with contextlib.redirect_stdout(io.StringIO()), tempfile.TemporaryDirectory() as together:
            both = trained(together, shapes)
            for i, shape in enumerate(shapes):
                with tempfile.TemporaryDirectory() as alone:
                    for name, value in trained(alone, [shape]).items():
                        self.assertTrue(torch.equal(value, both[f"{i}.{name}"]), name)

    def test_a_stream_can_be_sought(self):
        chunk = lambda n: [(1, [n, i] * (1 + i % 3)) for i in range(9)]
        stream = batches.Stream(chunk, 12, "s")
        for _ in range(7):
            next(stream)
        place, wanted = stream.position(), next(stream)[0]
        again = batches.Stream(chunk, 12, "s")
        again.seek(place)
        self.assertTrue(torch.equal(next(again)[0], wanted))

    def test_a_failing_process_ends_the_others(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaises(SystemExit), contextlib.redirect_stdout(io.StringIO()):
                averaging.train(lambda rank: Dying(rank, 0), averaging.Plan(10, 0.1, 1, 1, 0.0), f"{folder}/a")
            self.assertFalse(os.path.exists(f"{folder}/a"))


class Evaluation(unittest.TestCase):
    def test_counts_and_slots(self):
        asked = problems.held_out_set(2)
        runs = [dict(text=asked[0].solution, tokens=[0] * 10, acceptance_lengths=[4, 1, 4], block_lengths=[4, 4, 4],
                     identical=True, finish_reason="stop"),
                dict(text="no", tokens=[0] * 7, acceptance_lengths=[2, 3, 1], block_lengths=[4, 4, 4],
                     identical=True, finish_reason="stop")]
        whole = evaluate.summary(asked, runs, 4)["all"].numbers()
        self.assertEqual((whole["texts"], whole["right"], whole["tokens"], whole["rounds"]), (2, 1, 15, 6))
        self.assertEqual((whole["length"], whole["ceiling"]), (2.5, 3.0))  # 9 and 6 tokens need 3 and 2 rounds of 4
        self.assertEqual(evaluate.summary([], [], 4)["all"].numbers()["length"], 0.0)
        self.assertIn("0 of 0 outputs equal", evaluate.report([], [], 4))
        at_once = dict(runs[0], tokens=[0], acceptance_lengths=[], block_lengths=[])  # ends with its first token: no rounds
        self.assertEqual(evaluate.summary(asked[:1], [at_once], 4)["all"].numbers()["length"], 0.0)
        # Whole blocks before the last: 4, 1, 2, 3.
        self.assertEqual(evaluate.slots(runs, 4), [(0.75, 0.75), (0.5, 2 / 3), (0.25, 0.5)])


if __name__ == "__main__":
    unittest.main()
