// How much of the processors other programs use, and waiting until they use little.
//
// Threads that share a core with a compiler wait for it at every barrier, and then all contenders look alike. Rounds
// say how quiet they were; programs wait a while for quiet, but not for ever.
#pragma once

namespace dflash::bench {

class neighbours {
public:
    /// `patience`: seconds that wait() may use up, all calls together.
    explicit neighbours(double patience);

    /// The share (0 .. 1) of all processors that was used by others since the last call, or since construction.
    /// Children of this process are not others; stolen time is. 0 where the system does not say.
    [[nodiscard]] double share();

    /// Calls round() when others use less than a tenth, and again when they did not keep to it, until patience is at
    /// its end. Returns the share that others used during the last call.
    template <class Round>
    double undisturbed(Round round) {
        for (;;) {
            wait();
            const double start = last_.wall;
            round();
            const double used = share();
            if (used < quiet || patience_ <= 0) {
                return used;
            }
            patience_ -= last_.wall - start;
        }
    }

private:
    struct sample {
        double wall = 0;
        double busy = 0;  ///< seconds of all processors
        double own = 0;   ///< seconds of this process and its children
    };
    static sample now();
    void wait();

    static constexpr double quiet = 0.1;

    double patience_;
    sample last_;
};

}  // namespace dflash::bench
