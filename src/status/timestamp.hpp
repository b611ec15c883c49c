#pragma once
// Moments as the API server writes them.

#include <chrono>
#include <string>

namespace warmroute::status {

using Moment = std::chrono::sys_time<std::chrono::microseconds>;

/// metav1.Time: 2026-01-02T03:04:05Z
[[nodiscard]] std::string to_time(Moment moment);
/// metav1.MicroTime: 2026-01-02T03:04:05.678901Z
[[nodiscard]] std::string to_micro_time(Moment moment);

}  // namespace warmroute::status
