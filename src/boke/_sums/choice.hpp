// The instruction set that the sums run on, chosen at run time.
#pragma once
#include <stdexcept>
#include <string>
#include <vector>

#include "kernel.hpp"

namespace boke {

struct Choice {
    Evaluate evaluate;
    Distances distances;
    Squares squares;
    Screen screen;
    Rise rise;
    Exponentials exponentials;
    const char *name;
};

// Those that this machine has, the preferred one first
inline std::vector<Choice> available() {
    std::vector<Choice> all;
#ifdef BOKE_X86
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) all.push_back({evaluate_avx512, distances_avx512, squares_avx512, screen_avx512, rise_avx512, exponentials_avx512, "avx512"});
    if (__builtin_cpu_supports("avx2")) all.push_back({evaluate_avx2, distances_avx2, squares_avx2, screen_avx2, rise_avx2, exponentials_avx2, "avx2"});
#endif
    all.push_back({evaluate_baseline, distances_baseline, squares_baseline, screen_baseline, rise_baseline, exponentials_baseline, "baseline"});
    return all;
}

inline Choice pick(const std::string &name) {
    for (const Choice &choice : available())
        if (name.empty() || name == choice.name) return choice;
    throw std::invalid_argument("This machine has no instruction set '" + name + "'.");
}

}  // namespace boke
