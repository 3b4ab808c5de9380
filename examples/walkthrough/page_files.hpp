// The files of page/ inside the program; embed.cmake writes their contents at build time.
#pragma once

#include <string_view>

#include <dflash/config.hpp>

DFLASH_BEGIN_NAMESPACE
namespace walkthrough::page_files {

extern const std::string_view page_html;
extern const std::string_view page_css;
extern const std::string_view page_js;
extern const std::string_view rounds_js;
extern const std::string_view lesson_js;
extern const std::string_view attention_js;
extern const std::string_view run_js;

}  // namespace walkthrough::page_files
DFLASH_END_NAMESPACE
