#pragma once
// The process_* series, read from /proc at each collection.

#include <prometheus/metric_family.h>

#include <vector>

namespace warmroute::metrics {

/// Appends what could be read; what /proc does not give is left out.
void collect_process_series(std::vector<prometheus::MetricFamily>& out);

}  // namespace warmroute::metrics
