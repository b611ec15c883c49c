#include "webhook/certificate_keeper.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "base/log.hpp"
#include "kube/small_file.hpp"
#include "webhook/secret.hpp"

namespace warmroute::webhook {
namespace {

constexpr const char* authority = "kthena-webhook-ca";  // today's name; also how we know a certificate of our own
constexpr const char* organisation = "Volcano";
constexpr std::int64_t day = 24 * 3600, lifetime = 3650 * day, renew_before = 30 * day;
constexpr std::int64_t clock_skew = 3600;  // other clocks may be behind ours
constexpr std::size_t trusted_before = 2;  // CAs kept beside the new one

kube::Request patch_request(std::string path, const char* type, std::string body) {
  kube::Request request("PATCH", std::move(path));
  request.content_type = type;
  request.body = std::move(body);
  return request;
}

std::string why(const Result<kube::Response>& answer) { return answer ? answer->text() : answer.error().detail; }
bool has_status(const Result<kube::Response>& answer, int status) { return answer && answer->status == status; }

}  // namespace

struct KeeperState {
  KeeperState(net::io_context& control, kube::Api a, net::ServerTls& t, KeeperOptions o, KeeperHooks h)
      : api(std::move(a)), tls(t), options(std::move(o)), hooks(std::move(h)), timer(control) {}
  kube::Api api;
  net::ServerTls& tls;
  const KeeperOptions options;
  const KeeperHooks hooks;
  net::Timer timer;
  bool stopped = false;
  bool serving = false;
  bool by_files = false;  ///< what is served came from the files
  bool may_renew = true;
  std::string broken;                       ///< certificate and key that could not be used
  std::map<std::string, std::string> told;  ///< last message by subject

  [[nodiscard]] std::string secret_name() const { return options.ns + "/" + options.secret_name; }
  [[nodiscard]] std::string secrets_path() const { return "/api/v1/namespaces/" + options.ns + "/secrets"; }
  [[nodiscard]] std::string service() const { return options.service_name + "." + options.ns + ".svc"; }

  /// Logs what is new about a subject.
  void tell(log::Level level, const std::string& subject, std::string message) {
    std::string& last = told[subject];
    if (last == message) return;
    log::write(level, message);
    last = std::move(message);
  }

  /// True when the listener has this pair now.
  bool take(const std::string& certificate, const std::string& key, const std::string& origin) {
    std::string pair = certificate + key;
    if (pair == broken) return false;
    const auto taken = tls.use(certificate, key, origin);
    if (!taken) {
      tell(log::Level::error, "pair", "webhook: " + taken.error().detail);
      broken = std::move(pair);
      return false;
    }
    serving = true;
    by_files = false;
    broken.clear();
    if (*taken) {
      const auto facts = net::read_certificate(certificate);
      log::info("webhook certificate taken from {}", origin);
      if (facts && hooks.in_force) hooks.in_force(facts->until);
    }
    return true;
  }

  bool take_files() {
    const auto certificate = kube::read_small_file(options.certificate_file);
    const auto key = kube::read_small_file(options.key_file);
    const bool taken = certificate && key && take(*certificate, *key, options.certificate_file);
    by_files = by_files || taken;
    return taken;
  }

  [[nodiscard]] Result<StoredCertificate> make(std::int64_t now) const {
    net::CertificateOrder order;
    order.authority = authority;
    order.organisation = organisation;
    order.dns_names = {service(), service() + ".cluster.local"};
    order.from = now - clock_skew;
    order.until = now + lifetime;
    auto made = net::make_certificate(order);
    if (!made) return made.error();
    StoredCertificate stored;
    stored.certificate = std::move(made->certificate);
    stored.key = std::move(made->key);
    stored.ca = std::move(made->ca);
    return stored;
  }

