"""The control plane, the node and the Service stand-in, once for the whole run."""

import os
import signal
import sys
import time

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from fleet import Fleet
from support.cluster.control_plane import ControlPlane, kubectl
from support.cluster.gate import Gate
from support.cluster.kubelet import Kubelet
from support.cluster.network import Network
from support.cluster.release import Release
from support.cluster.services import ServiceProxy
from support.cluster.stage import Stage, clear, settings
from support.helm import CHART, Helm
from support.router import BINARY, MOCK_ENGINE

signal.signal(signal.SIGINT, signal.default_int_handler)  # run.sh starts pytest in the background, where it is ignored
SETTINGS = "networking.kthenaRouter.terminationGracePeriodSeconds=60,networking.kthenaRouter.drainTimeout=40s"
IMAGES = {
    "ghcr.io/volcano-sh/kthena-router": ({"/kthena-router": BINARY}, ["/kthena-router"]),
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


@pytest.fixture(name="release", scope="session")
def _release(plane, helm, node, services):
    """Our chart with one replica, as helm installs it."""
    plane.wait_controllers()
    release = Release(plane, helm, node, services)
    release.install("--set", SETTINGS)
    release.wait_available()
    release.wait_serving()
    yield release
    release.uninstall()


@pytest.fixture(name="fleet", scope="session")
def _fleet(plane, crds, node):
    plane.wait_controllers()
    return Fleet(plane, node)


@pytest.fixture(name="clean_routes")
def _clean_routes(fleet):
    yield
    fleet.clear_routes()


@pytest.fixture(name="silence", scope="session")
def _silence(plane, crds):
    """(router, stage, since when) of a router whose connections to the API server went silent."""
    stage, gate = Stage(plane, "silence"), Gate()
    stage.simple()
    router = stage.router(kubeconfig=settings(plane, gate.url))
    stage.until_status(router, 200)
    gate.silence_present()
    begun = time.monotonic()
    clear(plane.api, "silence")
    time.sleep(1.5)
    stage.silent_answer = router.chat()
    yield router, stage, begun
    stage.close()
    gate.stop()


@pytest.fixture(autouse=True, scope="session")
def _begin_silence(request):
    """Its minute and a half passes beside the other tests."""
    if any("test_silence.py" in item.nodeid for item in request.session.items):
        request.getfixturevalue("silence")
