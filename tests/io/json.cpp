#include <dflash/io/json.hpp>

#include "io/crafted.hpp"

using namespace io_test;
using dflash::config_error;
using dflash::io_error;
using dflash::io::json_fields;
using dflash::io::json_value;
using dflash::io::parse_json;

namespace {

std::string refused(const std::string& text) {
    return message_of<io_error>([&] { static_cast<void>(parse_json(text, "some.json")); });
}

}  // namespace

TEST_CASE("values keep their kind") {
    const json_value v =
        parse_json(R"({"b": true, "a": [1, -2, 18446744073709551615, 1.5, 4.0, 1e3, null, "x", {}]})", "f");
    REQUIRE(v.as_object() != nullptr);
    CHECK(v.as_object()->front().key == "a");  // sorted
    CHECK(*v.find("b")->as_bool());
    CHECK(v.find("c") == nullptr);
    const json_value::list& a = *v.find("a")->as_list();
    REQUIRE(a.size() == 9);
    CHECK(a[0].as_integer() == 1);
    CHECK(a[1].as_integer() == -2);
    CHECK_FALSE(a[2].as_integer().has_value());  // does not fit
    CHECK_FALSE(a[3].as_integer().has_value());
    CHECK_FALSE(a[4].as_integer().has_value());  // not written as an integer
    CHECK_FALSE(a[5].as_integer().has_value());
    CHECK(a[5].as_number() == 1000.0);
    CHECK(a[0].as_number() == 1.0);
    CHECK(a[2].as_number() == 18446744073709551616.0);
    CHECK(a[6].is_null());
    CHECK(*a[7].as_string() == "x");
    CHECK(a[4].text() == "4.0");
    CHECK(a[3].text() == "1.5");
    CHECK(a[8].text() == "an object");
}

TEST_CASE("a duplicate key is refused at every depth") {
    CHECK(contains(refused(R"({"a": 1, "b": 2, "a": 1})"), "some.json: the key \"a\" occurs twice"));
    CHECK(contains(refused(R"([{"x": {"k": 1, "k": 2}}])"), "\"k\" occurs twice"));
    CHECK(contains(refused("{\"a\": 1, \"\\u0061\": 2}"), "\"a\" occurs twice"));  // the same key, spelt differently
}

TEST_CASE("nesting is limited") {
    const auto nested = [](int depth) {
        return std::string(static_cast<std::size_t>(depth), '[') + std::string(static_cast<std::size_t>(depth), ']');
    };
    CHECK(parse_json(nested(64), "f").as_list() != nullptr);
    CHECK(contains(refused(nested(65)), "nested deeper than 64"));
    CHECK(contains(refused(std::string(1000000, '[')), "nested deeper than 64"));
    std::string objects;
    for (int i = 0; i < 65; ++i) {
        objects += "{\"a\":";
    }
    CHECK(contains(refused(objects), "nested deeper than 64"));
}

TEST_CASE("what is not exactly one JSON value is refused") {
    for (const char* text :
         {"",    " ",        "{", "}",  "{\"a\"}", "{\"a\":}", "[1,]",    "{} {}",     "{}x",    "[1] 2", "nul",
          "NaN", "Infinity", "-", "01", "1.",      "'a'",      "// x\n1", "/* x */ 1", "{a: 1}", "\"a",   "\"\n\""}) {
        CAPTURE(text);
        CHECK(contains(refused(text), "some.json: invalid JSON at byte"));
    }
    CHECK(contains(refused("1e999"), "out of range"));
    // A parser that takes NUL for the end would accept these.
    CHECK(contains(refused(std::string("{}\0garbage", 10)), "NUL byte at byte 2"));
    CHECK(contains(refused(std::string("{}\0", 3)), "NUL byte"));
}

TEST_CASE("text must be UTF-8") {
    CHECK(*parse_json("\"\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80\"", "f").as_string() ==
          "\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80");
    for (const char* text : {"\"\xFF\"", "\"\xC3\"", "\"\xC0\xAF\"", "\"\xED\xA0\x80\"", "\"\xF5\x80\x80\x80\"",
                             "\"\\ud800\"", "{\"\xFE\": 1}"}) {
        CAPTURE(text);
        CHECK(contains(refused(text), "invalid JSON"));
    }
}

