#include "upstream/pool.hpp"

#include <utility>

namespace warmroute::upstream {

struct Pool::Idle {
  Idle(Pool& owner, const EngineKey& key_of, std::unique_ptr<net::Connection> kept)
      : pool(owner),
        key(key_of),
        connection(std::move(kept)),
        deadline(
            owner.deadlines_, [](void* idle) { static_cast<Idle*>(idle)->pool.drop(*static_cast<Idle*>(idle)); },
            this) {}

  Pool& pool;
  EngineKey key;
  std::unique_ptr<net::Connection> connection;
  net::Deadline deadline;
  List::iterator self;
};

Pool::Pool(net::DeadlineSet& deadlines, std::chrono::milliseconds idle_limit) noexcept
    : deadlines_(deadlines), idle_limit_(idle_limit) {}

Pool::~Pool() { clear(); }

std::unique_ptr<net::Connection> Pool::take(const EngineKey& key) {
  const auto found = by_engine_.find(key);
  if (found == by_engine_.end()) return nullptr;
  while (!found->second.empty()) {
    auto connection = std::move(found->second.front()->connection);
    found->second.pop_front();
    --idle_count_;
    connection->unwatch();
    // What arrived since the loop last looked is not reported yet. It would be taken for the answer to this request,
    // and may be somebody else's.
    if (connection->peek().status == net::Io::would_block) return connection;
  }
  return nullptr;
}

void Pool::give(const EngineKey& key, std::unique_ptr<net::Connection> connection) {
  if (connection->readable()) return;  // something came after the end of the response
  auto& list = by_engine_[key];
  list.push_front(std::make_unique<Idle>(*this, key, std::move(connection)));
  ++idle_count_;
  Idle& idle = *list.front();
  idle.self = list.begin();
  idle.deadline.set_after(idle_limit_);
  idle.connection->watch([](void* unclean) { static_cast<Idle*>(unclean)->pool.drop(*static_cast<Idle*>(unclean)); },
                         &idle);
}

void Pool::drop(Idle& idle) {
  const auto found = by_engine_.find(idle.key);
  --idle_count_;
  found->second.erase(idle.self);
}

void Pool::forget(PodId pod) {
  const auto begin = by_engine_.lower_bound({pod, 0});
  auto end = begin;
  while (end != by_engine_.end() && end->first.pod == pod) {
    idle_count_ -= end->second.size();
    ++end;
  }
  by_engine_.erase(begin, end);
}

void Pool::clear() {
  by_engine_.clear();
  idle_count_ = 0;
}

}  // namespace warmroute::upstream
