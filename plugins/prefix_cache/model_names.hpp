#pragma once
// Small numbers for model names, which come from configuration only, so there are few; and what answers taught about
// each model.

#include <deque>
#include <limits>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>

#include "prefix/index.hpp"

namespace warmroute::plugins {

class ModelNames {
 public:
  prefix::ModelNumber number(std::string_view name) {
    {
      const std::shared_lock lock(mutex_);
      const auto found = numbers_.find(name);
      if (found != numbers_.end()) return found->second;
    }
    const std::unique_lock lock(mutex_);
    if (models_.size() > std::numeric_limits<prefix::ModelNumber>::max()) return 0;
    const auto next = static_cast<prefix::ModelNumber>(models_.size());
    const auto [entry, added] = numbers_.emplace(std::string(name), next);
    if (added) models_.emplace_back(entry->first);
    return entry->second;
  }
  [[nodiscard]] std::string_view name(prefix::ModelNumber number) const {
    const std::shared_lock lock(mutex_);
    return models_[number].name;
  }
  [[nodiscard]] std::size_t count() const {
    const std::shared_lock lock(mutex_);
    return models_.size();
  }

  /// An answer reported `tokens` for a prompt of which `bytes` were hashed.
  void learn(prefix::ModelNumber number, double bytes, double tokens) {
    const std::shared_lock lock(mutex_);
    Model& model = models_[number];
    const std::lock_guard model_lock(model.mutex);
    if (model.tokens > forget_from_tokens) {  // what lately was counts more
      model.tokens /= 2;
      model.bytes /= 2;
    }
    model.bytes += bytes;
    model.tokens += tokens;
  }
  /// Hashed bytes for a token of the engine; 0 while too little is known.
  [[nodiscard]] double bytes_per_token(prefix::ModelNumber number) const {
    const std::shared_lock lock(mutex_);
    const Model& model = models_[number];
    const std::lock_guard model_lock(model.mutex);
    return model.tokens < enough_tokens ? 0 : model.bytes / model.tokens;
  }

 private:
  static constexpr double enough_tokens = 512;
  static constexpr double forget_from_tokens = 1 << 20U;
  struct Model {
    explicit Model(const std::string& of) : name(of) {}
    const std::string& name;  ///< key of numbers_, which stays where it is
    mutable std::mutex mutex;
    double bytes = 0, tokens = 0;
  };

  mutable std::shared_mutex mutex_;
  std::map<std::string, prefix::ModelNumber, std::less<>> numbers_;
  std::deque<Model> models_;
};

}  // namespace warmroute::plugins
