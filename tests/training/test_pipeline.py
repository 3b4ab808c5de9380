"""The stages of train.py on tiny models: outputs, stopping and going on, refused folders. Skipped where torch is missing."""
import contextlib
import io
import json
import multiprocessing as mp
import os
import signal
import stat
import sys
import tempfile
import time
import unittest
from unittest import mock

import test_models  # noqa: F401  skips all where torch or numpy is missing

import torch

import answers
import averaging
import card
import decode
import draft_learner
import export
import files
import golden
import problems
import settings
import tokenizer as bpe
import train
import workspace
from model import Draft, Target, init_weights


def plan(**changed):
    return averaging.Plan(**{**dict(steps=6, rate=0.01, warm=2, decay=4, weight_decay=0.1, average_every=2, save_seconds=0),
                             **changed})


TINY = dict(VOCABULARY=420, TOKENIZER_TEXTS=60, TOKENS=400, ORIGIN=[0, 1, 1],
            SMALL_SHAPE=dict(hidden=16, layers=2, heads=1, kv_heads=1, inner=24),
            SMALL_PLAN=plan(), LARGE_PLAN=plan(steps=2), ANSWER_PARTS=2, ANSWER_PART=3, TAPS={1: [0], 2: [0, 2]},
            DRAFT_LAYERS=1, DRAFT_TAPS=2, BLOCK=8, DRAFT_PLAN=plan(steps=2), ABLATIONS=[(1, 1), (1, 2)],
            ABLATION_PLAN=plan(steps=2), MEASURED=6, CHECKED=4)

# Stands for dflash-generate: nine tokens, in blocks of four or one at a time.
STUB = """#!{python}
import json, sys
serial = "--serial" in sys.argv
print(json.dumps(dict(tokens=list(range(9)), text="", finish_reason="stop", acceptance_lengths=[] if serial else [4, 4],
                      block_lengths=[] if serial else [4, 4])))
"""


@contextlib.contextmanager
def quiet():
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
        yield out


def stub(folder):
    path = f"{folder}/dflash-generate"
    files.write_text(path, STUB.format(python=sys.executable))
    os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
    return path


def small_vocabulary(layers=3):
    """A tokenizer of bytes, and a target and a draft for it, in f32."""
    words = bpe.Tokenizer([])
    special = dict(end=words.end, mask=words.mask, pad=words.pad)
    target = Target({**settings.config(len(words), 32, layers, 2, 1, 48, special), "head_dim": 16})
    init_weights(target, layers, 1)
    draft = Draft(draft_learner.draft_config(target.config, 2, (0, 2), 8, words.mask))
    init_weights(draft, 2, 2)
    return words, target.requires_grad_(False), draft.requires_grad_(False)


