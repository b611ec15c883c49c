"""The Service stand-in: nftables rules that follow Services and EndpointSlices, as kube-proxy's do.

New connections to a ClusterIP go to a random ready endpoint; connections that exist stay where they are. A Service
without endpoints refuses.
"""

import threading

from .network import run


class ServiceProxy:
    def __init__(self, api):
        self._api = api
        self._services, self._slices = {}, {}
        self._lock = threading.Lock()
        self._changed, self._stop = threading.Event(), threading.Event()
        self._applied = None
        self.problem = None
        for kind, known in (("Service", self._services), ("EndpointSlice", self._slices)):
            threading.Thread(target=api.follow, args=(kind, self._follower(known), self._stop), daemon=True).start()
        threading.Thread(target=self._run, daemon=True).start()

    def stop(self):
        self._stop.set()
        self._changed.set()

    def address(self, name, namespace, port):
        """(ClusterIP, port number) of a Service's named port."""
        service = self._api.get("Service", name, namespace)
        return service["spec"]["clusterIP"], next(p["port"] for p in service["spec"]["ports"] if p.get("name") == port)

    def _follower(self, known):
        def on_event(kind, what):
            with self._lock:
                if kind == "SYNC":
                    known.clear()
                    known.update(what)
                else:
                    key = (what["metadata"].get("namespace"), what["metadata"]["name"])
                    if kind == "DELETED":
                        known.pop(key, None)
                    else:
                        known[key] = what
            self._changed.set()
        return on_event

    def _run(self):
        while not self._stop.is_set():
            self._changed.wait()
            self._changed.clear()
            rules = self._rules()
            if rules != self._applied and not self._stop.is_set():
                try:
                    run("nft", "-f", "-", data=rules)
                    self._applied = rules
                except RuntimeError as error:
                    self.problem = error

    def _endpoints(self, namespace, name):
        """{port name: ["ip . port", ...]} of the ready endpoints."""
        ports = {}
        for (where, _), part in sorted(self._slices.items()):
            if where != namespace or part["metadata"].get("labels", {}).get("kubernetes.io/service-name") != name:
                continue
            for port in part.get("ports") or []:
                ports.setdefault(port.get("name", ""), []).extend(
                    f"{endpoint['addresses'][0]} . {port['port']}" for endpoint in part.get("endpoints") or []
                    if endpoint.get("conditions", {}).get("ready", True))
        return ports

    def _rules(self):
        nat, refuse, hairpin = [], [], set()
        with self._lock:
            for (namespace, name), service in sorted(self._services.items()):
                ip = service["spec"].get("clusterIP", "None")
                if ip == "None":
                    continue
                endpoints = self._endpoints(namespace, name)
                for port in service["spec"].get("ports", []):
                    match = f"ip daddr {ip} tcp dport {port['port']}"
                    targets = endpoints.get(port.get("name", ""), [])
                    hairpin |= {target.split(" ")[0] for target in targets}
                    if not targets:
                        refuse.append(f"{match} reject with tcp reset")
                    elif len(targets) == 1:
                        nat.append(f"{match} dnat to {targets[0].replace(' . ', ':')}")
                    else:
                        choice = ", ".join(f"{i} : {target}" for i, target in enumerate(targets))
                        nat.append(f"{match} dnat ip to numgen random mod {len(targets)} map {{ {choice} }}")

        def chain(name, kind, hook, priority, rules):
            return (f" chain {name} {{\n  type {kind} hook {hook} priority {priority};\n"
                    + "".join(f"  {rule}\n" for rule in rules) + " }\n")

        # A pod that reaches itself through a Service must see the node as its peer.
        own = [f"ct status dnat ip saddr {ip} ip daddr {ip} masquerade" for ip in sorted(hairpin)]
        return ("table ip services\ndelete table ip services\ntable ip services {\n"
                + chain("to_pods", "nat", "prerouting", -100, nat) + chain("from_node", "nat", "output", -100, nat)
                + chain("to_self", "nat", "postrouting", 100, own)
                + chain("refuse", "filter", "forward", 0, refuse)
                + chain("refuse_node", "filter", "output", 0, refuse) + "}\n")
