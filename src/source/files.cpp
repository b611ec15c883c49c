#include "source/files.hpp"

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "source/file_set.hpp"
#include "source/static_pods.hpp"

namespace warmroute::source {
namespace {

namespace asio = boost::asio;

/// The control thread's half: documents, addresses of host names, the hooks. Handlers hold a weak pointer, so that
/// nothing runs once Files is gone; that is why it is a shared_ptr, of which Files has the only one.
class Assembler {
 public:
  static std::shared_ptr<Assembler> make(net::io_context& control, FilesHooks hooks, FilesTiming timing) {
    auto assembler = std::make_shared<Assembler>(control, std::move(hooks), timing);
    assembler->self_ = assembler;
    return assembler;
  }
  Assembler(net::io_context& control, FilesHooks hooks, FilesTiming timing)
      : hooks_(std::move(hooks)), timing_(timing), resolver_(control), refresh_(control), patience_(control) {}

  void take(ParsedSet parsed) {
    const bool failed = config::has_errors(parsed.diagnostics);
    if (hooks_.problems && (!parsed.diagnostics.empty() || had_problems_)) hooks_.problems(parsed.diagnostics);
    had_problems_ = !parsed.diagnostics.empty();
    if (failed) return;
    documents_ = std::move(parsed.documents);

    HostAddresses kept;
    for (const auto& document : documents_.static_pods) {
      for (const auto& endpoint : document.endpoints) {
        if (endpoint.is_address) continue;
        const auto known = hosts_.find(endpoint.host);
        kept[endpoint.host] = known == hosts_.end() ? std::vector<std::string>{} : known->second;
      }
    }
    hosts_ = std::move(kept);
    for (auto it = answered_.begin(); it != answered_.end();) {
      it = hosts_.count(*it) == 0 ? answered_.erase(it) : std::next(it);
    }
    waiting_ = answered_.size() < hosts_.size();
    if (!waiting_) return publish();
    wait_for_answers();
    resolve_all();
  }

 private:
  void wait_for_answers() {
    patience_.expires_after(timing_.first_answer);
    patience_.async_wait([weak = self_](const net::error_code& error) {
      const auto self = weak.lock();
      if (error || !self || !self->waiting_) return;
      self->waiting_ = false;
      self->publish();
    });
  }

  /// Asks for every name that is not being asked for, and again after the interval.
  void resolve_all() {
    for (const auto& [host, addresses] : hosts_) {
      if (!asking_.insert(host).second) continue;
      resolver_.async_resolve(
          host, "", net::Resolver::flags(),
          [weak = self_, host = host](const net::error_code& error, const net::Resolver::results_type& results) {
            if (const auto self = weak.lock()) self->answer(host, error, results);
          });
    }
    if (hosts_.empty()) return;
    refresh_.expires_after(timing_.resolve);
    refresh_.async_wait([weak = self_](const net::error_code& error) {
      const auto self = weak.lock();
      if (!error && self) self->resolve_all();
    });
  }

  void answer(const std::string& host, const net::error_code& error, const net::Resolver::results_type& results) {
    asking_.erase(host);
    const auto entry = hosts_.find(host);
    if (entry == hosts_.end()) return;
    const bool first = answered_.insert(host).second;
    // A name server that is out of reach for a moment says nothing about the host: its pods keep what they have, and
    // the probes find out whether they live.
    const bool unknown = error == asio::error::host_not_found_try_again;
    bool changed = false;
    if (!unknown) {
      std::set<std::string> addresses;
      for (const auto& result : results) addresses.insert(result.endpoint().address().to_string());
      std::vector<std::string> list(addresses.begin(), addresses.end());
      changed = list != entry->second;
      entry->second = std::move(list);
    }
    if (waiting_) {
      if (!first || answered_.size() < hosts_.size()) return;
      waiting_ = false;
      patience_.cancel();
      return publish();
    }
    if (changed) publish();
  }

  void publish() {
    model::ResourceSet next{documents_.routes, documents_.servers, documents_.pods};
    for (const auto& document : documents_.static_pods) append_static_pods(document, hosts_, next.pods);
    if (published_ && next.routes == published_->routes && next.servers == published_->servers &&
        next.pods == published_->pods) {
      return;
    }
    published_ = next;
    if (hooks_.changed) hooks_.changed(std::move(next));
  }

