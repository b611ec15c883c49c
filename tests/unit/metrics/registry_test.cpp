#include "metrics/registry.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "metrics/cell_store.hpp"

using namespace warmroute::metrics;

namespace {

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

/// The value of the sample whose line starts with `series` and a space; NaN when there is none.
double sample(const std::string& text, const std::string& series) {
  const auto at = ("\n" + text).find("\n" + series + " ");
  if (at == std::string::npos) return std::numeric_limits<double>::quiet_NaN();
  return std::stod(text.substr(at + series.size() + 1));
}

}  // namespace

TEST_CASE("a family is shown from its first series on, with sorted labels") {
  auto registry = Registry::create();
  CHECK(registry->serialize().find("kthena_router_") == std::string::npos);
  Counter& counter = registry->counter("kthena_router_x_total", "Help.", {{"path", "/v1/models"}, {"model", "m"}});
  CHECK(&counter == &registry->counter("kthena_router_x_total", "", {{"model", "m"}, {"path", "/v1/models"}}));
  counter.inc();
  counter.add(2.5);
  counter.add(-1);  // refused
  const auto text = registry->serialize();
  CHECK(has_line(text, "# HELP kthena_router_x_total Help."));
  CHECK(has_line(text, "# TYPE kthena_router_x_total counter"));
  CHECK(has_line(text, "kthena_router_x_total{model=\"m\",path=\"/v1/models\"} 3.5"));
  CHECK(counter.value() == 3.5);
}

TEST_CASE("label values are escaped") {
  auto registry = Registry::create();
  registry->counter("c_total", "", {{"model", "a\"b\\c\nd"}}).inc();
  CHECK(has_line(registry->serialize(), "c_total{model=\"a\\\"b\\\\c\\nd\"} 1"));
}

TEST_CASE("bucket bounds are printed as Go prints them, counts are cumulative") {
  auto registry = Registry::create();
  auto& requests = registry->histogram("d_seconds", "", buckets_requests, {{"model", "m"}});
  auto& ratio = registry->histogram("r", "", buckets_ratio);
  auto& plugins = registry->histogram("p_seconds", "", buckets_plugins);
  for (const double value : {0.005, 0.0051, 61.0, 0.3}) requests.observe(value);
  requests.observe(std::numeric_limits<double>::quiet_NaN());  // would spoil the sum for ever
  for (const double value : {0.0, 0.995, 1.0}) ratio.observe(value);
  plugins.observe(0.001);
  const auto text = registry->serialize();
  CHECK(has_line(text, "d_seconds_bucket{model=\"m\",le=\"0.005\"} 1"));
  CHECK(has_line(text, "d_seconds_bucket{model=\"m\",le=\"0.01\"} 2"));
  CHECK(has_line(text, "d_seconds_bucket{model=\"m\",le=\"0.5\"} 3"));
  CHECK(has_line(text, "d_seconds_bucket{model=\"m\",le=\"60\"} 3"));
  CHECK(has_line(text, "d_seconds_bucket{model=\"m\",le=\"+Inf\"} 4"));
  CHECK(has_line(text, "d_seconds_count{model=\"m\"} 4"));
  CHECK(sample(text, "d_seconds_sum{model=\"m\"}") == Approx(61.3101));
  CHECK(has_line(text, "r_bucket{le=\"0\"} 1"));
  CHECK(has_line(text, "r_bucket{le=\"0.99\"} 1"));
  CHECK(has_line(text, "r_bucket{le=\"1\"} 3"));
  CHECK(has_line(text, "p_seconds_bucket{le=\"0.001\"} 1"));
}

