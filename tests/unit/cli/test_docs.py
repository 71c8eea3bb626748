"""What the documents say of the command line and of the source tree is there."""

import re
from pathlib import Path

import msgspec
import pytest

from seer.cli.settings import BenchSettings, RolloutSettings

ROOT = Path(__file__).parents[3]
DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
SETTINGS = {
    field.name: field.default
    for kind in (BenchSettings, RolloutSettings)
    for field in msgspec.structs.fields(kind)
}


def row_of(flag: str) -> str:
    """The line of the settings table that begins with a flag."""
    text = (ROOT / "docs" / "rollout.md").read_text(encoding="utf-8")
    (row,) = [
        line for line in text.splitlines() if line.startswith("|") and f"`{flag}`" in line[:60]
    ]
    return row


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_is_documented(name: str) -> None:
    """Each setting has its line, with its default where that is a name or a plain number."""
    row = row_of(f"--{name.replace('_', '-')}")
    default = SETTINGS[name]
    is_shown = name not in {"pool_bytes", "top_p", "top_k", "min_p"}
    if is_shown and isinstance(default, str | int | float) and not isinstance(default, bool):
        assert f"| {default} |" in row


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_and_paths_exist(document: Path) -> None:
    """Every relative link, and every path in the paper map, leads to something."""
    text = document.read_text(encoding="utf-8")
    for link in re.findall(r"\]\((?!https?://)([^)#]+)", text):
        assert (document.parent / link).exists(), link
    if document.name == "paper-map.md":
        for path in re.findall(r"`([a-z_/]+/[a-z_/]*(?:\.py)?)`", text):
            assert (ROOT / path).exists() or (ROOT / "src" / "seer" / path).exists(), path
