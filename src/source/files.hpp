#pragma once
// Standalone resources: a file or a folder of YAML files, followed while running (decisions 1). Content is compared,
// not the inode; files that do not parse leave the last good state in place. Host names of StaticPods are looked up
// every 5 s with the resolver, never on a worker.
//
// Files are read and parsed on a thread of this class; the hooks and the resolver live on the control thread, where
// the object is also made and destroyed.

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "config/diagnostic.hpp"
#include "model/resources.hpp"
#include "net/task.hpp"

namespace warmroute::source {

struct FilesHooks {
  /// Complete new state; called on the control thread, only when something changed. The first call is the sync.
  std::function<void(model::ResourceSet)> changed;
  /// Everything found in a new content, once per content: with errors the reload failed (metric) and the last good
  /// state stays, else these are warnings. An empty list says that a later content is clean again.
  std::function<void(const config::Diagnostics&)> problems;
};

struct FilesTiming {
  std::chrono::milliseconds poll{500};           ///< between two looks at the files
  std::chrono::milliseconds settle{100};         ///< a change counts when a second look after this time sees the same
  std::chrono::milliseconds resolve{5000};       ///< between two look-ups of the host names
  std::chrono::milliseconds first_answer{2000};  ///< at most so long a new state waits for names not yet looked up
};

class Files {
 public:
  Files(net::io_context& control, std::string path, FilesHooks hooks, FilesTiming timing = {});
  ~Files();  ///< stops following; no hook runs afterwards
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;
  void start();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// For --check: reads everything once, reports all problems, resolves nothing.
[[nodiscard]] config::Diagnostics check_resources(const std::string& path);

}  // namespace warmroute::source
