#include "prefix_cache/settings.hpp"

#include <array>
#include <optional>
#include <utility>

#include "prefix/index.hpp"

namespace warmroute::plugins {
namespace {

constexpr std::array<std::string_view, 9> known_args{
    "blockSizeToHash", "maxBlocksToMatch",    "maxHashCacheSize",           "topKMatches",   "includeTools",
    "recordOn",        "prefixCacheSnapshot", "prefixCacheSnapshotSeconds", "learnFromUsage"};
constexpr std::string_view capacity_arg = known_args[2];
constexpr std::int64_t longest_period_seconds = 86400;

bool is_auto(const Args& args) {
  const Value* value = args.find(capacity_arg);
  const auto* text = value == nullptr ? nullptr : std::get_if<std::string>(&value->data);
  return text != nullptr && *text == "auto";
}

/// The four old arguments: one of a wrong type drops all of them. \return why, or nothing
std::optional<std::string> read_sizes(const Args& args, PrefixCacheSettings& settings) {
  if (!args.readable()) return "the args block is " + std::string(args.root().type_name());
  PrefixCacheSettings read = settings;
  read.auto_capacity = is_auto(args);
  const std::array<std::pair<std::string_view, std::size_t*>, 4> sizes{{{known_args[0], &read.block_bytes},
                                                                        {known_args[1], &read.max_blocks},
                                                                        {capacity_arg, &read.capacity},
                                                                        {known_args[3], &read.top_k}}};
  for (const auto& [name, target] : sizes) {
    if (read.auto_capacity && name == capacity_arg) continue;
    const auto value = args.integer(name);
    if (!value) return value.error().detail;
    if (value->value_or(0) > 0) *target = static_cast<std::size_t>(**value);  // zero and less mean the default
  }
  settings = read;
  return std::nullopt;
}

std::string shown(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value.data)) return '"' + *text + '"';
  if (const auto* number = std::get_if<std::int64_t>(&value.data)) return std::to_string(*number);
  if (const auto* number = std::get_if<double>(&value.data)) return std::to_string(*number);
  if (const auto* flag = std::get_if<bool>(&value.data)) return *flag ? "true" : "false";
  return std::string(value.type_name());
}

/// Reads arguments that fall back alone.
class OwnArgs {
 public:
  OwnArgs(const Args& args, Host& host) : args_(args), host_(host) {}

  void flag(std::string_view name, bool& target) const {
    const auto value = args_.boolean(name);
    if (!value) return refuse(name, "must be true or false", target ? "true" : "false");
    target = value->value_or(target);
  }
  void moment(std::string_view name, RecordOn& target) const {
    constexpr std::array<std::pair<std::string_view, RecordOn>, 3> names{
        {{"response", RecordOn::response}, {"first-byte", RecordOn::first_byte}, {"dispatch", RecordOn::dispatch}}};
    const auto value = args_.text(name);
    if (value && !value->has_value()) return;
    for (const auto& [text, moment] : names)
      if (value && **value == text) {
        target = moment;
        return;
      }
    refuse(name, "must be response, first-byte or dispatch", "response");
  }
  void path(std::string_view name, std::string& target) const {
    const auto value = args_.text(name);
    if (value && !value->has_value()) return;
    if (!value || (*value)->empty() || (*value)->back() == '/')
      return refuse(name, "must be a path of a file", "no snapshot");
    target = **value;
  }
  void period(std::string_view name, std::chrono::seconds& target) const {
    const auto value = args_.integer(name);
    if (value && !value->has_value()) return;
    if (!value || **value < 1 || **value > longest_period_seconds)
      return refuse(name, "must be a number of seconds from 1 to " + std::to_string(longest_period_seconds),
                    std::to_string(target.count()));
    target = std::chrono::seconds(**value);
  }

 private:
  void refuse(std::string_view name, std::string_view rule, std::string_view fallback) const {
    std::string text = "prefix-cache: argument ";
    text.append(name).append(" ").append(rule).append(", got ").append(shown(*args_.find(name)));
    text.append("; using ").append(fallback);
    host_.warning(text);
  }
  const Args& args_;
  Host& host_;
};

}  // namespace

PrefixCacheSettings read_prefix_cache_settings(const Args& args, Host& host) {
  PrefixCacheSettings settings;
  warn_unknown_args("prefix-cache", args, known_args, host);
  if (const auto wrong = read_sizes(args, settings)) {
    host.error("Failed to unmarshal PrefixCacheArgs, using default values");
    host.error("prefix-cache: " + *wrong);
  }
  if (settings.capacity > prefix::Index::max_capacity) {
    settings.capacity = prefix::Index::max_capacity;
    host.warning("prefix-cache: maxHashCacheSize is limited to " + std::to_string(settings.capacity));
  }
  const OwnArgs own(args, host);
  own.flag("includeTools", settings.include_tools);
  own.flag("learnFromUsage", settings.learn_from_usage);
  own.moment("recordOn", settings.record_on);
  own.path("prefixCacheSnapshot", settings.snapshot);
  own.period("prefixCacheSnapshotSeconds", settings.snapshot_period);
  return settings;
}

}  // namespace warmroute::plugins