TEST_CASE("the le labels of the recorded metrics are the ones we print") {
  auto registry = Registry::create();
  registry->histogram("kthena_router_request_duration_seconds", "", buckets_requests).observe(1);
  registry->histogram("kthena_router_scheduler_plugin_duration_seconds", "", buckets_plugins).observe(1);
  registry->histogram("kthena_router_prefix_cache_match_ratio", "", buckets_ratio).observe(1);
  const auto bounds_in = [](std::istream& in) {
    std::map<std::string, std::set<std::string>> bounds;
    for (std::string line; std::getline(in, line);) {
      const auto bucket = line.find("_bucket{");
      const auto le = line.find("le=\"");
      if (bucket != std::string::npos && le != std::string::npos)
        bounds[line.substr(0, bucket)].insert(line.substr(le + 4, line.find('"', le + 4) - le - 4));
    }
    return bounds;
  };
  std::ifstream golden(WR_SOURCE_DIR "/tests/golden/http/metrics.txt");
  const auto expected = bounds_in(golden);
  std::istringstream text(registry->serialize());
  const auto ours = bounds_in(text);
  REQUIRE(ours.size() == 3);
  for (const auto& [name, bounds] : ours) {
    CAPTURE(name);
    REQUIRE(expected.count(name) == 1);
    CHECK(bounds == expected.at(name));
  }
}

TEST_CASE("callbacks are read at collection and may count themselves") {
  auto registry = Registry::create();
  double value = 1;
  registry->gauge_callback("g", "A gauge.", [&] {
    registry->counter("seen_total", "").inc();
    return value;
  });
  registry->counter_callback("c_total", "A counter.", [&] { return value * 2; });
  CHECK(has_line(registry->serialize(), "g 1"));
  value = 7;
  const auto text = registry->serialize();
  CHECK(has_line(text, "g 7"));
  CHECK(has_line(text, "c_total 14"));
  CHECK(has_line(text, "# TYPE c_total counter"));
  CHECK(registry->counter("seen_total", "").value() == 2);
}

TEST_CASE("gauges go up and down, and can be set") {
  auto registry = Registry::create();
  Gauge& gauge = registry->gauge("g", "");
  gauge.add(2);
  gauge.add(-1);
  CHECK(gauge.value() == 1);
  Gauge& other = registry->gauge("h", "");
  other.set(41);
  other.set(42);
  CHECK(has_line(registry->serialize(), "h 42"));
}

TEST_CASE("remove takes the series of every family that carry the label") {
  auto registry = Registry::create();
  registry->counter("a_total", "", {{"pod", "default/a"}}).inc();
  registry->counter("a_total", "", {{"pod", "default/b"}}).inc();
  registry->gauge("b", "", {{"model", "m"}, {"pod", "default/a"}}).set(3);
  registry->histogram("c", "", buckets_plugins, {{"pod", "default/a"}}).observe(1);
  const auto before = registry->generation();
  registry->remove("pod", "default/a");
  CHECK(registry->generation() == before + 1);
  auto text = registry->serialize();
  CHECK(text.find("default/a") == std::string::npos);
  CHECK(text.find("# TYPE b ") == std::string::npos);
  CHECK(has_line(text, "a_total{pod=\"default/b\"} 1"));
  registry->remove("pod", "default/a");
  CHECK(registry->generation() == before + 1);  // there was nothing to remove
  // The name comes back: a new series that starts at zero.
  registry->counter("a_total", "", {{"pod", "default/a"}}).inc();
  CHECK(has_line(registry->serialize(), "a_total{pod=\"default/a\"} 1"));
}

TEST_CASE("a shared series outlives its removal without being shown") {
  auto registry = Registry::create();
  auto kept = registry->shared_counter("a_total", "", {{"pod", "p"}});
  kept->inc();
  registry->remove("pod", "p");
  kept->inc();
  CHECK(kept->value() == 2);
  CHECK(registry->serialize().find("a_total") == std::string::npos);
  auto fresh = registry->shared_counter("a_total", "", {{"pod", "p"}});
  CHECK(fresh != kept);
  fresh->inc();
  CHECK(has_line(registry->serialize(), "a_total{pod=\"p\"} 1"));
  kept.reset();
  CHECK(has_line(registry->serialize(), "a_total{pod=\"p\"} 1"));
}