  /// A certificate that was made here (or by kthena-router) and ends soon or is for another name.
  [[nodiscard]] bool is_due(const StoredCertificate& stored) const {
    const auto facts = net::read_certificate(stored.certificate);
    if (!facts || facts->issuer != authority || stored.ca.empty()) return false;
    const std::int64_t ahead = std::min(renew_before, (facts->until - facts->from) / 3);
    return facts->until - hooks.now() < ahead ||
           std::find(facts->dns_names.begin(), facts->dns_names.end(), service()) == facts->dns_names.end();
  }
};

namespace {

using StatePtr = std::shared_ptr<KeeperState>;

/// What a look at the Secret gave.
struct Look {
  enum class Kind : std::uint8_t { unknown, forbidden, absent, present } kind = Kind::unknown;
  StoredCertificate stored;
};

net::Task<Look> read_secret(StatePtr state) {
  Look look;
  kube::Request request("GET", state->secrets_path() + "/" + state->options.secret_name);
  const auto answer = co_await state->api(std::move(request));
  if (state->stopped) co_return look;
  if (has_status(answer, 404)) {
    look.kind = Look::Kind::absent;
  } else if (answer && answer->ok()) {
    auto stored = parse_secret(answer->body);
    if (stored) {
      look.kind = Look::Kind::present;
      look.stored = std::move(*stored);
    } else {
      state->tell(log::Level::error, "secret",
                  "webhook: Secret " + state->secret_name() + ": " + stored.error().detail);
    }
  } else {
    if (has_status(answer, 403)) look.kind = Look::Kind::forbidden;
    state->tell(log::Level::warning, "secret",
                "webhook: Secret " + state->secret_name() + " cannot be read: " + why(answer));
  }
  co_return look;
}

/// \return false: try again soon.
net::Task<bool> publish_bundle(StatePtr state, std::string ca) {
  const std::string path =
      "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/" + state->options.configuration;
  kube::Request request("GET", path);
  auto answer = co_await state->api(std::move(request));
  if (state->stopped || has_status(answer, 404)) co_return true;
  const std::string what = "webhook: the CA of " + state->options.configuration + " cannot be set: ";
  if (answer && answer->ok()) {
    const auto names = webhooks_without(answer->body, ca, state->hooks.now());
    if (!names) {
      state->tell(log::Level::warning, "bundle", what + names.error().detail);
      co_return false;
    }
    if (names->empty()) co_return true;
    request = patch_request(path, "application/strategic-merge-patch+json", bundle_patch(*names, ca));
    answer = co_await state->api(std::move(request));
    if (state->stopped) co_return true;
    if (answer && answer->ok()) {
      log::info("webhook: set the CA of {} in {}", fmt::join(*names, ", "), state->options.configuration);
      co_return true;
    }
  }
  state->tell(log::Level::warning, "bundle", what + why(answer));
  co_return has_status(answer, 403);  // a right that is missing does not come by itself
}

/// Makes a certificate and stores it; who comes second takes what is there.
net::Task<Look> create(StatePtr state) {
  auto made = state->make(state->hooks.now());
  Look look;
  if (!made) {
    state->tell(log::Level::error, "make", "webhook: " + made.error().detail);
    co_return look;
  }
  kube::Request request("POST", state->secrets_path());
  request.body = secret_json(state->options.ns, state->options.secret_name, *made);
  const auto answer = co_await state->api(std::move(request));
  if (state->stopped) co_return look;
  if (has_status(answer, 409)) {
    look = co_await read_secret(state);
    co_return look;
  }
  if (!answer || !answer->ok()) {
    state->tell(
        log::Level::error, "store",
        "webhook: no certificate, and one cannot be stored in Secret " + state->secret_name() + ": " + why(answer));
    co_return look;
  }
  log::info("webhook: made a certificate for {} and stored it in Secret {}", state->service(), state->secret_name());
  look.kind = Look::Kind::present;
  look.stored = std::move(*made);
  co_return look;
}

/// Replaces the stored certificate. The API server trusts the new CA before anybody shows a certificate of it.
net::Task<bool> renew(StatePtr state, StoredCertificate* stored) {
  const std::int64_t now = state->hooks.now();
  auto made = state->make(now);
  if (!made) {
    state->tell(log::Level::error, "make", "webhook: " + made.error().detail);
    co_return false;
  }
  auto trusted = net::split_bundle(stored->ca, now);
  if (trusted.size() > trusted_before) trusted.resize(trusted_before);
  for (const std::string& ca : trusted) made->ca += ca;
  made->resource_version = stored->resource_version;
  const bool published = co_await publish_bundle(state, made->ca);
  if (!published || state->stopped) co_return false;
  auto request = patch_request(state->secrets_path() + "/" + state->options.secret_name, "application/merge-patch+json",
                               secret_patch(*made));
  const auto answer = co_await state->api(std::move(request));
  if (state->stopped) co_return false;
  if (!answer || !answer->ok()) {
    if (has_status(answer, 403)) state->may_renew = false;
    state->tell(log::Level::warning, "renew",
                "webhook: the certificate in Secret " + state->secret_name() + " cannot be renewed: " + why(answer));
    co_return false;
  }
  log::info("webhook: renewed the certificate in Secret {}", state->secret_name());
  *stored = std::move(*made);
  co_return true;
}

/// \return false: try again soon.
net::Task<bool> look_once(StatePtr state) {
  using Kind = Look::Kind;
  Look look = co_await read_secret(state);
  if (state->stopped) co_return true;
  if (look.kind == Kind::unknown && state->serving) {  // what is served stays, or follows its files
    if (state->by_files) (void)state->take_files();
    co_return false;
  }
  bool fine = look.kind != Kind::unknown;
  if (look.kind == Kind::present && state->may_renew && state->hooks.leads() && state->is_due(look.stored)) {
    fine = co_await renew(state, &look.stored);
    if (state->stopped) co_return true;
    fine = fine || !state->may_renew;
  }
  const std::string origin = "Secret " + state->secret_name();
  const bool has_pair = !look.stored.certificate.empty() && !look.stored.key.empty();
  if (!has_pair || !state->take(look.stored.certificate, look.stored.key, origin)) {
    if (!state->take_files()) {
      if (look.kind == Kind::absent) look = co_await create(state);
      if (state->stopped) co_return true;
      if (look.kind != Kind::present || !state->take(look.stored.certificate, look.stored.key, origin)) {
        state->tell(log::Level::error, "none",
                    "webhook: no certificate: neither " + origin + " nor " + state->options.certificate_file + " and " +
                        state->options.key_file + " give one; requests to it fail until one does");
        co_return false;
      }
    }
  }
  // What could not be renewed may be out of date, and another replica's new CA not be in it.
  if (look.stored.ca.empty() || !fine) co_return fine;
  if (!co_await publish_bundle(state, look.stored.ca)) fine = false;
  co_return fine;
}

net::Task<> keep(StatePtr state) {
  while (!state->stopped) {
    const bool fine = co_await look_once(state);
    if (state->stopped) co_return;
    state->timer.expires_after(fine ? state->options.period : state->options.retry);
    auto [ec] = co_await state->timer.async_wait(net::as_result);
    if (ec) co_return;
  }
}

}  // namespace

CertificateKeeper::CertificateKeeper(net::io_context& control, kube::Api api, net::ServerTls& tls,
                                     KeeperOptions options, KeeperHooks hooks)
    : state_(std::make_shared<KeeperState>(control, std::move(api), tls, std::move(options), std::move(hooks))) {}

CertificateKeeper::~CertificateKeeper() { stop(); }

net::Task<> CertificateKeeper::run() { return keep(state_); }

void CertificateKeeper::stop() {
  state_->stopped = true;
  state_->timer.cancel();
}

}  // namespace warmroute::webhook
