"""For mkdocs: links from the pages to files outside docs/ become links to the repository's own text of them.

The pages are also read in the repository, where such links are relative paths.
"""

from __future__ import annotations

import os
import pathlib
import re
from typing import Any

ROOT = pathlib.Path(__file__).parents[1]
OUTSIDE = re.compile(r"\]\(\.\./([^)#\s]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, *, config: Any, **_: Any) -> str:
    """Without a repo_url, as a path from the site's folder."""
    base = f"{config.repo_url.rstrip('/')}/blob/main" if config.repo_url else os.path.relpath(ROOT, config.site_dir)
    return OUTSIDE.sub(rf"]({base}/\1\2)", markdown)
