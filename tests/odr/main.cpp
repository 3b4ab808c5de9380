// Calls the two parts, each of which has all headers inside, and catches what they raise by its type.
#include <dflash/contracts.hpp>

void first_part(int fail);
void second_part(int fail);

int main() {
    int caught = 0;
    for (const auto part : {first_part, second_part}) {
        part(0);
        try {
            part(1);
        } catch (const dflash::config_error&) {
            ++caught;
        }
    }
    return caught == 2 ? 0 : 1;
}
