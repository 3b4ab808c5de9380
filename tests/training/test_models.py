"""Models, growth, export, decoding and training on tiny sizes. Skipped where torch or numpy is missing."""
import contextlib
import copy
import io
import os
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
from model import Draft, Target, init_weights

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


class Decoding(unittest.TestCase):
    def setUp(self):
        self.target = tiny_target()
        self.draft = tiny_draft(self.target)

    def test_blocks_give_the_serial_text(self):
        cut_short = 0
        for seed in range(6):
            prompt = torch.randint(3, 40, (5,), generator=torch.Generator().manual_seed(seed)).tolist()
            for choose in (decode.Chooser(), decode.Chooser(1.0, seed)):
                free = decode.serial(self.target, prompt, 40, -1, choose)
                end = free[12]  # a token that does come
                serial = decode.serial(self.target, prompt, 40, end, choose)
                self.assertEqual(serial, free[:free.index(end) + 1])
                for block in (1, 2, 5, 8):
                    text, rounds = decode.speculative(self.target, self.draft, prompt, 40, end, block, 1, choose)
                    self.assertEqual(text, serial)
                    self.assertEqual(1 + sum(rounds), len(text))
                    self.assertLessEqual(max(rounds, default=1), block)
                cut_short += len(serial) > 1
        self.assertGreater(cut_short, 0)

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
        class Failing(RunningSum):
            def __init__(self, rank):
                super().__init__()
                self.rank = rank

            def loss(self, step):
                if self.rank == 1:
                    os._exit(3)
                return super().loss(step)
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaises(SystemExit), contextlib.redirect_stdout(io.StringIO()):
                averaging.train(Failing, averaging.Plan(10, 0.1, 1, 1, 0.0), f"{folder}/a")
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
        # Whole blocks before the last: 4, 1, 2, 3.
        self.assertEqual(evaluate.slots(runs, 4), [(0.75, 0.75), (0.5, 2 / 3), (0.25, 0.5)])


if __name__ == "__main__":
    unittest.main()
