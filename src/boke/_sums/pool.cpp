// boke._native.Pool: for every candidate the points that count in its kernel sums, kept while points come and go.
#include "pool.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "arrays.hpp"
#include "choice.hpp"

using namespace boke;

namespace {

using Keys = nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Slots = std::vector<std::size_t>;

constexpr double LOWEST = -700.0;  // exponentials of anything lower are as good as 0
constexpr double SPARE = 1.25, SHRUNK = 0.5;  // of a reach, so that one that grows or falls slowly seldom changes anything
constexpr std::size_t END = static_cast<std::size_t>(-1);
constexpr std::size_t TOGETHER = 256;  // candidates that are looked at together

class Pool {
  public:
    Pool(Matrix candidates, const std::string &instructions)
        : n_(candidates.shape(0)), d_(candidates.shape(1)), x_(candidates.data(), candidates.data() + n_ * d_), near_(n_),
          nearest_(n_, HUGE_VAL), work_(d_ * LANES), choice_(pick(instructions)) {}

    // Takes points away by their slots and adds others (k, d), whose keys tell them apart; returns the slots of these. Every
    // candidate knows all points whose squared distance is at most `reach` beyond that of the nearest.
    Slots update(const Slots &gone, Matrix added, Keys keys, double reach) {
        if (added.shape(1) != d_ || keys.shape(0) != added.shape(0)) throw std::invalid_argument("Shapes do not agree.");
        std::vector<bool> left = alive_;
        for (const std::size_t slot : gone) {
            if (slot >= left.size() || !left[slot]) throw std::invalid_argument("There is no such point.");
            left[slot] = false;
        }
        nb::gil_scoped_release unlocked;
        alive_.swap(left);
        const bool wider = reach > kept_;
        if (wider || reach < SHRUNK * kept_) kept_ = SPARE * reach;
        reach_ = reach;
        Slots anew;  // candidates for which all points have to be looked at: those that have lost the nearest
        for (std::size_t c = 0; c < n_; ++c)
            if (wider || nearest_[c] == HUGE_VAL || (!gone.empty() && !alive_[near_[c].front().slot])) anew.push_back(c);
            else if (!gone.empty()) forget(near_[c]);
        free_.insert(free_.end(), gone.begin(), gone.end());
        Slots slots;
        for (std::size_t i = 0; i < added.shape(0); ++i) slots.push_back(take(added.data() + i * d_, keys.data()[i]));
        if (anew.size() < n_) {
            std::vector<double> squared(n_);
            for (const std::size_t slot : slots) {
                choice_.distances(x_.data(), n_, &points_[slot * d_], 1, d_, false, squared.data(), work_.data());
                for (std::size_t c = 0; c < n_; ++c)
                    if (squared[c] <= nearest_[c] + kept_) insert(c, {squared[c], slot});
            }
        }
        fill(anew);
        return slots;
    }

    // (mean, W) at all candidates, from the weight and the sum of the values in each slot. Points within reach are added from
    // the nearest on, so that it does not matter which ones came and went before.
    nb::tuple sums(Vector weights, Vector values, double bandwidth) const {
        if (weights.shape(0) != alive_.size() || values.shape(0) != alive_.size()) throw std::invalid_argument("Shapes do not agree.");
        std::vector<double> mean(n_, 0.0), W(n_, 0.0);
        {
            nb::gil_scoped_release unlocked;
            const double unit = -0.5 / (bandwidth * bandwidth);
            std::vector<double> powers;
            std::vector<std::size_t> slots;  // those of the powers; behind the last of a candidate comes that of its nearest
            for (std::size_t first = 0; first < n_; first += TOGETHER) {
                const std::size_t last = std::min(first + TOGETHER, n_);
                powers.clear(), slots.clear();
                for (std::size_t c = first; c < last; ++c) {
                    for (const Entry &entry : near_[c]) {
                        if (entry.s > nearest_[c] + reach_) break;
                        powers.push_back(std::max((entry.s - nearest_[c]) * unit, LOWEST));
                        slots.push_back(entry.slot);
                    }
                    powers.push_back(std::max(nearest_[c] * unit, LOWEST));
                    slots.push_back(END);
                }
                powers.resize((powers.size() + LANES - 1) / LANES * LANES, 0.0);
                choice_.exponentials(powers.data(), powers.size());
                std::size_t next = 0;
                for (std::size_t c = first; c < last; ++c, ++next) {
                    double weight = 0.0, sum = 0.0;
                    for (; slots[next] != END; ++next) {
                        weight += powers[next] * weights.data()[slots[next]];
                        sum += powers[next] * values.data()[slots[next]];
                    }
                    if (weight > 0.0) mean[c] = sum / weight;
                    if (nearest_[c] * unit > LOWEST) W[c] = weight * powers[next];
                }
            }
        }
        return nb::make_tuple(made(std::move(mean), {n_}), made(std::move(W), {n_}));
    }