class Pipeline(unittest.TestCase):
    def setUp(self):
        self.folders = contextlib.ExitStack()
        self.addCleanup(self.folders.close)
        self.folders.enter_context(mock.patch.multiple(settings, **TINY))
        self.folders.enter_context(mock.patch.multiple(problems, LONGEST_ANSWER=12))
        self.folder = self.folders.enter_context(tempfile.TemporaryDirectory())
        self.program = stub(self.folders.enter_context(tempfile.TemporaryDirectory()))

    def run_stages(self, *stages, program=None):
        with quiet() as out:
            train.run(self.folder, stages or train.USUAL, program or self.program)
        return out.getvalue()

    def written(self):
        """{file: (time of the last change, content)} of the folder."""
        found = {}
        for where, _, names in os.walk(self.folder):
            for name in names:
                path = f"{where}/{name}"
                with open(path, "rb") as f:
                    found[os.path.relpath(path, self.folder)] = (os.stat(path).st_mtime_ns, f.read())
        return found

    def changed(self, before):
        """The files that are other than `before`, by time or content."""
        now = self.written()
        return sorted(name for name in {*before, *now} if before.get(name) != now.get(name))

    def test_all_stages_and_once_more(self):
        said = self.run_stages()
        self.assertNotIn("ablations", said)
        before = self.written()
        for stage in ("tokenizer", "small", "large", "answers", "draft", "export"):
            self.assertTrue(workspace.done(self.folder, stage), stage)
        self.assertFalse([name for name in before if name.endswith(".new")])
        text = before["pair/README.md"][1].decode()
        self.assertIn("6 problems", text)
        self.assertIn("the grown one 2 steps of 2 processes", text)
        self.assertIn("| all | 0 of 6 | 8 | 4.00 | 8.00 |", text)
        records = files.read_json(f"{self.folder}/settings.json")
        self.assertEqual(list(records), ["tokenizer", "small", "large", "answers", "draft"])
        self.assertEqual(records["small"]["SMALL_PLAN.steps"], 6)

        self.run_stages("tokenizer", "small", "large", "answers", "draft")
        self.assertEqual(self.changed(before), [])
        os.remove(f"{self.folder}/small.pt")  # large does not need it again
        del before["small.pt"]
        self.run_stages(*[stage for stage in train.USUAL if stage != "small"])
        again = self.changed(before)  # the pair is exported and measured again
        self.assertTrue(all(name.startswith("pair/") for name in again), again)
        after = self.written()
        self.assertEqual([name for name in again if after[name][1] != before[name][1]], [])

        said = self.run_stages("ablations")
        self.assertEqual([line for line in said.split("\n") if line.startswith("| ")],
                         ["| 1 layers, 1 taps | 4.00 | 4.00 | 4.00 |", "| 1 layers, 2 taps | 4.00 | 4.00 | 4.00 |"])

    def test_a_stage_that_died_goes_on_to_the_same_weights(self):
        self.run_stages("tokenizer", "small")
        wanted = torch.load(f"{self.folder}/small.pt")

        class Dying(train.TargetLearner):
            def loss(self, step):
                if step == 3 and self.stream.seed.endswith("1"):
                    os._exit(3)
                return super().loss(step)
        with tempfile.TemporaryDirectory() as self.folder:
            with mock.patch.object(train, "TargetLearner", Dying), self.assertRaisesRegex(SystemExit, "run it again to go on"):
                self.run_stages("tokenizer", "small")
            self.assertEqual(sorted(averaging.checkpoints(f"{self.folder}/small.pt", 0)), [2])
            self.run_stages("small")
            for name, value in torch.load(f"{self.folder}/small.pt").items():
                self.assertTrue(torch.equal(value, wanted[name]), name)

    def test_another_setting_is_refused(self):
        self.run_stages("tokenizer", "small")
        before = self.written()
        with mock.patch.object(settings, "SMALL_PLAN", plan(rate=0.02)):
            with self.assertRaisesRegex(SystemExit, r"stage small .* begun with SMALL_PLAN\.rate = 0\.01, now it is 0\.02: take"):
                self.run_stages("large")
        with mock.patch.object(settings, "SMALL_PLAN", plan(save_seconds=7)):
            workspace.check_settings(self.folder)  # how often it saves shapes nothing
        self.assertEqual(self.changed(before), [])
        os.remove(f"{self.folder}/settings.json")
        with self.assertRaisesRegex(SystemExit, "files of the stage tokenizer, but no settings.json"):
            self.run_stages("large")

    def test_a_removed_stage_may_begin_with_other_settings_unless_a_later_one_stands(self):
        for name in ("tokenizer.json", "small.pt", "large.pt"):
            files.write_text(f"{self.folder}/{name}", "")
        files.write_json(f"{self.folder}/settings.json", {s: workspace.shape(s) for s in ("tokenizer", "small", "large")})
        os.remove(f"{self.folder}/small.pt")
        with mock.patch.object(settings, "SMALL_PLAN", plan(rate=0.02)):
            with self.assertRaisesRegex(SystemExit, r"stage small .* SMALL_PLAN\.rate"):
                workspace.check_settings(self.folder)
            os.remove(f"{self.folder}/large.pt")
            workspace.check_settings(self.folder)
            workspace.record_settings(self.folder, "small")
            self.assertEqual(files.read_json(f"{self.folder}/settings.json")["small"]["SMALL_PLAN.rate"], 0.02)

    def test_missing_input_is_named(self):
        self.run_stages("tokenizer")
        for stages, error in ((("draft",), f"draft needs large.pt in {self.folder}: run the stage large first"),
                              (("small", "draft"), f"draft needs large.pt in {self.folder}: run the stage large first"),
                              (("measure",), f"measure needs pair/target/config.json in {self.folder}: run the stage export "
                                             "first")):
            with self.assertRaises(SystemExit) as raised:
                self.run_stages(*stages)
            self.assertEqual(str(raised.exception), error)
        self.assertFalse(workspace.begun(self.folder, "small"))
        with self.assertRaisesRegex(SystemExit, "measure needs the program dflash-generate"):
            self.run_stages(program="/no/such/program")
        self.assertFalse(workspace.begun(self.folder, "small"))


