// What a policy asks of its data, for the module and for `usual`; boke.keys and boke.data define it.
#pragma once
#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

void bind_data(nanobind::module_ &m);

namespace boke {

inline double uniform(std::int64_t number, std::uint64_t salt) {
    std::uint64_t mixed = (static_cast<std::uint64_t>(number) ^ salt) * 0x9E3779B97F4A7C15u;
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
    mixed ^= mixed >> 31;
    return static_cast<double>(mixed >> 11) * 0x1p-53;
}

struct Lot {
    std::int64_t first;
    std::uint64_t salt;
    double least;
    bool has(std::int64_t number) const { return number >= first && uniform(number, salt) >= least; }
};

struct Near {
    double away;
    std::int64_t row;
    bool operator<(const Near &other) const { return away != other.away ? away < other.away : row < other.row; }
};

// Squared distances of N points, by rows of d, from x. A sum alone would wait for its additions.
template <std::size_t N>
void measure(const double *points, const double *x, std::size_t d, double *away) {
    double sum[N] = {};
    for (std::size_t j = 0; j < d; ++j)
        for (std::size_t i = 0; i < N; ++i) {
            const double step = points[i * d + j] - x[j];
            sum[i] += step * step;
        }
    std::copy(sum, sum + N, away);
}

inline std::vector<Near> nearest(const double *points, std::size_t n, std::size_t d, const double *x, std::size_t k) {
    constexpr std::size_t SOME = 4;
    std::vector<double> away(n);
    std::size_t i = 0;
    for (; i + SOME <= n; i += SOME) measure<SOME>(points + i * d, x, d, away.data() + i);
    for (; i < n; ++i) measure<1>(points + i * d, x, d, away.data() + i);
    std::vector<Near> found;
    bool limited = k == 0;
    double limit = 0.0;
    for (i = 0; i < n; ++i) {
        if (limited && !(away[i] < limit)) continue;  // of equal ones the first are nearer
        found.push_back({away[i], static_cast<std::int64_t>(i)});
        if (found.size() < 4 * k) continue;
        std::nth_element(found.begin(), found.begin() + (k - 1), found.end());
        found.resize(k);
        limit = found[k - 1].away, limited = true;
    }
    if (found.size() > k && k > 0) std::nth_element(found.begin(), found.begin() + (k - 1), found.end());
    found.resize(std::min(k, found.size()));
    std::sort(found.begin(), found.end());
    return found;
}

// Calls `visit` with the rows in the order of the trials' numbers, no two of which are equal; where they are dense, without
// sorting.
template <typename Visit>
void in_order(const std::int64_t *numbers, std::size_t n, Visit &&visit) {
    std::int64_t least = 0, most = -1;
    for (std::size_t i = 0; i < n; ++i) least = std::min(least, numbers[i]), most = std::max(most, numbers[i]);
    if (least < 0) throw std::invalid_argument("Numbers must not be negative.");
    if (static_cast<std::uint64_t>(most) + 1 >= std::min<std::uint64_t>(4 * n, UINT32_MAX)) {
        std::vector<std::size_t> rows(n);
        for (std::size_t i = 0; i < n; ++i) rows[i] = i;
        std::sort(rows.begin(), rows.end(), [&](std::size_t i, std::size_t j) { return numbers[i] < numbers[j]; });
        for (const std::size_t row : rows) visit(row);
        return;
    }
    std::vector<std::uint32_t> table(static_cast<std::size_t>(most + 1), UINT32_MAX);
    for (std::size_t i = 0; i < n; ++i) table[static_cast<std::size_t>(numbers[i])] = static_cast<std::uint32_t>(i);
    for (const std::uint32_t row : table)
        if (row != UINT32_MAX) visit(row);
}

// Of trials in the order of their numbers: these, which beat all before, and values.
struct Outcomes {
    std::vector<std::int64_t> numbers;
    std::vector<char> successes;
    std::vector<double> values;
};

// Those of the asked trials (null: all of n) of a lot
inline Outcomes outcomes_of(const std::int64_t *numbers, const double *y, const bool *asked, std::size_t n, const Lot &lot) {
    Outcomes found;
    double best = -std::numeric_limits<double>::infinity();
    auto visit = [&](std::size_t row) {
        const double value = y[row], before = best;
        best = std::max(best, value);
        if ((asked && !asked[row]) || !lot.has(numbers[row])) return;
        found.numbers.push_back(numbers[row]), found.successes.push_back(value > before), found.values.push_back(value);
    };
    std::int64_t first = std::numeric_limits<std::int64_t>::max(), least = first;
    for (std::size_t i = 0; i < n; ++i) {
        least = std::min(least, numbers[i]);
        if (!asked || asked[i]) first = std::min(first, numbers[i]);
    }
    if (n == 0 || least == first || least < 0) {
        in_order(numbers, n, visit);
        return found;
    }
    std::vector<std::size_t> rows;  // from the first asked trial on; those that were told in bulk before need no order
    std::vector<std::int64_t> later;
    for (std::size_t i = 0; i < n; ++i) {
        if (numbers[i] >= first) rows.push_back(i), later.push_back(numbers[i] - first);
        else best = std::max(best, y[i]);
    }
    in_order(later.data(), later.size(), [&](std::size_t i) { visit(rows[i]); });
    return found;
}

}  // namespace boke
