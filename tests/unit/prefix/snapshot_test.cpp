#include "prefix/snapshot.hpp"

#include <catch2/catch.hpp>
#include <string>

namespace warmroute::test {
namespace {

using prefix::decode_snapshot;
using prefix::encode_snapshot;
using prefix::Snapshot;

Snapshot sample() {
  Snapshot made;
  made.block_bytes = 64;
  made.tools_hashed = false;
  made.seed = 0x0123456789abcdefU;
  made.written_at = 1'700'000'000;
  made.models = {"base", "", "adapter"};
  made.pods = {{"ns/a|uid|start", {{1, 0}, {0xffffffffffffffffU, 2}}}, {"ns/b", {}}};
  return made;
}

TEST_CASE("a snapshot comes back as it was") {
  const auto back = decode_snapshot(encode_snapshot(sample()));
  REQUIRE(back.has_value());
  CHECK(back->block_bytes == 64);
  CHECK_FALSE(back->tools_hashed);
  CHECK(back->seed == sample().seed);
  CHECK(back->written_at == 1'700'000'000);
  CHECK(back->models == sample().models);
  REQUIRE(back->pods.size() == 2);
  CHECK(back->pods[0].incarnation == "ns/a|uid|start");
  CHECK(back->pods[0].blocks == sample().pods[0].blocks);
  CHECK(back->pods[1].blocks.empty());
  CHECK(decode_snapshot(encode_snapshot(Snapshot())).has_value());
}

TEST_CASE("every single changed byte and every shorter length is noticed") {
  const std::string good = encode_snapshot(sample());
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    CHECK(decode_snapshot(bad).has_error());
    CHECK(decode_snapshot(good.substr(0, i)).has_error());
  }
  CHECK(decode_snapshot(good + "x").has_error());
}

TEST_CASE("an entry of an unknown model is an error") {
  Snapshot bad = sample();
  bad.pods[0].blocks[1].model = 3;
  CHECK(decode_snapshot(encode_snapshot(bad)).error().detail == "malformed behind a right checksum");
}

}  // namespace
}  // namespace warmroute::test
