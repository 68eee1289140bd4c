// The Python module boke._native: sums, the local model, data, and the small loops around them.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "candidates.hpp"
#include "cells.hpp"
#include "choice.hpp"
#include "data.hpp"
#include "kernel.hpp"
#include "local_gp.hpp"
#include "nearest.hpp"
#include "pool.hpp"
#include "quantile.hpp"
#include "region.hpp"
#include "rotations.hpp"
#include "sums.hpp"
#include "usual.hpp"
#include "warp.hpp"

using namespace boke;

namespace {

using Digits = nb::ndarray<const std::uint32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

Result all_shifted(Digits points, nb::ndarray<const std::uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> shift) {
    const std::size_t n = points.shape(0), d = points.shape(1);
    if (shift.shape(0) != d) throw std::invalid_argument("Shapes do not agree.");
    std::vector<double> result(n * d);
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t k = 0; k < d; ++k)
            result[i * d + k] = shifted(points.data()[i * d + k], shift.data()[k]);
    return made(std::move(result), {n, d});
}

// Points of the box [low, high] from points u (n, d) of the cube; the first of them stay at the center but in the columns
// where chance (., d) is below `share`, and in column `any`.
Result in_box(Matrix u, Matrix chance, nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> any, double share,
              Vector center, Vector low, Vector high) {
    const std::size_t n = u.shape(0), d = u.shape(1), few = chance.shape(0);
    if (few > n || chance.shape(1) != d || any.shape(0) != few) throw std::invalid_argument("Shapes do not agree.");
    for (const std::size_t width : {center.shape(0), low.shape(0), high.shape(0)})
        if (width != d) throw std::invalid_argument("Shapes do not agree.");
    std::vector<double> x(n * d);
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t k = 0; k < d; ++k) {
            const bool moves = i >= few || chance.data()[i * d + k] < share || any.data()[i] == static_cast<std::int64_t>(k);
            x[i * d + k] = moves ? low.data()[k] + (high.data()[k] - low.data()[k]) * u.data()[i * d + k] : center.data()[k];
        }
    return made(std::move(x), {n, d});
}

// Points of the box [low, high]: from Sobol points (n, d), as integers, with a shift; all but a few columns of the first
// `few` stay at the center. Random numbers are drawn in the order of the definition.
Result candidates(Digits points, std::size_t few, double share, Vector center, Vector low, Vector high, nb::capsule random) {
    const std::size_t n = points.shape(0), d = points.shape(1);
    if (few > n || d == 0 || std::string(random.name()) != "BitGenerator") throw std::invalid_argument("Shapes do not agree.");
    for (const std::size_t width : {center.shape(0), low.shape(0), high.shape(0)})
        if (width != d) throw std::invalid_argument("Shapes do not agree.");
    std::vector<double> x = drawn_in_box({points.data(), n, d}, few, share, center.data(), low.data(), high.data(), random.data());
    return made(std::move(x), {n, d});
}

// f(entry, low, high) of every entry of x (n, d), with the corners (d) of a box.
template <double (*function)(double, double, double)>
Result within(Matrix x, Vector low, Vector high) {
    const std::size_t n = x.shape(0), d = x.shape(1);
    if (low.shape(0) != d || high.shape(0) != d) throw std::invalid_argument("Shapes do not agree.");
    std::vector<double> result(n * d);
    {
        nb::gil_scoped_release unlocked;
        for (std::size_t i = 0; i < n * d; ++i) result[i] = function(x.data()[i], low.data()[i % d], high.data()[i % d]);
    }
    return made(std::move(result), {n, d});
}

double inside(double x, double low, double high) {
    const double at = (x - low) / (high - low);
    return at <= 0.0 ? 0.0 : at >= 1.0 ? 1.0 : at;
}

double between(double x, double low, double high) {
    const double at = low * (1.0 - x) + high * x;
    return at < low ? low : at > high ? high : at;
}

