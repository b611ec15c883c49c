#include "status/writer.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "base/log.hpp"
#include "status/event.hpp"

namespace warmroute::status {
namespace {

/// What the API server has of an object, as far as we know.
struct Known {
  std::string uid;
  std::size_t spec = 0;          ///< fingerprint of the API server's last answer
  std::size_t judged = 0;        ///< fingerprint of what was judged then
  std::uint32_t generation = 0;  ///< of the API server's last answer
  std::uint32_t observed = 0;    ///< of what is judged, as far as we know
  std::vector<StoredCondition> conditions;
};

struct Answer {
  std::string uid;
  std::size_t spec = 0;
  std::uint32_t generation = 0;
  std::vector<StoredCondition> conditions;
};

struct Listed {
  std::vector<std::pair<std::string, Answer>> objects;  ///< by namespace/name
  std::string next;                                     ///< of the next page; empty: this is the last
};

Answer read_object(const config::JsonReader& reader, Kind kind) {
  const auto meta = reader.get("metadata");
  Answer answer;
  answer.uid = meta.get("uid").text();
  answer.spec = fingerprint(kind, reader.raw());
  answer.generation = meta.get("generation").number().value_or(0);
  answer.conditions = read_conditions(reader);
  return answer;
}

Listed read_list(const config::JsonReader& reader, Kind kind) {
  Listed out;
  out.next = reader.get("metadata").get("continue").text();
  for (const auto& item : reader.get("items").items()) {
    const auto meta = item.get("metadata");
    out.objects.emplace_back(meta.get("namespace").text() + "/" + meta.get("name").text(), read_object(item, kind));
  }
  return out;
}

template <class T>
std::optional<T> parse(const std::string& json, Kind kind, T (*read)(const config::JsonReader&, Kind)) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (parser.parse(json).get(root) != simdjson::SUCCESS) return std::nullopt;
  std::string problem;
  T out = read(config::JsonReader(root, problem), kind);
  return problem.empty() ? std::optional(std::move(out)) : std::nullopt;
}

constexpr const char* group = "/apis/networking.serving.volcano.sh/v1alpha1/";

std::string key_of(const Verdict& verdict) {
  return std::string(plural(verdict.kind)) + "/" + verdict.ns + "/" + verdict.name;
}
std::string path_of(const Verdict& verdict) {
  return std::string(group) + "namespaces/" + verdict.ns + "/" + plural(verdict.kind) + "/" + verdict.name;
}

}  // namespace

struct WriterState {
  WriterState(net::io_context& control, kube::Api a, WriterOptions o, WriterHooks h)
      : api(std::move(a)), options(std::move(o)), hooks(std::move(h)), timer(control) {}
  kube::Api api;
  const WriterOptions options;
  const WriterHooks hooks;
  net::Timer timer;
  bool stopped = false;
  bool dirty = true;
  bool waiting = false;      ///< for dirty
  std::string go_on_behind;  ///< object at which the last pass was given up
  std::map<std::string, Known> known;
  std::array<bool, kinds> no_status{};  ///< refused, or dropped
  bool no_events = false;
  std::map<std::string, net::Clock::time_point> events_sent;  ///< by object, type and reason
  std::uint64_t event_number = 0;

  /// The generation that a verdict is about: that of the API server's object once that very spec is judged. A newer
  /// one that we have not read, or could not use, is not claimed.
  [[nodiscard]] static std::uint32_t observed(Known& have, const Verdict& verdict) {
    if (have.spec == verdict.spec) have.observed = have.generation;
    if (have.observed != 0) return have.observed;
    const auto* const stored = find(have.conditions, verdict.conditions.front().type);
    return stored == nullptr ? 0 : stored->generation;
  }

  /// The object is as we left it, or as it was when we looked at it.
  [[nodiscard]] static bool is_current(const Known& have, const Verdict& verdict) {
    return have.uid == verdict.uid && (have.spec == verdict.spec || have.judged == verdict.spec);
  }

  void take(const Verdict& verdict, Answer answer) {
    const std::string key = key_of(verdict);
    take(key, std::move(answer));
    known[key].judged = verdict.spec;
  }

  void take(const std::string& key, Answer answer) {
    Known& have = known[key];
    have.uid = std::move(answer.uid);
    have.spec = answer.spec;
    have.generation = answer.generation;
    have.conditions = std::move(answer.conditions);
  }

  void forget_what_is_gone(const std::vector<Verdict>& verdicts) {
    std::set<std::string> there;
    for (const Verdict& verdict : verdicts) there.insert(key_of(verdict));
    std::erase_if(known, [&](const auto& each) { return !there.contains(each.first); });
    const auto old = net::Clock::now() - options.event_again;
    std::erase_if(events_sent, [&](const auto& each) { return each.second < old; });
  }

