"""What this build lacks is refused or answered 503, never ignored (decision 2)."""

from support import world
from support.router import wait_for


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
