"""The control plane, the node and the Service stand-in, once for the whole run."""

import os

import pytest
from support.cluster.control_plane import ControlPlane, kubectl
from support.cluster.kubelet import Kubelet
from support.cluster.network import Network
from support.cluster.services import ServiceProxy
from support.helm import CHART, Helm
from support.router import BINARY, MOCK_ENGINE

IMAGES = {
    "warmroute": ({"/image/warmroute": BINARY, "/image/kthena-router": BINARY}, ["/image/warmroute"]),
    "mock-engine": ({"/image/mock-engine": MOCK_ENGINE}, ["/image/mock-engine"]),
}


@pytest.fixture(name="network", scope="session")
def _network():
    return Network()


@pytest.fixture(name="plane", scope="session")
def _plane(network, tmp_path_factory):
    plane = ControlPlane(tmp_path_factory.mktemp("control-plane"))
    yield plane
    plane.stop()


@pytest.fixture(name="crds", scope="session")
def _crds(plane):
    """Our CRDs, established."""
    kubectl(plane, "apply", "--server-side", "-f", CHART / "crds")
    kubectl(plane, "wait", "--for=condition=Established", "--timeout=30s", "-f", CHART / "crds")


@pytest.fixture(name="node", scope="session")
def _node(plane, network, tmp_path_factory):
    folder = tmp_path_factory.mktemp("node")
    os.chmod(folder, 0o755)
    kubelet = Kubelet(plane.api, network, folder, IMAGES)
    yield kubelet
    kubelet.stop()


@pytest.fixture(name="services", scope="session")
def _services(plane):
    proxy = ServiceProxy(plane.api)
    yield proxy
    proxy.stop()


@pytest.fixture(name="helm", scope="session")
def _helm(plane, tmp_path_factory):
    return Helm(tmp_path_factory.mktemp("helm"), kubeconfig=plane.kubeconfig)
