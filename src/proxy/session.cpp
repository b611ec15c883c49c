#include "proxy/session.hpp"

#include <algorithm>

#include "openai/error_body.hpp"
#include "proxy/local_answer.hpp"
#include "proxy/request.hpp"

namespace warmroute::proxy {
using net::Io;

namespace {

// How often a client is looked after whose end of stream stands behind bytes that nobody reads yet. With the grain of
// the deadlines it stays well below the second that a cancellation may take.
constexpr std::chrono::milliseconds leave_check_interval{300};
// For the request of a connection beyond the limit: long enough for a probe, short enough to leave room for the next.
constexpr std::chrono::milliseconds over_limit_patience{2000};
// For the request of a connection that was accepted just before the router stopped accepting.
constexpr std::chrono::milliseconds first_request_grace{1000};

}  // namespace

net::Task<> run_session(WorkerContext& context, net::Socket socket,
                        bool over_limit) {  // NOLINT(cppcoreguidelines-avoid-reference-coroutine-parameters)
  Session session(context, std::move(socket), over_limit);
  co_await session.run();
}

Session::Session(WorkerContext& context, net::Socket socket, bool over_limit)
    : context_(context),
      client_(std::move(socket)),
      client_deadline_(
          context.worker.deadlines(),
          [](void* self) {
            auto& session = *static_cast<Session*>(self);
            session.client_late_ = true;
            if (session.flushing_) {
              session.client_.close();  // a wait for room to write ends no other way
            } else {
              session.client_.interrupt();
            }
          },
          this),
      over_limit_(over_limit) {
  if (shared().server_tls != nullptr) client_.start_tls(shared().server_tls->session(client_.socket().native_handle()));
  self_ = context_.sessions.insert(context_.sessions.end(), this);
}

Session::~Session() {
  context_.sessions.erase(self_);
  context_.worker.connections.fetch_sub(1, std::memory_order_relaxed);
}

net::Task<> Session::run() {
  for (;;) {
    const auto state = co_await read_head();
    if (state == HeadState::closed) co_return;
    if (state == HeadState::answered) break;
    const bool keep = co_await serve_request(*this, std::move(head_));
    if (!client_.is_open() || client_left_ || write_failed_) co_return;
    if (end_with_reset_) {
      client_.reset();
      co_return;
    }
    if (!keep) break;
  }
  co_await linger();
}

net::Task<Session::HeadState> Session::read_head() {
  const auto& settings = shared().settings;
  http::HeadEnd end;
  reset_client_late();
  bool started = !input_.empty();
  const auto head_timeout =
      over_limit_ ? std::min(settings.client_head_timeout, over_limit_patience) : settings.client_head_timeout;
  const auto idle_timeout = over_limit_ ? head_timeout : settings.client_idle_timeout;
  client_deadline_.set_after(started ? head_timeout : idle_timeout);
  bool last_call = false;
  auto scratch = context_.worker.scratch();
  std::string_view seen = input_.view();
  for (;;) {
    // Some clients send an empty line after a body; one or two are no request.
    while (end.size() == 0 && seen.starts_with("\r\n")) {
      if (input_.empty()) {
        seen.remove_prefix(2);
      } else {
        input_.erase_front(2);
        seen = input_.view();
      }
    }
    const auto verdict = seen.empty() ? http::HeadEnd::State::need_more : end.feed(seen);
    if (verdict == http::HeadEnd::State::found && end.size() <= settings.max_head_bytes) {
      idle_ = false;
      served_ = true;
      head_.append(seen.substr(0, end.size()));
      if (input_.empty()) {
        // A read that filled the buffer left more behind: room for that, too, spares the copy when the body grows.
        if (seen.size() == net::Worker::scratch_bytes) input_.reserve(2 * seen.size());
        input_.append(seen.substr(end.size()));
      } else {
        input_.erase_front(end.size());
      }
      client_deadline_.clear();
      co_return HeadState::found;
    }
    if (verdict == http::HeadEnd::State::bad_framing) {
      co_await refuse(Error{Errc::bad_framing, Source::client, Retry::never, "bare line feed or folded header line"});
      co_return HeadState::answered;
    }
    if (std::max(seen.size(), end.size()) > settings.max_head_bytes) {
      co_await refuse(Error{Errc::head_too_large, Source::client, Retry::never, "request head too large"});
      co_return HeadState::answered;
    }
    if (input_.empty()) input_.append(seen);  // part of a head: the scratch buffer is not ours across a wait
    net::IoResult got = {Io::would_block, 0, {}};
    const bool closing = shared().closing.load(std::memory_order_relaxed);
    if (started || closing || client_.readable()) got = client_.try_read(scratch);
    while (got.status == Io::would_block || got.status == Io::would_block_write) {
      idle_ = !started;
      if (idle_ && shared().closing.load(std::memory_order_relaxed)) {
        if (served_) co_return HeadState::closed;
        if (!last_call) client_deadline_.set_after(first_request_grace);
        last_call = true;
      }
      const auto ec =
          got.status == Io::would_block ? co_await client_.wait_readable() : co_await client_.wait_writable();
      if (ec) co_return HeadState::closed;
      if (client_late_) {
        if (!started) co_return HeadState::closed;
        co_await refuse(Error{Errc::timeout, Source::client, Retry::never, "request head not complete in time"});
        co_return HeadState::answered;
      }
      scratch = context_.worker.scratch();
      got = client_.try_read(scratch);
    }
    if (got.status != Io::ok) co_return HeadState::closed;
    if (!started) {
      started = true;
      client_deadline_.set_after(head_timeout);
    }
    if (input_.empty()) {
      seen = {scratch.data(), got.bytes};
    } else {
      input_.append({scratch.data(), got.bytes});
      seen = input_.view();
    }
  }
}

net::Task<> Session::refuse(const Error& error) {  // NOLINT: awaited at once by the owner
  shared().counters.refused_heads->inc();
  co_await answer_refusal(*this, error);
}

net::Task<> Session::linger() {
  // A close with unread bytes in the socket sends a reset, which may overtake the answer at the client: say goodbye,
  // then read a little of what he still sends.
  if (!client_.is_open()) co_return;
  client_.shutdown_send();
  reset_client_late();
  client_deadline_.set_after(std::chrono::milliseconds(1000));
  std::size_t left = 1U << 20U;
  while (left > 0 && !client_late_) {
    const auto got = client_.try_read(context_.worker.scratch());
    if (got.status == Io::ok) {
      left -= std::min(left, got.bytes);
      continue;
    }
    if (got.status != Io::would_block) break;
    if (co_await client_.wait_readable()) break;
  }
}

void Session::watch_client(void (*on_left)(void*), void* owner) {
  on_left_ = on_left;
  on_left_owner_ = owner;
  client_.watch([](void* self) { static_cast<Session*>(self)->on_client_readable(); }, this);
  if (client_.readable()) on_client_readable();
}

void Session::unwatch_client() noexcept {
  client_.unwatch();
  on_left_ = nullptr;
  if (leave_check_) leave_check_->clear();
}

void Session::on_client_readable() noexcept {
  const auto seen = client_.peek();
  if (seen.status == Io::ok || (seen.status == Io::eof && shared().settings.half_close_answers)) {
    // The socket stays readable from here on, so readiness tells nothing new. What waits is left there: it belongs to
    // the next request, and taking it would be memory that clients decide on. The end behind it has to be asked for.
    check_whether_client_left();
    return;
  }
  if (seen.status == Io::would_block || seen.status == Io::would_block_write) {
    client_.forget_readable();
    if (on_left_ != nullptr) client_.watch([](void* self) { static_cast<Session*>(self)->on_client_readable(); }, this);
    return;
  }
  abort();
}

void Session::check_whether_client_left() noexcept {
  if (on_left_ == nullptr) return;
  if (client_.peer_closed(!shared().settings.half_close_answers)) {
    abort();
    return;
  }
  if (!leave_check_)
    leave_check_ = std::make_unique<net::Deadline>(
        context_.worker.deadlines(), [](void* self) { static_cast<Session*>(self)->check_whether_client_left(); },
        this);
  leave_check_->set_after(leave_check_interval);
}

void Session::abort() noexcept {
  client_left_ = true;
  auto* const on_left = std::exchange(on_left_, nullptr);
  client_.unwatch();
  client_.close();
  if (leave_check_) leave_check_->clear();
  if (on_left != nullptr) on_left(on_left_owner_);  // may be the end of this session
}

void Session::close_if_idle() noexcept {
  if (!idle_ || client_.input_waits()) return;
  if (served_) {
    abort();
  } else {
    client_deadline_.set_after(first_request_grace);
  }
}

bool Session::write_now(std::span<iovec> pieces) {
  if (write_failed_) return false;
  while (!pieces.empty()) {
    const auto wrote = client_.try_write(pieces);
    if (wrote.status == Io::error || wrote.status == Io::eof) {
      write_failed_ = true;
      return false;
    }
    pieces = net::behind(pieces, wrote.status == Io::ok ? wrote.bytes : 0);
    if (wrote.status != Io::ok) break;
  }
  for (const auto& piece : pieces) pending_.append({static_cast<const char*>(piece.iov_base), piece.iov_len});
  return !pending_.empty();
}

net::Task<bool> Session::flush() {
  reset_client_late();
  flushing_ = true;
  client_deadline_.set_after(shared().settings.client_write_timeout);
  while (pending_from_ < pending_.size() && !write_failed_) {
    const iovec rest{pending_.data() + pending_from_, pending_.size() - pending_from_};
    const auto wrote = client_.try_write({&rest, 1});
    if (wrote.status == Io::ok) {
      pending_from_ += wrote.bytes;
      client_deadline_.set_after(shared().settings.client_write_timeout);
      continue;
    }
    net::error_code ec = boost::asio::error::operation_aborted;
    if (wrote.status == Io::would_block) ec = co_await client_.wait_writable();
    if (wrote.status == Io::would_block_read) ec = co_await client_.wait_readable();
    if (ec || client_late_) write_failed_ = true;
  }
  flushing_ = false;
  client_deadline_.clear();
  pending_.release();
  pending_from_ = 0;
  co_return !write_failed_;
}

net::Task<bool> Session::write_all(std::string_view bytes) {
  iovec piece{const_cast<char*>(bytes.data()), bytes.size()};
  if (write_now({&piece, 1})) co_return co_await flush();
  co_return !write_failed_;
}

std::string Session::client_address() {
  net::error_code ec;
  const auto peer = client_.socket().remote_endpoint(ec);
  return ec ? std::string() : peer.address().to_string();
}

}  // namespace warmroute::proxy
