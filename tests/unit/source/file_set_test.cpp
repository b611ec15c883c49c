#include "source/file_set.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "source/files.hpp"
#include "source/static_pods.hpp"
#include "unit/source/temp_folder.hpp"

namespace config = warmroute::config;
namespace model = warmroute::model;
namespace source = warmroute::source;
namespace fs = std::filesystem;
using warmroute::test::TempFolder;

namespace {

std::string pod(const std::string& name, const std::string& ip = "10.0.0.1") {
  return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + "}\nstatus: {podIP: " + ip + "}\n";
}

std::vector<std::string> names(const source::FileSet& set) {
  std::vector<std::string> result;
  for (const auto& file : set.files) result.push_back(fs::path(file.name).filename().string());
  return result;
}

}  // namespace

TEST_CASE("a folder: sorted, *.yaml and *.yml, not hidden, through links", "[files]") {
  const TempFolder folder;
  folder.write("b.yaml", pod("b"));
  folder.write("a.yml", pod("a"));
  folder.write(".hidden.yaml", "wrong: [");
  folder.write("notes.txt", "wrong: [");
  folder.write("c.yaml~", "wrong: [");
  fs::create_directory(folder.path() / "sub.yaml");
  fs::create_directory(folder.path() / "..2026");
  folder.write("..2026/m.yaml", pod("m"));
  fs::create_directory_symlink("..2026", folder.path() / "..data");
  fs::create_symlink("..data/m.yaml", folder.path() / "m.yaml");

  const auto set = source::read_file_set(folder.path().string());
  CHECK(set.error.empty());
  CHECK(names(set) == std::vector<std::string>{"a.yml", "b.yaml", "m.yaml"});
  const auto parsed = source::parse_file_set(set, folder.path().string());
  CHECK(parsed.diagnostics.empty());
  REQUIRE(parsed.documents.pods.size() == 3);
  CHECK(parsed.documents.pods[0].meta.position < parsed.documents.pods[1].meta.position);
  CHECK(parsed.documents.pods[1].meta.position < parsed.documents.pods[2].meta.position);
}

TEST_CASE("what cannot be read is an error with its file", "[files]") {
  const TempFolder folder;
  const std::string missing = (folder.path() / "none.yaml").string();
  auto found = source::check_resources(missing);
  REQUIRE(found.size() == 1);
  CHECK(found[0].text() == missing + ": cannot be read: No such file or directory");
  CHECK(config::has_errors(found));

  fs::create_symlink("nowhere", folder.path() / "link.yaml");
  found = source::check_resources(folder.path().string());
  REQUIRE(found.size() == 1);
  CHECK(found[0].file == (folder.path() / "link.yaml").string());

  found = source::check_resources("/dev/null");
  REQUIRE(found.size() == 1);
  CHECK_THAT(found[0].text(), Catch::EndsWith("not a regular file"));
}

TEST_CASE("an empty folder is a warning, an empty file nothing", "[files]") {
  const TempFolder folder;
  auto found = source::check_resources(folder.path().string());
  REQUIRE(found.size() == 1);
  CHECK_FALSE(config::has_errors(found));
  folder.write("a.yaml", "");
  CHECK(source::check_resources(folder.path().string()).empty());
}

TEST_CASE("one wrong file spoils the whole set; equal names in two files are a warning", "[files]") {
  const TempFolder folder;
  folder.write("a.yaml", pod("a"));
  folder.write("b.yaml", pod("b", "nonsense"));
  auto parsed = source::parse_file_set(source::read_file_set(folder.path().string()), "");
  CHECK(config::has_errors(parsed.diagnostics));
  CHECK(parsed.documents.pods.empty());

  folder.write("b.yaml", pod("a", "10.0.0.2"));
  parsed = source::parse_file_set(source::read_file_set(folder.path().string()), "");
  REQUIRE(parsed.diagnostics.size() == 1);
  CHECK(parsed.diagnostics[0].file == (folder.path() / "b.yaml").string());
  CHECK_THAT(parsed.diagnostics[0].message, Catch::StartsWith("Pod default/a is also defined in "));
  CHECK(parsed.documents.pods.size() == 2);
}

TEST_CASE("the example in config/ is clean", "[files]") {
  const std::string example = WR_SOURCE_DIR "/config/resources.example.yaml";
  const auto parsed = source::parse_file_set(source::read_file_set(example), example);
  for (const auto& each : parsed.diagnostics) UNSCOPED_INFO(each.text());
  CHECK(parsed.diagnostics.empty());
  CHECK(parsed.documents.routes.size() == 1);
  CHECK(parsed.documents.servers.size() == 1);
  CHECK(parsed.documents.static_pods.size() == 1);
}

TEST_CASE("static pods: names and addresses", "[files]") {
  config::StaticPods document;
  document.meta.name = "box";
  document.meta.ns = "team";
  document.labels = {{"app", "x"}};
  document.endpoints = {{"10.0.0.5", 8000, true},
                        {"2001:db8::1", 80, true},
                        {"Engine_a.local.", 9000, false},
                        {"two.local", 9000, false},
                        {"gone.local", 9000, false}};
  std::vector<model::Pod> pods;
  source::append_static_pods(
      document, {{"Engine_a.local.", {"10.0.0.7"}}, {"two.local", {"10.0.0.8", "2001:db8::2"}}, {"gone.local", {}}},
      pods);
  std::vector<std::string> got;
  for (const auto& each : pods) {
    got.push_back(each.meta.key() + " " + each.ip + " " + std::to_string(each.port.value_or(0)) +
                  (each.ready ? "" : " down"));
    CHECK(each.is_static);
    CHECK(each.meta.labels.at("app") == "x");
  }
  CHECK(got == std::vector<std::string>{
                   "team/box-10.0.0.5-8000 10.0.0.5 8000", "team/box-2001-db8--1-80 2001:db8::1 80",
                   "team/box-engine-a.local-9000 10.0.0.7 9000", "team/box-two.local-9000-10.0.0.8 10.0.0.8 9000",
                   "team/box-two.local-9000-2001-db8--2 2001:db8::2 9000", "team/box-gone.local-9000  9000 down"});
}
