#include <iostream>

#include "options.hpp"
#include "server.hpp"

int main(int argc, char** argv) {
  warmroute::mock::Options options;
  std::string text;
  int code = 0;
  if (!warmroute::mock::parse_options(argc, argv, options, text, code)) {
    (code == 0 ? std::cout : std::cerr) << text;
    return code;
  }
  return warmroute::mock::run(std::move(options));
}