class Stopping(unittest.TestCase):
    def start(self, folder):
        """A process with two workers that wait; the process ids of the workers."""
        def sleep(rank):
            files.write_text(f"{folder}/pid{rank}", str(os.getpid()))
            time.sleep(60)

        def parent():
            held = workspace.lock(folder)
            signal.signal(signal.SIGTERM, train.stop)
            with quiet():
                averaging.run_workers(sleep, 2, "sleeping")
            held.close()
        process = mp.get_context("fork").Process(target=parent)
        process.start()
        self.addCleanup(process.kill)
        self.until(lambda: all(os.path.exists(f"{folder}/pid{rank}") for rank in range(2)))
        workers = [files.read_json(f"{folder}/pid{rank}") for rank in range(2)]
        self.addCleanup(lambda: [os.kill(pid, signal.SIGKILL) for pid in workers if self.lives(pid)])
        return process, workers

    def until(self, happened):
        end = time.time() + 20
        while not happened():
            self.assertLess(time.time(), end)
            time.sleep(0.01)

    def lives(self, pid):
        """Whether a process runs: one that has ended and waits for its parent does not."""
        try:
            with open(f"/proc/{pid}/stat") as f:
                return f.read().rsplit(")", 1)[1].split()[0] != "Z"
        except OSError:
            return False

    def is_locked(self, folder):
        try:
            workspace.lock(folder).close()
            return False
        except SystemExit as error:
            self.assertIn("already running", str(error))
            return True

    def test_workers_end_with_their_parent(self):
        with tempfile.TemporaryDirectory() as folder, quiet():
            process, workers = self.start(folder)
            self.assertTrue(all(map(self.lives, workers)))
            self.assertTrue(self.is_locked(folder))
            process.terminate()
            process.join()
            self.until(lambda: not any(map(self.lives, workers)))
            self.assertFalse(self.is_locked(folder))

    def test_a_worker_that_outlives_its_parent_keeps_the_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            process, workers = self.start(folder)
            process.kill()
            process.join()
            self.assertTrue(all(map(self.lives, workers)))
            self.assertTrue(self.is_locked(folder))
            for worker in workers:
                os.kill(worker, signal.SIGKILL)
            self.until(lambda: not self.is_locked(folder))


