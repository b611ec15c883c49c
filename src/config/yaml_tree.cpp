#include "config/yaml_tree.hpp"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <sstream>
#include <unordered_map>
#include <utility>

namespace warmroute::config::detail {
namespace {

using Kind = YamlNode::Kind;

/// Leaves yaml-cpp's parser; caught in build_yaml_tree.
struct Fault {
  int line = 0, column = 0;
  std::string message;
};

class TreeBuilder final : public YAML::EventHandler {
 public:
  explicit TreeBuilder(YamlContext& context) : context_(context) {}

  [[nodiscard]] YamlRaw* take_root() { return std::exchange(root_, nullptr); }

  void OnDocumentStart(const YAML::Mark&) override {
    anchors_.clear();
    frames_.clear();
    root_ = nullptr;
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    YamlRaw& node = make(mark, Kind::null, anchor);
    node.complete = true;
    attach(node, mark);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) throw fault(mark, "unknown anchor");
    if (!found->second->complete) throw fault(mark, "an anchor contains itself");
    found->second->aliased = true;
    attach(*found->second, mark);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    YamlRaw& node = make(mark, Kind::scalar, anchor);
    // yaml-cpp's own tags: `?` for plain, `!` for quoted. An explicit !!int or !!float resolves quoted text, too.
    node.plain = tag == "?" || tag.empty() ||
                 (tag.starts_with("tag:yaml.org,2002:") && !tag.ends_with(":str") && !tag.ends_with(":binary") &&
                  !tag.ends_with(":timestamp"));
    node.text = value;
    if (node.plain && (value.empty() || value == "~" || value == "null" || value == "Null" || value == "NULL")) {
      node.kind = Kind::null;
    }
    node.complete = true;
    attach(node, mark);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    push(make(mark, Kind::list, anchor), mark);
  }
  void OnSequenceEnd() override { pop(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    push(make(mark, Kind::map, anchor), mark);
  }
  void OnMapEnd() override {
    finish_map(*frames_.back().node);
    pop();
  }

 private:
  struct Frame {
    YamlRaw* node;
    bool has_key = false;
    YamlRaw::Entry pending;
  };

  static Fault fault(const YAML::Mark& mark, std::string message) {
    return Fault{mark.line + 1, mark.column + 1, std::move(message)};
  }

  void count_nodes(const YAML::Mark& mark, std::size_t amount) {
    context_.node_count += amount;
    if (context_.node_count > context_.limits.nodes) throw fault(mark, "too many values in one file");
  }

  YamlRaw& make(const YAML::Mark& mark, Kind kind, YAML::anchor_t anchor) {
    count_nodes(mark, 1);
    YamlRaw& node = context_.nodes.emplace_back();
    node.kind = kind;
    node.line = mark.line + 1;
    node.column = mark.column + 1;
    if (anchor != 0) anchors_[anchor] = &node;
    return node;
  }

  void push(YamlRaw& node, const YAML::Mark& mark) {
    if (!frames_.empty() && frames_.back().node->kind == Kind::map && !frames_.back().has_key) {
      throw fault(mark, "a key must be a scalar");
    }
    if (frames_.size() >= static_cast<std::size_t>(context_.limits.depth)) throw fault(mark, "nested too deep");
    frames_.push_back(Frame{&node, false, {}});
  }

  void pop() {
    YamlRaw& node = *frames_.back().node;
    frames_.pop_back();
    node.complete = true;
    attach(node, YAML::Mark());
  }

  /// A finished node goes where the parser stands: a list item, a key, a value or the root.
  void attach(YamlRaw& node, const YAML::Mark& mark) {
    if (frames_.empty()) {
      root_ = &node;
      return;
    }
    Frame& frame = frames_.back();
    YamlRaw& parent = *frame.node;
    if (parent.kind == Kind::map && !frame.has_key) {
      if (node.kind != Kind::scalar && node.kind != Kind::null) throw fault(mark, "a key must be a scalar");
      frame.pending = YamlRaw::Entry{node.text, mark.line + 1, mark.column + 1, nullptr, 0, false};
      if (node.kind == Kind::null && node.text.empty()) frame.pending.key = "null";
      frame.has_key = true;
      frame.pending.merge = node.plain && node.text == "<<";
      return;
    }
    // The height is bounded with aliases counted in: a chain of them nests deeper than the text does.
    parent.height = std::max(parent.height, node.height + 1);
    if (parent.height > context_.limits.depth) {
      throw Fault{node.line, node.column, "nested too deep"};
    }
    if (parent.kind == Kind::list) {
      parent.items.push_back(&node);
      return;
    }
    frame.has_key = false;
    if (node.kind == Kind::null && node.line != frame.pending.line && !node.aliased) {
      // A value that is not there stands where the next token is; its key says more.
      node.line = frame.pending.line;
      node.column = frame.pending.column;
    }
    frame.pending.value = &node;
    frame.pending.read_flag = context_.read.size();
    context_.read.push_back(false);
    parent.entries.push_back(std::move(frame.pending));
  }

  void finish_map(YamlRaw& map) {
    std::unordered_map<std::string_view, std::size_t> seen;
    for (std::size_t i = 0; i < map.entries.size(); ++i) {
      const YamlRaw::Entry& entry = map.entries[i];
      if (const auto [at, inserted] = seen.emplace(entry.key, i); !inserted) {
        map.duplicates.push_back({entry.key, entry.line, entry.column, map.entries[at->second].line});
      }
    }
    std::vector<YamlRaw::Entry> merged;
    std::vector<YamlRaw::Entry> own;
    for (const YamlRaw::Entry& entry : map.entries) {
      if (entry.merge) {
        collect_merge(entry, merged);
        context_.read[entry.read_flag] = true;
      } else {
        own.push_back(entry);
      }
    }
    if (own.size() == map.entries.size()) return;
    std::unordered_map<std::string, std::size_t> taken;  // key -> its read flag
    for (const YamlRaw::Entry& entry : own) taken.emplace(entry.key, entry.read_flag);
    for (YamlRaw::Entry& entry : merged) {
      const auto [at, inserted] = taken.emplace(entry.key, entry.read_flag);
      if (inserted) {
        own.push_back(std::move(entry));
      } else {
        context_.shadowed.emplace_back(entry.read_flag, at->second);
      }
    }
    map.entries = std::move(own);
  }

  void collect_merge(const YamlRaw::Entry& entry, std::vector<YamlRaw::Entry>& merged) {
    const auto add = [&](const YamlRaw& source) {
      if (source.kind != Kind::map) {
        throw Fault{entry.line, entry.column, "a merge key (<<) needs a mapping or a list of mappings"};
      }
      YAML::Mark mark;
      mark.line = entry.line - 1;
      mark.column = entry.column - 1;
      count_nodes(mark, source.entries.size());
      merged.insert(merged.end(), source.entries.begin(), source.entries.end());
    };
    if (entry.value->kind == Kind::list) {
      for (const YamlRaw* item : entry.value->items) add(*item);
    } else {
      add(*entry.value);
    }
  }

  YamlContext& context_;
  std::vector<Frame> frames_;
  std::unordered_map<YAML::anchor_t, YamlRaw*> anchors_;
  YamlRaw* root_ = nullptr;
};

/// Line (from 1) of the first byte that is not UTF-8 or is a control character YAML forbids; 0: none.
int first_bad_line(std::string_view text) noexcept {
  int line = 1;
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    std::size_t length = 1;
    std::uint32_t point = lead;
    if (lead >= 0x80) {
      length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
      if (lead < 0xC2 || lead > 0xF4 || i + length > text.size()) return line;
      point = lead & (0xFFU >> (length + 1));
      for (std::size_t k = 1; k < length; ++k) {
        const auto next = static_cast<unsigned char>(text[i + k]);
        if ((next & 0xC0U) != 0x80) return line;
        point = (point << 6U) | (next & 0x3FU);
      }
      const bool overlong = (length == 3 && point < 0x800) || (length == 4 && point < 0x10000);
      if (overlong || point > 0x10FFFF || (point >= 0xD800 && point <= 0xDFFF)) return line;
    } else if ((lead < 0x20 && lead != '\t' && lead != '\n' && lead != '\r') || lead == 0x7F) {
      return line;
    }
    if (lead == '\n') ++line;
    i += length;
  }
  return 0;
}

}  // namespace

