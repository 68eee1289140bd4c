"""Where a program leaves its value: the last line it prints, a JSON file, or what a regular expression finds."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from boke.cli.errors import Problem


@dataclass(frozen=True)
class Reading:
    """Attributes:
    kind: "last-line", "json" or "regex".
    what: The file or the pattern.
    keys: Dotted paths of the values in the JSON file; none if the file holds just the value.
    """

    kind: str
    what: str = ""
    keys: tuple[str, ...] = ()

    def values(self, stdout: str, file: Path | None, n: int) -> list[float]:
        """The n values, or a ValueError that says what is wrong with the output."""
        if self.kind == "json":
            assert file is not None
            found = self._from_json(file)
        elif self.kind == "regex":
            matches = list(re.finditer(self.what, stdout))
            if not matches:
                raise ValueError(f"nothing in the output matches {self.what!r}")
            found = list(matches[-1].groups()) or [matches[-1].group()]
        else:
            lines = [line for line in stdout.splitlines() if line.strip()]
            if not lines:
                raise ValueError("the program printed nothing")
            found = lines[-1].replace(",", " ").split()[-n:]
        if len(found) != n:
            raise ValueError(f"{n} values were expected, and {len(found)} found: {found!r:.200}")
        return [_number(value) for value in found]

    def _from_json(self, file: Path) -> list[Any]:
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise ValueError(f"there is no file {file}") from None
        except (OSError, ValueError, RecursionError) as error:
            raise ValueError(f"{file} cannot be read: {error}") from None
        if not self.keys:
            return content if isinstance(content, list) else [content]
        return [_look_up(content, key, file) for key in self.keys]


LAST_LINE = Reading("last-line")


def reading_of(given: Any, where: str) -> Reading:
    """From TOML: "last-line", {json = file, key = ...} or {regex = ...}."""
    if given == "last-line":
        return LAST_LINE
    if isinstance(given, Mapping) and set(given) in ({"json"}, {"json", "key"}):
        keys = given.get("key", [])
        return Reading("json", str(given["json"]), tuple(map(str, keys if isinstance(keys, list) else [keys])))
    if isinstance(given, Mapping) and set(given) == {"regex"}:
        return Reading("regex", _pattern(str(given["regex"]), where))
    raise Problem(
        f"The 'value' of {where} must be \"last-line\", {{json = file, key = key}} or {{regex = pattern}}. "
        f"Got {given!r}."
    )


def reading_from_option(text: str) -> Reading:
    """From a shell: last-line, json:FILE[:KEY] or regex:PATTERN."""
    kind, _, rest = text.partition(":")
    if text == "last-line":
        return LAST_LINE
    if kind == "json" and rest:
        file, _, key = rest.partition(":")
        return Reading("json", file, tuple(key.split(",")) if key else ())
    if kind == "regex" and rest:
        return Reading("regex", _pattern(rest, "--value"))
    raise Problem(f"--value must be last-line, json:FILE[:KEY] or regex:PATTERN. Got {text!r}.")


def _pattern(text: str, where: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise Problem(f"The regular expression {text!r} of {where} is wrong: {error}.") from None
    return text


def _look_up(content: Any, key: str, file: Path) -> Any:
    for part in key.split("."):
        if not isinstance(content, Mapping) or part not in content:
            raise ValueError(f"{file} has no {key!r}")
        content = content[part]
    return content


def _number(value: Any) -> float:
    try:
        if isinstance(value, bool) or value is None:
            raise ValueError
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{value!r:.200} is not a number") from None
