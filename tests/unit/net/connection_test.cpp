#include "net/connection.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "base/rng.hpp"
#include "support/run_coro.hpp"
#include "upstream/pool.hpp"

using namespace warmroute;
using namespace std::chrono_literals;
using net::Io;

namespace {

// Two ends of a TCP connection over loopback.
struct Pair {
  explicit Pair(net::io_context& io) {
    net::Acceptor acceptor(io, {boost::asio::ip::address_v4::loopback(), 0});
    net::Socket client(io), server(io);
    client.connect(acceptor.local_endpoint());
    acceptor.accept(server);
    here = std::make_unique<net::Connection>(std::move(client));
    there = std::make_unique<net::Connection>(std::move(server));
  }
  void send(std::string_view bytes) const {
    const iovec piece{const_cast<char*>(bytes.data()), bytes.size()};
    REQUIRE(there->try_write({&piece, 1}).bytes == bytes.size());
  }
  std::unique_ptr<net::Connection> here, there;
};

template <class Body>
void run_coro(Body body) {
  net::io_context io{1};
  test::run_coro(io, body(io));
}

}  // namespace

TEST_CASE("waiting, reading, end of stream", "[net][connection]") {
  run_coro([](net::io_context& io) -> net::Task<> {
    Pair pair(io);
    char buffer[16];
    CHECK(pair.here->try_read(buffer).status == Io::would_block);
    pair.send("abc");
    CHECK_FALSE(co_await pair.here->wait_readable());
    auto got = pair.here->try_read(buffer);
    CHECK(std::string(buffer, got.bytes) == "abc");
    pair.there->close();
    CHECK_FALSE(co_await pair.here->wait_readable());
    CHECK(pair.here->try_read(buffer).status == Io::eof);
  });
}

TEST_CASE("the peer's end is seen behind unread bytes", "[net][connection]") {
  run_coro([](net::io_context& io) -> net::Task<> {
    Pair pair(io);
    CHECK_FALSE(pair.here->input_waits());
    pair.send("abc");
    CHECK_FALSE(co_await pair.here->wait_readable());
    CHECK(pair.here->input_waits());
    CHECK_FALSE(pair.here->peer_closed(true));
    pair.there->shutdown_send();
    CHECK(pair.here->peek().status == Io::ok);
    CHECK(pair.here->peer_closed(true));
    CHECK_FALSE(pair.here->peer_closed(false));
    net::error_code ec;
    pair.there->socket().set_option(boost::asio::socket_base::linger(true, 0), ec);
    pair.there->close();
    CHECK(pair.here->peer_closed(false));
    pair.here->close();
    CHECK_FALSE(pair.here->peer_closed(true));
    CHECK_FALSE(pair.here->input_waits());
  });
}

TEST_CASE("close and interrupt end a wait", "[net][connection]") {
  run_coro([](net::io_context& io) -> net::Task<> {
    Pair pair(io);
    net::Timer timer(io, 20ms);
    timer.async_wait([&](net::error_code) { pair.here->interrupt(); });
    CHECK_FALSE(co_await pair.here->wait_readable());
    char buffer[16];
    CHECK(pair.here->try_read(buffer).status == Io::would_block);
    timer.expires_after(20ms);
    timer.async_wait([&](net::error_code) { pair.here->close(); });
    CHECK((co_await pair.here->wait_readable()).closed);
    CHECK((co_await pair.here->wait_readable()).closed);
  });
}

TEST_CASE("a watch reports, and its report serves the next wait", "[net][connection]") {
  run_coro([](net::io_context& io) -> net::Task<> {
    Pair pair(io);
    int reports = 0;
    pair.here->watch([](void* count) { ++*static_cast<int*>(count); }, &reports);
    pair.send("x");
    net::Timer timer(io);
    for (int i = 0; i < 100 && reports == 0; ++i) {
      timer.expires_after(5ms);
      co_await timer.async_wait(net::use_task);
    }
    CHECK(reports == 1);
    CHECK(pair.here->readable());
    CHECK(pair.here->peek().status == Io::ok);
    pair.here->unwatch();
    CHECK_FALSE(co_await pair.here->wait_readable());  // at once
    char buffer[4];
    CHECK(pair.here->try_read(buffer).bytes == 1);
  });
}

TEST_CASE("the owner of a watch may destroy the connection inside", "[net][connection]") {
  run_coro([](net::io_context& io) -> net::Task<> {
    Pair pair(io);
    pair.here->watch([](void* owner) { static_cast<Pair*>(owner)->here.reset(); }, &pair);
    pair.there->close();
    net::Timer timer(io);
    for (int i = 0; i < 100 && pair.here; ++i) {
      timer.expires_after(5ms);
      co_await timer.async_wait(net::use_task);
    }
    CHECK_FALSE(pair.here);
  });
}

