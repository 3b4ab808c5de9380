// A page as the browser holds it after it was drawn, read back from what `chromium --dump-dom` prints. That is regular:
// every element is closed, every attribute quoted.
#pragma once

#include <cctype>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace dflash_test {

/// An element, or a text when `tag` is empty.
struct dom_node {
    std::string tag;
    std::map<std::string, std::string> attributes;
    std::string text;
    std::vector<std::unique_ptr<dom_node>> children;

    [[nodiscard]] std::string attribute(const std::string& name) const {
        const auto found = attributes.find(name);
        return found == attributes.end() ? std::string() : found->second;
    }
    [[nodiscard]] bool has_class(std::string_view name) const {
        return (' ' + attribute("class") + ' ').find(' ' + std::string(name) + ' ') != std::string::npos;
    }
    /// All text inside, each run of blanks as one, none at the ends.
    [[nodiscard]] std::string words() const {
        std::string out;
        for (const char c : all_text()) {
            const bool blank = std::isspace(static_cast<unsigned char>(c)) != 0;
            if (!blank || (!out.empty() && out.back() != ' ')) {
                out += blank ? ' ' : c;
            }
        }
        while (!out.empty() && out.back() == ' ') {
            out.pop_back();
        }
        return out;
    }
    [[nodiscard]] std::string all_text() const {
        std::string out = text;
        for (const auto& child : children) {
            out += child->all_text();
        }
        return out;
    }

    using condition = std::function<bool(const dom_node&)>;
    [[nodiscard]] std::vector<const dom_node*> all(const condition& wanted) const {
        std::vector<const dom_node*> out;
        collect(wanted, out);
        return out;
    }
    [[nodiscard]] std::vector<const dom_node*> all(std::string_view name) const {
        return all([name](const dom_node& node) { return node.tag == name; });
    }
    [[nodiscard]] std::vector<const dom_node*> with(const std::string& name, const std::string& value) const {
        return all([&](const dom_node& node) {
            const auto found = node.attributes.find(name);
            return found != node.attributes.end() && found->second == value;
        });
    }

private:
    void collect(const condition& wanted, std::vector<const dom_node*>& out) const {
        if (!tag.empty() && wanted(*this)) {
            out.push_back(this);
        }
        for (const auto& child : children) {
            child->collect(wanted, out);
        }
    }
};

class dom_reader {
public:
    explicit dom_reader(std::string_view html) : html_(html) {}

    [[nodiscard]] std::unique_ptr<dom_node> read() {
        auto root = std::make_unique<dom_node>();
        root->tag = "document";
        children_of(*root);
        return root;
    }

private:
    void children_of(dom_node& parent) {
        while (at_ < html_.size()) {
            if (html_.substr(at_, 2) == "</") {
                take_through('>');
                return;
            }
            if (html_.substr(at_, 4) == "<!--") {
                at_ = (std::min)(html_.find("-->", at_), html_.size() - 3) + 3;
            } else if (html_.substr(at_, 2) == "<!") {
                take_through('>');
            } else if (html_[at_] == '<') {
                parent.children.push_back(element());
            } else {
                parent.children.push_back(text(html_.find('<', at_)));
            }
        }
    }

    std::unique_ptr<dom_node> element() {
        auto node = std::make_unique<dom_node>();
        ++at_;
        node->tag = take_name();
        while (at_ < html_.size() && html_[at_] != '>') {
            if (html_[at_] == ' ' || html_[at_] == '/' || html_[at_] == '\n') {
                ++at_;
                continue;
            }
            const std::string name = take_name();
            std::string value;
            if (html_.substr(at_, 2) == "=\"") {
                at_ += 2;
                const std::size_t end = html_.find('"', at_);
                value = decoded(html_.substr(at_, end - at_));
                at_ = end + 1;
            }
            node->attributes[name] = value;
        }
        ++at_;
        for (const char* empty : {"meta", "br", "col", "img", "link", "input", "base", "source", "embed"}) {
            if (node->tag == empty) {
                return node;
            }
        }
        for (const char* raw : {"script", "style", "noscript"}) {
            if (node->tag == raw) {
                const std::size_t end = html_.find("</" + node->tag + '>', at_);
                node->text = html_.substr(at_, end - at_);
                at_ = end;
                take_through('>');
                return node;
            }
        }
        children_of(*node);
        return node;
    }

    std::unique_ptr<dom_node> text(std::size_t end) {
        auto node = std::make_unique<dom_node>();
        end = (std::min)(end, html_.size());
        node->text = decoded(html_.substr(at_, end - at_));
        at_ = end;
        return node;
    }

    std::string take_name() {
        const std::size_t end = html_.find_first_of(" =>/\n", at_);
        if (end == std::string_view::npos || end == at_) {
            throw std::runtime_error("dom: no name at byte " + std::to_string(at_));
        }
        const std::string name(html_.substr(at_, end - at_));
        at_ = end;
        return name;
    }

    void take_through(char last) { at_ = (std::min)(html_.find(last, at_), html_.size() - 1) + 1; }

    static std::string decoded(std::string_view text) {
        static const std::map<std::string_view, std::string_view> named = {
            {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&nbsp;", "\xC2\xA0"}, {"&amp;", "&"}};
        std::string out;
        for (std::size_t i = 0; i < text.size();) {
            const std::size_t end = text[i] == '&' ? text.find(';', i) : std::string_view::npos;
            const auto found = end == std::string_view::npos ? named.end() : named.find(text.substr(i, end + 1 - i));
            out += found == named.end() ? text.substr(i, 1) : found->second;
            i += found == named.end() ? 1 : found->first.size();
        }
        return out;
    }

    std::string_view html_;
    std::size_t at_ = 0;
};

}  // namespace dflash_test
