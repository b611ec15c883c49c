"""Helm and rendered objects for the tests of this folder."""

import pytest
from support.helm import VALUES, Helm, Objects


@pytest.fixture(name="helm", scope="session")
def _helm_fixture(tmp_path_factory):
    return Helm(tmp_path_factory.mktemp("helm"))


@pytest.fixture(name="render", scope="session")
def _render(helm):
    """render("default", "--set", "a=b"): the objects for one values file and further arguments, rendered once."""
    known = {}

    def render(values, *arguments):
        key = (values, *arguments)
        if key not in known:
            known[key] = Objects(helm.template("--values", VALUES / f"{values}.yaml", *arguments))
        return known[key]
    return render