std::vector<YamlRaw*> build_yaml_tree(std::string_view text, YamlContext& context, bool& valid) {
  using Severity = Diagnostic::Severity;
  valid = false;
  std::vector<YamlRaw*> roots;
  if (text.size() > context.limits.text_bytes) {
    context.report(Severity::error, 0, 0, {}, "larger than " + std::to_string(context.limits.text_bytes) + " bytes");
    return roots;
  }
  if (const int line = first_bad_line(text); line != 0) {
    context.report(Severity::error, line, 0, {}, "not UTF-8, or a control character");
    return roots;
  }
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    TreeBuilder builder(context);
    std::size_t documents = 0;
    while (parser.HandleNextDocument(builder)) {
      YamlRaw* root = builder.take_root();
      // yaml-cpp 0.7 gives empty documents for ever at some wrong places, such as a comma behind a value.
      if (++documents > text.size())
        throw Fault{root == nullptr ? 0 : root->line, root == nullptr ? 0 : root->column, "text outside of a document"};
      if (context.limits.first_document_only && !roots.empty()) {
        context.report(Severity::warning, root == nullptr ? 0 : root->line, 0, {},
                       "only the first document is read, this one is not");
        break;
      }
      if (root != nullptr) roots.push_back(root);
    }
    valid = true;
  } catch (const Fault& fault) {
    context.report(Severity::error, fault.line, fault.column, {}, fault.message);
  } catch (const YAML::Exception& exception) {
    const bool placed = !exception.mark.is_null();
    context.report(Severity::error, placed ? exception.mark.line + 1 : 0, placed ? exception.mark.column + 1 : 0, {},
                   exception.msg);
  } catch (const std::exception& exception) {
    context.report(Severity::error, 0, 0, {}, exception.what());
  }
  if (!valid && context.limits.first_document_only && !roots.empty()) {
    // As the Go reader does: what follows the first document is not looked at.
    context.diagnostics->back().severity = Severity::warning;
    valid = true;
  }
  return roots;
}

}  // namespace warmroute::config::detail
