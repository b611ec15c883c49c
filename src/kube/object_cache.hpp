#pragma once
// The objects of one list, kept right by events and by lists that may overtake one another: an older version never
// replaces a newer one, and a deletion that no event told is found by the next list. Pure: no I/O, no clocks.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "config/diagnostic.hpp"
#include "kube/json_objects.hpp"

namespace warmroute::kube {

/// What came of a piece of news.
enum class Applied : std::uint8_t {
  changed,
  unchanged,  ///< nothing that we look at is different
  stale,      ///< older than what is known: a server that lags behind
  broken      ///< not an object at all; only a new list helps
};

/// What a reflector feeds.
class ObjectSink {
 public:
  virtual ~ObjectSink() = default;
  /// A list begins. Events may come until it ends. One list at a time; a second begin_list() drops the first.
  virtual void begin_list() = 0;
  virtual void list_item(std::string_view object) = 0;
  /// The list is complete. stale: it is older than what was known when it began, and nothing was changed.
  /// \param trust_older take it all the same (a cluster restored from a backup counts from an earlier version)
  virtual Applied end_list(std::string_view resource_version, bool trust_older) = 0;
  virtual Applied event(EventType type, std::string_view object) = 0;
  /// The version up to which everything is known; where a watch goes on.
  [[nodiscard]] virtual const std::string& resource_version() const = 0;
  /// False: it is older than what is known, and nothing was changed.
  virtual bool bookmark(std::string_view resource_version) = 0;
  [[nodiscard]] virtual std::size_t size() const = 0;
};

/// An object that cannot be used, and why.
struct Unusable {
  std::string uid, problem;
  friend bool operator==(const Unusable&, const Unusable&) = default;
};

template <class T>
class ObjectCache final : public ObjectSink {
 public:
  /// nullopt: `diagnostics` say why the object cannot be used; then its last good version stays.
  using Read = std::optional<T> (*)(std::string_view object, config::Diagnostics& diagnostics);
  using Problems = std::function<void(const config::Diagnostics&)>;

  ObjectCache(Read read, Problems problems) : read_(read), problems_(std::move(problems)) {}

  /// In order of their keys, with the version that the API server gave.
  struct Entry {
    std::uint64_t version = 0;
    T object;
  };
  [[nodiscard]] const std::map<std::string, Entry>& entries() const noexcept { return entries_; }
  /// Those of which there is no good version either, by their keys.
  [[nodiscard]] std::map<std::string, Unusable> unusable() const {
    auto out = told_;
    std::erase_if(out, [&](const auto& told) { return entries_.contains(told.first); });
    return out;
  }

  void begin_list() override {
    list_.emplace();
    list_->began_at = high_;
  }

  void list_item(std::string_view text) override {
    const auto head = parse_object_head(text);
    if (!list_ || !head) {
      if (list_) list_->broken = true;
      return;
    }
    const std::string key = head->key();
    const std::uint64_t version = version_number(head->resource_version);
    list_->seen.insert(key);
    const auto known = entries_.find(key);
    if (known != entries_.end() && version != 0 && version == known->second.version) return;
    if (auto object = read(key, head->uid, text)) list_->objects.emplace(key, Entry{version, std::move(*object)});
  }

  Applied end_list(std::string_view resource_version, bool trust_older) override {
    if (!list_) return Applied::broken;
    List list = std::move(*list_);
    list_.reset();
    if (list.broken) return Applied::broken;
    const std::uint64_t version = version_number(resource_version);
    if (!trust_older && version != 0 && version < list.began_at) return Applied::stale;
    const bool older = trust_older && version < list.began_at;
    bool changed = false;
    for (auto it = entries_.begin(); it != entries_.end();) {
      // What came by an event after the list was made is not in it.
      const bool younger = !older && version != 0 && it->second.version > version;
      if (younger || list.seen.count(it->first) != 0) {
        ++it;
      } else {
        it = entries_.erase(it);
        changed = true;
      }
    }
    std::erase_if(told_, [&](const auto& told) { return list.seen.count(told.first) == 0; });
    for (auto& [key, entry] : list.objects) {
      const auto deleted = list.deleted.find(key);
      if (deleted != list.deleted.end() && deleted->second > entry.version && !older) continue;
      changed = put(key, std::move(entry), older) == Applied::changed || changed;
    }
    if (older || version == 0 || version > high_) set_version(resource_version);
    return changed ? Applied::changed : Applied::unchanged;
  }

  Applied event(EventType type, std::string_view text) override {
    const auto head = parse_object_head(text);
    if (!head || head->name.empty()) return Applied::broken;
    const std::string key = head->key();
    const std::uint64_t version = version_number(head->resource_version);
    if (version != 0 && version < high_) return Applied::stale;
    set_version(head->resource_version);
    if (type == EventType::deleted) {
      if (list_) list_->deleted[key] = version;
      told_.erase(key);
      return entries_.erase(key) != 0 ? Applied::changed : Applied::unchanged;
    }
    auto object = read(key, head->uid, text);
    if (!object) return Applied::unchanged;
    return put(key, Entry{version, std::move(*object)}, false);
  }

  [[nodiscard]] const std::string& resource_version() const override { return resource_version_; }
  bool bookmark(std::string_view resource_version) override {
    if (version_number(resource_version) < high_) return false;
    set_version(resource_version);
    return true;
  }
  [[nodiscard]] std::size_t size() const override { return entries_.size(); }

 private:
  struct List {
    std::uint64_t began_at = 0;
    std::map<std::string, Entry> objects;  ///< those that are not known in this version
    std::set<std::string> seen;
    std::map<std::string, std::uint64_t> deleted;  ///< by events since it began
    bool broken = false;
  };

  Applied put(const std::string& key, Entry entry, bool older) {
    const auto [it, added] = entries_.try_emplace(key);
    Entry& known = it->second;
    if (!added && !older && entry.version != 0 && entry.version < known.version) return Applied::stale;
    known.version = entry.version;
    if (!added && known.object == entry.object) return Applied::unchanged;
    known.object = std::move(entry.object);
    return Applied::changed;
  }

  /// The same problems of an object are told once: a new version may be a status alone, our own for instance.
  std::optional<T> read(const std::string& key, const std::string& uid, std::string_view text) {
    config::Diagnostics diagnostics;
    auto object = read_(text, diagnostics);
    if (object) {
      told_.erase(key);
      return object;
    }
    Unusable now{uid, {}};
    for (const auto& each : diagnostics) {
      if (each.severity != config::Diagnostic::Severity::error) continue;
      now.problem += (now.problem.empty() ? "" : "; ") + (each.path.empty() ? "" : each.path + ": ") + each.message;
    }
    const auto [told, first] = told_.try_emplace(key);
    const bool is_news = first || told->second != now;
    told->second = std::move(now);
    if (is_news) problems_(diagnostics);
    return object;
  }

  void set_version(std::string_view resource_version) {
    resource_version_ = resource_version;
    high_ = version_number(resource_version);
  }

  Read read_;
  Problems problems_;
  std::map<std::string, Entry> entries_;
  std::map<std::string, Unusable> told_;  ///< whose newest version cannot be used; its problems were told
  std::optional<List> list_;
  std::string resource_version_;
  std::uint64_t high_ = 0;
};

}  // namespace warmroute::kube