TEST_CASE("the pool gives the newest, drops what the engine closed and what a pod left behind", "[upstream][pool]") {
  run_coro([](net::io_context& io) -> net::Task<> {
    net::DeadlineSet deadlines(io);
    upstream::Pool pool(deadlines, 300ms);
    const upstream::EngineKey a{{1, 1}, 8000}, b{{2, 1}, 8000};
    CHECK_FALSE(pool.take(a));
    Pair first(io), second(io), third(io), fourth(io);
    auto* const newest = second.here.get();
    pool.give(a, std::move(first.here));
    pool.give(a, std::move(second.here));
    pool.give(b, std::move(third.here));
    CHECK(pool.idle() == 3);
    const auto taken = pool.take(a);
    CHECK(taken.get() == newest);
    pool.forget({2, 1});
    CHECK(pool.idle() == 1);
    CHECK_FALSE(pool.take(b));

    pool.give(b, std::move(fourth.here));
    fourth.send("unasked");  // poisons it
    net::Timer timer(io);
    for (int i = 0; i < 100 && pool.idle() != 1; ++i) {
      timer.expires_after(5ms);
      co_await timer.async_wait(net::use_task);
    }
    CHECK(pool.idle() == 1);
    for (int i = 0; i < 400 && pool.idle() != 0; ++i) {  // the idle limit
      timer.expires_after(5ms);
      co_await timer.async_wait(net::use_task);
    }
    CHECK(pool.idle() == 0);
    deadlines.stop();
  });
}

TEST_CASE("the pool gives no connection away on which something came that the loop has not reported yet",
          "[upstream][pool]") {
  run_coro([](net::io_context& io) -> net::Task<> {
    net::DeadlineSet deadlines(io);
    upstream::Pool pool(deadlines, 10s);
    const upstream::EngineKey key{PodId{1, 1}, 8000};
    Pair clean(io), poisoned(io), closed(io);
    pool.give(key, std::move(clean.here));
    pool.give(key, std::move(poisoned.here));
    pool.give(key, std::move(closed.here));
    // No turn of the loop between these and take().
    poisoned.send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad");
    closed.there->close();
    CHECK(pool.idle() == 3);
    CHECK(pool.take(key) != nullptr);
    CHECK(pool.idle() == 0);
    CHECK(pool.take(key) == nullptr);
    deadlines.stop();
    co_return;
  });
}

TEST_CASE("an end that came with the last bytes is reported", "[net][connection]") {
  run_coro([](net::io_context& io) -> net::Task<> {
    Pair pair(io);
    char buffer[16];
    CHECK(pair.here->try_read(buffer).status == Io::would_block);
    pair.send("last");
    pair.there->close();
    CHECK_FALSE(co_await pair.here->wait_readable());  // one event for both
    CHECK(pair.here->try_read(buffer).bytes == 4);
    CHECK_FALSE(co_await pair.here->wait_readable());
    CHECK(pair.here->try_read(buffer).status == Io::eof);
  });
}

TEST_CASE("bytes that a read left behind are reported", "[net][connection]") {
  run_coro([](net::io_context& io) -> net::Task<> {
    Pair pair(io);
    char buffer[4];
    pair.send("abcdefgh");
    for (const std::string_view part : {"abcd", "efgh"}) {
      CHECK_FALSE(co_await pair.here->wait_readable());
      const auto got = pair.here->try_read(buffer);
      CHECK(std::string_view(buffer, got.bytes) == part);
    }
  });
}

TEST_CASE("a peek that found bytes does not hide them from the next wait", "[net][connection]") {
  run_coro([](net::io_context& io) -> net::Task<> {
    Pair pair(io);
    char buffer[4];
    CHECK(pair.here->try_read(buffer).status == Io::would_block);
    pair.send("abcd");
    CHECK_FALSE(co_await pair.here->wait_readable());
    CHECK(pair.here->peek().status == Io::ok);
    pair.here->forget_readable();
    CHECK_FALSE(co_await pair.here->wait_readable());
    CHECK(pair.here->try_read(buffer).bytes == 4);
  });
}

// Whatever the order of writes, reads and waits: nothing that was sent is waited for in vain.
TEST_CASE("no readiness is lost", "[net][connection]") {
  run_coro([](net::io_context& io) -> net::Task<> {
    base::seed_this_thread(7);
    for (int round = 0; round < 200; ++round) {
      Pair pair(io);
      const bool reset = base::random_below(4) == 0;
      std::size_t to_send = 1 + base::random_below(40), received = 0, sent = 0;
      const auto send_some = [&] {
        const auto part = std::min<std::size_t>(to_send - sent, 1 + base::random_below(8));
        if (part == 0) return;
        pair.send(std::string(part, 'x'));
        sent += part;
        if (sent < to_send) return;
        if (reset)
          pair.there->reset();
        else
          pair.there->close();
      };
      net::Timer timer(io);
      for (;;) {
        char buffer[8];
        if (base::random_below(2) == 0) send_some();
        if (base::random_below(2) == 0) (void)pair.here->peek();
        if (base::random_below(3) == 0) {  // lets the loop take the event while nobody waits
          timer.expires_after(0ms);
          (void)co_await timer.async_wait(net::as_result);
        }
        if (base::random_below(2) == 0) send_some();
        if (received == sent && sent < to_send) send_some();
        CHECK_FALSE(co_await pair.here->wait_readable());
        const auto got = pair.here->try_read({buffer, 1 + base::random_below(8)});
        received += got.bytes;
        if (got.status == Io::would_block) continue;
        if (got.status != Io::ok) {
          CHECK(sent == to_send);
          CHECK((reset || (got.status == Io::eof && received == to_send)));
          break;
        }
      }
    }
  });
}
