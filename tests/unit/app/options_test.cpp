#include "app/options.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <map>

#include "app/flag_table.hpp"

namespace {

using std::chrono::milliseconds;
using warmroute::app::Options;
using warmroute::app::ParsedCommandLine;
using Words = std::vector<std::string>;

ParsedCommandLine parse(const Words& arguments, const Words& environment = {},
                        const std::string& program = "/usr/bin/warmroute") {
  std::vector<const char*> argv{program.c_str()};
  for (const auto& argument : arguments) argv.push_back(argument.c_str());
  std::vector<const char*> envp;
  for (const auto& entry : environment) envp.push_back(entry.c_str());
  envp.push_back(nullptr);
  return warmroute::app::parse_command_line(static_cast<int>(argv.size()), argv.data(), envp.data());
}

Options good(const Words& arguments, const Words& environment = {}) {
  auto parsed = parse(arguments, environment);
  INFO(parsed.text);
  REQUIRE(parsed.options);
  CHECK(parsed.exit_code == 0);
  CHECK(parsed.text.empty());
  return *std::move(parsed.options);
}

/// Exit code and text of a refused command line.
std::pair<int, std::string> refused(const Words& arguments, const Words& environment = {}) {
  const auto parsed = parse(arguments, environment);
  CHECK_FALSE(parsed.options);
  return {parsed.exit_code, parsed.text};
}

std::string usage(const std::string& message) { return message + "\nSee warmroute --help.\n"; }

}  // namespace

