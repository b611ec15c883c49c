"""Each values file of values/ renders to what is saved in expected/, and passes helm's own checks.

WR_UPDATE_EXPECTED=1 writes expected/ anew.
"""

import difflib
import os
import pathlib
import re

import pytest
from support.helm import CHART, NAMESPACE, VALUES

NAMES = sorted(path.stem for path in VALUES.glob("*.yaml"))
EXPECTED = pathlib.Path(__file__).parent / "expected"


@pytest.mark.parametrize("name", NAMES)
def test_lint(helm, name):
    done = helm.run("lint", CHART, "--strict", "--namespace", NAMESPACE, "--values", VALUES / f"{name}.yaml")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_template(helm, name):
    text = helm.template("--values", VALUES / f"{name}.yaml")
    # The dashboard is a file of the chart as it is, and has tests of its own.
    text = re.sub(r"(\n  kthena-score-plugins\.json: \|\n)(?:    .*\n)+", r"\1    ...\n", text)
    saved = EXPECTED / f"{name}.yaml"
    if os.environ.get("WR_UPDATE_EXPECTED"):
        saved.write_text(text, encoding="utf-8")
    difference = difflib.unified_diff(saved.read_text(encoding="utf-8").splitlines(), text.splitlines(),
                                      "expected", "rendered", lineterm="")
    assert not (lines := list(difference)), "\n".join(lines)


def test_nothing_is_saved_without_values():
    assert sorted(path.stem for path in EXPECTED.glob("*.yaml")) == NAMES
