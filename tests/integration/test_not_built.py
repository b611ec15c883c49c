"""What this build lacks is refused or answered 503, never ignored (decision 2)."""

import pytest
from support import world
from support.router import DEFAULT_CONFIG, run_binary, wait_for


@pytest.mark.parametrize("flags", [[], ["--kubeconfig=/nonexistent"], ["--enable-gateway-api"]])
def test_a_cluster_cannot_be_followed(flags, tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text(DEFAULT_CONFIG)
    code, out, err = run_binary(f"--config={config}", "--port=0", "--metrics-port=1", *flags)
    assert code != 0 and "this build serves standalone resources only: give --resources PATH" in out + err


LIMIT = "  rateLimit: {inputTokensPerUnit: 5, unit: minute}\n"


def test_a_rate_limit_refuses_its_route_alone_and_goes_with_its_section(stack):
    made = stack(resources=lambda s: world.join(world.simple(s) + LIMIT, world.route("mr-b", "m-b", "ms-a")))
    for _ in range(2):  # 503 and 503, not 429: nothing was charged
        response = made.router.chat()
        assert (response.status, response.error["code"]) == (503, "not_supported")
    assert made.router.chat("m-b").status == 200
    assert made.router.chat("nobody").status == 404
    made.router.write_resource("world.yaml", world.join(world.simple(made.slot), world.route("mr-b", "m-b", "ms-a")))
    wait_for(lambda: made.router.chat().status == 200, 5, "the route without its limit")
