#include "net/task_group.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/system/system_error.hpp>

#include "base/log.hpp"

namespace warmroute::net {
namespace {

void report(std::string_view what, const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const boost::system::system_error& e) {
    if (e.code() == boost::asio::error::operation_aborted) return;  // cancellation is not an error
    log::error("{} ended with {}", what, e.what());
  } catch (const std::exception& e) {
    log::error("{} ended with {}", what, e.what());
  }
}

}  // namespace

TaskGroup::TaskGroup(io_context& io) : io_(io), idle_(io.get_executor(), Clock::time_point::max()) {}
TaskGroup::~TaskGroup() = default;

bool TaskGroup::spawn(std::string_view what, Task<> task) {
  if (closed_) return false;
  const auto it = running_.emplace(running_.end());
  auto done = [this, it, what](const std::exception_ptr& failure) {
    running_.erase(it);
    if (failure) report(what, failure);
    if (running_.empty()) idle_.cancel();
  };
  boost::asio::co_spawn(io_.get_executor(), std::move(task),
                        boost::asio::bind_cancellation_slot(it->slot(), std::move(done)));
  return true;
}

void TaskGroup::cancel_all() {
  for (auto& signal : running_) signal.emit(boost::asio::cancellation_type::terminal);
}

Task<bool> TaskGroup::wait_idle(Clock::time_point until) {
  while (!running_.empty()) {
    idle_.expires_at(until);
    auto [ec] = co_await idle_.async_wait(as_result);
    if (!ec) co_return running_.empty();
  }
  co_return true;
}

}  // namespace warmroute::net
