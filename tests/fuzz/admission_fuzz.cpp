// Arbitrary bytes as an AdmissionReview: always an answer, and one that is a review again gives the same answer.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "webhook/admission.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace warmroute::webhook;
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  for (const char* path : {"/validate/modelroute", "/validate/modelserver", "/validate/externalmodelprovider"}) {
    const Answer first = review(path, "application/json", body);
    if (first.status != 200 && first.status != 400) std::abort();
    if (first.status == 200 && review(path, "application/json", first.body).body != first.body) std::abort();
  }
  return 0;
}
