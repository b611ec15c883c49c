#include "net/worker.hpp"

#include <pthread.h>

#include <boost/asio/post.hpp>

#include <string>

namespace warmroute::net {

Worker::Worker(unsigned index) : index_(index), scratch_(new char[scratch_bytes]) { work_.emplace(io_.get_executor()); }

Worker::~Worker() { join(); }

void Worker::start() {
  thread_ = std::thread([this] {
    const auto name = "worker-" + std::to_string(index_);
    pthread_setname_np(pthread_self(), name.c_str());
    io_.run();
    ended_.store(true);
  });
}

void Worker::join() {
  if (!thread_.joinable()) return;
  boost::asio::post(io_, [this] { deadlines_.stop(); });
  work_.reset();
  // Everything has ended by now, or is about to; a wait that nobody ended must not keep the process.
  for (int i = 0; i < 200 && !ended_.load(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  io_.stop();
  thread_.join();
}

}  // namespace warmroute::net
