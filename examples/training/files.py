"""Files that are there whole or not at all, even when the writer is stopped."""
import contextlib
import json
import os


@contextlib.contextmanager
def replacing(path):
    """The name of a file to write; it takes the place of `path` when the block ends without an error."""
    yield f"{path}.new"
    os.replace(f"{path}.new", path)


def write_text(path, text):
    with replacing(path) as new, open(new, "w") as f:
        f.write(text)


def write_json(path, value, end="\n", **how):
    """how: for json.dumps."""
    write_text(path, json.dumps(value, **how) + end)


def read_json(path):
    with open(path) as f:
        return json.load(f)
