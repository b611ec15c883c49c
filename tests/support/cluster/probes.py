"""startupProbe, readinessProbe and livenessProbe of one container."""

import http.client
import socket
import ssl
import threading
import time


def _port(container, port):
    return port if isinstance(port, int) else next(p["containerPort"] for p in container["ports"] if p["name"] == port)


def _passes(probe, spec, container, ip):
    timeout = probe.get("timeoutSeconds", 1)
    try:
        if "exec" in probe:
            return container.execute(probe["exec"]["command"], timeout)
        if "tcpSocket" in probe:
            socket.create_connection((ip, _port(spec, probe["tcpSocket"]["port"])), timeout).close()
            return True
        get = probe["httpGet"]
        address = (ip, _port(spec, get["port"]))
        if get.get("scheme", "HTTP") == "HTTPS":
            tls = ssl.create_default_context()
            tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
            connection = http.client.HTTPSConnection(*address, timeout=timeout, context=tls)
        else:
            connection = http.client.HTTPConnection(*address, timeout=timeout)
        try:
            connection.request("GET", get.get("path", "/"), headers={"User-Agent": "kube-probe/1.34"})
            return 200 <= connection.getresponse().status < 400
        finally:
            connection.close()
    except (OSError, http.client.HTTPException):
        return False


class Probes:
    """Runs beside a container from its start to stop(); `ready` and `started` are what the pod's status says.

    `unhealthy` is called once when startup or liveness has failed for good. Terminating pods are probed no more.
    """

    def __init__(self, spec, container, ip, unhealthy):
        self._spec, self._container, self._ip, self._unhealthy = spec, container, ip, unhealthy
        self._stop = threading.Event()
        self.started = "startupProbe" not in spec
        self.ready = False
        threading.Thread(target=self._run, daemon=True).start()

    def stop(self):
        self._stop.set()

    def _run(self):
        begun = time.monotonic()
        startup = self._spec.get("startupProbe")
        if startup and not self._loop(startup, begun, self._set_started):
            return
        if self._stop.is_set():
            return
        liveness = self._spec.get("livenessProbe")
        if liveness:
            threading.Thread(target=self._loop, args=(liveness, begun, lambda ok: None), daemon=True).start()
        readiness = self._spec.get("readinessProbe")
        if readiness:
            self._loop(readiness, begun, self._set_ready, gives_up=False)
        else:
            self.ready = True

    def _set_started(self, ok):
        self.started = self.started or ok

    def _set_ready(self, ok):
        self.ready = ok

    def _loop(self, probe, begun, report, gives_up=True):
        """False when it gave up. A startup probe ends with its first success."""
        good = bad = 0
        self._stop.wait(max(0.0, begun + probe.get("initialDelaySeconds", 0) - time.monotonic()))
        while not self._stop.is_set():
            if _passes(probe, self._spec, self._container, self._ip):
                good, bad = good + 1, 0
                if good >= probe.get("successThreshold", 1):
                    report(True)
                    if probe is self._spec.get("startupProbe"):
                        return True
            else:
                good, bad = 0, bad + 1
                if bad >= probe.get("failureThreshold", 3) and not self._stop.is_set():
                    report(False)
                    if gives_up:
                        self._unhealthy()
                        return False
            self._stop.wait(probe.get("periodSeconds", 10))
        return True
