#include "base/log.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <regex>
#include <sstream>
#include <thread>
#include <vector>

namespace {

namespace log = warmroute::log;

std::string read_all(int fd) {
  std::string out;
  char buffer[65536];
  for (ssize_t n = 0; (n = ::read(fd, buffer, sizeof buffer)) > 0;) out.append(buffer, static_cast<std::size_t>(n));
  return out;
}

/// Stderr goes to a file while it lives.
class StderrFile {
 public:
  StderrFile() {
    char name[] = "/tmp/wr_log_test_XXXXXX";
    fd_ = ::mkstemp(name);
    ::unlink(name);
    saved_ = ::dup(STDERR_FILENO);
    ::dup2(fd_, STDERR_FILENO);
  }
  StderrFile(const StderrFile&) = delete;
  StderrFile& operator=(const StderrFile&) = delete;
  ~StderrFile() {
    log::stop();
    ::dup2(saved_, STDERR_FILENO);
    ::close(saved_);
    ::close(fd_);
  }
  [[nodiscard]] std::string text() const {
    ::lseek(fd_, 0, SEEK_SET);
    return read_all(fd_);
  }

 private:
  int fd_ = -1, saved_ = -1;
};

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) out.push_back(line);
  return out;
}

const std::string header = R"([IWEF][01]\d[0-3]\d \d\d:\d\d:\d\d\.\d{6} [ \d]{6}\d warmroute\] )";

struct TempFile {
  TempFile() {
    char name[] = "/tmp/wr_log_file_XXXXXX";
    const int fd = ::mkstemp(name);
    ::close(fd);
    path = name;
  }
  ~TempFile() { ::unlink(path.c_str()); }
  [[nodiscard]] std::string text() const {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::string path;
};

}  // namespace

TEST_CASE("before start records go to stderr at once, in klog's shape", "[log]") {
  StderrFile captured;
  log::info("hello {}", 7);
  log::warning("careful");
  log::error("broken\n");
  log::write(log::Level::fatal, "dead");
  const auto out = lines(captured.text());
  REQUIRE(out.size() == 4);
  for (const auto& line : out) REQUIRE(std::regex_search(line, std::regex("^" + header)));
  CHECK(out[0].front() == 'I');
  CHECK(out[1].front() == 'W');
  CHECK(out[2].front() == 'E');
  CHECK(out[3].front() == 'F');
  CHECK(out[0].ends_with("] hello 7"));
  CHECK(out[2].ends_with("] broken"));
}

TEST_CASE("stop writes everything that was queued; later records are written at once", "[log]") {
  StderrFile captured;
  log::start({});
  for (int i = 0; i < 1000; ++i) log::info("record {}", i);
  log::stop();
  log::info("after");
  const auto out = lines(captured.text());
  REQUIRE(out.size() == 1001);
  for (std::size_t i = 0; i < 1000; ++i) REQUIRE(out[i].ends_with("] record " + std::to_string(i)));
  CHECK(out.back().ends_with("] after"));
}

TEST_CASE("verbosity gates v()", "[log]") {
  StderrFile captured;
  log::Options options;
  options.verbosity = 4;
  log::start(options);
  CHECK(log::verbose(4));
  CHECK_FALSE(log::verbose(5));
  log::v(4, "seen {}", 4);
  log::v(5, "unseen");
  log::stop();
  log::start({});
  CHECK_FALSE(log::verbose(1));
  log::stop();
  const auto text = captured.text();
  CHECK(text.find("seen 4") != std::string::npos);
  CHECK(text.find("unseen") == std::string::npos);
}

TEST_CASE("a record with several lines has one header and is never interleaved", "[log]") {
  StderrFile captured;
  log::start({});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 200; ++i) {
        log::write(log::Level::info,
                   fmt::format("ScorePlugin: t{}\nPod: a/{}-{}, Score: 1\nPod: b/{}-{}, Score: 2", t, t, i, t, i));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  log::stop();
  const auto out = lines(captured.text());
  REQUIRE(out.size() == 4U * 200 * 3);
  for (std::size_t i = 0; i < out.size(); i += 3) {
    const std::string key = out[i].substr(out[i].find(": t") + 3);
    REQUIRE(std::regex_search(out[i], std::regex("^" + header + "ScorePlugin: t")));
    REQUIRE(out[i + 1].starts_with("Pod: a/" + key + "-"));
    const std::string number = out[i + 1].substr(0, out[i + 1].find(','));
    REQUIRE(out[i + 2] == "Pod: b" + number.substr(6) + ", Score: 2");
  }
}

