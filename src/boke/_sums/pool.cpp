// boke._native.Pool: for every candidate the points that count in its kernel sums, kept while points and candidates come
// and go.
#include "pool.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
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
constexpr std::size_t NONE = static_cast<std::size_t>(-1);
constexpr std::size_t TOGETHER = 256;  // candidates that are looked at together
constexpr std::size_t SOME = 64;       // dead points that are left among the neighbours at least

// Which slot a key has: a table with open places, in which a key lies at its own place or behind it.
class Table {
  public:
    std::size_t find(std::uint64_t key) const {
        for (std::size_t i = key & mask_;; i = (i + 1) & mask_)
            if (slots_[i] == NONE || keys_[i] == key) return slots_[i];
    }
    void add(std::uint64_t key, std::size_t slot) {
        std::size_t i = key & mask_;
        while (slots_[i] != NONE) i = (i + 1) & mask_;
        keys_[i] = key, slots_[i] = slot;
    }
    // Makes it empty, with room for so many.
    void reset(std::size_t room) {
        while (mask_ + 1 < 2 * room) mask_ = 2 * mask_ + 1;
        keys_.resize(mask_ + 1);
        slots_.assign(mask_ + 1, NONE);
    }
    bool full(std::size_t count) const { return 2 * count > mask_; }

  private:
    std::size_t mask_ = 63;
    std::vector<std::uint64_t> keys_ = std::vector<std::uint64_t>(64);
    Slots slots_ = Slots(64, NONE);
};

class Pool {
  public:
    explicit Pool(const std::string &instructions) : choice_(pick(instructions)) {}

    // (mean, W) at candidates x (n, d), which are the `same` as in the last call or may be others, of points z (t, d) with
    // values y (t,) and positive weights w (t,), 1 without. A point is known again by its key. What was known in the last call
    // is not looked at again. Points count whose squared distance, in bandwidths, is at most `within` beyond that of the
    // nearest, farther ones if they weigh more.
    nb::tuple sums(Matrix x, bool same, Matrix z, Keys keys, Vector y, std::optional<Vector> w, double bandwidth, double within) {
        const std::size_t n = x.shape(0), t = z.shape(0);
        if (z.shape(1) != x.shape(1) || keys.shape(0) != t || y.shape(0) != t || (w && w->shape(0) != t))
            throw std::invalid_argument("Shapes do not agree.");
        std::vector<double> mean(n, 0.0), W(n, 0.0);
        {
            nb::gil_scoped_release unlocked;
            const double *weights = w ? w->data() : nullptr;
            if (weights && t) {
                const auto ends = std::minmax_element(weights, weights + t);
                within += 2.0 * std::log(*ends.second / *ends.first);
            }
            if (!same || n != n_ || x.shape(1) != d_) follow(x.data(), n, x.shape(1));
            become(z.data(), keys.data(), y.data(), weights, t, within * bandwidth * bandwidth);
            sum(bandwidth, mean, W);
        }
        return nb::make_tuple(made(std::move(mean), {n}), made(std::move(W), {n}));
    }

    // How many neighbours are kept
    std::size_t size() const {
        std::size_t all = 0;
        for (const std::vector<Entry> &entries : near_) all += entries.size();
        return all;
    }

    std::size_t slots() const { return keys_.size(); }

  private:
    struct Entry {
        double s;  // squared distance
        std::size_t slot;
    };

    bool nearer(const Entry &a, const Entry &b) const { return a.s < b.s || (a.s == b.s && keys_[a.slot] < keys_[b.slot]); }

    // Lets the candidates be these (n, d).
    void follow(const double *x, std::size_t n, std::size_t d) {
        if (n != n_ || d != d_) {
            *this = Pool(choice_);
            n_ = n, d_ = d;
            x_.assign(n * d, NAN), near_.resize(n), nearest_.resize(n), work_.resize(d * LANES);
        }
        for (std::size_t c = 0; c < n; ++c) {
            if (std::equal(x + c * d, x + (c + 1) * d, &x_[c * d])) continue;
            std::copy_n(x + c * d, d, &x_[c * d]);
            near_[c].clear();
            nearest_[c] = HUGE_VAL;
        }
    }

