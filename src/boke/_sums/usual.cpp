// The usual suggestion of the local branch in one call: no noise, nothing pending, plain columns. boke.local has its
// definition, step by step, and takes over where anything is unusual.
#include "usual.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "arrays.hpp"
#include "candidates.hpp"
#include "data.hpp"
#include "local_gp.hpp"
#include "region.hpp"

using namespace boke;

namespace {

template <class T>
using Column = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// The first of the largest values; none of four maxima waits for another one.
std::size_t largest(const double *values, std::size_t n) {
    double most[4] = {values[0], values[0], values[0], values[0]};
    std::size_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (std::size_t j = 0; j < 4; ++j) most[j] = values[i + j] > most[j] ? values[i + j] : most[j];
    for (; i < n; ++i) most[0] = values[i] > most[0] ? values[i] : most[0];
    return static_cast<std::size_t>(std::find(values, values + n, *std::max_element(most, most + 4)) - values);
}

// All that does not depend on the data. Names are those of boke.local, boke.gp, boke.warp and boke.region.
class Usual {
  public:
    Usual(nb::ndarray<const std::uint32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu> sobol, std::size_t few, double share,
          std::size_t nearest, const Numbers &lengths, const Numbers &trends, const Numbers &noises, const std::vector<std::size_t> &start,
          const Numbers &warps, const Numbers &earned, const Numbers &rule, std::size_t stretches, std::size_t turns,
          std::size_t turning_from, double faint, double dense, std::size_t patience, const Numbers &region, std::size_t tops, std::size_t evaluations,
          const std::string &instructions)
        : digits_(sobol.data(), sobol.data() + sobol.size()), d_(sobol.shape(1)), few_(few), share_(share), nearest_(nearest),
          grids_{lengths, trends, noises, start, warps, earned}, plain_(learning(rule, stretches, 0, false)),
          learns_(learning(rule, stretches, 0, d_ > 1)), turns_(learning(rule, stretches, turns, d_ > 1)), turning_from_(turning_from),
          faint_(faint), dense_(dense), patience_(patience), region_(region), tops_(tops), evaluations_(evaluations), run_(pick(instructions).gp) {
        if (d_ == 0 || few > sobol.shape(0) || tops > sobol.shape(0) || nearest == 0 || region.size() != 6 || warps.empty() ||
            earned.size() != warps.size())
            throw std::invalid_argument("Shapes do not agree.");
    }

    // Where the best candidates climb to, these candidates, and log EI at all of them; None where anything is unusual: no
    // random number has been drawn then.
    nb::object suggest(Matrix X, Vector y, Column<std::int64_t> numbers, std::optional<Flags> asked, std::int64_t since,
                       std::int64_t ours_first, std::uint64_t ours_salt, double ours_least, std::int64_t aside_first,
                       std::uint64_t aside_salt, double aside_least, std::int64_t number, nb::capsule random) const {
        const std::size_t n = X.shape(0);
        if (n == 0 || X.shape(1) != d_ || y.shape(0) != n || numbers.shape(0) != n || (asked && asked->shape(0) != n) ||
            std::string(random.name()) != "BitGenerator")
            throw std::invalid_argument("Shapes do not agree.");
        Numbers points, values;
        const Seen seen{X.data(), y.data(), n};
        const Lot local{std::max(ours_first, since), ours_salt, ours_least}, aside{aside_first, aside_salt, aside_least};
        const bool usual = unlocked([&] {
            const Outcomes outcomes = outcomes_of(numbers.data(), y.data(), asked ? asked->data() : nullptr, n, local);
            auto is_aside = [&](std::size_t i) { return aside.has(outcomes.numbers[i]); };
            const Search search =
                replayed(outcomes.successes.data(), outcomes.values.data(), outcomes.numbers.size(), is_aside, patience_, region_.data());
            const double settled = region_[3];
            const double *best = seen.X + largest(seen.y, n) * d_;
            if (!aside.has(number) || !(search.side < settled)) return improved(seen, best, search.side, false, random.data(), points, values);
            if (search.at < 0 || !quiet(around(seen, best, false))) return false;
            const std::int64_t *found = std::find(numbers.data(), numbers.data() + n, outcomes.numbers[static_cast<std::size_t>(search.at)]);
            return improved(seen, seen.X + (found - numbers.data()) * static_cast<std::ptrdiff_t>(d_), search.second, true, random.data(),
                            points, values);
        });
        if (!usual) return nb::none();
        return nb::make_tuple(array(points, {values.size(), d_}), array(values, {values.size()}));
    }

  private:
    struct Seen {
        const double *X, *y;
        std::size_t n;
    };

    struct Around {
        Numbers points;
        Shape shape;
    };

