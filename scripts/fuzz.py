"""Coverage-guided fuzzing of everything that boke reads from files: states, logs, TOML studies, JSON lines, values.

`make fuzz MINUTES=5` gives each reader so long. A reader may accept its input or refuse it with its own error; any
other exception, a hang of twenty seconds or two gigabytes of memory is a finding, and libFuzzer writes the input to
fuzz-READER-... here. Each reader runs in a process of its own, because libFuzzer ends its process.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.metadata
import inspect
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path

FIXTURES = Path(__file__).parents[1] / "tests" / "fixtures"
MEMORY = "/dev/shm"  # thousands of files a minute: a disk that is slow for a moment is no finding
FOLDER = Path(os.environ.get("BOKE_FUZZ", "."))  # of the process of one reader; its parent removes it

MODULES = ["boke.state", "boke.journal", "boke.space", "boke.optimizer", "boke.history", "boke.cli.config"]
MODULES += ["boke.cli.reading", "boke.cli.commands", "json.decoder", "json.scanner", "tomllib._parser"]


def sealed(data: bytes) -> bytes:
    """The same lines with right lengths and checksums: otherwise nothing ever gets past them."""
    out = b""
    for line in data.split(b"\n"):
        content = line.split(b", ", 2)[-1].removesuffix(b"]")
        out += b"[%d, %d, %b]\n" % (len(content), zlib.crc32(content, len(out)), content)
    return out


def sealed_as_a_whole(data: bytes) -> bytes:
    """The same for the first version of the format, with one checksum in its header."""
    header, _, body = data.partition(b"\n")
    return re.sub(rb'"crc32": \d+', b'"crc32": %d' % zlib.crc32(body), header, count=1) + b"\n" + body


SEALS = (bytes, sealed, sealed_as_a_whole)


def state(data: bytes) -> None:
    from boke import Optimizer

    path = FOLDER / "state"
    for seal in SEALS:
        path.write_bytes(seal(data))
        with contextlib.suppress(ValueError):
            Optimizer.load(path)


def log(data: bytes) -> None:
    from boke import Optimizer
    from boke.policies import BOKEPlus

    path, quick = FOLDER / "log", BOKEPlus(n_acq=16)  # `state` reads the policies of files
    for seal in SEALS:
        path.write_bytes(seal(data))
        with contextlib.suppress(ValueError), Optimizer.open(path, policy=quick) as optimizer:
            optimizer.tell(optimizer.ask(), 1.0)
            kept = optimizer.history.values.tobytes()
            assert Optimizer.load(path, policy=quick).history.values.tobytes() == kept


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
            b'x = {low = 0.0, high = 1.0, log = false, step = 0.1}\nn = {low = 1, high = 9}\nc = ["a", 1, true]\n',
            b"[space]\nx = " + b"[" * 3000 + b"]" * 3000,
            b"[space]\nx = {low = 0.0, high = " + b"9" * 5000 + b"}",
        ],
    ),
    "json_lines": (
        json_lines,
        [b'{"trial": 7, "value": 0.31}', b'{"params": {"x": 0.5}, "value": [1, 2]}', b'{"trial": ' + b"[" * 3000],
    ),
    "values": (
        values,
        [
            b"last-line\n1.5\n",
            b"json:r.json:a.b\n{}",
            b"regex:loss=(.+)\nloss=1",
            b"json:r.json\n[1]",
            b"json:r.json\n" + b"9" * 400,
            b"json:r.json\n" + b"[" * 3000,
        ],
    ),
}


def one(name: str, seconds: int) -> None:
    import atheris

    warnings.simplefilter("ignore")
    reader, seeds = READERS[name]
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
    atheris.Setup(
        [sys.argv[0], *flags, f"-artifact_prefix=fuzz-{name}-", str(corpus)], lambda data: reader(bytes(data))
    )
    atheris.Fuzz()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--only", choices=READERS, help="one reader in this process; nothing is written")
    parser.add_argument("--out", default="results/fuzz.json")
    given = parser.parse_args()
    if given.only:
        one(given.only, round(60 * given.minutes))
        return
    answer: dict[str, object] = {
        "command": f"python scripts/fuzz.py --minutes {given.minutes:g}",
        "versions": {"atheris": importlib.metadata.version("atheris"), "python": platform.python_version()},
    }
    failed = False
    for name in READERS:
        command = [sys.executable, __file__, "--only", name, "--minutes", str(given.minutes)]
        begun = time.monotonic()
        with tempfile.TemporaryDirectory(dir=MEMORY if os.path.isdir(MEMORY) else None) as folder:
            settings = os.environ | {"BOKE_FUZZ": folder}
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=settings)
        stats = dict(line.split()[:2] for line in done.stderr.splitlines() if line.startswith("stat::"))
        covered = [line for line in done.stderr.splitlines() if " cov: " in line]
        found = done.returncode != 0
        failed |= found
        answer[name] = {
            "executions": int(stats.get("stat::number_of_executed_units:", 0)),
            "seconds": round(time.monotonic() - begun),
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
