// The version of the library, as numbers a preprocessor can compare. CMakeLists.txt reads them from here.
#pragma once

#define DFLASH_VERSION_MAJOR 0
#define DFLASH_VERSION_MINOR 1
#define DFLASH_VERSION_PATCH 0