    bool quiet(const Around &found) const { return found.shape.model->noise() < faint_; }

    // A model of the nearest observations or, if it is not quiet, of a cluster among them
    Around around(const Seen &seen, const double *center, bool learns) const {
        const std::vector<Near> near = nearest(seen.X, seen.n, d_, center, nearest_);
        Around found = around(seen, center, near, near.size(), learns);
        if (quiet(found)) return found;
        const std::size_t enough = (d_ + 1) * (d_ + 2) / 2;
        if (near.size() <= enough || !(near[enough].away > 0.0)) return found;
        const double limit = dense_ * dense_ * near[enough].away;
        std::size_t some = enough;
        while (some < near.size() && near[some].away <= limit) ++some;
        if (some == near.size()) return found;
        Around alone = around(seen, center, near, some, learns);
        return quiet(alone) ? alone : found;
    }

    Around around(const Seen &seen, const double *center, const std::vector<Near> &near, std::size_t some, bool learns) const {
        Around found;
        Numbers y;
        for (std::size_t i = 0; i < some; ++i) {
            const double *x = seen.X + static_cast<std::size_t>(near[i].row) * d_;
            found.points.insert(found.points.end(), x, x + d_);
            y.push_back(seen.y[near[i].row]);
        }
        const Learning &how = !learns ? plain_ : d_ > 1 && some >= turning_from_ ? turns_ : learns_;
        found.shape = kept_shaped(found.points.data(), some, d_, y.data(), center, nullptr, nullptr, grids_, how, run_);
        return found;
    }

    // Around an observation, or (`own`) to improve on that one itself
    bool improved(const Seen &seen, const double *x, double side, bool own, void *random, Numbers &points, Numbers &values) const {
        const Around found = around(seen, x, true);
        const LocalGP &model = *found.shape.model;
        if (!quiet(found)) return false;
        const std::size_t chosen = own ? 0 : largest(model.values(), model.size());
        const double *center = own ? x : found.points.data() + chosen * d_;
        Numbers low(d_), high(d_), scale(d_);
        for (std::size_t k = 0; k < d_; ++k) {
            low[k] = std::max(center[k] - 0.5 * side, 0.0), high[k] = std::min(center[k] + 0.5 * side, 1.0);
            scale[k] = found.shape.radius / found.shape.stretch[k];
        }
        const Sobol sobol{digits_.data(), digits_.size() / d_, d_};
        const Numbers candidates = drawn_in_box(sobol, few_, share_, center, low.data(), high.data(), random);
        Frame frame{x, scale.data(), found.shape.turn.empty() ? nullptr : found.shape.turn.data(), d_};
        model.improve(candidates.data(), sobol.n, model.values()[chosen], frame, low.data(), high.data(), tops_, evaluations_, points, values);
        return true;
    }

    std::vector<std::uint32_t> digits_;
    std::size_t d_, few_;
    double share_;
    std::size_t nearest_;
    Grids grids_;
    Learning plain_, learns_, turns_;
    std::size_t turning_from_;
    double faint_, dense_;
    std::size_t patience_;
    Numbers region_;
    std::size_t tops_, evaluations_;
    GPFunctions run_;
};

}  // namespace

void bind_usual(nb::module_ &m) {
    nb::class_<Usual>(m, "Usual")
        .def(nb::init<nb::ndarray<const std::uint32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>, std::size_t, double, std::size_t,
                      const Numbers &, const Numbers &, const Numbers &, const std::vector<std::size_t> &, const Numbers &, const Numbers &,
                      const Numbers &, std::size_t, std::size_t, std::size_t, double, double, std::size_t, const Numbers &, std::size_t, std::size_t,
                      const std::string &>(),
             nb::arg("sobol"), nb::arg("few"), nb::arg("share"), nb::arg("nearest"), nb::arg("lengths"), nb::arg("trends"), nb::arg("noises"),
             nb::arg("start"), nb::arg("warps"), nb::arg("earned"), nb::arg("rule"), nb::arg("stretches"), nb::arg("turns"),
             nb::arg("turning_from"), nb::arg("faint"), nb::arg("dense"), nb::arg("patience"), nb::arg("region"), nb::arg("tops"), nb::arg("evaluations"),
             nb::arg("instructions") = "")
        .def("suggest", &Usual::suggest, nb::arg("X"), nb::arg("y"), nb::arg("numbers"), nb::arg("asked").none(), nb::arg("since"),
             nb::arg("ours_first"), nb::arg("ours_salt"), nb::arg("ours_least"), nb::arg("aside_first"), nb::arg("aside_salt"),
             nb::arg("aside_least"), nb::arg("number"), nb::arg("random"));
}
