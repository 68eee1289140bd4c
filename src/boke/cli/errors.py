"""Errors that a person at a shell can act on: one message, no traceback, exit code 2."""

from __future__ import annotations

import click


class Problem(click.ClickException):
    """Something the caller can put right."""

    exit_code = 2