    // Lets the points be these (t, d). Every candidate then knows all whose squared distance is at most `reach` beyond that of
    // the nearest.
    void become(const double *z, const std::uint64_t *keys, const double *y, const double *w, std::size_t t, double reach) {
        std::fill(weight_.begin(), weight_.end(), 0.0);
        std::fill(sum_.begin(), sum_.end(), 0.0);
        std::fill(seen_.begin(), seen_.end(), char{0});
        Slots added, rows(t);
        for (std::size_t i = 0, j = 0; i < t; ++i) {  // as a rule the rows of the last call, one more, and perhaps one less
            auto again = [&](std::size_t row) { return row < rows_.size() && keys_[rows_[row]] == keys[i]; };
            if (!again(j) && again(j + 1)) ++j;
            std::size_t slot = again(j) ? rows_[j++] : table_.find(keys[i]);
            if (slot == NONE) added.push_back(slot = take(z + i * d_, keys[i]));
            const double weight = w ? w[i] : 1.0;
            rows[i] = slot, seen_[slot] = 1, weight_[slot] += weight, sum_[slot] += weight * y[i];
        }
        rows_.swap(rows);
        const std::size_t before = dead_.size();
        for (std::size_t slot = 0; slot < keys_.size(); ++slot)
            if (alive_[slot] && !seen_[slot]) alive_[slot] = 0, dead_.push_back(slot);
        const bool lost = dead_.size() > before, wider = reach > kept_;
        if (wider || reach < SHRUNK * kept_) kept_ = SPARE * reach;
        reach_ = reach;
        Slots anew;  // candidates for which all points have to be looked at: new ones, and those that have lost the nearest
        for (std::size_t c = 0; c < n_; ++c)
            if (wider || nearest_[c] == HUGE_VAL || (lost && !alive_[near_[c].front().slot])) anew.push_back(c);
        if (lost) forget();
        if (anew.size() < n_) insert(added);
        fill(anew);
    }

    std::size_t take(const double *point, std::uint64_t key) {
        std::size_t slot = keys_.size();
        if (free_.empty()) {
            for (std::vector<char> *column : {&alive_, &seen_}) column->push_back(0);
            for (std::vector<double> *column : {&weight_, &sum_}) column->push_back(0.0);
            keys_.push_back(key), z_.resize((slot + 1) * d_);
        } else {
            slot = free_.back(), free_.pop_back();
        }
        keys_[slot] = key, alive_[slot] = 1;
        std::copy_n(point, d_, &z_[slot * d_]);
        if (table_.full(keys_.size())) index();
        else table_.add(key, slot);
        return slot;
    }

    void index() {
        table_.reset(2 * keys_.size());
        for (std::size_t slot = 0; slot < keys_.size(); ++slot)
            if (alive_[slot]) table_.add(keys_[slot], slot);
    }

    // Dead points have no weight and may stay among the neighbours until they are many; their slots are taken again only then.
    void forget() {
        index();
        if (dead_.size() < SOME + (keys_.size() - dead_.size()) / 2) return;
        for (std::vector<Entry> &entries : near_)
            entries.erase(std::remove_if(entries.begin(), entries.end(), [&](const Entry &entry) { return !alive_[entry.slot]; }), entries.end());
        free_.insert(free_.end(), dead_.begin(), dead_.end());
        dead_.clear();
    }

    // Tells all candidates of new points.
    void insert(const Slots &added) {
        std::vector<double> squared(n_);
        for (const std::size_t slot : added) {
            choice_.distances(x_.data(), n_, &z_[slot * d_], 1, d_, false, squared.data(), work_.data());
            for (std::size_t c = 0; c < n_; ++c)
                if (squared[c] <= nearest_[c] + kept_) insert(c, {squared[c], slot});
        }
    }

