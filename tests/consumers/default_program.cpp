// A user's program that takes the backend chosen when the library was configured.
#include <dflash/default_backend.hpp>
#include <dflash/vocabulary.hpp>

int main() {
    return sizeof(dflash::default_backend) > 0 ? 0 : 1;
}
