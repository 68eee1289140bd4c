// The instruction set that the sums run on, chosen at run time.
#pragma once
#include <stdexcept>
#include <string>
#include <vector>

#include "gp.hpp"
#include "kernel.hpp"

namespace boke {

struct Choice {
    Evaluate evaluate;
    Distances distances;
    Away squares, farthest;
    Screen screen;
    Rise rise;
    Exponentials exponentials;
    GPFunctions gp;
    const char *name;
};

#define BOKE_CHOICE(isa) \
    Choice { evaluate_##isa, distances_##isa, squares_##isa, farthest_##isa, screen_##isa, rise_##isa, exponentials_##isa, gp_##isa(), #isa }

// Those that this machine has, the preferred one first; none on x86 without fused multiply-adds
inline const std::vector<Choice> &available() {
    static const std::vector<Choice> choices = [] {
        std::vector<Choice> all;
#ifdef BOKE_X86
        __builtin_cpu_init();
        if (!__builtin_cpu_supports("fma")) return all;
        const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
        if (avx512) all.push_back(BOKE_CHOICE(avx512));
        if (__builtin_cpu_supports("avx2")) all.push_back(BOKE_CHOICE(avx2));
#endif
        all.push_back(BOKE_CHOICE(baseline));
        return all;
    }();
    return choices;
}
#undef BOKE_CHOICE

inline Choice pick(const std::string &name) {
    for (const Choice &choice : available())
        if (name.empty() || name == choice.name) return choice;
    throw std::invalid_argument("This machine has no instruction set '" + name + "'.");
}

}  // namespace boke