  void stop_status(Kind kind, const std::string& why) {
    no_status[static_cast<std::size_t>(kind)] = true;
    log::warning("no status on {}s any more: {}; everything else works", name(kind), why);
  }
};

namespace {

using StatePtr = std::shared_ptr<WriterState>;
enum class Step : std::uint8_t { done, failed };

net::Task<> pause(StatePtr state, std::chrono::milliseconds time) {
  state->timer.expires_after(time);
  auto [ec] = co_await state->timer.async_wait(net::as_result);
  (void)ec;  // stop() cancels, and everybody looks at `stopped`
}

/// The same request may be answered otherwise later.
bool may_pass(const Result<kube::Response>& answer) {
  return !answer || answer->status == 401 || answer->status == 429 || answer->status >= 500;
}

/// \return true when the answer can be used.
bool accept(WriterState& state, const Verdict& verdict, const Result<kube::Response>& answer, Step& step) {
  step = Step::done;
  if (answer && answer->ok()) return true;
  if (answer && answer->status == 403) {
    state.stop_status(verdict.kind, answer->text());
  } else if (answer && (answer->status == 404 || answer->status == 409)) {
    state.known.erase(key_of(verdict));
  } else {
    const std::string what = fmt::format("status of {} {}/{}: {}", name(verdict.kind), verdict.ns, verdict.name,
                                         answer ? answer->text() : answer.error().detail);
    if (may_pass(answer)) {
      log::v(1, "{}", what);
      step = Step::failed;
    } else {
      log::warning("{}", what);  // ours alone: the next object may be fine
    }
  }
  return false;
}

net::Task<Step> send_event(StatePtr state, const Verdict* about, Event event) {
  const std::string key = key_of(*about) + " " + event.reason;
  if (state->no_events || state->events_sent.contains(key)) co_return Step::done;
  event.instance = state->options.instance;
  kube::Request request("POST", "/apis/events.k8s.io/v1/namespaces/" + about->ns + "/events");
  request.body = event_json(*about, event, state->hooks.now(), ++state->event_number);
  const auto answer = co_await state->api(std::move(request));
  if (state->stopped) co_return Step::failed;
  if (answer && answer->status == 403) {
    state->no_events = true;
    log::warning("no Events any more: {}; everything else works", answer->text());
    co_return Step::done;
  }
  if (may_pass(answer)) co_return Step::failed;
  if (!answer->ok()) log::warning("an Event was refused: {}", answer->text());
  state->events_sent[key] = net::Clock::now();
  co_await pause(state, state->options.pace);
  co_return Step::done;
}

/// Events about what is another than before. \param before as far as it is known.
net::Task<Step> tell(StatePtr state, const Verdict* verdict, std::vector<StoredCondition> before) {
  for (const Condition& condition : verdict->conditions) {
    const StoredCondition* const old = find(before, condition.type);
    const bool was_bad = old != nullptr && old->status == "False";
    if (condition.is_true ? !was_bad : was_bad && old->reason == condition.reason) continue;
    Event event;
    event.warning = !condition.is_true;
    event.reason = condition.reason;
    event.note = condition.message;
    event.action = "Check";
    if (co_await send_event(state, verdict, std::move(event)) == Step::failed) co_return Step::failed;
  }
  co_return Step::done;
}

/// What the API server has of the object, unless we know.
net::Task<Step> look(StatePtr state, const Verdict* verdict) {
  const auto it = state->known.find(key_of(*verdict));
  if (it != state->known.end() && WriterState::is_current(it->second, *verdict)) co_return Step::done;
  kube::Request request("GET", path_of(*verdict));
  const auto answer = co_await state->api(std::move(request));
  if (state->stopped) co_return Step::failed;
  Step step = Step::done;
  if (accept(*state, *verdict, answer, step))
    if (auto object = parse(answer->body, verdict->kind, read_object)) state->take(*verdict, std::move(*object));
  co_await pause(state, state->options.pace);
  co_return step;
}

net::Task<Step> write(StatePtr state, const Verdict* verdict) {
  const bool writable = !state->no_status[static_cast<std::size_t>(verdict->kind)];
  if (writable && co_await look(state, verdict) == Step::failed) co_return Step::failed;
  const std::string key = key_of(*verdict);
  if (writable && !state->known.contains(key)) co_return Step::done;  // gone meanwhile, or refused
  Known& have = state->known[key];
  const auto before = have.conditions;
  const auto after = merge(before, verdict->conditions, WriterState::observed(have, *verdict), state->hooks.now());
  if (same(before, after)) co_return Step::done;
  if (state->no_status[static_cast<std::size_t>(verdict->kind)]) {
    have.conditions = after;  // our own memory then
    co_return co_await tell(state, verdict, before);
  }
  kube::Request request("PATCH", path_of(*verdict) + "/status");
  request.content_type = "application/merge-patch+json";
  request.body = conditions_patch(after);
  const auto answer = co_await state->api(std::move(request));
  if (state->stopped) co_return Step::failed;
  Step step = Step::done;
  if (accept(*state, *verdict, answer, step)) {
    auto object = parse(answer->body, verdict->kind, read_object);
    if (object && find(object->conditions, verdict->conditions.front().type) == nullptr) {
      state->stop_status(verdict->kind,
                         "the CustomResourceDefinition drops status.conditions (apply this chart's crds)");
      object->conditions = after;
    }
    if (object) state->take(*verdict, std::move(*object));
  }
  if (step == Step::failed) co_return step;
  co_await pause(state, state->options.pace);
  if (state->stopped) co_return Step::failed;
  co_return co_await tell(state, verdict, before);
}

/// One list in place of a look at each object, when a leader begins. What it does not bring is looked at one by one.
net::Task<> look_at_all(StatePtr state, Kind kind) {
  std::string next;
  do {
    std::string path = std::string(group) + plural(kind) + "?limit=250";
    if (!next.empty()) path += "&continue=" + kube::query_escaped(next);
    const auto answer = co_await state->api(kube::Request("GET", std::move(path)));
    if (state->stopped || !answer || !answer->ok()) co_return;
    auto listed = parse(answer->body, kind, read_list);
    if (!listed) co_return;
    for (auto& [name, object] : listed->objects) state->take(std::string(plural(kind)) + "/" + name, std::move(object));
    if (listed->next == next) co_return;  // a server that turns in circles
    next = std::move(listed->next);
  } while (!next.empty());
}

enum class Pass : std::uint8_t { done, some_failed, given_up };
/// So many in one pass are no fault of the objects.
constexpr int failure_limit = 3;

/// One object that always fails does not keep the others from being written, nor do several: the next pass begins
/// behind the one at which this one is given up.
net::Task<Pass> write_all(StatePtr state) {
  if (state->known.empty()) {
    co_await look_at_all(state, Kind::model_server);
    co_await look_at_all(state, Kind::model_route);
    if (state->stopped) co_return Pass::done;
  }
  auto verdicts = state->hooks.verdicts();
  state->forget_what_is_gone(verdicts);
  const auto last = std::find_if(verdicts.begin(), verdicts.end(),
                                 [&](const Verdict& each) { return key_of(each) == state->go_on_behind; });
  if (last != verdicts.end()) std::rotate(verdicts.begin(), std::next(last), verdicts.end());
  state->go_on_behind.clear();
  int failures = 0;
  for (const Verdict& verdict : verdicts) {
    if (state->stopped || !state->hooks.leads()) co_return Pass::done;
    if (co_await write(state, &verdict) == Step::done) continue;
    if (state->stopped) co_return Pass::done;
    if (++failures == failure_limit) {
      state->go_on_behind = key_of(verdict);
      co_return Pass::given_up;
    }
    co_await pause(state, state->options.pace);
  }
  co_return failures == 0 ? Pass::done : Pass::some_failed;
}

net::Task<> work(StatePtr state) {
  auto retry = state->options.retry;
  while (!state->stopped) {
    if (!state->dirty) {
      state->waiting = true;
      state->timer.expires_at(net::Clock::time_point::max());
      auto [ec] = co_await state->timer.async_wait(net::as_result);
      (void)ec;  // wake() or stop()
      state->waiting = false;
      continue;
    }
    co_await pause(state, state->options.gather);
    if (state->stopped) co_return;
    state->dirty = false;
    if (!state->hooks.leads()) {
      state->known.clear();  // others write now
      continue;
    }
    const Pass pass = co_await write_all(state);
    if (pass == Pass::done) {
      retry = state->options.retry;
      continue;
    }
    // Where others were written, the API server is well: news do not wait for what failed.
    state->waiting = pass == Pass::some_failed;
    if (!state->waiting || !state->dirty) co_await pause(state, retry);
    state->waiting = false;
    state->dirty = true;
    retry = std::min(retry * 2, state->options.retry_max);
  }
}

}  // namespace

Writer::Writer(net::io_context& control, kube::Api api, WriterOptions options, WriterHooks hooks)
    : state_(std::make_shared<WriterState>(control, std::move(api), std::move(options), std::move(hooks))) {}

Writer::~Writer() { stop(); }

net::Task<> Writer::run() { return work(state_); }

void Writer::wake() {
  state_->dirty = true;
  if (state_->waiting) state_->timer.cancel();
}

void Writer::stop() {
  state_->stopped = true;
  state_->timer.cancel();
}

}  // namespace warmroute::status
