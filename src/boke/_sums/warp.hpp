// Monotone transformations of the values; boke.warp has their definition.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace boke {

// Versions (versions, n) of the values, and their log Jacobians less what each must earn.
struct Warped {
    std::vector<double> y, jacobian;
};

// The values (n, at least one) are finite; lengths may be infinite.
inline Warped warped(std::vector<double> values, const std::vector<double> &lengths, const std::vector<double> &earned) {
    const std::size_t n = values.size(), versions = lengths.size();
    Warped result{std::vector<double>(versions * n), std::vector<double>(versions)};
    double largest = 0.0;
    for (const double value : values) largest = std::max(largest, std::abs(value));
    for (double &value : values) value = largest > 1e150 ? value / largest : value;
    std::vector<double> ordered = values;
    std::sort(ordered.begin(), ordered.end());
    const double middle = ordered[n / 2], top = ordered[n - 1];
    const double high = ordered[std::min(static_cast<std::size_t>(0.9 * static_cast<double>(n)), n - 1)];
    double unit = std::max(high - middle, 1e-6 * (top - middle));
    unit = unit > 0.0 ? unit : 1.0;
    for (std::size_t v = 0; v < versions; ++v) {
        double *row = result.y.data() + v * n, slope = 0.0, mean = 0.0, square = 0.0;
        for (std::size_t i = 0; i < n; ++i) {
            const double r = std::max(values[i] - middle, -1e8 * unit) / unit;
            const double bend = r < 0.0 ? std::log1p(-r / lengths[v]) : 0.0;
            row[i] = bend > 0.0 ? -lengths[v] * bend : r;
            slope -= bend;
            mean += row[i];
        }
        mean /= static_cast<double>(n);
        for (std::size_t i = 0; i < n; ++i) square += (row[i] - mean) * (row[i] - mean);
        const double spread = std::sqrt(square / static_cast<double>(n)), sd = spread > 0.0 ? spread : 1.0;
        for (std::size_t i = 0; i < n; ++i) row[i] = (row[i] - mean) / sd;
        result.jacobian[v] = slope - static_cast<double>(n) * std::log(sd) - earned[v];
    }
    return result;
}

}  // namespace boke
