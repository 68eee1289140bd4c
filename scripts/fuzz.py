"""Coverage-guided fuzzing of everything that boke reads from files: states, logs, TOML studies, JSON lines, values.

`make fuzz MINUTES=5` gives each reader so long. A reader may accept its input or refuse it with its own error; any
other exception, a hang of twenty seconds or two gigabytes of memory is a finding, and libFuzzer writes the input to a
file. Each reader runs in a process of its own, because libFuzzer ends its process.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import inspect
import json
import os
import subprocess
import sys
import tempfile
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path

FIXTURES = Path(__file__).parents[1] / "tests" / "fixtures"
MEMORY = "/dev/shm"  # thousands of files a minute: a disk that is slow for a moment is no finding
FOLDER = Path(MEMORY if os.path.isdir(MEMORY) else tempfile.gettempdir()) / f"boke-fuzz-{os.getpid()}"


MODULES = ["boke.state", "boke.journal", "boke.space", "boke.optimizer", "boke.history", "boke.cli.config"]
MODULES += ["boke.cli.reading", "boke.cli.commands", "json.decoder", "json.scanner", "tomllib._parser"]


def sealed(data: bytes) -> bytes:
    """The same lines with right lengths and checksums: otherwise nothing ever gets past them."""
    out = []
    for line in data.split(b"\n"):
        content = line.split(b", ", 2)[-1].removesuffix(b"]")
        out.append(b"[%d, %d, %b]" % (len(content), zlib.crc32(content), content))
    return b"\n".join(out) + b"\n"


def state(data: bytes) -> None:
    from boke import Optimizer

    path = FOLDER / "state"
    for content in (data, sealed(data)):
        path.write_bytes(content)
        with contextlib.suppress(ValueError):
            Optimizer.load(path)


def log(data: bytes) -> None:
    from boke import Optimizer

    path = FOLDER / "log"
    for content in (data, sealed(data)):
        path.write_bytes(content)
        with contextlib.suppress(ValueError), Optimizer.open(path) as optimizer:
            optimizer.tell(optimizer.ask(), 1.0)


def toml(data: bytes) -> None:
    from boke.cli import config
    from boke.cli.errors import Problem

    path = FOLDER / "study.toml"
    path.write_bytes(data)
    with contextlib.suppress(Problem):
        config.read(path)


def json_lines(data: bytes) -> None:
    from boke.cli.commands import _message
    from boke.cli.errors import Problem

    with contextlib.suppress(Problem, UnicodeDecodeError):
        _message(data.decode())


def values(data: bytes) -> None:
    from boke.cli.errors import Problem
    from boke.cli.reading import reading_from_option

    option, _, text = data.decode("utf-8", "replace").partition("\n")
    (FOLDER / "r.json").write_text(text, encoding="utf-8")
    with contextlib.suppress(Problem, ValueError):
        reading_from_option(option).values(text, FOLDER / "r.json", 1)


READERS: dict[str, tuple[Callable[[bytes], None], list[bytes]]] = {
    "state": (state, [path.read_bytes() for path in sorted(FIXTURES.glob("*.jsonl"))]),
    "log": (log, [path.read_bytes() for path in sorted(FIXTURES.glob("*.jsonl"))]),
    "toml": (
        toml,
        [
            b'name = "s"\ntrials = 3\nworkers = 2\nseed = 0\ndirection = ["minimize", "maximize"]\n[objective]\n'
            b'command = "echo {x}"\nvalue = {json = "r.json", key = "loss"}\ntimeout = 1.5\n[space]\n'
            b'x = {low = 0.0, high = 1.0, log = false, step = 0.1}\nn = {low = 1, high = 9}\nc = ["a", 1, true]\n'
        ],
    ),
    "json_lines": (json_lines, [b'{"trial": 7, "value": 0.31}', b'{"params": {"x": 0.5}, "value": [1, 2]}']),
    "values": (values, [b"last-line\n1.5\n", b"json:r.json:a.b\n{}", b"regex:loss=(.+)\nloss=1", b"json:r.json\n[1]"]),
}


def one(name: str, seconds: int) -> None:
    import atheris

    warnings.simplefilter("ignore")
    reader, seeds = READERS[name]
    FOLDER.mkdir(exist_ok=True)
    corpus = FOLDER / "corpus"
    corpus.mkdir(exist_ok=True)
    for i, seed in enumerate(seeds):
        (corpus / str(i)).write_bytes(seed)
    for module in map(importlib.import_module, MODULES):
        for found in vars(module).values():
            members = vars(found).values() if inspect.isclass(found) else [found]
            for function in members:
                if inspect.isfunction(function) and function.__module__ == module.__name__:
                    atheris.instrument_func(function)
    flags = [
        f"-max_total_time={seconds}",
        "-timeout=20",
        "-rss_limit_mb=2048",
        "-max_len=20000",
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], *flags, f"-artifact_prefix={FOLDER}/", str(corpus)], lambda data: reader(bytes(data)))
    atheris.Fuzz()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--only", choices=READERS)
    parser.add_argument("--out", default="results/fuzz.json")
    given = parser.parse_args()
    if given.only:
        one(given.only, round(60 * given.minutes))
        return
    answer: dict[str, object] = {"command": f"python scripts/fuzz.py --minutes {given.minutes:g}"}
    failed = False
    for name in READERS:
        command = [sys.executable, __file__, "--only", name, "--minutes", str(given.minutes)]
        done = subprocess.run(command, capture_output=True, text=True)
        stats = dict(line.split()[:2] for line in done.stderr.splitlines() if line.startswith("stat::"))
        covered = [line for line in done.stderr.splitlines() if " cov: " in line]
        found = done.returncode != 0
        failed |= found
        answer[name] = {
            "executions": int(stats.get("stat::number_of_executed_units:", 0)),
            "coverage": int(covered[-1].split(" cov: ")[1].split()[0]) if covered else 0,
            "findings": int(found),
        }
        print(name, answer[name], flush=True)
        if found:
            print(done.stderr[-3000:])
    Path(given.out).write_text(json.dumps(answer, indent=1) + "\n", encoding="utf-8")
    sys.exit(failed)


if __name__ == "__main__":
    main()
