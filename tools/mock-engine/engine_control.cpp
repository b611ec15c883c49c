// POST /control changes the engine, GET /control shows it; both answer the state.

#include <fmt/format.h>
#include <simdjson.h>

#include "engine.hpp"
#include "text.hpp"

namespace warmroute::mock {
namespace {

namespace dom = simdjson::dom;

/// The paths that engines' own control traffic uses; faults without a path leave them alone.
bool is_side_path(std::string_view path) {
  return path == "/metrics" || path == "/health" || path == "/v1/models" || path == "/control";
}

/// A number, a list of numbers (one per rank) or null (empty: the real value).
std::string read_numbers(dom::element value, std::vector<double>& out) {
  double number = 0;
  dom::array list;
  if (value.is_null()) {
    out.clear();
  } else if (!value.get(number)) {
    out = {number};
  } else if (!value.get(list)) {
    std::vector<double> numbers;
    for (const dom::element item : list) {
      if (item.get(number)) return "expected numbers";
      numbers.push_back(number);
    }
    out = std::move(numbers);
  } else {
    return "expected a number, a list of numbers or null";
  }
  return {};
}

std::string read_sum_count(dom::element value, std::optional<std::pair<double, double>>& out) {
  double sum = 0;
  double count = 0;
  if (value.is_null()) {
    out.reset();
    return {};
  }
  if (value["sum"].get(sum) || value["count"].get(count)) return "expected {\"sum\",\"count\"} or null";
  out.emplace(sum, count);
  return {};
}

}  // namespace

Fault Engine::take_fault(std::string_view path) {
  for (auto it = faults_.begin(); it != faults_.end(); ++it) {
    if (it->path.empty() ? is_side_path(path) : it->path != path) continue;
    Fault fault = it->fault;
    if (it->count > 0 && --it->count == 0) faults_.erase(it);
    return fault;
  }
  return {};
}

Reply Engine::control(const Request& request) {
  if (request.method == "POST") {
    if (const std::string problem = apply_control(request.body); !problem.empty()) return error_reply(400, problem);
  } else if (request.method != "GET") {
    return error_reply(405, "use GET or POST");
  }
  Reply reply;
  reply.body = state_json();
  return reply;
}

std::string Engine::apply_control(std::string_view body) {
  dom::parser parser;
  const simdjson::padded_string json(body);
  dom::object root;
  if (const auto error = parser.parse(json).get(root)) return simdjson::error_message(error);
  for (const auto [key, value] : root) {
    std::string problem;
    if (key == "running")
      problem = read_numbers(value, overrides_.running);
    else if (key == "waiting")
      problem = read_numbers(value, overrides_.waiting);
    else if (key == "kv_usage")
      problem = read_numbers(value, overrides_.kv_usage);
    else if (key == "ttft")
      problem = read_sum_count(value, overrides_.ttft);
    else if (key == "tpot")
      problem = read_sum_count(value, overrides_.tpot);
    else if (key == "metrics_text") {
      std::string_view text;
      if (value.is_null())
        overrides_.metrics_text.reset();
      else if (!value.get(text))
        overrides_.metrics_text = std::string(text);
      else
        problem = "expected a string or null";
    } else if (key == "metrics") {  // the short form for the fault that matters most
      std::string_view mode;
      if (value.get(mode) || (mode != "hang" && mode != "ok")) problem = "expected \"hang\" or \"ok\"";
      std::erase_if(faults_, [](const SetFault& f) { return f.path == "/metrics"; });
      Fault hang;
      hang.stall = Where::before_headers;
      if (mode == "hang") faults_.push_back({hang, "/metrics", -1});
    } else if (key == "loras") {
      dom::array list;
      std::vector<std::string> names;
      if (value.get(list))
        problem = "expected a list of names";
      else
        for (const dom::element item : list) {
          std::string_view name;
          if (item.get(name)) problem = "expected a list of names";
          names.emplace_back(name);
        }
      if (problem.empty()) options_.loras = std::move(names);
    } else if (key == "faults") {
      dom::array list;
      std::vector<SetFault> faults;
      if (value.get(list))
        problem = "expected a list";
      else
        for (const dom::element item : list) {
          SetFault entry;
          std::string_view text;
          if (item["fault"].get(text)) problem = "an entry needs \"fault\"";
          std::string wrong;
          entry.fault = parse_fault(text, wrong);
          if (!wrong.empty()) problem = wrong;
          if (!item["path"].get(text)) entry.path = text;
          if (item["count"].get(entry.count)) entry.count = 1;
          faults.push_back(std::move(entry));
        }
      if (problem.empty()) faults_ = std::move(faults);
    } else if (key == "reset_cache") {
      for (auto& rank : ranks_) rank.cache.clear();
    } else if (key == "reset_counters") {
      const auto kept = counters;
      counters = {};
      counters.in_flight = kept.in_flight;
      counters.connections = kept.connections;
      ttft_ = {};
      tpot_ = {};
    } else {
      problem = "unknown member";
    }
    if (!problem.empty()) return std::string(key) + ": " + problem;
  }
  return {};
}

std::string Engine::state_json() const {
  double running = 0;
  double waiting = 0;
  std::size_t blocks = 0;
  std::uint64_t evictions = 0;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    running += static_cast<double>(ranks_[i].running.size());
    waiting += static_cast<double>(ranks_[i].waiting.size());
    blocks += ranks_[i].cache.size();
    evictions += ranks_[i].cache.evictions();
  }
  std::string loras;
  for (const auto& lora : options_.loras) loras += (loras.empty() ? "" : ",") + json_string(lora);
  std::string out = fmt::format(
      R"({{"name":{},"requests":{},"in_flight":{},"cancelled":{},"finished":{},"connections":{},"protocol_errors":{},"running":{},)"
      R"("waiting":{},"prompt_tokens":{},"generated_tokens":{},"cache":{{"blocks":{},"capacity":{},"evictions":{},)"
      R"("query_tokens":{},"hit_tokens":{}}},"faults_left":{},"loras":[{}],"last_request":)",
      json_string(options_.name), counters.requests, counters.in_flight, counters.cancelled, counters.finished,
      counters.connections, counters.protocol_errors, running, waiting, counters.prompt_tokens,
      counters.generated_tokens, blocks, options_.cache_blocks * options_.ranks, evictions, counters.query_tokens,
      counters.hit_tokens, faults_.size(), loras);
  if (last_request.method.empty()) {
    out += "null}";
  } else {
    out += '{';
    append_echo_members(out, last_request);
    out += "}}";
  }
  return out;
}

}  // namespace warmroute::mock