TEST_CASE("the process series are those of the recorded router") {
  auto registry = Registry::create();
  const auto text = registry->serialize();
  for (const char* name :
       {"process_cpu_seconds_total", "process_open_fds", "process_max_fds", "process_virtual_memory_bytes",
        "process_virtual_memory_max_bytes", "process_resident_memory_bytes", "process_start_time_seconds",
        "process_threads", "process_network_receive_bytes_total", "process_network_transmit_bytes_total"}) {
    CAPTURE(name);
    CHECK(sample(text, name) >= 0);
  }
  CHECK(sample(text, "process_resident_memory_bytes") > 1e6);
  CHECK(sample(text, "process_threads") >= 1);
  const double now = static_cast<double>(std::time(nullptr));
  CHECK(sample(text, "process_start_time_seconds") <= now + 1);
  CHECK(sample(text, "process_start_time_seconds") > now - 86400);
  const double open_before = sample(text, "process_open_fds");
  std::ifstream held("/proc/self/stat");
  CHECK(sample(registry->serialize(), "process_open_fds") == open_before + 1);
}

TEST_CASE("many threads count while others scrape and series come and go") {
  auto registry = Registry::create();
  Counter& counter = registry->counter("n_total", "");
  Histogram& histogram = registry->histogram("h", "", buckets_ratio);
  constexpr int threads = 8, rounds = 5000;
  std::atomic<bool> done{false};
  int decreased = 0, unequal = 0, scrapes = 0;
  std::thread scraper([&] {
    double last = 0;
    while (!done) {
      const auto text = registry->serialize();
      const double value = sample(text, "n_total");
      if (value < last) ++decreased;
      last = value;
      if (sample(text, "h_bucket{le=\"+Inf\"}") != sample(text, "h_count")) ++unequal;
      ++scrapes;
    }
  });
  std::thread churn([&] {
    for (int i = 0; !done; ++i) {
      const std::string pod = "p" + std::to_string(i % 3);
      registry->counter("pod_total", "", {{"pod", pod}}).inc();
      registry->remove("pod", pod);
    }
  });
  std::vector<std::thread> counting;
  for (int t = 0; t < threads; ++t) {
    counting.emplace_back([&] {
      for (int i = 0; i < rounds; ++i) {
        counter.inc();
        histogram.observe(0.5);
      }
    });
  }
  for (auto& thread : counting) thread.join();
  done = true;
  scraper.join();
  churn.join();
  CHECK(scrapes > 0);
  CHECK(decreased == 0);
  CHECK(unequal == 0);
  CHECK(counter.value() == threads * rounds);
  CHECK(has_line(registry->serialize(), "h_count 40000"));
}

TEST_CASE("threads beyond the owned slots share one and lose nothing") {
  auto registry = Registry::create();
  Counter& counter = registry->counter("n_total", "");
  constexpr int threads = owned_slots + 20;
  std::atomic<int> ready{0};
  std::atomic<bool> go{false};
  std::atomic<int> shared{0};
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&] {
      if (thread_slot() == shared_slot) ++shared;
      ++ready;
      while (!go) std::this_thread::yield();
      for (int i = 0; i < 100; ++i) counter.inc();
    });
  }
  while (ready != threads) std::this_thread::yield();
  go = true;
  for (auto& thread : all) thread.join();
  CHECK(shared >= 20);
  CHECK(counter.value() == threads * 100);
}

TEST_CASE("the slots of ended threads are used again") {
  std::set<std::uint32_t> seen;
  for (int i = 0; i < 50; ++i) std::thread([&] { seen.insert(thread_slot()); }).join();
  CHECK(seen.size() == 1);
  CHECK(*seen.begin() != shared_slot);
}

TEST_CASE("cells: ranges do not cross chunks, are zero again after release") {
  CellStore store;
  const auto a = store.acquire(15);
  CHECK(a.first != 0);
  store.add(a.first + 14, 3);
  CHECK(store.sum(a.first + 14) == 3);
  store.release(a);
  const auto b = store.acquire(15);
  CHECK(b.first == a.first);
  CHECK(store.sum(b.first + 14) == 0);
  for (int i = 0; i < 300; ++i) {
    const auto range = store.acquire(15);
    REQUIRE(range.first / CellStore::chunk_cells == (range.first + 14) / CellStore::chunk_cells);
  }
}
