//! Gamma distributions: the probability below a value, and the distribution that fits some values best.

/// A gamma distribution with this shape and scale.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gamma {
    pub shape: f64,
    pub scale: f64,
}

/// The bounds of the shape. Draws need a shape of at least 1. Values that hardly differ would lead to an infinite
/// shape.
const SHAPES: (f64, f64) = (1.0, 1e5);

impl Gamma {
    /// The probability of a value below `x`. This is the regularized lower incomplete gamma function, computed by its
    /// series x^a e^-x / Gamma(a + 1) (1 + x / (a + 1) + x^2 / ((a + 1)(a + 2)) + …) (Abramowitz and Stegun, 6.5.29).
    pub fn below(self, x: f64) -> f64 {
        let (shape, x) = (self.shape, x / self.scale);
        if x <= 0.0 {
            return 0.0;
        }
        // Beyond this point, the probability of a value above x is too small for a double, and the terms of the series
        // might overflow.
        if x > shape + 30.0 * libm::sqrt(shape) + 200.0 {
            return 1.0;
        }
        let (mut term, mut sum, mut number) = (1.0, 1.0, shape);
        // The terms decrease once their index exceeds x.
        while term > sum * 1e-16 {
            number += 1.0;
            term = term * x / number;
            sum += term;
        }
        sum * libm::exp(shape * libm::log(x) - x - libm::lgamma(shape + 1.0))
    }

    /// The logarithm of the density at a value above zero, without the part that is the same for all values.
    /// [`Gamma::log_norm`] is that part.
    pub fn log_kernel(self, x: f64, log_x: f64) -> f64 {
        (self.shape - 1.0) * log_x - x / self.scale
    }

    pub fn log_norm(self) -> f64 {
        -libm::lgamma(self.shape) - self.shape * libm::log(self.scale)
    }

    /// The distribution with this mean and this variance.
    pub fn of_moments(mean: f64, variance: f64) -> Gamma {
        let shape = (mean * mean / variance.max(1e-12)).clamp(SHAPES.0, SHAPES.1);
        Gamma { shape, scale: mean / shape }
    }

    /// The distribution under which values with this mean and with the mean of logarithms `mean_of_logs` are most
    /// likely. Solves ln a - psi(a) = (logarithm of the mean) - (mean of the logarithms) by Newton's method on 1/a
    /// (Minka, *Estimating a Gamma distribution*, 2002).
    pub fn most_likely(mean: f64, mean_of_logs: f64) -> Gamma {
        let apart = (libm::log(mean) - mean_of_logs).max(1e-9);
        let mut shape = (3.0 - apart + libm::sqrt((apart - 3.0) * (apart - 3.0) + 24.0 * apart)) / (12.0 * apart);
        for _ in 0..20 {
            let slope = shape * shape * (1.0 / shape - trigamma(shape));
            let inverse = 1.0 / shape + (libm::log(shape) - digamma(shape) - apart) / slope;
            shape = (1.0 / inverse).clamp(SHAPES.0 / 10.0, SHAPES.1 * 10.0);
        }
        let shape = shape.clamp(SHAPES.0, SHAPES.1);
        Gamma { shape, scale: mean / shape }
    }
}

/// The derivative of ln Gamma. Uses the recurrence up to 10, then the asymptotic series (Abramowitz and Stegun, 6.3.5,
/// 6.3.18).
fn digamma(mut x: f64) -> f64 {
    let mut sum = 0.0;
    while x < 10.0 {
        sum -= 1.0 / x;
        x += 1.0;
    }
    let square = 1.0 / (x * x);
    let series = square * (1.0 / 12.0 - square * (1.0 / 120.0 - square * (1.0 / 252.0 - square / 240.0)));
    sum + libm::log(x) - 0.5 / x - series
}

/// The derivative of digamma (Abramowitz and Stegun, 6.4.6, 6.4.12).
fn trigamma(mut x: f64) -> f64 {
    let mut sum = 0.0;
    while x < 10.0 {
        sum += 1.0 / (x * x);
        x += 1.0;
    }
    let square = 1.0 / (x * x);
    let series = square * (1.0 / 6.0 - square * (1.0 / 30.0 - square * (1.0 / 42.0 - square / 30.0)));
    sum + 1.0 / x + 0.5 * square + series / x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gamma_distribution_is_the_tables() {
        let part = |shape: f64, x: f64| Gamma { shape, scale: 1.0 }.below(x);
        // For shape 1: 1 - e^-x. For shape 2: 1 - (1 + x) e^-x.
        for x in [0.1, 1.0, 5.0, 30.0] {
            assert!((part(1.0, x) - (1.0 - libm::exp(-x))).abs() < 1e-14);
            assert!((part(2.0, x) - (1.0 - (1.0 + x) * libm::exp(-x))).abs() < 1e-14);
        }
        // Chi squared with 16 degrees of freedom is a gamma distribution with shape 8 and scale 2. Its median is
        // 15.33850.
        assert!((part(8.0, 15.33850 / 2.0) - 0.5).abs() < 1e-6);
        // A value far above the mean, and a value far below it.
        assert_eq!((part(1.0, 1e6), part(5e4, 1e3)), (1.0, 0.0));
        assert!((part(1e4, 1e4) - 0.5).abs() < 0.01);
    }

    /// psi(1) is minus Euler's constant, and psi(1/2) is psi(1) - 2 ln 2. psi'(1) is pi^2/6, and psi'(1/2) is pi^2/2.
    #[test]
    fn derivatives_are_the_tables() {
        let (euler, pi) = (0.577_215_664_901_532_9, std::f64::consts::PI);
        assert!((digamma(1.0) + euler).abs() < 1e-10);
        assert!((digamma(0.5) + euler + 2.0 * libm::log(2.0)).abs() < 1e-10);
        assert!((trigamma(1.0) - pi * pi / 6.0).abs() < 1e-9);
        assert!((trigamma(0.5) - pi * pi / 2.0).abs() < 1e-9);
    }

    /// A gamma distribution has the mean a b and the variance a b^2. The logarithm of its values has the mean psi(a) +
    /// ln b.
    #[test]
    fn the_most_likely_has_the_moments_it_came_from() {
        for (shape, scale) in [(1.5, 2.0), (4.2, 0.94), (312.0, 0.03), (8.1737, 3.9631)] {
            let near = |found: Gamma| {
                assert!((found.shape / shape - 1.0).abs() < 1e-6, "{found:?}");
                assert!((found.scale / scale - 1.0).abs() < 1e-6, "{found:?}");
            };
            near(Gamma::most_likely(shape * scale, digamma(shape) + libm::log(scale)));
            near(Gamma::of_moments(shape * scale, shape * scale * scale));
        }
        // Values that are all the same.
        assert!(Gamma::most_likely(3.0, libm::log(3.0)).shape <= SHAPES.1);
    }
}