// The row of x (n, d) with the largest value that, rounded as a history would keep it in the box of `low` and `high` (d), is
// none of the points and none of the others; n if there is none.
std::size_t untaken(Matrix x, Vector values, Vector low, Vector high, Matrix points, Matrix others) {
    const std::size_t n = x.shape(0), d = x.shape(1);
    if (values.shape(0) != n || low.shape(0) != d || high.shape(0) != d || points.shape(1) != d || others.shape(1) != d)
        throw std::invalid_argument("Shapes do not agree.");
    nb::gil_scoped_release unlocked;
    std::vector<double> rounded(d);
    auto among = [&](const Matrix &some) {
        const double *point = some.data(), *end = point + some.size();
        for (; point != end; point += d)
            if (*point == rounded[0] && std::equal(rounded.begin(), rounded.end(), point)) return true;
        return false;
    };
    std::vector<bool> known(n, false);
    for (std::size_t tried = 0; tried < n; ++tried) {
        std::size_t best = n;
        for (std::size_t i = 0; i < n; ++i)
            if (!known[i] && (best == n || values.data()[i] > values.data()[best])) best = i;
        for (std::size_t k = 0; k < d; ++k) {
            const double native = between(x.data()[best * d + k], low.data()[k], high.data()[k]);
            rounded[k] = inside(native, low.data()[k], high.data()[k]);
        }
        if (!among(points) && !among(others)) return best;
        known[best] = true;
    }
    return n;
}

// Squared distances (n, m) of rows from others, or the largest of their differences.
Result distances(Matrix x, Matrix others, bool largest, const std::string &instructions) {
    const std::size_t n = x.shape(0), m = others.shape(0), d = x.shape(1);
    if (others.shape(1) != d) throw std::invalid_argument("Shapes do not agree.");
    std::vector<double> result(n * m), work(d * LANES);
    {
        nb::gil_scoped_release unlocked;
        pick(instructions).distances(x.data(), n, others.data(), m, d, largest, result.data(), work.data());
    }
    return made(std::move(result), {n, m});
}

using Numbers = nb::ndarray<const double, nb::c_contig, nb::device::cpu>;

template <double (*function)(double)>
Result each(Numbers x) {
    auto *values = new std::vector<double>(x.data(), x.data() + x.size());
    nb::capsule owner(values, [](void *memory) noexcept { delete static_cast<std::vector<double> *>(memory); });
    for (double &value : *values) value = function(value);
    std::vector<std::size_t> shape(x.ndim());
    for (std::size_t i = 0; i < shape.size(); ++i) shape[i] = x.shape(i);
    return Result(values->data(), shape.size(), shape.data(), owner);
}

// Corners (k, 2) of all cells and the sites (k) that they belong to.
nb::tuple voronoi(Matrix sites, double width, double height) {
    if (sites.shape(1) != 2) throw std::invalid_argument("Sites must lie in a plane.");
    const std::vector<Corner> found = cells(sites.data(), sites.shape(0), width, height);
    const std::size_t k = found.size();
    std::vector<double> corners(2 * k);
    auto *owners = new std::int64_t[std::max<std::size_t>(k, 1)];
    nb::capsule owner(owners, [](void *memory) noexcept { delete[] static_cast<std::int64_t *>(memory); });
    for (std::size_t i = 0; i < k; ++i) {
        corners[2 * i] = found[i].x, corners[2 * i + 1] = found[i].y;
        owners[i] = static_cast<std::int64_t>(found[i].site);
    }
    return nb::make_tuple(made(std::move(corners), {k, 2}), nb::ndarray<nb::numpy, std::int64_t>(owners, {k}, owner));
}

