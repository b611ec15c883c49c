"""helm, the chart, and what it renders."""

import os
import pathlib
import re
import subprocess

import yaml

SOURCE = pathlib.Path(__file__).resolve().parents[2]
CHART = SOURCE / "charts/warmroute"
VALUES = SOURCE / "tests/chart/values"
NAMESPACE = "kthena-system"
RELEASE = "router"


def _helm():
    folders = subprocess.run([SOURCE / "tools/cluster/setup.sh", "helm"], check=True, stdout=subprocess.PIPE, text=True)
    return os.path.join(folders.stdout.strip(), "helm")


class Helm:
    """Runs helm without the user's own configuration, and without a cluster unless a kubeconfig is given."""

    def __init__(self, folder, kubeconfig=None):
        self.program = _helm()
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "HELM_CACHE_HOME": str(folder / "cache"),
                            "HELM_CONFIG_HOME": str(folder / "config"), "HELM_DATA_HOME": str(folder / "data")}
        if kubeconfig:
            self.environment["KUBECONFIG"] = str(kubeconfig)

    def run(self, *arguments, environment=None):
        return subprocess.run([self.program, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, check=False, env={**self.environment, **(environment or {})})

    def template(self, *arguments):
        done = self.run("template", RELEASE, CHART, "--namespace", NAMESPACE, *arguments)
        assert done.returncode == 0, done.stderr
        assert done.stderr == "", "helm warns"
        return done.stdout

    def refused(self, *arguments):
        """Why helm does not render the chart with these arguments."""
        done = self.run("template", RELEASE, CHART, "--namespace", NAMESPACE, *arguments)
        assert done.returncode != 0, done.stdout
        return done.stderr


class Objects(dict):
    """Rendered objects by (kind, name)."""

    def __init__(self, text):
        documents = [document for document in yaml.safe_load_all(text) if document]
        super().__init__({(d["kind"], d["metadata"]["name"]): d for d in documents})
        assert len(self) == len(documents), "an object is there twice"

    @property
    def deployment(self):
        return self["Deployment", "kthena-router"]

    @property
    def pod(self):
        return self.deployment["spec"]["template"]["spec"]

    @property
    def container(self):
        (container,) = self.pod["containers"]
        return container

    @property
    def args(self):
        return dict(re.fullmatch(r"--([\w-]+)=(.*)", argument).groups() for argument in self.container["args"])

    @property
    def env(self):
        values = {variable["name"]: variable.get("value", variable.get("valueFrom"))
                  for variable in self.container["env"]}
        assert len(values) == len(self.container["env"]), "a variable is there twice"
        return values
