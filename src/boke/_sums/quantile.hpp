// Where the normal distribution reaches a level: rational functions of its distance from 1/2 in the middle, and of
// 1 / sqrt(-2 ln level) in the tails. Coefficients and the order of operations are those of Cephes (Moshier 1989), and so of
// SciPy, to the last bit; importing SciPy's takes as long as three hundred suggestions.
#pragma once
#include <cmath>
#include <cstddef>

namespace boke {

// The coefficient of the highest power first
template <std::size_t N>
double polynomial(const double (&coefficients)[N], double x) {
    double sum = coefficients[0];
    for (std::size_t i = 1; i < N; ++i) sum = sum * x + coefficients[i];
    return sum;
}

struct Ratio {
    double above[9], below[9];
};

inline double normal_quantile(double level) {
    constexpr double TAIL = 0.13533528323661269189, SQRT_2PI = 2.50662827463100050242, FAR = 8.0;
    static constexpr double MIDDLE_ABOVE[] = {-59.9633501014107895267, 98.0010754185999661536, -56.6762857469070293439,
                                              13.9312609387279679503, -1.23916583867381258016};
    static constexpr double MIDDLE_BELOW[] = {1.0, 1.95448858338141759834, 4.67627912898881538453, 86.3602421390890590575,
                                              -225.462687854119370527, 200.260212380060660359, -82.0372256168333339912,
                                              15.9056225126211695515, -1.18331621121330003142};
    static constexpr Ratio NEAR_TAIL = {
        {4.05544892305962419923, 31.5251094599893866154, 57.1628192246421288162, 44.0805073893200834700, 14.6849561928858024014,
         2.18663306850790267539, -0.140256079171354495875, -0.0350424626827848203418, -8.57456785154685413611e-4},
        {1.0, 15.7799883256466749731, 45.3907635128879210584, 41.3172038254672030440, 15.0425385692907503408,
         2.50464946208309415979, -0.142182922854787788574, -0.0380806407691578277194, -9.33259480895457427372e-4}};
    static constexpr Ratio FAR_TAIL = {
        {3.23774891776946035970, 6.91522889068984211695, 3.93881025292474443415, 1.33303460815807542389, 0.201485389549179081538,
         0.0123716634817820021358, 3.01581553508235416007e-4, 2.65806974686737550832e-6, 6.23974539184983293730e-9},
        {1.0, 6.02427039364742014255, 3.67983563856160859403, 1.37702099489081330271, 0.216236993594496635890,
         0.0134204006088543189037, 3.28014464682127739104e-4, 2.89247864745380683936e-6, 6.79019408009981274425e-9}};
    if (!(level > 0.0 && level < 1.0)) return level == 0.0 ? -HUGE_VAL : level == 1.0 ? HUGE_VAL : std::nan("");
    const bool upper = level > 1.0 - TAIL;
    if (upper) level = 1.0 - level;
    if (level > TAIL) {
        const double away = level - 0.5, square = away * away;
        return (away + away * (square * polynomial(MIDDLE_ABOVE, square) / polynomial(MIDDLE_BELOW, square))) * SQRT_2PI;
    }
    const double x = std::sqrt(-2.0 * std::log(level)), z = 1.0 / x;
    const Ratio &tail = x < FAR ? NEAR_TAIL : FAR_TAIL;
    const double found = x - std::log(x) / x - z * polynomial(tail.above, z) / polynomial(tail.below, z);
    return upper ? found : -found;
}

}  // namespace boke