    // How many neighbours are kept
    std::size_t size() const {
        std::size_t all = 0;
        for (const std::vector<Entry> &entries : near_) all += entries.size();
        return all;
    }

    std::size_t slots() const { return alive_.size(); }

  private:
    struct Entry {
        double s;  // squared distance
        std::size_t slot;
    };

    bool before(const Entry &a, const Entry &b) const { return a.s < b.s || (a.s == b.s && keys_[a.slot] < keys_[b.slot]); }

    std::size_t take(const double *point, std::uint64_t key) {
        std::size_t slot = alive_.size();
        if (free_.empty()) {
            points_.resize((slot + 1) * d_), keys_.push_back(key), alive_.push_back(true);
        } else {
            slot = free_.back(), free_.pop_back();
            keys_[slot] = key, alive_[slot] = true;
        }
        std::copy_n(point, d_, points_.begin() + slot * d_);
        return slot;
    }

    void insert(std::size_t c, const Entry &entry) {
        std::vector<Entry> &entries = near_[c];
        entries.insert(std::upper_bound(entries.begin(), entries.end(), entry, [&](const Entry &a, const Entry &b) { return before(a, b); }), entry);
        if (entry.s >= nearest_[c]) return;
        nearest_[c] = entry.s;
        while (entries.back().s > entry.s + kept_) entries.pop_back();
    }

    void forget(std::vector<Entry> &entries) const {
        entries.erase(std::remove_if(entries.begin(), entries.end(), [&](const Entry &entry) { return !alive_[entry.slot]; }), entries.end());
    }

    // Looks at all points for some candidates.
    void fill(const Slots &candidates) {
        const std::size_t m = alive_.size();
        std::vector<double> some(TOGETHER * d_), squared(TOGETHER * m);
        for (std::size_t first = 0; first < candidates.size(); first += TOGETHER) {
            const std::size_t count = std::min(TOGETHER, candidates.size() - first);
            for (std::size_t i = 0; i < count; ++i) std::copy_n(&x_[candidates[first + i] * d_], d_, &some[i * d_]);
            choice_.distances(some.data(), count, points_.data(), m, d_, false, squared.data(), work_.data());
            for (std::size_t i = 0; i < count; ++i) {
                const double *s = &squared[i * m];
                std::vector<Entry> &entries = near_[candidates[first + i]];
                double &nearest = nearest_[candidates[first + i]] = HUGE_VAL;
                for (std::size_t slot = 0; slot < m; ++slot)
                    if (alive_[slot] && s[slot] < nearest) nearest = s[slot];
                entries.clear();
                for (std::size_t slot = 0; slot < m; ++slot)
                    if (s[slot] <= nearest + kept_ && alive_[slot]) entries.push_back({s[slot], slot});
                std::sort(entries.begin(), entries.end(), [&](const Entry &a, const Entry &b) { return before(a, b); });
            }
        }
    }

    std::size_t n_, d_;
    std::vector<double> x_, points_;  // candidates (n, d), and points by slot
    std::vector<std::uint64_t> keys_;
    std::vector<bool> alive_;
    Slots free_;
    std::vector<std::vector<Entry>> near_;  // the nearest first, those as near by key
    std::vector<double> nearest_, work_;    // squared distance of the nearest point; see Distances
    double reach_ = 0.0, kept_ = 0.0;  // of the points that count, and of those that are kept
    Choice choice_;
};

}  // namespace

void bind_pool(nb::module_ &m) {
    nb::class_<Pool>(m, "Pool")
        .def(nb::init<Matrix, const std::string &>(), nb::arg("candidates"), nb::arg("instructions") = "")
        .def("update", &Pool::update, nb::arg("gone"), nb::arg("added"), nb::arg("keys"), nb::arg("reach"))
        .def("sums", &Pool::sums, nb::arg("weights"), nb::arg("values"), nb::arg("bandwidth"))
        .def_prop_ro("size", &Pool::size)
        .def_prop_ro("slots", &Pool::slots);
}
