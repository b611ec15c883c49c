"""Rows of warmroute alone: how its cost and memory grow with what it holds."""

from measure import (CHAT_100K, CHAT_1K7, Holder, Row, background_cpu, checked, cost_us, load, settled_rss)
from proxies import DESCRIPTORS, Engine

# The load of all growth rows repeats what it sent: the index must not grow while its size is what is compared.
SAME = {**CHAT_1K7, "connections": 32, "new": 0}


def cost_row(run, key, title, proxies, background=None, plans=None, **more):
    """Interleaved costs of several routers; the row's samples are named by what they hold."""
    row = Row(key, title, "µs", 2, **more)
    for _ in range(run.other_rounds):
        for label, proxy in proxies.items():
            row.add(label, cost_us(proxy, (background or {}).get(label, 0.0), seconds=run.seconds, warm=run.warm,
                                   **SAME, **(plans or {}).get(label, {}))[0])
    run.row(row)
    return row


def routes(run, stack, engine):
    counts = (10, 1000, 10_000)
    proxies = {f"{count:,}": stack.start("warmroute", engine, routes=count) for count in counts}
    resident = {label: settled_rss(proxy) for label, proxy in proxies.items()}
    cost_row(run, "growth_routes", "CPU per request by ModelRoutes", proxies, limit=1.2,
             plans={label: {"models": counts[0]} for label in proxies}, note="the same ten models are asked for")
    cost_row(run, "growth_models", "CPU per request by models asked for, of 10,000",
             dict.fromkeys(("10", "300"), proxies["10,000"]), plans={"10": {"models": 10}, "300": {"models": 10_000}},
             note="each model has its own metric series and its own blocks")
    stack.end(*proxies.values())
    row = Row("memory_route", "memory per ModelRoute", "bytes", 0, note="10,000 beside 10")
    row.add("warmroute", (resident["10,000"] - resident["10"]) / 9990)
    run.row(row)


def pods(run, stack):
    engine = Engine(stack, 1000)
    proxies = {f"{count:,}": stack.start("warmroute", engine, pods=count) for count in (1, 64, 1000)}
    resident = {label: settled_rss(proxy) for label, proxy in proxies.items()}
    background = {label: background_cpu(proxy, run.seconds) for label, proxy in proxies.items()}
    row = cost_row(run, "growth_pods", "CPU per request by pods, scraping left out", proxies, background,
                   note="scorers look at each candidate")
    per_pod = Row("cost_pod", "CPU per request and pod", "ns", 1, note="from 64 to 1,000 pods")
    for many, some in zip(row.samples["1,000"], row.samples["64"]):
        per_pod.add("warmroute", (many - some) * 1e3 / 936)
    run.row(per_pod)
    scraping = Row("scraping", "CPU for scraping, per pod and second", "µs", 0)
    scraping.add("warmroute", (background["1,000"] - background["1"]) * 1e6 / 999)
    run.row(scraping)
    memory = Row("memory_pod", "memory per pod", "bytes", 0, note="1,000 beside 64, scraped, nothing recorded")
    memory.add("warmroute", (resident["1,000"] - resident["64"]) / 936)
    run.row(memory)
    stack.end(*proxies.values())
    stack.stop([engine.process])


def connections(run, stack, engine):
    count = min(run.streams, (DESCRIPTORS - 256) // 2 - 64)
    proxies = {label: stack.start("warmroute", engine) for label in ("0", f"{count:,}")}
    crowded = proxies[f"{count:,}"]
    for proxy in proxies.values():
        checked(load(proxy, seconds=run.seconds, warm=0, **SAME), proxy.name)
    before = settled_rss(crowded)
    with Holder(crowded, once=1, dial=2000, **{**SAME, "connections": count}):
        idle = Row("memory_idle", f"memory per idle client connection ({count:,} after a request each)", "bytes", 0)
        idle.add("warmroute", (settled_rss(crowded) - before) / count)
        cost_row(run, "growth_idle", "CPU per request by idle client connections", proxies, limit=1.2)
    run.row(idle)
    stack.end(*proxies.values())


def streams(run, stack, engine):
    """What a running stream holds; with a long prompt, too: of a body that was forwarded nothing may stay.

    The long ones come slowly and have their first event soon: until then their bodies are held, for a retry, and what
    the allocator keeps of that peak would be counted as theirs.
    """
    many = min(run.streams, (DESCRIPTORS - 256) // 2 - 64)
    for key, title, prompt, count, dial, every_us in [
            ("memory_stream", "memory per running stream", CHAT_1K7, many, 2000, 1_000_000),
            ("memory_stream_100k", "memory per running stream whose prompt had 100 KB", CHAT_100K, 500, 100, 100_000)]:
        proxy = stack.start("warmroute", engine)
        checked(load(proxy, connections=32, new=0, seconds=run.seconds, warm=0, **prompt), proxy.name)
        before = settled_rss(proxy)
        with Holder(proxy, new=0, events=1_000_000, every_us=every_us, connections=count, dial=dial, **prompt):
            row = Row(key, f"{title} ({count:,} streams)", "bytes", 0)
            row.add("warmroute", (settled_rss(proxy) - before) / count)
            row.note = f"request bodies held meanwhile: {proxy.metric('warmroute_buffered_request_bytes'):,.0f} bytes"
        run.row(row)
        stack.end(proxy)


def index(run, stack, engine):
    """Four pods of 50,000 entries each are full after 1,600 prompts of 128 blocks that nobody sent before."""
    proxies = {label: stack.start("warmroute", engine) for label in ("empty", "full")}
    entries = 0
    for _ in range(20):
        checked(load(proxies["full"], connections=32, new=100, seconds=1, warm=0, **CHAT_100K), "filling the index")
        now = proxies["full"].metric("kthena_router_prefix_cache_entries")
        if now == entries:
            break
        entries = now
    cost_row(run, "growth_index", "CPU per request by prefix index", proxies, limit=1.2,
             note=f"full: {entries:,.0f} entries")
    stack.end(*proxies.values())


def workers(run, stack, engine):
    proxies = {str(count): stack.start("warmroute", engine, count) for count in (1, 2)}
    cost_row(run, "growth_workers", "CPU per request by workers", proxies, limit=1.2)
    stack.end(*proxies.values())