TEST_CASE("fields name file and key and refuse other kinds and ranges") {
    const json_value v = parse_json(
        R"({"n": 5, "neg": -1, "frac": 1.5, "whole": 4.0, "huge": 1e30, "big": 9223372036854775808, "s": "t\n",
            "nil": null, "list": [1, 2.5], "ints": [3, 1, 3], "deep": {"x": "y"}, "yes": true})",
        "f");
    const json_fields fields("dir/config.json", v);
    CHECK(fields.require_index("n", 0, 10) == 5);
    CHECK_FALSE(fields.optional_index("none", 0, 10).has_value());
    CHECK_FALSE(fields.optional_index("nil", 0, 10).has_value());  // null counts as absent
    const auto size = [&](const char* key) {
        return message_of<config_error>([&] { static_cast<void>(fields.require_index(key, 1, 100)); });
    };
    CHECK(size("neg") == "dir/config.json: neg: got -1, needs an integer in 1 .. 100");
    CHECK(size("frac") == "dir/config.json: frac: got 1.5, needs an integer in 1 .. 100");
    CHECK(size("whole") == "dir/config.json: whole: got 4.0, needs an integer in 1 .. 100");
    CHECK(size("huge") == "dir/config.json: huge: got 1e+30, needs an integer in 1 .. 100");
    CHECK(size("big") == "dir/config.json: big: got 9223372036854775808, needs an integer in 1 .. 100");
    CHECK(size("s") == "dir/config.json: s: got \"t?\", needs an integer in 1 .. 100");
    CHECK(size("yes") == "dir/config.json: yes: got true, needs an integer in 1 .. 100");
    CHECK(size("none") == "dir/config.json: none: missing, needs an integer in 1 .. 100");
    CHECK(size("nil") == "dir/config.json: nil: missing, needs an integer in 1 .. 100");
    CHECK(size("deep") == "dir/config.json: deep: got an object, needs an integer in 1 .. 100");
    CHECK(size("list") == "dir/config.json: list: got a list of 2, needs an integer in 1 .. 100");

    CHECK(fields.require_number("frac") == 1.5);
    CHECK(fields.require_number("n") == 5.0);
    CHECK(contains(message_of<config_error>([&] { static_cast<void>(fields.require_number("s")); }), "needs a number"));
    CHECK(contains(message_of<config_error>([&] { static_cast<void>(fields.optional_bool("n")); }),
                   "n: got 5, needs true or false"));
    CHECK(contains(message_of<config_error>([&] { static_cast<void>(fields.optional_string("n")); }),
                   "n: got 5, needs a string"));
    CHECK(*fields.optional_index_list("ints", 0, 9) == std::vector<dflash::index>{3, 1, 3});
    CHECK(contains(message_of<config_error>([&] { static_cast<void>(fields.optional_index_list("list", 0, 9)); }),
                   "list[1]: got 2.5"));
    CHECK(contains(message_of<config_error>([&] { static_cast<void>(fields.optional_index_list("n", 0, 9)); }),
                   "n: got 5, needs a list"));
    const json_fields deep = *fields.optional_object("deep");
    CHECK(contains(message_of<config_error>([&] { static_cast<void>(deep.require_number("x")); }),
                   "dir/config.json: deep.x: got \"y\""));
    CHECK(contains(message_of<config_error>([&] { static_cast<void>(fields.optional_object("n")); }),
                   "dir/config.json: n: got 5, needs an object"));
    CHECK(contains(message_of<config_error>([&] { deep.allow_only({"z"}, "why"); }),
                   "deep: the key \"x\" is not supported; why"));
    CHECK(contains(message_of<config_error>([&] { json_fields("f", *v.find("ints")); }), "f: got a list of 3"));
}

TEST_CASE("text from a file cannot flood or disguise a message") {
    CHECK(dflash::io::in_quotes("a\x1b[31m\r\n") == "\"a?[31m??\"");
    const std::string shown = dflash::io::in_quotes(std::string(119, 'a') + "\xE2\x82\xAC" + std::string(100000, 'b'));
    CHECK(shown == "\"" + std::string(119, 'a') + "...\"");  // not cut inside a character
    CHECK(dflash::io::number_text(10000.0) == "10000");
    CHECK(dflash::io::number_text(0.1) == "0.1");
}

TEST_CASE("only regular, readable files are read") {
    const temp_folder folder;
    CHECK(contains(message_of<io_error>([&] { static_cast<void>(dflash::io::read_json(folder.path() / "none.json")); }),
                   "none.json: no such file"));
    CHECK(contains(message_of<io_error>([&] { static_cast<void>(dflash::io::read_json(folder.path())); }),
                   "not a regular file"));
    CHECK(dflash::io::read_json(folder.write("a.json", "[1]")).as_list() != nullptr);
    const auto file = folder.write("b.txt", "12345");
    CHECK(dflash::io::read_text(file, 5) == "12345");
    CHECK(contains(message_of<io_error>([&] { static_cast<void>(dflash::io::read_text(file, 4)); }),
                   "b.txt: 5 bytes, the limit is 4"));
}