Result corners(Matrix x, Vector y, Vector bandwidth, double beta, double rho, std::size_t n, const std::vector<double> &inside) {
    if (x.shape(1) != 2 || y.shape(0) != x.shape(0) || bandwidth.shape(0) != 2 || n == 0) throw std::invalid_argument("Shapes do not agree.");
    std::vector<double> points;
    {
        nb::gil_scoped_release unlocked;
        points = promising(x.data(), y.data(), x.shape(0), bandwidth.data(), beta, rho, n, inside);
    }
    const std::size_t k = points.size() / 2;
    return made(std::move(points), {k, 2});
}

// (side, at, second) of boke.region.Search; the rule: start, grow, shrink, settled, largest and smallest side
nb::tuple replay(Flags successes, Vector values, Flags aside, std::size_t patience, const std::vector<double> &rule) {
    const std::size_t n = successes.shape(0);
    if (values.shape(0) != n || aside.shape(0) != n || rule.size() != 6) throw std::invalid_argument("Shapes do not agree.");
    const Search search = replayed(successes.data(), values.data(), n, [&](std::size_t i) { return aside.data()[i]; }, patience, rule.data());
    return nb::make_tuple(search.side, search.at, search.second);
}

using Ranked = std::pair<double, std::size_t>;  // minus a value, and its row: smaller ones come first

// Puts what sorting would put there at some ranks, in order, of those from `first` to `last`.
void select(std::vector<Ranked> &order, std::size_t first, std::size_t last, const std::size_t *ranks, std::size_t n) {
    if (n == 0 || last - first < 2) return;
    const std::size_t middle = ranks[n / 2];
    std::nth_element(order.begin() + first, order.begin() + middle, order.begin() + last);
    select(order, first, middle, ranks, n / 2);
    select(order, middle + 1, last, ranks + n / 2 + 1, n - n / 2 - 1);
}

// At most `most` rows of x (t, d), that of the largest of the values y (t) first.
Result incumbents(Matrix x, Vector y, std::size_t most) {
    const std::size_t t = x.shape(0), d = x.shape(1), half = most / 2;
    if (y.shape(0) != t || half < 2) throw std::invalid_argument("Shapes do not agree.");
    std::vector<Ranked> order(t);
    for (std::size_t i = 0; i < t; ++i) order[i] = {-y.data()[i], i};
    std::vector<std::size_t> ranks;
    for (std::size_t rank = 0; rank < std::min(half, t); ++rank) ranks.push_back(rank);
    for (std::size_t i = 0; t > half && i < half; ++i)
        if (const std::size_t rank = i * (t - 1) / (half - 1); rank >= half) ranks.push_back(rank);
    select(order, 0, t, ranks.data(), ranks.size());
    std::vector<double> rows;
    for (const std::size_t rank : ranks) rows.insert(rows.end(), x.data() + order[rank].second * d, x.data() + (order[rank].second + 1) * d);
    const std::size_t m = ranks.size();
    return made(std::move(rows), {m, d});
}

// (rank + 1/2) / t of values (t) that `order` (t) sorts, the average for equal ones.
Result levels(Vector y, nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> order) {
    const std::size_t t = y.shape(0);
    if (order.shape(0) != t) throw std::invalid_argument("Shapes do not agree.");
    std::vector<double> result(t);
    const std::int64_t *rows = order.data();
    for (std::size_t first = 0, last; first < t; first = last) {
        for (last = first + 1; last < t && y.data()[rows[last]] == y.data()[rows[first]];) ++last;
        const double middle = 0.5 * static_cast<double>(first + last) / static_cast<double>(t);
        for (std::size_t i = first; i < last; ++i) result[rows[i]] = middle;
    }
    return made(std::move(result), {t});
}

Result normal_quantiles(Vector levels) {
    std::vector<double> result(levels.shape(0));
    std::transform(levels.data(), levels.data() + result.size(), result.begin(), normal_quantile);
    return made(std::move(result), {levels.shape(0)});
}

