#pragma once
// Objects, lists and streams of an API server, as text.

#include <string>
#include <vector>

namespace warmroute::test {

inline std::string pod_json(const std::string& name, int version, const std::string& ip = "10.0.0.1",
                            const std::string& uid = "u1", bool ready = true, const std::string& app = "a") {
  return R"({"kind":"Pod","metadata":{"namespace":"ns","name":")" + name + R"(","uid":")" + uid +
         R"(","resourceVersion":")" + std::to_string(version) + R"(","labels":{"app":")" + app +
         R"("},"managedFields":[{"manager":"kubelet"}]},"spec":{"containers":[{"name":"e"}]},)"
         R"("status":{"phase":"Running","podIP":")" +
         ip + R"(","conditions":[{"type":"Ready","status":")" + (ready ? "True" : "False") + R"("}]}})";
}

inline std::string list_json(int version, const std::vector<std::string>& items, const std::string& next = "") {
  std::string text = R"({"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":")" +
                     std::to_string(version) + R"(","continue":")" + next + R"("},"items":[)";
  for (std::size_t i = 0; i < items.size(); ++i) text += (i == 0 ? "" : ",") + items[i];
  return text + "]}";
}

inline std::string event_json(const std::string& type, const std::string& object) {
  return R"({"type":")" + type + R"(","object":)" + object + "}\n";
}

inline std::string bookmark_json(int version) {
  return event_json("BOOKMARK",
                    R"({"kind":"Pod","metadata":{"resourceVersion":")" + std::to_string(version) + R"("}})");
}

inline std::string status_json(int code, const std::string& reason) {
  return R"({"kind":"Status","code":)" + std::to_string(code) + R"(,"reason":")" + reason + R"(","message":"m"})";
}

}  // namespace warmroute::test