    void insert(std::size_t c, const Entry &entry) {
        std::vector<Entry> &entries = near_[c];
        entries.insert(std::upper_bound(entries.begin(), entries.end(), entry, [&](const Entry &a, const Entry &b) { return nearer(a, b); }), entry);
        if (entry.s >= nearest_[c]) return;
        nearest_[c] = entry.s;
        while (entries.back().s > entry.s + kept_) entries.pop_back();
    }

    // Looks at all points for some candidates.
    void fill(const Slots &candidates) {
        const std::size_t m = keys_.size(), most = std::min(TOGETHER, candidates.size());
        std::vector<double> some(most * d_), squared(most * m);
        for (std::size_t first = 0; first < candidates.size(); first += TOGETHER) {
            const std::size_t count = std::min(TOGETHER, candidates.size() - first);
            for (std::size_t i = 0; i < count; ++i) std::copy_n(&x_[candidates[first + i] * d_], d_, &some[i * d_]);
            choice_.distances(some.data(), count, z_.data(), m, d_, false, squared.data(), work_.data());
            for (std::size_t i = 0; i < count; ++i) {
                const double *s = &squared[i * m];
                std::vector<Entry> &entries = near_[candidates[first + i]];
                double &nearest = nearest_[candidates[first + i]] = HUGE_VAL;
                for (std::size_t slot = 0; slot < m; ++slot)
                    if (alive_[slot] && s[slot] < nearest) nearest = s[slot];
                entries.clear();
                for (std::size_t slot = 0; slot < m; ++slot)
                    if (s[slot] <= nearest + kept_ && alive_[slot]) entries.push_back({s[slot], slot});
                std::sort(entries.begin(), entries.end(), [&](const Entry &a, const Entry &b) { return nearer(a, b); });
            }
        }
    }

    // Points within reach are added from the nearest on, so that it does not matter which ones came and went before.
    void sum(double bandwidth, std::vector<double> &mean, std::vector<double> &W) {
        const double unit = -0.5 / (bandwidth * bandwidth);
        std::vector<double> powers;
        Slots slots;  // those of the powers; behind the last of a candidate comes that of its nearest
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
                slots.push_back(NONE);
            }
            powers.resize((powers.size() + LANES - 1) / LANES * LANES, 0.0);
            choice_.exponentials(powers.data(), powers.size());
            std::size_t next = 0;
            for (std::size_t c = first; c < last; ++c, ++next) {
                double weight = 0.0, total = 0.0;
                for (; slots[next] != NONE; ++next) {
                    weight += powers[next] * weight_[slots[next]];
                    total += powers[next] * sum_[slots[next]];
                }
                if (weight > 0.0) mean[c] = total / weight;
                if (nearest_[c] * unit > LOWEST) W[c] = weight * powers[next];
            }
        }
    }

    explicit Pool(const Choice &choice) : choice_(choice) {}

    std::size_t n_ = 0, d_ = 0;
    std::vector<double> x_, z_;  // candidates (n, d), and points by slot
    std::vector<std::uint64_t> keys_;   // by slot, as all that follows
    std::vector<double> weight_, sum_;  // of the observations at a point, and of their values: 0 where there are none any more
    std::vector<char> alive_, seen_;
    Slots rows_, free_, dead_;  // slots of the rows of the last call; of none; of dead points
    Table table_;
    std::vector<std::vector<Entry>> near_;  // the nearest first, those as near by key
    std::vector<double> nearest_, work_;    // squared distance of the nearest point; see Distances
    double reach_ = 0.0, kept_ = 0.0;  // of the points that count, and of those that are kept
    Choice choice_;
};

}  // namespace

void bind_pool(nb::module_ &m) {
    nb::class_<Pool>(m, "Pool")
        .def(nb::init<const std::string &>(), nb::arg("instructions") = "")
        .def("sums", &Pool::sums, nb::arg("candidates"), nb::arg("same"), nb::arg("points"), nb::arg("keys"), nb::arg("values"), nb::arg("weights").none(), nb::arg("bandwidth"), nb::arg("within"))
        .def_prop_ro("size", &Pool::size)
        .def_prop_ro("slots", &Pool::slots);
}
