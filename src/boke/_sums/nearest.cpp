#include "nearest.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "arrays.hpp"
#include "choice.hpp"

namespace boke {
namespace {

constexpr double ROUNDED = 1e-9;  // of a distance, relative, whoever measures it
constexpr double STEPS = 127.0;   // of a code in the unit interval

using Bytes = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Codes = nb::ndarray<const std::uint8_t, nb::ndim<4>, nb::c_contig, nb::device::cpu>;
using Changing = nb::ndarray<std::uint8_t, nb::ndim<4>, nb::c_contig, nb::device::cpu>;
using Order = nb::ndarray<const std::uint16_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Box = nb::ndarray<const std::uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// A part of the copy. Where its points are in order of their places, `order` says which is where, and column j of block b lies
// between low[j * blocks + b] and high[j * blocks + b].
struct Piece {
    const std::uint8_t *codes;
    std::size_t blocks, groups;
    const std::uint16_t *order;
    const std::uint8_t *low, *high;
};

// The point that is looked for: its codes, with zeros beyond the last one, and itself.
struct Query {
    std::vector<std::uint8_t> codes, mask;
    std::size_t columns;
    const double *point, *points;  // these by rows of d; none where their distances are not those of the codes
    std::size_t d;
};

// Two distances, in steps of a code
struct Length {
    static void join(int &away, int step) { away += step * step; }  // enough for 130,000 columns
    static void join(double &away, double step) { away += step * step; }
    static double length(double away) { return std::sqrt(away); }
    static double away(double length) { return length * length; }
};

struct Largest {
    static void join(int &away, int step) { away = std::max(away, step); }
    static void join(double &away, double step) { away = std::max(away, std::abs(step)); }
    static double length(double away) { return away; }
    static double away(double length) { return length; }
};

// How far the blocks of a piece are at least, by the boxes that they are in
template <class Metric>
void gaps(const Piece &piece, const Query &query, std::vector<int> &away) {
    away.assign(piece.blocks, 0);
    for (std::size_t j = 0; j < query.columns; ++j) {
        const std::uint8_t *low = piece.low + j * piece.blocks, *high = piece.high + j * piece.blocks;
        const int at = query.codes[j];
        for (std::size_t b = 0; b < piece.blocks; ++b) Metric::join(away[b], std::max({low[b] - at, at - high[b], 0}));
    }
}

// Memory that is asked for before its turn: blocks lie far apart or, all of them in a row, cross pages, and so do points.
constexpr std::size_t LINE = 64, BLOCKS_AHEAD = 4, IN_A_ROW = 2, POINTS_AHEAD = 8;

inline void fetch(const void *begin, std::size_t size) {
    for (std::size_t i = 0; i < size; i += LINE) __builtin_prefetch(static_cast<const char *>(begin) + i);
}

struct Found {
    int away;
    std::int64_t row;
};

// All points that are alive and whose distance by codes is at most `slack` larger than that of the k-th nearest.
template <class Metric>
std::vector<Found> candidates(Away measure, const std::vector<Piece> &pieces, std::size_t n, const Query &query, const bool *alive,
                              std::size_t k, double slack) {
    int away[BLOCK], limit = std::numeric_limits<int>::max();
    std::uint8_t places[BLOCK];
    std::vector<Found> found;
    std::vector<int> gap;
    std::vector<std::size_t> left;
    std::size_t room = 2 * k;
    auto narrow = [&] {
        if (found.size() < k) return;
        std::nth_element(found.begin(), found.begin() + (k - 1), found.end(), [](const Found &a, const Found &b) { return a.away < b.away; });
        const double beyond = Metric::away(Metric::length(found[k - 1].away) + slack);
        limit = static_cast<int>(std::min<double>(beyond, limit));
        found.erase(std::remove_if(found.begin(), found.end(), [&](const Found &one) { return one.away > limit; }), found.end());
        room = std::max(room, 2 * found.size());  // many may tie
    };
    std::size_t first = 0;
    for (const Piece &piece : pieces) first += piece.blocks * BLOCK;
    // The last piece comes first: a search leaves its last points near its best, and the limit is small from the start.
    for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
        first -= piece->blocks * BLOCK;
        auto look = [&](std::size_t b, std::size_t ahead) {
            const std::uint8_t *codes = piece->codes + b * piece->groups * TOGETHER * BLOCK;
            if (!measure(codes, query.codes.data(), query.mask.data(), query.codes.size() / TOGETHER, limit, ahead, away)) return;
            std::size_t near = 0;  // without a branch: nobody can predict which of a block are near
            for (std::size_t i = 0; i < BLOCK; ++i) {
                places[near] = static_cast<std::uint8_t>(i);
                near += away[i] <= limit;
            }
            for (std::size_t j = 0; j < near; ++j) {
                const std::size_t place = b * BLOCK + places[j], row = first + (piece->order ? piece->order[place] : place);
                if (row < n && alive[row]) found.push_back({away[places[j]], static_cast<std::int64_t>(row)});
            }
            if (found.size() >= room) narrow();
        };
        const std::size_t size = piece->groups * TOGETHER * BLOCK;
        if (!piece->order) {
            for (std::size_t b = 0; b < piece->blocks && first + b * BLOCK < n; ++b)
                look(b, b + IN_A_ROW < piece->blocks ? IN_A_ROW * size : 0);
            continue;
        }
        gaps<Metric>(*piece, query, gap);
        const std::size_t nearest = static_cast<std::size_t>(std::min_element(gap.begin(), gap.end()) - gap.begin());
        if (gap[nearest] <= limit) look(nearest, 0);
        left.clear();
        for (std::size_t b = 0; b < piece->blocks; ++b)
            if (gap[b] <= limit && b != nearest) left.push_back(b);
        for (std::size_t i = 0; i < left.size(); ++i) {
            if (i + BLOCKS_AHEAD < left.size()) fetch(piece->codes + left[i + BLOCKS_AHEAD] * size, size);
            if (gap[left[i]] <= limit) look(left[i], 0);
        }
    }
    narrow();
    return found;
}

template <class Metric>
std::vector<std::int64_t> search(Away measure, const std::vector<Piece> &pieces, std::size_t n, const Query &query, const bool *alive,
                                 std::size_t k, double slack) {
    std::vector<Found> found = candidates<Metric>(measure, pieces, n, query, alive, k, slack);
    std::vector<std::int64_t> rows;
    if (query.points && found.size() > k) {
        auto point = [&](std::size_t i) { return query.points + static_cast<std::size_t>(found[i].row) * query.d; };
        std::vector<double> exact;
        auto measured = [&] {
            for (std::size_t i = exact.size(); i < found.size(); ++i) {
                if (i + POINTS_AHEAD < found.size()) fetch(point(i + POINTS_AHEAD), query.columns * sizeof(double));
                double away = 0.0;
                for (std::size_t j = 0; j < query.columns; ++j) Metric::join(away, point(i)[j] - query.point[j]);
                exact.push_back(away);
            }
        };
        auto kth = [&] {
            std::vector<double> sorted = exact;
            std::nth_element(sorted.begin(), sorted.begin() + (k - 1), sorted.end());
            return sorted[k - 1] * (1.0 + ROUNDED);
        };
        // The k nearest by their codes say how near the others have to be, whose codes are off by half of the slack.
        std::vector<Found> others;
        std::nth_element(found.begin(), found.begin() + (k - 1), found.end(), [](const Found &a, const Found &b) { return a.away < b.away; });
        std::swap(found, others);
        found.assign(others.begin(), others.begin() + static_cast<std::ptrdiff_t>(k));
        measured();
        const double beyond = Metric::away(Metric::length(kth()) * STEPS + 0.5 * slack);
        std::copy_if(others.begin() + static_cast<std::ptrdiff_t>(k), others.end(), std::back_inserter(found),
                     [&](const Found &one) { return one.away <= beyond; });
        measured();
        const double limit = kth();
        for (std::size_t i = 0; i < found.size(); ++i)
            if (exact[i] <= limit) rows.push_back(found[i].row);
    } else {
        for (const Found &one : found) rows.push_back(one.row);
    }
    std::sort(rows.begin(), rows.end());
    return rows;
}

nb::ndarray<nb::numpy, std::int64_t> nearest(const std::vector<Codes> &copy, const std::vector<std::optional<std::pair<Order, Box>>> &places,
                                             Bytes codes, Vector point, std::optional<Matrix> points, Flags alive, std::size_t k, double slack,
                                             bool largest, const std::string &instructions) {
    std::vector<Piece> pieces;
    std::size_t room = 0;
    const std::size_t columns = codes.shape(0);
    if (point.shape(0) != columns || places.size() != copy.size()) throw std::invalid_argument("Shapes do not agree.");
    for (std::size_t i = 0; i < copy.size(); ++i) {
        const std::size_t blocks = copy[i].shape(0), groups = copy[i].shape(1);
        if (groups * TOGETHER < columns || copy[i].shape(2) != BLOCK || copy[i].shape(3) != TOGETHER)
            throw std::invalid_argument("Shapes do not agree.");
        Piece piece{copy[i].data(), blocks, groups, nullptr, nullptr, nullptr};
        if (places[i]) {
            const auto &[order, box] = *places[i];
            if (order.shape(0) != blocks * BLOCK || box.shape(0) < 2 * columns || box.shape(0) % 2 || box.shape(1) != blocks)
                throw std::invalid_argument("Shapes do not agree.");
            piece.order = order.data(), piece.low = box.data(), piece.high = box.data() + box.shape(0) / 2 * blocks;
        }
        pieces.push_back(piece);
        room += blocks * BLOCK;
    }
    if (alive.shape(0) > room || k == 0 || (points && (points->shape(0) < alive.shape(0) || points->shape(1) < columns)))
        throw std::invalid_argument("There are not so many points.");
    Query query{std::vector<std::uint8_t>(codes.data(), codes.data() + columns), std::vector<std::uint8_t>(columns, 255), columns,
                point.data(), points ? points->data() : nullptr, points ? points->shape(1) : 0};
    query.codes.resize((columns + TOGETHER - 1) / TOGETHER * TOGETHER, 0), query.mask.resize(query.codes.size(), 0);
    auto *rows = new std::vector<std::int64_t>;
    nb::capsule owner(rows, [](void *memory) noexcept { delete static_cast<std::vector<std::int64_t> *>(memory); });
    {
        nb::gil_scoped_release unlocked;
        const std::size_t n = alive.shape(0);
        const Choice choice = pick(instructions);
        *rows = largest ? search<Largest>(choice.farthest, pieces, n, query, alive.data(), k, slack)
                        : search<Length>(choice.squares, pieces, n, query, alive.data(), k, slack);
    }
    return {rows->data(), {rows->size()}, owner};
}

// Halves, and halves of these, across the column in which they are widest, until they are blocks: then blocks are small boxes.
void halve(const std::vector<std::uint8_t> &points, std::size_t columns, std::uint16_t *first, std::uint16_t *last) {
    if (static_cast<std::size_t>(last - first) <= BLOCK) return;
    std::vector<std::uint8_t> low(columns, 255), high(columns, 0);
    for (const std::uint16_t *at = first; at < last; ++at) {
        const std::uint8_t *point = points.data() + *at * columns;
        for (std::size_t j = 0; j < columns; ++j) low[j] = std::min(low[j], point[j]), high[j] = std::max(high[j], point[j]);
    }
    std::size_t widest = 0;
    for (std::size_t j = 0; j < columns; ++j)
        if (high[j] - low[j] > high[widest] - low[widest]) widest = j;
    const std::size_t blocks = static_cast<std::size_t>(last - first) / BLOCK;
    std::uint16_t *middle = first + blocks / 2 * BLOCK;
    std::nth_element(first, middle, last, [&](std::uint16_t a, std::uint16_t b) {
        const std::uint8_t x = points[a * columns + widest], y = points[b * columns + widest];
        return x != y ? x < y : a < b;
    });
    halve(points, columns, first, middle);
    halve(points, columns, middle, last);
}

// Puts the points of a whole piece in order of their places. Returns which is where, and the box (2 columns, blocks) of each
// block: the lowest codes of all columns, then the highest.
nb::tuple arrange(Changing codes, std::size_t columns) {
    const std::size_t blocks = codes.shape(0), groups = codes.shape(1), n = blocks * BLOCK;
    if (columns == 0 || columns > groups * TOGETHER || codes.shape(2) != BLOCK || codes.shape(3) != TOGETHER || n == 0 ||
        n > std::size_t{1} << 16)
        throw std::invalid_argument("Shapes do not agree.");
    auto *order = new std::vector<std::uint16_t>(n);
    nb::capsule order_owner(order, [](void *memory) noexcept { delete static_cast<std::vector<std::uint16_t> *>(memory); });
    auto *box = new std::vector<std::uint8_t>(2 * columns * blocks);
    nb::capsule box_owner(box, [](void *memory) noexcept { delete static_cast<std::vector<std::uint8_t> *>(memory); });
    {
        nb::gil_scoped_release unlocked;
        auto at = [&](std::size_t i, std::size_t j) -> std::uint8_t & {
            return codes.data()[((i / BLOCK * groups + j / TOGETHER) * BLOCK + i % BLOCK) * TOGETHER + j % TOGETHER];
        };
        std::vector<std::uint8_t> points(n * columns);
        for (std::size_t i = 0; i < n; ++i)
            for (std::size_t j = 0; j < columns; ++j) points[i * columns + j] = at(i, j);
        std::iota(order->begin(), order->end(), std::uint16_t{0});
        halve(points, columns, order->data(), order->data() + n);
        for (std::size_t i = 0; i < n; ++i)
            for (std::size_t j = 0; j < columns; ++j) {
                const std::uint8_t code = at(i, j) = points[(*order)[i] * columns + j];
                std::uint8_t &low = (*box)[j * blocks + i / BLOCK], &high = (*box)[(columns + j) * blocks + i / BLOCK];
                low = i % BLOCK == 0 ? code : std::min(low, code), high = i % BLOCK == 0 ? code : std::max(high, code);
            }
    }
    return nb::make_tuple(nb::ndarray<nb::numpy, std::uint16_t>(order->data(), {n}, order_owner),
                          nb::ndarray<nb::numpy, std::uint8_t>(box->data(), {2 * columns, blocks}, box_owner));
}

}  // namespace
}  // namespace boke

void bind_nearest(nanobind::module_ &m) {
    namespace nb = nanobind;
    m.def("nearest", boke::nearest, nb::arg("copy"), nb::arg("places"), nb::arg("codes"), nb::arg("point"), nb::arg("points").none(),
          nb::arg("alive"), nb::arg("k"), nb::arg("slack"), nb::arg("largest"), nb::arg("instructions") = "",
          "Rows with the nearest among them by a coarse copy; boke.around has its definition.");
    m.def("arrange", boke::arrange, nb::arg("codes"), nb::arg("columns"), "Put the points of a part of a coarse copy in order of their places.");
}
