#include "scrape/engine_metrics.hpp"

#include <catch2/catch.hpp>
#include <string>

namespace warmroute::scrape {
namespace {

using model::Engine;

EngineMetrics vllm(const std::string& text) { return parse_engine_metrics(text, Engine::vllm); }

const std::string busy = "vllm:num_requests_running 1\nvllm:num_requests_waiting 2\n";

}  // namespace

TEST_CASE("vLLM's new names") {
  const auto metrics = vllm(
      "# HELP vllm:num_requests_running Number of requests in model execution batches.\n"
      "# TYPE vllm:num_requests_running gauge\n"
      "vllm:num_requests_running{engine=\"0\",model_name=\"a/b\"} 3.0\n"
      "vllm:num_requests_waiting{engine=\"0\",model_name=\"a/b\"} 2.0\n"
      "vllm:num_requests_waiting_by_reason{engine=\"0\",reason=\"capacity\"} 77.0\n"
      "vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"a/b\"} 0.25\n"
      "vllm:time_to_first_token_seconds_bucket{le=\"+Inf\"} 4\n"
      "vllm:time_to_first_token_seconds_count{model_name=\"a/b\"} 4\n"
      "vllm:time_to_first_token_seconds_sum{model_name=\"a/b\"} 1.5\n"
      "vllm:inter_token_latency_seconds_count{model_name=\"a/b\"} 100\n"
      "vllm:inter_token_latency_seconds_sum{model_name=\"a/b\"} 2e0\n"
      "process_start_time_seconds 1.71e+09\n");
  CHECK(metrics.running == 3);
  CHECK(metrics.waiting == 2);
  CHECK(metrics.kv_usage == 0.25);
  REQUIRE(metrics.ttft);
  CHECK(metrics.ttft->sum_seconds == 1.5);
  CHECK(metrics.ttft->count == 4);
  REQUIRE(metrics.tpot);
  CHECK(metrics.tpot->sum_seconds == 2);
  CHECK(metrics.process_start == 1.71e9);
}

TEST_CASE("vLLM's old names count only where the new ones are missing") {
  const std::string old =
      "vllm:gpu_cache_usage_perc 0.5\n"
      "vllm:time_per_output_token_seconds_sum 3\nvllm:time_per_output_token_seconds_count 30\n";
  auto metrics = vllm(old);
  CHECK(metrics.kv_usage == 0.5);
  REQUIRE(metrics.tpot);
  CHECK(metrics.tpot->count == 30);
  metrics = vllm(old +
                 "vllm:kv_cache_usage_perc 0.4\n"
                 "vllm:inter_token_latency_seconds_sum 4\nvllm:inter_token_latency_seconds_count 40\n");
  CHECK(metrics.kv_usage == 0.4);
  CHECK(metrics.tpot->count == 40);
}

TEST_CASE("SGLang's names, under its own engine only") {
  const std::string text =
      "sglang:num_running_reqs{model_name=\"m\"} 5\nsglang:num_queue_reqs{model_name=\"m\"} 6\n"
      "sglang:token_usage{model_name=\"m\"} 0.75\n"
      "sglang:num_running_reqs_offline_batch{model_name=\"m\"} 9\n"
      "sglang:time_to_first_token_seconds_sum 2\nsglang:time_to_first_token_seconds_count 4\n"
      "sglang:time_per_output_token_seconds_sum 1\nsglang:time_per_output_token_seconds_count 10\n";
  const auto metrics = parse_engine_metrics(text, Engine::sglang);
  CHECK(metrics.running == 5);
  CHECK(metrics.waiting == 6);
  CHECK(metrics.kv_usage == 0.75);
  CHECK(metrics.ttft->count == 4);
  CHECK(metrics.tpot->count == 10);
  CHECK_FALSE(vllm(text).running);
  CHECK_FALSE(parse_engine_metrics(busy, Engine::sglang).running);
}

TEST_CASE("data-parallel series are added up, KV use is the fullest rank's") {
  const auto metrics = vllm(
      "vllm:num_requests_running{engine=\"0\"} 3\nvllm:num_requests_running{engine=\"1\"} 4\n"
      "vllm:num_requests_waiting{engine=\"0\"} 0\nvllm:num_requests_waiting{engine=\"1\"} 10\n"
      "vllm:kv_cache_usage_perc{engine=\"0\"} 0.1\nvllm:kv_cache_usage_perc{engine=\"1\"} 0.9\n"
      "vllm:time_to_first_token_seconds_sum{engine=\"0\"} 1\nvllm:time_to_first_token_seconds_sum{engine=\"1\"} 2\n"
      "vllm:time_to_first_token_seconds_count{engine=\"0\"} 10\n"
      "vllm:time_to_first_token_seconds_count{engine=\"1\"} 20\n");
  CHECK(metrics.running == 7);
  CHECK(metrics.waiting == 10);
  CHECK(metrics.kv_usage == 0.9);
  CHECK(metrics.ttft->sum_seconds == 3);
  CHECK(metrics.ttft->count == 30);
}

TEST_CASE("a missing family is unknown, and KV use stays within 0 and 1") {
  const auto metrics = vllm(busy + "vllm:kv_cache_usage_perc 1.7\n");
  CHECK(metrics.kv_usage == 1.0);
  CHECK_FALSE(metrics.ttft);
  CHECK_FALSE(metrics.process_start);
  CHECK_FALSE(vllm("").running);
  CHECK_FALSE(vllm("vllm:num_requests_running 1").waiting);
}

TEST_CASE("lines in every permitted and broken form") {
  const auto running = [](const std::string& rest) { return vllm("vllm:num_requests_running" + rest).running; };
  CHECK(running(" 4") == 4);
  CHECK(running("\t4\t1700000000000") == 4);
  CHECK(running("{a=\"}\\\"{\",b=\"\\\\\"}  4 \r\n") == 4);
  CHECK(running("{} +4e0") == 4);
  CHECK(running("{a=\"b\"}4") == 4);
  CHECK(vllm("  vllm:num_requests_running 4\n").running == 4);
  for (const auto* broken : {"", " ", "{", "{a=\"", "{a=\"b\"}", " NaN", " +Inf", " -Inf", " -1", " 1e999", " 4x",
                             " x4", "_total 4", " 0x10"})
    CHECK_FALSE(running(broken));
  CHECK(vllm("vllm:num_requests_running{r=\"0\"} NaN\nvllm:num_requests_running{r=\"1\"} 2\n").running == 2);
}

TEST_CASE("a histogram with an unreadable part is unknown") {
  CHECK_FALSE(
      vllm("vllm:time_to_first_token_seconds_sum{r=\"0\"} NaN\nvllm:time_to_first_token_seconds_sum{r=\"1\"} 2\n"
           "vllm:time_to_first_token_seconds_count 4\n")
          .ttft);
  CHECK_FALSE(vllm("vllm:time_to_first_token_seconds_sum 2\n").ttft);
}

TEST_CASE("every cut of a text is read without harm") {
  const std::string text = busy + "vllm:kv_cache_usage_perc{a=\"b\\\"\"} 0.5 17\nprocess_start_time_seconds 12\n";
  for (std::size_t size = 0; size <= text.size(); ++size) {
    const std::string cut = text.substr(0, size);  // an exact allocation, so that the sanitizer sees one byte too far
    const auto metrics = vllm(cut);
    CHECK((!metrics.running || *metrics.running == 1));
    CHECK((!metrics.kv_usage || *metrics.kv_usage <= 0.5));
  }
}

TEST_CASE("histogram averages between scrapes") {
  const auto second = [](HistogramTotals first, HistogramTotals next) {
    LatencyAverage average;
    CHECK(average.next(first) == 0);
    return average.next(next);
  };
  CHECK(second({10, 5}, {18, 9}) == 2);
  CHECK(second({10, 5}, {10, 5}) == 0);
  CHECK(second({18, 9}, {9, 2}) == 4.5);
  CHECK(second({100, 10}, {15, 15}) == 1);
  CHECK(second({10, 5}, {0, 0}) == 0);
}

TEST_CASE("a sample needs running and waiting; latencies keep their last value") {
  SampleBuilder builder;
  CHECK_FALSE(builder.next(vllm("vllm:num_requests_running 1\n")));
  const auto with_ttft = [&](double sum, double count) {
    EngineMetrics metrics = vllm(busy);
    metrics.ttft = HistogramTotals{sum, count};
    return builder.next(metrics)->ttft_seconds;
  };
  CHECK(with_ttft(10, 5) == 0);
  CHECK(with_ttft(18, 9) == 2);
  CHECK(with_ttft(18, 9) == 2);
  const auto sample = builder.next(vllm(busy));
  REQUIRE(sample);
  CHECK(sample->running == 1);
  CHECK(sample->waiting == 2);
  CHECK(sample->ttft_seconds == 2);
  CHECK(sample->tpot_seconds == 0);
  CHECK(sample->kv_usage == 0.5);
}

TEST_CASE("the size of the KV cache: vLLM's is in labels, SGLang's a number; ranks add up") {
  const std::string line =
      "vllm:cache_config_info{block_size=\"16\",cache_dtype=\"auto\",engine=\"0\",num_gpu_blocks=\"27000\"} 1.0\n";
  CHECK(vllm(line).kv_tokens == 432000);
  CHECK(vllm(line + "vllm:cache_config_info{ num_gpu_blocks=\"10\", block_size=\"32\"} 1.0\n").kv_tokens == 432320);
  CHECK_FALSE(vllm("vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"None\"} 1.0\n").kv_tokens);
  CHECK_FALSE(vllm("vllm:cache_config_info{block_size=\"16\",num_gpu_blocks_override=\"9\"} 1.0\n").kv_tokens);
  CHECK_FALSE(vllm("vllm:cache_config_info{x=\",num_gpu_blocks=\\\"9\",block_size=\"16\"} 1.0\n").kv_tokens);
  CHECK_FALSE(vllm("vllm:cache_config_info{block_size=\"1e300\",num_gpu_blocks=\"9\"} 1.0\n").kv_tokens);
  CHECK_FALSE(vllm("vllm:cache_config_info 1.0\n").kv_tokens);
  CHECK_FALSE(vllm(busy).kv_tokens);
  const auto sglang = parse_engine_metrics(
      "sglang:max_total_num_tokens{dp_rank=\"0\"} 1000\n"
      "sglang:max_total_num_tokens{dp_rank=\"1\"} 500.0\n",
      Engine::sglang);
  CHECK(sglang.kv_tokens == 1500);
  const std::string pages = "sglang:cache_config_info{page_size=\"64\",num_pages=\"20\"} 1\n";
  CHECK(parse_engine_metrics(pages, Engine::sglang).kv_tokens == 1280);
  CHECK(parse_engine_metrics(pages + "sglang:max_total_num_tokens 1300\n", Engine::sglang).kv_tokens == 1300);
}

}  // namespace warmroute::scrape
