"""Reading a TOML file: its data, and the comment behind each key."""

import re
import sys
from pathlib import Path
from typing import Any

from .errors import HardwareError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_VALUE = r"""(?:"(?:\\.|[^"\\])*"|'[^']*'|[^#"'])*"""
_HEADER = re.compile(r"\s*\[([^\[\]]+)\]\s*(?:#.*)?$")
_KEY = re.compile(rf"\s*([\w\-.\"' ]+?)\s*=\s*{_VALUE}#\s*(.*?)\s*$")


def parse_toml(text: str, label: str) -> dict[str, Any]:
    """TOML text as nested dicts. Raises HardwareError "label:line: what is wrong"."""
    try:
        data: dict[str, Any] = tomllib.loads(text)
        return data
    except tomllib.TOMLDecodeError as error:
        what, _, place = str(error).partition(" (at ")
        line = re.match(r"line (\d+)", place)
        number = int(line.group(1)) if line else max(1, len(text.splitlines()))
        raise HardwareError(f"{label}:{number}: not valid TOML: {what}") from None


def read_toml(path: Path, label: str) -> tuple[dict[str, Any], dict[str, str]]:
    """A file's data and its comments by dotted path. Raises HardwareError if it cannot be read or parsed."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise HardwareError(f"{label}: cannot be read: {reason}") from None
    return parse_toml(text, label), scan_comments(text)


def scan_comments(text: str) -> dict[str, str]:
    """Dotted path to the comment on its line. Knows one-line values only, which is all a hardware file has."""
    comments: dict[str, str] = {}
    table = ""
    for line in text.splitlines():
        if header := _HEADER.match(line):
            table = _plain(header.group(1)) + "."
        elif key := _KEY.match(line):
            comments[table + _plain(key.group(1))] = key.group(2)
    return comments


def _plain(key: str) -> str:
    """A dotted key without quotes and blanks."""
    return re.sub(r"[\"'\s]", "", key)