  std::weak_ptr<Assembler> self_;
  FilesHooks hooks_;
  FilesTiming timing_;
  net::Resolver resolver_;
  net::Timer refresh_, patience_;
  config::ResourceDocuments documents_;
  HostAddresses hosts_;
  std::set<std::string> answered_;  ///< names of hosts_ with at least one answer, good or bad
  std::set<std::string> asking_;    ///< names with a look-up under way
  bool waiting_ = false;            ///< a new state waits for the first answers
  bool had_problems_ = false;
  std::optional<model::ResourceSet> published_;
};

}  // namespace

struct Files::Impl {
  Impl(net::io_context& io, std::string where, FilesHooks hooks, FilesTiming times)
      : control(io), path(std::move(where)), timing(times), assembler(Assembler::make(io, std::move(hooks), times)) {}

  net::io_context& control;
  const std::string path;
  const FilesTiming timing;
  std::shared_ptr<Assembler> assembler;

  std::thread thread;
  std::mutex mutex;
  std::condition_variable wake;
  bool stopping = false;

  /// False: it is time to end.
  bool pause(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex);
    return !wake.wait_for(lock, time, [this] { return stopping; });
  }

  /// An editor that writes in two steps, or a folder whose links are being swapped, must not show as a state of its
  /// own: pods would leave and lose their prefix state. So a change counts when it is seen twice.
  /// A file that never comes to rest is taken as it is after some rounds. False: it is time to end.
  bool settle(FileSet& set) {
    constexpr int max_rounds = 20;
    for (int round = 0; round < max_rounds; ++round) {
      if (!pause(timing.settle)) return false;
      FileSet again = read_file_set(path);
      const bool same = again == set;
      set = std::move(again);
      if (same) break;
    }
    return true;
  }

  void follow(const std::weak_ptr<Assembler>& target) {
    std::optional<FileSet> last;
    do {
      FileSet now = read_file_set(path);
      if (last && now == *last) continue;
      if (last && !settle(now)) return;
      if (last && now == *last) continue;
      asio::post(control, [target, parsed = parse_file_set(now, path)]() mutable {
        if (const auto assembler_now = target.lock()) assembler_now->take(std::move(parsed));
      });
      last = std::move(now);
    } while (pause(timing.poll));
  }
};

Files::Files(net::io_context& control, std::string path, FilesHooks hooks, FilesTiming timing)
    : impl_(std::make_unique<Impl>(control, std::move(path), std::move(hooks), timing)) {}

Files::~Files() {
  impl_->assembler.reset();
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stopping = true;
  }
  impl_->wake.notify_all();
  if (impl_->thread.joinable()) impl_->thread.join();
}

void Files::start() {
  if (impl_->thread.joinable()) return;
  impl_->thread = std::thread([impl = impl_.get(), target = std::weak_ptr(impl_->assembler)] { impl->follow(target); });
}

config::Diagnostics check_resources(const std::string& path) {
  const auto set = read_file_set(path);
  auto parsed = parse_file_set(set, path);
  const auto not_supported = [&](const model::ObjectMeta& meta, const char* kind, const char* feature) {
    config::Diagnostic diagnostic;
    diagnostic.severity = config::Diagnostic::Severity::warning;
    diagnostic.file = set.files.at(meta.position >> position_bits_per_file).name;
    diagnostic.path = std::string(kind) + " " + meta.key();
    diagnostic.message = std::string(feature) + " is not supported by this build; requests for it answer 503";
    parsed.diagnostics.push_back(std::move(diagnostic));
  };
  for (const auto& route : parsed.documents.routes) {
    if (route.rate_limit) not_supported(route.meta, "ModelRoute", "rateLimit");
    for (const auto& rule : route.rules)
      for (const auto& target : rule ? rule->targets : std::vector<std::optional<model::TargetModel>>())
        if (target && !target->external_provider_name.empty())
          not_supported(route.meta, "ModelRoute", "externalModelProviderName");
  }
  return parsed.diagnostics;
}

}  // namespace warmroute::source
