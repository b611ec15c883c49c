#pragma once
// Standalone resources: a file or a folder of YAML files, followed while running (decisions 1). Content is compared,
// not the inode; files that do not parse leave the last good state in place. Host names of StaticPods are looked up
// every 5 s with the resolver, never on a worker.

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
  /// A reload failed (metric) or produced warnings.
  std::function<void(const config::Diagnostics&)> problems;
};

class Files {
 public:
  Files(net::io_context& control, std::string path, FilesHooks hooks);
  ~Files();  ///< stops following; no hook runs afterwards
  void start();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// For --check: reads everything once, reports all problems, resolves nothing.
[[nodiscard]] config::Diagnostics check_resources(const std::string& path);

}  // namespace warmroute::source