// The first `count` rows, passing over those that are not farther than `gap` from a chosen one.
std::vector<std::size_t> spread(Matrix rows, double gap, std::size_t count) {
    const std::size_t n = rows.shape(0), d = rows.shape(1);
    std::vector<std::size_t> chosen;
    for (std::size_t i = 0; i < n && chosen.size() < count; ++i) {
        bool far = true;
        for (const std::size_t j : chosen) {
            double square = 0.0;
            for (std::size_t k = 0; k < d; ++k) {
                const double away = rows.data()[j * d + k] - rows.data()[i * d + k];
                square += away * away;
            }
            far = far && square > gap * gap;
        }
        if (far) chosen.push_back(i);
    }
    return chosen;
}

Result axes(Matrix matrix) {
    const std::size_t d = matrix.shape(0);
    if (matrix.shape(1) != d) throw std::invalid_argument("The matrix must be square.");
    return made(eigenvectors(std::vector<double>(matrix.data(), matrix.data() + d * d), d).vectors, {d, d});
}

nb::tuple all_warped(Vector y, const std::vector<double> &lengths, const std::vector<double> &earned) {
    const std::size_t n = y.shape(0), versions = lengths.size();
    if (n == 0 || earned.size() != versions) throw std::invalid_argument("There are no values, or too many.");
    Warped all = warped(std::vector<double>(y.data(), y.data() + n), lengths, earned);
    return nb::make_tuple(made(std::move(all.y), {versions, n}), made(std::move(all.jacobian), {versions}));
}

}  // namespace

NB_MODULE(_native, m) {
    if (available().empty()) throw nb::import_error("This processor has no fused multiply-adds.");
    nb::set_leak_warnings(false);  // what functools keeps may outlive the module: nothing that a user should read about
    m.doc() = "Compiled kernel sums; boke.sums has their definition.";
    bind_sums(m);
    bind_local_gp(m);
    bind_data(m);
    bind_nearest(m);
    bind_pool(m);
    bind_usual(m);
    m.def("shifted", all_shifted, "Sobol points moved by a digital shift; boke.quasirandom has their definition.");
    m.def("in_box", in_box, "Candidates of a box, some of them near its center; boke.local has their definition.");
    m.def("candidates", candidates, "The same with all that is drawn for them; boke.local has their definition.");
    m.def("warped", all_warped, "Versions of the values and their log Jacobians; boke.warp has their definition.");
    m.def("inside", within<inside>, "Points of a box in the unit cube; boke.space has its definition.");
    m.def("between", within<between>, "Points of the unit cube in a box; boke.space has its definition.");
    m.def("untaken", untaken, "The best row that is not known; boke.local has its definition.");
    m.def("distances", distances, nb::arg("x"), nb::arg("others"), nb::arg("largest") = false, nb::arg("instructions") = "",
          "Squared distances, or largest differences; boke.elementary has their definition.");
    m.def("exp", each<std::exp>, "exp of the C library.");
    m.def("log", each<std::log>, "log of the C library.");
    m.def("cells", voronoi, "Corners of the Voronoi cells of a plane; boke.fill has their definition.");
    m.def("corners", corners, "Candidates in promising corners of these; boke.acquisition has their definition.");
    m.def("replay", replay, "How far a search has come after some outcomes; boke.region has its definition.");
    m.def("incumbents", incumbents, "Observations near which candidates are placed; boke.policies has their definition.");
    m.def("normal_quantiles", normal_quantiles, "Where the normal distribution reaches some levels; SciPy has their definition.");
    m.def("levels", levels, "Average ranks as levels of a distribution; boke.scores has their definition.");
    m.def("spread", spread, "The first rows that are apart from each other; boke.argmax has their definition.");
    m.def("eigenvectors", axes, "Those of a symmetric matrix; boke.rotations has their definition.");
    m.def("instruction_sets", [] {
        nb::list names;
        for (const Choice &choice : available()) names.append(choice.name);
        return names;
    }, "Names of the instruction sets that this machine can use, the preferred one first.");
}
