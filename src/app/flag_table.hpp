#pragma once
// Every flag in one table: name, group, help, how its value is set and shown. Help, the log of flags, variables and
// parsing all read it.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "app/options.hpp"

namespace warmroute::app {

struct Flag {
  enum class Origin { kthena, klog, ours };

  std::string name;
  std::string group;
  std::string type;  ///< for --help: BOOL, INT, DURATION, ...
  std::string help;
  Origin origin = Origin::ours;
  bool boolean = false;  ///< may stand without a value
  bool later = false;    ///< accepted; the feature is not built yet
  bool inert = false;    ///< accepted; has no meaning here
  /// \return what is wrong with the value, empty when it was set
  std::function<std::string(Options&, const std::string&)> set;
  std::function<std::string(const Options&)> show;

  /// WARMROUTE_NAME for flags of ours, else empty.
  [[nodiscard]] std::string variable() const;
};

/// In the order of --help.
[[nodiscard]] std::vector<Flag> flag_table();

}  // namespace warmroute::app
