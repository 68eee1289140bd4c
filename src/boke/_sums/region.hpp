// The trust region, replayed; boke.region has its definition.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace boke {

struct Search {
    double side;
    std::int64_t at;  // which outcome is the best one of the second search
    double second;
};

// After n outcomes, of which `aside(i)` says whether they are of the second search. The rule: start, grow, shrink, settled,
// largest and smallest side.
template <class Flag, class Aside>
Search replayed(const Flag *successes, const double *values, std::size_t n, Aside &&aside, std::size_t patience, const double *rule) {
    const double start = rule[0], grow = rule[1], shrink = rule[2], settled = rule[3], largest = rule[4], smallest = rule[5];
    Search search{start, -1, 0.0};
    std::size_t failures = 0;
    for (std::size_t i = 0; i < n; ++i) {
        const bool success = successes[i];
        if (aside(i) && search.side < settled) {
            if (success) {
                search.side = start, failures = 0, search.at = -1;
            } else if (search.at < 0) {
                search.at = static_cast<std::int64_t>(i), search.second = start;
            } else if (values[i] > values[search.at]) {
                search.at = static_cast<std::int64_t>(i), search.second = std::min(largest, search.second * grow);
            } else {
                search.second *= shrink;
                if (search.second < settled) search.at = -1;
            }
        } else if (success) {
            search.side = std::min(largest, search.side * grow), failures = 0;
        } else if (++failures >= patience) {
            search.side *= shrink, failures = 0;
            if (search.side < smallest) search.side = start;
        }
    }
    return search;
}

}  // namespace boke
