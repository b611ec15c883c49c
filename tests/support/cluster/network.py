"""The node's network: a bridge for pods with namespaces of their own, and addresses for pods that are only objects.

All of it lives in the network and mount namespaces of the test run (tests/cluster/run.sh) and goes with them.
"""

import os
import subprocess
import threading

NODE_IP = "10.200.0.1"        # the bridge; the API server listens here, too
BRIDGE = "pods0"
OBJECT_POD_PREFIX = "10.201"  # every address of this /16 is one of the node itself: an engine can bind to any
SERVICE_RANGE = "10.202.0.0/16"
_NEEDS = "the cluster tests need to be root with CAP_SYS_ADMIN and CAP_NET_ADMIN (namespaces, mounts, bridge, nftables)"


def run(*command, data=None, check=True):
    done = subprocess.run(list(map(str, command)), input=data, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: exit {done.returncode}: {done.stdout.strip()}")
    return done.stdout


class Network:
    def __init__(self):
        if os.environ.get("WR_CLUSTER_NAMESPACES") != "own":
            raise RuntimeError("run the cluster tests through tests/cluster/run.sh, which makes their namespaces")
        try:
            run("mount", "-t", "tmpfs", "tmpfs", "/run")  # the names of network namespaces, lock files
            os.makedirs("/run/netns")
            run("ip", "link", "set", "lo", "up")
            run("ip", "link", "add", BRIDGE, "type", "bridge")
            run("ip", "address", "add", f"{NODE_IP}/16", "dev", BRIDGE)
            run("ip", "link", "set", BRIDGE, "up")
            run("ip", "route", "add", "local", f"{OBJECT_POD_PREFIX}.0.0/16", "dev", "lo")
            # Connections from the node to a Service must be routable before their destination is rewritten.
            run("ip", "route", "add", SERVICE_RANGE, "dev", BRIDGE)
            for setting, value in (("ip_forward", 1), ("conf/all/send_redirects", 0),
                                   (f"conf/{BRIDGE}/send_redirects", 0)):
                with open(f"/proc/sys/net/ipv4/{setting}", "w", encoding="ascii") as file:
                    file.write(str(value))
        except (RuntimeError, OSError) as error:
            raise RuntimeError(f"{_NEEDS}: {error}") from error
        self._lock = threading.Lock()
        self._next = 0

    def add_pod(self, name):
        """A network namespace with an address on the bridge: the address."""
        with self._lock:
            self._next += 1
            number = self._next
        address = f"10.200.{1 + number // 250}.{1 + number % 250}"
        run("ip", "netns", "add", name)
        run("ip", "link", "add", f"v{number}", "type", "veth", "peer", "name", "eth0", "netns", name)
        run("ip", "link", "set", f"v{number}", "master", BRIDGE, "up")
        # All traffic goes through the node, also between pods, else the answers of a Service would go around its rules.
        run("ip", "-n", name, "-batch", "-", data=f"link set lo up\naddress add {address}/32 dev eth0\n"
            f"link set eth0 up\nroute add {NODE_IP} dev eth0\nroute add default via {NODE_IP}\n")
        return address

    @staticmethod
    def remove_pod(name):
        run("ip", "netns", "delete", name, check=False)
