#include "nearest.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace boke {
namespace {

constexpr std::size_t EARLY = 8;  // columns after which a hopeless block is given up

// Two distances, in steps of a code, and how columns join what is known of them: see Squares.
struct Length {
    using Away = int;  // enough for 33,000 columns
    Squares join;
    static double length(Away away) { return std::sqrt(static_cast<double>(away)); }
    static double away(double length) { return length * length; }
};

struct Largest {
    using Away = std::uint8_t;
    static bool join(const std::uint8_t *__restrict codes, const std::uint8_t *query, std::size_t columns, const Away *before, Away limit,
                     Away *__restrict away) {
        if (before != away) std::copy(before, before + BLOCK, away);
        for (std::size_t j = 0; j < columns; ++j)  // points are the inner loop, for the compiler to make vectors of
            for (std::size_t i = 0; i < BLOCK; ++i) {
                const std::uint8_t code = codes[j * BLOCK + i], at = query[j];
                const Away step = code > at ? code - at : at - code;
                away[i] = step > away[i] ? step : away[i];
            }
        Away within = 0;
        for (std::size_t i = 0; i < BLOCK; ++i) within |= away[i] <= limit;
        return within != 0;
    }
    static double length(Away away) { return away; }
    static double away(double length) { return length; }
};

// False if all of the block are beyond the limit; the distances are complete otherwise.
template <class Metric, class Away = typename Metric::Away>
bool measure(const Metric &metric, const std::uint8_t *codes, const std::uint8_t *query, std::size_t columns, Away limit, Away *away) {
    static constexpr Away NOTHING[BLOCK] = {};
    const std::size_t first = std::min(columns, EARLY);  // later it would save less than gaps in reading cost
    return metric.join(codes, query, first, NOTHING, limit, away) &&
           (first == columns || metric.join(codes + first * BLOCK, query + first, columns - first, away, limit, away));
}

template <class Metric, class Away = typename Metric::Away>
std::vector<std::int64_t> search(const Metric &metric, const std::vector<Piece> &pieces, std::size_t n, const std::uint8_t *query, std::size_t columns,
                                 const bool *alive, std::size_t k, double slack) {
    struct Found {
        Away away;
        std::int64_t row;
    };
    constexpr Away MOST = std::numeric_limits<Away>::max();
    Away away[BLOCK], limit = MOST;
    std::uint8_t places[BLOCK];
    std::vector<Found> found;
    std::size_t room = 2 * k;
    auto narrow = [&] {
        if (found.size() < k) return;
        std::nth_element(found.begin(), found.begin() + (k - 1), found.end(), [](const Found &a, const Found &b) { return a.away < b.away; });
        const double beyond = Metric::away(Metric::length(found[k - 1].away) + slack);
        limit = static_cast<Away>(std::min<double>(beyond, limit));
        found.erase(std::remove_if(found.begin(), found.end(), [&](const Found &one) { return one.away > limit; }), found.end());
        room = std::max(room, 2 * found.size());  // many may tie
    };
    std::size_t first = 0;
    for (const Piece &piece : pieces) first += piece.blocks * BLOCK;
    // The last piece comes first: a search leaves its last points near its best, and the limit is small from the start.
    for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
        first -= piece->blocks * BLOCK;
        for (std::size_t b = 0, row = first; b < piece->blocks && row < n; ++b, row += BLOCK) {
            if (!measure(metric, piece->codes + b * piece->columns * BLOCK, query, columns, limit, away)) continue;
            std::size_t near = 0;  // without a branch: nobody can predict which of a block are near
            for (std::size_t i = 0; i < BLOCK; ++i) {
                places[near] = static_cast<std::uint8_t>(i);
                near += away[i] <= limit;
            }
            for (std::size_t j = 0; j < near; ++j)
                if (const std::size_t i = places[j]; row + i < n && alive[row + i]) found.push_back({away[i], static_cast<std::int64_t>(row + i)});
            if (found.size() >= room) narrow();
        }
    }
    narrow();
    std::vector<std::int64_t> rows;
    for (const Found &one : found) rows.push_back(one.row);
    std::sort(rows.begin(), rows.end());
    return rows;
}

}  // namespace

std::vector<std::int64_t> nearest(const std::vector<Piece> &pieces, std::size_t n, const std::uint8_t *query, std::size_t columns,
                                  const bool *alive, std::size_t k, double slack, bool largest, Squares squares) {
    return largest ? search(Largest{}, pieces, n, query, columns, alive, k, slack)
                   : search(Length{squares}, pieces, n, query, columns, alive, k, slack);
}

}  // namespace boke