class Answers(unittest.TestCase):
    def test_answers_are_written_and_read_back(self):
        words, target, _ = small_vocabulary()
        asked = [problems.examples(f"7 answers {part}", 4) for part in range(2)]
        with mock.patch.object(problems, "LONGEST_ANSWER", 10), tempfile.TemporaryDirectory() as folder:
            rows = {}
            for one in asked[0] + asked[1]:
                prompt = words.encode(one.question + "\n")
                rows[one.question] = prompt, decode.generate_batch(target, torch.tensor([prompt]), 10, -1)[0].tolist()
            ends = [row[len(prompt):] for prompt, row in rows.values()]
            words.end = next(token for end in ends for token in end[3:] if 0 < sum(token in other for other in ends) < len(ends))
            wanted = []
            for part in asked:
                cut = [(len(prompt), decode.cut(torch.tensor(row), len(prompt), words.end))
                       for prompt, row in (rows[one.question] for one in part)]
                wanted += sorted((n, row) for n, row in cut if row[-1] == words.end)
            self.assertGreater(len(wanted), 0)
            self.assertLess(len(wanted), 8)
            with quiet():
                answers.write(target, words, 7, 2, 4, f"{folder}/answers")
            read = answers.read(f"{folder}/answers", 2)
            self.assertEqual(sorted(read), sorted(wanted))
            files.write_text(f"{folder}/answers.0", "[1, [2, 3]]\n")
            with quiet():
                answers.write(target, words, 7, 2, 4, f"{folder}/answers")
            self.assertEqual(answers.read(f"{folder}/answers", 2)[0], (1, [2, 3]))

    def test_chunks_take_their_share_of_the_rows_in_turn(self):
        rows = ["a", "b", "c"]
        chunk = answers.chunks(rows, 0.5, lambda n: [f"{n}.{i}" for i in range(4)], size=4)
        self.assertEqual([chunk(n) for n in range(3)],
                         [["a", "b", "0.0", "0.1"], ["c", "a", "1.0", "1.1"], ["b", "c", "2.0", "2.1"]])
        self.assertEqual(answers.chunks([], 0.5, lambda n: list(range(9)), size=4)(0), [0, 1, 2, 3])


class Card(unittest.TestCase):
    def test_the_card_tells_sizes_and_training(self):
        words, target, draft = small_vocabulary()
        with tempfile.TemporaryDirectory() as folder:
            export.save_pair(f"{folder}/pair", words, target, draft)
            for name, step in (("small", 30), ("draft", 20)):
                files.write_text(f"{folder}/{name}.pt.log", json.dumps(dict(step=1)) + "\n" +
                                 json.dumps(dict(step=step, **(dict(tokens=512.4) if name == "small" else {}))) + "\n")
            card.write(folder, f"{folder}/pair", "tiny", 300, ["first table", "second table"])
            with open(f"{folder}/pair/README.md") as f:
                text = f.read()
        parameters = sum(p.numel() for p in target.parameters())
        for part in ("# tiny\n", "| shape | Qwen3, 3 layers, hidden 32 | DFlash v1, 2 layers, hidden 32 |",
                     f"| parameters | {parameters:,} (", f"block 8, taps after layers 0, 2, mask token {words.mask} |",
                     "first table\n\nsecond table", f"Seed {settings.SEED}, AdamW.", "\n300 problems",
                     "The small target 30 steps of 2 processes of about 512 tokens each, learning rate 0.0025; the draft 20 "
                     "steps of 2 processes each, learning rate 0.002."):
            self.assertIn(part, text)


class Golden(unittest.TestCase):
    def test_golden_answers_are_those_of_serial_decoding(self):
        words, target, draft = small_vocabulary()
        asked = problems.held_out_set(2)
        with tempfile.TemporaryDirectory() as folder:
            export.save_pair(folder, words, target, draft)
            found = golden.golden(folder, asked, 12)
            target, _ = export.load_pair(folder)
        for one, entry in zip(asked, found):
            prompt = words.encode(one.question + "\n")
            self.assertEqual((entry["prompt"], entry["prompt_ids"]), (one.question + "\n", prompt))
            self.assertEqual(entry["tokens"], decode.serial(target.double(), prompt, 12, words.end))
            self.assertEqual([run["block_size"] for run in entry["runs"]], [8, 16])
            for run in entry["runs"]:
                self.assertEqual(1 + sum(run["acceptance_lengths"]), len(entry["tokens"]))


if __name__ == "__main__":
    unittest.main()
