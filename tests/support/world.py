"""Texts of standalone resources."""


def model_server(name, app, port=8000, model=None, engine="vLLM", namespace="golden", protocol=None, timeout=None,
                 retry=None):
    text = (
        "apiVersion: networking.serving.volcano.sh/v1alpha1\nkind: ModelServer\n"
        f"metadata: {{name: {name}, namespace: {namespace}}}\nspec:\n  inferenceEngine: {engine}\n"
        f"  workloadSelector:\n    matchLabels: {{app: {app}}}\n"
    )
    text += f"  workloadPort: {{port: {port}" + (f", protocol: {protocol}" if protocol else "") + "}\n"
    if model:
        text += f"  model: {model}\n"
    if timeout or retry:
        text += "  trafficPolicy:\n"
        if timeout:
            text += f"    timeout: {timeout}\n"
        if retry:
            text += "    retry:\n" + "".join(f"      {k}: {v}\n" for k, v in retry.items())
    return text


def pod(name, ip, app, namespace="golden", ready="True", phase="Running", uid=None, labels="", deleting=False):
    return (
        f"apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n  namespace: {namespace}\n"
        + (f"  uid: {uid}\n" if uid else "")
        + ("  deletionTimestamp: '2026-01-01T00:00:00Z'\n" if deleting else "")
        + f"  labels: {{app: {app}{labels}}}\nstatus:\n  phase: {phase}\n  podIP: {ip}\n"
        + f"  conditions:\n  - {{type: Ready, status: '{ready}'}}\n"
    )


def route(name, model, target, namespace="golden", loras=(), rules=None):
    text = (
        "apiVersion: networking.serving.volcano.sh/v1alpha1\nkind: ModelRoute\n"
        f"metadata: {{name: {name}, namespace: {namespace}}}\nspec:\n  modelName: {model}\n"
    )
    if loras:
        text += f"  loraAdapters: [{', '.join(loras)}]\n"
    text += rules or f"  rules:\n  - name: default\n    targetModels:\n    - {{modelServerName: {target}}}\n"
    return text


def static_pods(name, app, endpoints, namespace="golden"):
    return (
        "apiVersion: warmroute.dev/v1alpha1\nkind: StaticPods\n"
        f"metadata: {{name: {name}, namespace: {namespace}}}\nspec:\n  labels: {{app: {app}}}\n"
        f"  endpoints: [{', '.join(chr(34) + e + chr(34) for e in endpoints)}]\n"
    )


def join(*documents):
    return "---\n".join(documents)


def simple(slot, count=1, server=None, **kw):
    """ms-a with pods a-1..a-count at 127.A.B.1.., model m-a."""
    pods = [pod(f"a-{i}", slot.ip(i), "a") for i in range(1, count + 1)]
    return join(server or model_server("ms-a", "a", model="real-a", **kw), *pods,
                route("mr-a", "m-a", "ms-a", loras=("lora-a1",)))
