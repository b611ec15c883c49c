#include "base/base64.hpp"

#include <catch2/catch.hpp>

namespace warmroute::base {

TEST_CASE("base64 is read and written as RFC 4648 says") {
  for (const auto& [plain, coded] : {std::pair<std::string, std::string>{"", ""},
                                     {"f", "Zg=="},
                                     {"fo", "Zm8="},
                                     {"foo", "Zm9v"},
                                     {"foob", "Zm9vYg=="},
                                     {std::string("\0\xff\xfe", 3), "AP/+"}}) {
    CHECK(base64_encode(plain) == coded);
    CHECK(base64_decode(coded) == plain);
  }
  CHECK(base64_decode("Zm9v\nYg==\n") == "foob");
  CHECK(base64_decode("Zg") == "f");
  for (const char* wrong : {"Z", "Zm9v!", "Zg=", "Zg==Zg==", "====", "Z==="}) CHECK_FALSE(base64_decode(wrong));
}

}  // namespace warmroute::base