TEST_CASE("a stuck stderr blocks nobody: the oldest records are lost, counted and reported", "[log]") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const int saved = ::dup(STDERR_FILENO);
  ::dup2(ends[1], STDERR_FILENO);
  ::close(ends[1]);
  const std::uint64_t before = log::lost();
  log::Options options;
  options.queue_records = 16;
  log::start(options);
  const std::string filler(1000, 'x');
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < 2000; ++i) log::info("{} {}", i, filler);  // a pipe holds some 65 of them
  const auto took = std::chrono::steady_clock::now() - began;
  const std::uint64_t lost = log::lost() - before;
  CHECK(took < std::chrono::seconds(2));
  CHECK(lost > 1500);
  std::string text;
  std::thread reader([&] { text = read_all(ends[0]); });
  log::stop();
  ::dup2(saved, STDERR_FILENO);  // the last writing end: the reader sees the end
  ::close(saved);
  reader.join();
  ::close(ends[0]);
  CHECK(log::lost() - before == lost);
  std::uint64_t reported = 0;
  std::size_t records = 0;
  std::string last;
  for (const auto& line : lines(text)) {
    std::smatch match;
    if (std::regex_search(line, match, std::regex(R"(\] (\d+) log records were lost because the queue was full$)"))) {
      reported += std::stoull(match[1]);
    } else {
      ++records;
      last = line;
    }
  }
  CHECK(reported == lost);
  CHECK(records + lost == 2000);
  CHECK(last.find("] 1999 x") != std::string::npos);  // the newest are kept
}

TEST_CASE("stop gives up on a stderr that nobody reads", "[log]") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const int saved = ::dup(STDERR_FILENO);
  ::dup2(ends[1], STDERR_FILENO);
  ::close(ends[1]);
  const std::uint64_t before = log::lost();
  log::start({});
  for (int i = 0; i < 200; ++i) log::info("{}", std::string(1000, 'y'));
  const auto began = std::chrono::steady_clock::now();
  log::stop();
  const auto took = std::chrono::steady_clock::now() - began;
  ::dup2(saved, STDERR_FILENO);
  ::close(saved);
  ::close(ends[0]);
  CHECK(took < std::chrono::seconds(6));
  CHECK(log::lost() > before);
}

TEST_CASE("--logtostderr=false with a file", "[log]") {
  StderrFile captured;
  TempFile file;
  log::Options options;
  options.to_stderr = false;
  options.file = file.path;
  SECTION("errors go to stderr, too, as klog's stderrthreshold says") {
    log::start(options);
    log::info("plain");
    log::error("bad");
    log::stop();
    CHECK(lines(file.text()).size() == 2);
    const auto out = lines(captured.text());
    REQUIRE(out.size() == 1);
    CHECK(out[0].ends_with("] bad"));
  }
  SECTION("alsologtostderr doubles everything") {
    options.also_to_stderr = true;
    log::start(options);
    log::info("plain");
    log::stop();
    CHECK(lines(file.text()).size() == 1);
    CHECK(lines(captured.text()).size() == 1);
  }
  SECTION("the file is appended to") {
    for (int i = 0; i < 2; ++i) {
      log::start(options);
      log::info("again");
      log::stop();
    }
    CHECK(lines(file.text()).size() == 2);
  }
  SECTION("a file has no effect while logtostderr is on") {
    options.to_stderr = true;
    log::start(options);
    log::info("plain");
    log::stop();
    CHECK(file.text().empty());
    CHECK(lines(captured.text()).size() == 1);
  }
  SECTION("a file that cannot be opened") {
    options.file = "/nonexistent-folder/x.log";
    log::start(options);
    log::info("plain");
    log::stop();
    const auto out = lines(captured.text());
    REQUIRE(out.size() == 2);
    CHECK(out[0].find("cannot open log file /nonexistent-folder/x.log: ") != std::string::npos);
    CHECK(out[1].ends_with("] plain"));
  }
  SECTION("skip_headers") {
    options.to_stderr = true;
    options.skip_headers = true;
    log::start(options);
    log::info("bare");
    log::stop();
    CHECK(captured.text() == "bare\n");
  }
}

TEST_CASE("a record of absurd length is cut", "[log]") {
  StderrFile captured;
  log::start({});
  log::info("{}", std::string(3 * log::max_record_bytes, 'z'));
  log::stop();
  const auto text = captured.text();
  CHECK(text.size() < log::max_record_bytes + 200);
  CHECK(text.ends_with("z... (cut)\n"));
}

TEST_CASE("writers may race with start and stop", "[log]") {
  StderrFile captured;
  std::atomic<bool> end{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      while (!end.load()) {
        log::info("busy");
        (void)log::lost();
      }
    });
  }
  for (int i = 0; i < 10; ++i) {
    log::start({});
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    log::stop();
  }
  end.store(true);
  for (auto& thread : threads) thread.join();
  for (const auto& line : lines(captured.text())) {
    REQUIRE((line.ends_with("] busy") || line.ends_with("the queue was full")));
  }
}
