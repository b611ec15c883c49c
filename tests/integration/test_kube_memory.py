"""Pods that no ModelServer selects cost nothing."""

import gc
import os
import time

from support import fake_kube
from support.router import wait_for


def settled(made):
    """Resident bytes once nothing moves any more."""
    wait_for(lambda: made.router.get("/readyz").status == 200, 20, "ready")
    time.sleep(2)
    return made.router.rss_bytes()


def test_ten_thousand_pods_of_which_two_hundred_are_ours(cluster):
    mine = [fake_kube.pod(f"p-{n:05}", "127.0.0.1", "a", ready=False, padding=6000) for n in range(200)]
    others = [fake_kube.pod(f"o-{n:05}", "127.0.0.1", f"other-{n % 50}", namespace="golden" if n % 2 else "far",
                            padding=6000) for n in range(9800)]

    def resident(pods):
        # The address sanitizer keeps freed memory back, 256 MiB by default: that is no growth of the router's.
        env = {"ASAN_OPTIONS": ":".join([os.environ.get("ASAN_OPTIONS", ""), "quarantine_size_mb=1"]).lstrip(":")}
        made = cluster(start=False, flags=["--kube-relist=1s"], env=env)
        for each in pods:
            made.kube.put("pods", each)
        with made.kube.lock:
            made.kube.history = []
        made.router.start()
        bytes_used = settled(made)
        # and when all of them change
        for each in pods[::10]:
            made.kube.put("pods", each)
        bytes_used = max(bytes_used, settled(made))
        assert made.status() == 200
        delivered = made.kube.delivered
        made.router.stop()
        gc.collect()
        return bytes_used, delivered

    alone, sent_alone = resident(mine)
    crowded, sent_crowded = resident(mine + others)
    print(f"200 pods: {alone / 2**20:.1f} MiB, of 10,000: {crowded / 2**20:.1f} MiB")
    assert crowded - alone < 20 * 2**20
    assert sent_crowded < 3 * sent_alone
