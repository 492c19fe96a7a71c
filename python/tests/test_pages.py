"""The Python code on the pages about this package runs, and its assertions hold."""
import re
from pathlib import Path

import pytest
from conftest import ROOT


@pytest.mark.parametrize("page", ["python/README.md", "docs/src/python.md"])
def test_the_code_of_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    assert len(blocks) >= 2
    monkeypatch.chdir(tmp_path)
    # The README's second example reads its first one from a file.
    (tmp_path / "scenario.yaml").write_text(
        "scenario: Two jobs on one node\nnodes: [{name: alpha, machine: a100-80g-x2}]\n"
        "jobs: [{name: train, count: 2, gpus: 2, duration: 1h}]\n")
    exec("\n".join(blocks), {"__name__": page})
