// Eigenvectors by Jacobi's rotations; boke.rotations has their definition.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace boke {

constexpr double NEGLIGIBLE = 1e-8;  // of entries beside the diagonal, relative to the largest

// Those of a symmetric matrix (d, d), as columns; and what is on the diagonal then, the eigenvalues.
struct Axes {
    std::vector<double> vectors, values;
};

inline Axes eigenvectors(std::vector<double> A, std::size_t d) {
    std::vector<double> V(d * d, 0.0);  // by rows: they are read one after the other
    Axes axes{std::vector<double>(d * d), std::vector<double>(d)};
    double small = 0.0;
    for (std::size_t i = 0; i < d; ++i) V[i * d + i] = 1.0;
    for (const double entry : A) small = std::max(small, NEGLIGIBLE * std::abs(entry));
    auto rotate = [](double &a, double &b, double cos, double sin) {
        const double first = a * cos + b * -sin;
        b = a * sin + b * cos;
        a = first;
    };
    bool large = true;
    for (int round = 0; large && round < 20; ++round) {
        large = false;
        for (std::size_t i = 0; i < d; ++i)
            for (std::size_t j = i + 1; j < d; ++j) {
                if (!(std::abs(A[i * d + j]) > small)) continue;
                large = true;
                const double cot = (A[j * d + j] - A[i * d + i]) / (2.0 * A[i * d + j]);
                const double tan = std::copysign(1.0, cot) / (std::abs(cot) + std::sqrt(1.0 + cot * cot));
                const double cos = 1.0 / std::sqrt(1.0 + tan * tan), sin = tan * cos;
                for (std::size_t k = 0; k < d; ++k) rotate(A[k * d + i], A[k * d + j], cos, sin);
                for (std::size_t k = 0; k < d; ++k) rotate(A[i * d + k], A[j * d + k], cos, sin);
                for (std::size_t k = 0; k < d; ++k) rotate(V[i * d + k], V[j * d + k], cos, sin);
            }
    }
    for (std::size_t i = 0; i < d; ++i) {
        axes.values[i] = A[i * d + i];
        for (std::size_t k = 0; k < d; ++k) axes.vectors[k * d + i] = V[i * d + k];
    }
    return axes;
}

}  // namespace boke
