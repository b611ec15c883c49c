#include "kube/authenticator.hpp"

#include <chrono>
#include <optional>
#include <utility>

#include "base/base64.hpp"
#include "base/log.hpp"
#include "kube/exec_plugin.hpp"
#include "kube/small_file.hpp"

namespace warmroute::kube {
namespace {

using net::Clock;

/// A plugin is killed at its time-out; whoever waits for it waits a little longer.
constexpr std::chrono::seconds overdue{5};

std::int64_t unix_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

struct Authenticator::Impl {
  Impl(net::io_context& control, Config given, AuthTiming times)
      : io(control), config(std::move(given)), timing(times), plugin_done(control.get_executor()) {}

  net::io_context& io;
  const Config config;
  const AuthTiming timing;
  Clock::time_point looked_at = Clock::time_point::min();
  std::string file_token;
  net::ClientTlsMaterial material;
  std::shared_ptr<const net::ClientTls> tls;
  std::optional<ExecCredential> credential;
  bool plugin_runs = false;
  net::Timer plugin_done;  ///< cancelled when a run of the plugin has ended; expires when that is overdue
  std::optional<Error> plugin_error;
  bool told = false;
  bool closed = false;

  /// The file's text, or the kept one with a warning; the first failure of all is the caller's.
  Result<void> read(const std::string& file, std::string& into) {
    if (file.empty()) return {};
    auto text = read_small_file(file);
    if (text && !trimmed(*text).empty()) {
      into = std::move(*text);
      return {};
    }
    const std::string why = text ? "is empty" : text.error().detail;
    if (into.empty()) return Error{Errc::io, Source::internal, Retry::never, file + ": " + why};
    if (!std::exchange(told, true)) log::warning("{}: {}; what it held before stays in force", file, why);
    return {};
  }

  /// Certificates and token from their files, unless that was done a moment ago.
  Result<void> read_files() {
    const auto now = Clock::now();
    if (looked_at != Clock::time_point::min() && now - looked_at < timing.reread) return {};
    auto next = material;
    if (config.tls) {
      next.insecure = config.insecure;
      if (!config.ca_pem.empty()) next.ca_pem = config.ca_pem;
      if (!config.certificate_pem.empty()) next.certificate_pem = config.certificate_pem;
      if (!config.key_pem.empty()) next.key_pem = config.key_pem;
      if (auto done = read(config.ca_file, next.ca_pem); !done) return done;
      if (auto done = read(config.certificate_file, next.certificate_pem); !done) return done;
      if (auto done = read(config.key_file, next.key_pem); !done) return done;
    }
    if (auto done = read(config.token_file, file_token); !done) return done;
    if (auto done = take(std::move(next)); !done) return done;
    looked_at = now;
    return {};
  }

  /// A new TLS context where the material changed. A pair that does not fit (rotation half way) waits for the next
  /// look.
  Result<void> take(net::ClientTlsMaterial next) {
    if (!config.tls) return {};
    if (credential && !credential->certificate_pem.empty()) {
      next.certificate_pem = credential->certificate_pem;
      next.key_pem = credential->key_pem;
    }
    const bool same = next.ca_pem == material.ca_pem && next.certificate_pem == material.certificate_pem &&
                      next.key_pem == material.key_pem;
    if (tls && same) return {};
    auto made = net::ClientTls::create(next);
    if (!made) {
      if (!tls) return made.error();
      log::warning("TLS to the API server: {}; the certificates from before stay in force", made.error().detail);
      return {};
    }
    if (tls) log::info("TLS to the API server: certificates reloaded");
    tls = std::move(*made);
    material = std::move(next);
    return {};
  }

  [[nodiscard]] bool credential_holds() const {
    return credential && (!credential->expires || unix_now() < *credential->expires);
  }

  /// One run at a time; whoever comes meanwhile waits for its end.
  static net::Task<Result<void>> run_plugin(std::shared_ptr<Impl> self) {
    if (self->plugin_runs) {
      // The expiry is the runner's to set: to set it cancels every wait, so that two who wait would wake each other.
      while (self->plugin_runs && !self->closed) {
        auto [ec] = co_await self->plugin_done.async_wait(net::as_result);
        if (!ec) co_return Error{Errc::timeout, Source::internal, Retry::never, "the exec plugin is overdue"};
      }
      if (self->closed) co_return Error{Errc::cancelled, Source::internal, Retry::never, "cancelled"};
      if (self->plugin_error) co_return *self->plugin_error;
      co_return Result<void>();
    }
    self->plugin_runs = true;
    self->plugin_done.expires_after(self->timing.exec_timeout + overdue);
    auto result = co_await run_exec_plugin(self->io, self->config, self->material.ca_pem, self->timing.exec_timeout);
    self->plugin_runs = false;
    self->plugin_done.cancel();
    if (!result) {
      self->plugin_error = result.error();
      co_return result.error();
    }
    self->plugin_error.reset();
    self->credential = std::move(*result);
    co_return self->take(self->material);
  }

  [[nodiscard]] Identity current() const {
    Identity identity;
    identity.tls = tls;
    if (credential && !credential->token.empty()) {
      identity.authorization = "Bearer " + credential->token;
    } else if (!file_token.empty()) {
      identity.authorization = "Bearer " + trimmed(file_token);
    } else if (!config.token.empty()) {
      identity.authorization = "Bearer " + config.token;
    } else if (!config.basic.empty()) {
      identity.authorization = "Basic " + base::base64_encode(config.basic);
    }
    return identity;
  }

  static net::Task<Result<Identity>> find(std::shared_ptr<Impl> self) {
    if (auto done = self->read_files(); !done) co_return done.error();
    if (self->config.exec && !self->credential_holds()) {
      if (auto done = co_await run_plugin(self); !done) co_return done.error();
    }
    co_return self->current();
  }
};

Authenticator::Authenticator(net::io_context& io, Config config, AuthTiming timing)
    : impl_(std::make_shared<Impl>(io, std::move(config), timing)) {}

Authenticator::~Authenticator() = default;

net::Task<Result<Identity>> Authenticator::identity() { return Impl::find(impl_); }

void Authenticator::close() {
  impl_->closed = true;
  impl_->plugin_done.cancel();
}

void Authenticator::refused() {
  impl_->looked_at = Clock::time_point::min();
  impl_->told = false;
  if (impl_->credential) impl_->credential->expires = 0;
}

}  // namespace warmroute::kube