TEST_CASE("defaults", "[options]") {
  const Options options = good({});
  CHECK(options.port == "8080");
  CHECK(options.metrics_port == 9090);
  CHECK(options.debug_port == 15000);
  CHECK(options.webhook_port == 8443);
  CHECK(options.enable_webhook);
  CHECK(options.log_to_stderr);
  CHECK(options.verbosity == 0);
  CHECK_FALSE(options.config);
  CHECK_FALSE(options.compat_kthena);
  CHECK_FALSE(options.compat_given);
  CHECK(options.drain_timeout == milliseconds(300'000));
  CHECK(options.scrape_interval == milliseconds(1000));
  CHECK(options.warnings.empty());
}

TEST_CASE("Go's forms of flags", "[options]") {
  CHECK(good({"--port=9"}).port == "9");
  CHECK(good({"--port", "9"}).port == "9");
  CHECK(good({"--port="}).port.empty());
  CHECK(good({"--port", "-9"}).port == "-9");  // the next word is the value, whatever it looks like
  CHECK(good({"--tls-cert=a=b", "--tls-key=[x,y]"}).tls_cert == "a=b");
  CHECK(good({"--tls-cert=a=b", "--tls-key=[x,y]"}).tls_key == "[x,y]");
  CHECK(good({"--port=1", "--port=2"}).port == "2");
  CHECK(good({"--expose-metrics-on-router-port"}).expose_metrics_on_router_port);
  CHECK(good({"--expose-metrics-on-router-port", "--port=7"}).port == "7");
  CHECK_FALSE(good({"--enable-webhook=false"}).enable_webhook);
  CHECK_FALSE(good({"--enable-webhook=0"}).enable_webhook);
  CHECK_FALSE(good({"--enable-webhook=F"}).enable_webhook);
  CHECK(good({"--enable-webhook=T"}).enable_webhook);
  for (const Words& form : std::vector<Words>{{"-v=4"}, {"-v", "4"}, {"-v4"}, {"--v=4"}, {"--v", "4"}}) {
    CAPTURE(form);
    CHECK(good(form).verbosity == 4);
  }
  CHECK(good({"--debug-port=0x3A98"}).debug_port == 15000);
}

TEST_CASE("wrong flags end with code 2 and a hint", "[options]") {
  using Pair = std::pair<int, std::string>;
  CHECK(refused({"--nonsense"}) == Pair{2, usage("unknown flag: --nonsense")});
  CHECK(refused({"--nonsense=5"}) == Pair{2, usage("unknown flag: --nonsense")});
  CHECK(refused({"-x"}) == Pair{2, usage("unknown shorthand flag: 'x' in -x")});
  CHECK(refused({"-logtostderr"}) == Pair{2, usage("unknown shorthand flag: 'l' in -logtostderr")});
  CHECK(refused({"--port"}) == Pair{2, usage("flag needs an argument: --port")});
  CHECK(refused({"-v"}) == Pair{2, usage("flag needs an argument: -v")});
  CHECK(refused({"--=5"}) == Pair{2, usage("bad flag syntax: --=5")});
  CHECK(refused({"--enable-webhook", "false"}).second.starts_with("unexpected argument: false (a boolean flag"));
  CHECK(refused({"word"}).first == 2);
  CHECK(refused({"-"}).first == 2);
  CHECK(refused({"--", "x"}).first == 2);
  CHECK(parse({"--"}).options);
  CHECK(refused({"--debug-port=x"}) ==
        Pair{2, usage("invalid argument \"x\" for \"--debug-port\" flag: must be an integer")});
  CHECK(refused({"--debug-port=99999999999"}).first == 2);
  CHECK(refused({"--enable-webhook=yes"}) ==
        Pair{2, usage("invalid argument \"yes\" for \"--enable-webhook\" flag: must be true or false")});
  CHECK(refused({"--drain-delay=5"}) ==
        Pair{2, usage("invalid argument \"5\" for \"--drain-delay\" flag: missing unit in duration \"5\", try 5s")});
  CHECK(refused({"--connect-timeout=0"}).second.find("must be at least 1ms") != std::string::npos);
  CHECK(refused({"--max-head-bytes=10"}).second.find("must be at least 1KiB") != std::string::npos);
  CHECK(refused({"--workers=-1"}).second.find("must be at least 0") != std::string::npos);
  CHECK(refused({"--config="}).first == 2);
  CHECK(refused({"--compat=other"}).second.find("must be kthena or none") != std::string::npos);
  CHECK(refused({"--client-half-close=x"}).second.find("must be cancel or answer") != std::string::npos);
  CHECK(refused({"--bind-address=localhost"}).second.find("must be an IPv4 or IPv6 address") != std::string::npos);
  CHECK(refused({"--v=x"}).first == 2);
  CHECK(refused({"--stderrthreshold=LOUD"}).first == 2);
  CHECK(refused({"--skip_headers=maybe"}).first == 2);
  CHECK(refused({"--one_output=maybe"}).first == 2);
  CHECK(refused({"--log_file_max_size=x"}).first == 2);
}

TEST_CASE("the Go router's checks, in its words", "[options]") {
  using Pair = std::pair<int, std::string>;
  const Pair pair{255, "tls-cert and tls-key must be specified together\n"};
  CHECK(refused({"--tls-cert=a"}) == pair);
  CHECK(refused({"--tls-key=a"}) == pair);
  CHECK(refused({"--enable-gateway-api-inference-extension"}) ==
        Pair{255, "--enable-gateway-api-inference-extension requires --enable-gateway-api to be enabled\n"});
  CHECK(good({"--enable-gateway-api-inference-extension", "--enable-gateway-api"}).enable_inference_extension);
  for (const auto* port : {"0", "-1", "65536"}) {
    const std::string text = port;
    CHECK(refused({"--webhook-port=" + text}) == Pair{255, "invalid webhook port: " + text + "\n"});
    CHECK(refused({"--debug-port=" + text}) == Pair{255, "invalid debug port: " + text + "\n"});
    CHECK(refused({"--metrics-port=" + text}) == Pair{255, "invalid metrics port: " + text + "\n"});
  }
  CHECK(good({"--debug-port=65535", "--metrics-port=1"}).debug_port == 65535);
}

TEST_CASE("flags of ours", "[options]") {
  const Options options = good({"--config=/c.yaml",
                                "--resources",
                                "/r",
                                "--compat=kthena",
                                "--workers=3",
                                "--bind-address=[::1]",
                                "--check",
                                "--forwarded-headers",
                                "--client-half-close=answer",
                                "--upstream-ca=/ca",
                                "--upstream-insecure",
                                "--drain-delay=0s",
                                "--connect-timeout=300ms",
                                "--response-header-timeout=1m30s",
                                "--stream-idle-timeout=1h",
                                "--total-timeout=2h",
                                "--client-head-timeout=1s",
                                "--client-body-timeout=2s",
                                "--client-idle-timeout=3s",
                                "--client-write-timeout=4s",
                                "--upstream-idle-timeout=2.5s",
                                "--max-head-bytes=32KiB",
                                "--max-body-bytes=1MiB",
                                "--max-buffered-bytes=1GiB",
                                "--max-connections=77"});
  CHECK(options.config == "/c.yaml");
  CHECK(options.resources == "/r");
  CHECK(options.compat_kthena);
  CHECK(options.compat_given);
  CHECK(options.workers == 3);
  CHECK(options.bind_address == "::1");
  CHECK(options.check);
  CHECK(options.forwarded_headers);
  CHECK(options.half_close_answers);
  CHECK(options.upstream_ca == "/ca");
  CHECK(options.upstream_insecure);
  CHECK(options.drain_delay == milliseconds(0));
  CHECK(options.connect_timeout == milliseconds(300));
  CHECK(options.response_header_timeout == milliseconds(90'000));
  CHECK(options.stream_idle_timeout == milliseconds(3'600'000));
  CHECK(options.total_timeout == milliseconds(7'200'000));
  CHECK(options.client_head_timeout == milliseconds(1000));
  CHECK(options.client_body_timeout == milliseconds(2000));
  CHECK(options.client_idle_timeout == milliseconds(3000));
  CHECK(options.client_write_timeout == milliseconds(4000));
  CHECK(options.upstream_idle_timeout == milliseconds(2500));
  CHECK(options.max_head_bytes == 32768);
  CHECK(options.max_body_bytes == 1048576);
  CHECK(options.max_buffered_bytes == 1073741824);
  CHECK(options.max_connections == 77);
  CHECK(options.warnings.empty());
  CHECK(good({"--bind-address=127.0.0.1"}).bind_address == "127.0.0.1");
  CHECK(good({"--bind-address="}).bind_address.empty());
}

TEST_CASE("variables of ours: the flag wins, wrong ones stop the start", "[options]") {
  CHECK(good({}, {"WARMROUTE_DRAIN_DELAY=10s"}).drain_delay == milliseconds(10'000));
  CHECK(good({"--drain-delay=1s"}, {"WARMROUTE_DRAIN_DELAY=10s"}).drain_delay == milliseconds(1000));
  CHECK(good({}, {"WARMROUTE_DRAIN_DELAY="}).drain_delay == milliseconds(5000));
  CHECK(good({}, {"WARMROUTE_FORWARDED_HEADERS=1"}).forwarded_headers);
  CHECK(good({}, {"WARMROUTE_MAX_BODY_BYTES=2MiB"}).max_body_bytes == 2097152);
  CHECK(good({}, {"WARMROUTE_RESOURCES=/r", "WARMROUTE_CONFIG=/c"}).config == "/c");
  CHECK(good({}, {"WARMROUTE_BIND_ADDRESS=::1"}).bind_address == "::1");
  const auto compat = good({}, {"WARMROUTE_COMPAT=kthena"});
  CHECK(compat.compat_kthena);
  CHECK(compat.compat_given);
  const auto off = good({"--compat=none"}, {"WARMROUTE_COMPAT=kthena"});
  CHECK_FALSE(off.compat_kthena);
  CHECK(off.compat_given);
  CHECK(refused({}, {"WARMROUTE_WORKERS=x"}) ==
        std::pair<int, std::string>{
            2, usage("invalid value \"x\" for the variable WARMROUTE_WORKERS: must be an integer")});
  // variables of the Go router's flags do not exist; those that Kubernetes makes for a Service are not ours
  const auto options = good({}, {"WARMROUTE_PORT=tcp://10.0.0.1:80", "WARMROUTE_SERVICE_HOST=10.0.0.1",
                                 "WARMROUTE_DRAIN_DELY=1s", "MALFORMED"});
  CHECK(options.port == "8080");
  CHECK(options.warnings == Words{"unknown environment variable WARMROUTE_DRAIN_DELY is ignored"});
}

TEST_CASE("the program's name does not switch the compatible mode on", "[options]") {
  const auto parsed = parse({}, {}, "/usr/local/bin/kthena-router");
  REQUIRE(parsed.options);
  CHECK_FALSE(parsed.options->compat_kthena);
  CHECK(parse({"-x"}, {}, "/bin/kthena-router").text.ends_with("See kthena-router --help.\n"));
}

TEST_CASE("the Go router's variables", "[options]") {
  const Options set = good({}, {"POD_NAMESPACE=prod", "DRAIN_TIMEOUT=90s", "METRICS_SCRAPE_INTERVAL=250ms",
                                "ACCESS_LOG_ENABLED=f", "ACCESS_LOG_FORMAT=json", "ACCESS_LOG_OUTPUT=/var/log/a",
                                "KUBECONFIG=/k", "ENABLE_FAIRNESS_SCHEDULING=false", "ENABLE_SESSION_BOOST=0"});
  CHECK(set.pod_namespace == "prod");
  CHECK(set.drain_timeout == milliseconds(90'000));
  CHECK(set.scrape_interval == milliseconds(250));
  CHECK_FALSE(set.access_log_enabled);
  CHECK(set.access_log_json);
  CHECK(set.access_log_output == "/var/log/a");
  CHECK(set.kubeconfig == "/k");
  CHECK(set.warnings.empty());
  CHECK(good({"--kubeconfig=/flag"}, {"KUBECONFIG=/k"}).kubeconfig == "/flag");

  for (const auto* bad : {"x", "5", "0s", "-1s"}) {
    CAPTURE(bad);
    const Options options = good({}, {std::string("DRAIN_TIMEOUT=") + bad});
    CHECK(options.drain_timeout == milliseconds(300'000));
    REQUIRE(options.warnings.size() == 1);
    CHECK(options.warnings[0].starts_with(std::string("invalid DRAIN_TIMEOUT \"") + bad + "\": "));
    CHECK(options.warnings[0].ends_with("; using the default 5m0s"));
    CHECK(good({}, {std::string("METRICS_SCRAPE_INTERVAL=") + bad}).warnings.size() == 1);
  }
  // invalid without a word
  const Options quiet = good({}, {"ACCESS_LOG_ENABLED=maybe", "ACCESS_LOG_FORMAT=JSON", "ACCESS_LOG_OUTPUT="});
  CHECK(quiet.access_log_enabled);
  CHECK_FALSE(quiet.access_log_json);
  CHECK(quiet.access_log_output == "stdout");
  CHECK(quiet.warnings.empty());
  CHECK(good({}, {"ENABLE_SESSION_BOOST=maybe"}).warnings ==
        Words{"invalid ENABLE_SESSION_BOOST \"maybe\": must be true or false; using the default false"});
  CHECK(good({}, {"REDIS_HOST=redis"}).warnings.size() == 1);
}

TEST_CASE("queues that this build cannot honour stop the start", "[options]") {
  using Pair = std::pair<int, std::string>;
  CHECK(refused({}, {"ENABLE_FAIRNESS_SCHEDULING=true", "ENABLE_SESSION_BOOST=1"}) ==
        Pair{255, "ENABLE_FAIRNESS_SCHEDULING and ENABLE_SESSION_BOOST are mutually exclusive; enable only one\n"});
  CHECK(refused({}, {"ENABLE_FAIRNESS_SCHEDULING=t"}) ==
        Pair{255, "ENABLE_FAIRNESS_SCHEDULING is not supported by this build\n"});
  CHECK(refused({}, {"ENABLE_SESSION_BOOST=true"}) ==
        Pair{255, "ENABLE_SESSION_BOOST is not supported by this build\n"});
}

TEST_CASE("flags whose feature comes later are accepted with one note", "[options]") {
  // what the chart passes
  const Options chart =
      good({"--port=8080", "--metrics-port=9090", "--expose-metrics-on-router-port=false", "--debug-port=15000",
            "--enable-webhook=true", "--enable-gateway-api=false", "--webhook-port=8443",
            "--webhook-tls-cert-file=/etc/tls/tls.crt", "--webhook-tls-private-key-file=/etc/tls/tls.key",
            "--cert-secret-name=kthena-router-webhook-certs", "--webhook-service-name=kthena-router-webhook"});
  CHECK(chart.warnings.empty());
  CHECK(good({"--enable-webhook=false", "--enable-gateway-api=false", "--kube-api-qps=0"}).warnings.empty());
  const Options options =
      good({"--kube-api-qps=50.5", "--kube-api-burst=100", "--enable-gateway-api", "--kubeconfig=/k"});
  CHECK(options.kube_api_qps == 50.5);
  CHECK(options.kube_api_burst == 100);
  REQUIRE(options.warnings.size() == 1);
  CHECK(options.warnings[0] ==
        "accepted without effect, this build does not have the feature yet: --enable-gateway-api");
}

TEST_CASE("klog's flags", "[options]") {
  const Options options = good(
      {"--logtostderr=false", "--alsologtostderr", "--stderrthreshold=warning", "--log_file=/l", "--skip_headers"});
  CHECK_FALSE(options.log_to_stderr);
  CHECK(options.also_log_to_stderr);
  CHECK(options.stderr_threshold == 1);
  CHECK(options.log_file == "/l");
  CHECK(options.skip_log_headers);
  CHECK(options.warnings.empty());
  CHECK(good({"--stderrthreshold=3"}).stderr_threshold == 3);
  CHECK(good({"--stderrthreshold=INFO"}).stderr_threshold == 0);
  CHECK(good({"--log-file=/l"}).log_file == "/l");
  CHECK(good({"--logtostderr=false"}).warnings == Words{"--logtostderr=false has no effect without --log_file"});
  CHECK(good({"--vmodule=a=2,b=3", "--log_dir", "/d", "--log_file_max_size=5", "--add_dir_header",
              "--skip_log_headers=true", "--one_output", "--log_backtrace_at=a.go:5"})
            .warnings == Words{"accepted without effect: --log_dir, --log_file_max_size, --vmodule, --add_dir_header, "
                               "--skip_log_headers, --one_output, --log_backtrace_at"});
}

TEST_CASE("every flag is listed for the log, in order, with the value in force", "[options]") {
  const Options options = good({"--drain-delay=90s", "--enable-webhook=F", "-v", "4"});
  CHECK(std::is_sorted(options.flag_values.begin(), options.flag_values.end()));
  const std::map<std::string, std::string> values(options.flag_values.begin(), options.flag_values.end());
  CHECK(values.size() == options.flag_values.size());
  CHECK(values.at("drain-delay") == "1m30s");
  CHECK(values.at("enable-webhook") == "false");
  CHECK(values.at("v") == "4");
  CHECK(values.at("port") == "8080");
  CHECK(values.at("config") == "/etc/config/routerConfiguration.yaml");
  CHECK(values.at("compat") == "none");
  CHECK(values.at("max-head-bytes") == "64KiB");
  CHECK(values.at("stderrthreshold") == "2");
  CHECK(values.at("log_backtrace_at") == ":0");
  for (const auto* name : {"port",
                           "tls-cert",
                           "tls-key",
                           "enable-webhook",
                           "enable-gateway-api",
                           "enable-gateway-api-inference-extension",
                           "webhook-port",
                           "webhook-tls-cert-file",
                           "webhook-tls-private-key-file",
                           "cert-secret-name",
                           "webhook-service-name",
                           "debug-port",
                           "metrics-port",
                           "expose-metrics-on-router-port",
                           "kube-api-qps",
                           "kube-api-burst",
                           "v",
                           "vmodule",
                           "logtostderr",
                           "alsologtostderr",
                           "stderrthreshold",
                           "log_dir",
                           "log_file",
                           "log_file_max_size",
                           "add_dir_header",
                           "skip_headers",
                           "skip_log_headers",
                           "one_output",
                           "log_backtrace_at"}) {
    CAPTURE(name);
    CHECK(values.count(name) == 1);
  }
}

TEST_CASE("help and man page name every flag that has a variable, or its group", "[options]") {
  const auto read = [](const char* path) {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  std::string help = parse({"--help"}).text;
  help.erase(0, help.find("Each flag of "));
  std::string page = read(WR_SOURCE_DIR "/config/warmroute.1");
  page.erase(0, page.find(".SH ENVIRONMENT"));
  page.erase(page.find(".SH SIGNALS"));
  for (const auto& flag : warmroute::app::flag_table()) {
    if (flag.variable().empty()) continue;
    const std::string group = flag.group.substr(0, flag.group.find(" ("));
    CAPTURE(flag.name, group);
    for (const auto& text : {help, page})
      CHECK((text.find("-" + flag.name) != std::string::npos || text.find(group) != std::string::npos));
  }
}

TEST_CASE("the session store of newer charts is accepted, and said to have no effect", "[options]") {
  CHECK(good({"--session-sticky-store=redis"}).warnings == Words{"accepted without effect: --session-sticky-store"});
  CHECK(good({"--session-sticky-redis-address=r:6379"}).warnings ==
        Words{"accepted without effect: --session-sticky-redis-address"});
}

TEST_CASE("help and version", "[options]") {
  for (const auto* flag : {"--help", "-h"}) {
    const auto parsed = parse({flag, "--nonsense"});
    CHECK_FALSE(parsed.options);
    CHECK(parsed.exit_code == 0);
    const Options defaults = good({});
    for (const auto& [name, value] : defaults.flag_values) {
      CAPTURE(name);
      CHECK(parsed.text.find("--" + name + " ") != std::string::npos);
    }
    for (const auto* group :
         {"Configuration:", "Listeners:", "Clients and engines:", "Time-outs:", "Limits:", "Cluster:", "Logging:"}) {
      CHECK(parsed.text.find(group) != std::string::npos);
    }
  }
  const auto parsed = parse({"--version"});
  CHECK_FALSE(parsed.options);
  CHECK(parsed.exit_code == 0);
  CHECK(parsed.text == std::string("warmroute ") + warmroute::app::version() + "\n");
}
