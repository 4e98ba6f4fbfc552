//! The normal distribution function, within 1e-15 (and 1e-8 of its own size in the far tails), and its inverse.

/// Coefficients of two polynomials, highest power first: a rational function.
struct Ratio<const N: usize, const D: usize> {
    above: [f64; N],
    below: [f64; D],
}

impl<const N: usize, const D: usize> Ratio<N, D> {
    fn at(&self, x: f64) -> f64 {
        let horner = |coefficients: &[f64]| coefficients.iter().fold(0.0, |sum, c| sum * x + c);
        horner(&self.above) / horner(&self.below)
    }
}

/// Coefficients of M. J. Wichura, "Algorithm AS 241: The percentage points of the normal distribution", Applied
/// Statistics 37 (1988), PPND16, for the middle of the distribution.
const MIDDLE: Ratio<8, 8> = Ratio {
    above: [
        2.509_080_928_730_122_7e3,
        3.343_057_558_358_813e4,
        6.726_577_092_700_87e4,
        4.592_195_393_154_987e4,
        1.373_169_376_550_946e4,
        1.971_590_950_306_551_3e3,
        1.331_416_678_917_843_8e2,
        3.387_132_872_796_366_5,
    ],
    below: [
        5.226_495_278_852_854e3,
        2.872_908_573_572_194_3e4,
        3.930_789_580_009_271e4,
        2.121_379_430_158_659_7e4,
        5.394_196_021_424_751e3,
        6.871_870_074_920_579e2,
        4.231_333_070_160_091e1,
        1.0,
    ],
};

/// The same for tails down to 1.4e-11.
const TAIL: Ratio<8, 8> = Ratio {
    above: [
        7.745_450_142_783_414e-4,
        2.272_384_498_926_918_4e-2,
        2.417_807_251_774_506e-1,
        1.270_458_252_452_368_4,
        3.647_848_324_763_204_5,
        5.769_497_221_460_691,
        4.630_337_846_156_546,
        1.423_437_110_749_683_5,
    ],
    below: [
        1.050_750_071_644_416_9e-9,
        5.475_938_084_995_345e-4,
        1.519_866_656_361_645_7e-2,
        1.481_039_764_274_800_8e-1,
        6.897_673_349_851e-1,
        1.676_384_830_183_803_8,
        2.053_191_626_637_759,
        1.0,
    ],
};

/// The same for the tails beyond.
const FAR_TAIL: Ratio<8, 8> = Ratio {
    above: [
        2.010_334_399_292_288_1e-7,
        2.711_555_568_743_487_6e-5,
        1.242_660_947_388_078_4e-3,
        2.653_218_952_657_612_4e-2,
        2.965_605_718_285_048_7e-1,
        1.784_826_539_917_291_3,
        5.463_784_911_164_114,
        6.657_904_643_501_103,
    ],
    below: [
        2.044_263_103_389_939_8e-15,
        1.421_511_758_316_446e-7,
        1.846_318_317_510_054_8e-5,
        7.868_691_311_456_133e-4,
        1.487_536_129_085_061_5e-2,
        1.369_298_809_227_358e-1,
        5.998_322_065_558_88e-1,
        1.0,
    ],
};

/// The standard normal quantile with probability `below` below it and probability `above` above it, both within 0 to 1.
/// Two arguments keep the upper tail as exact as the lower one.
pub(super) fn quantile(below: f64, above: f64) -> f64 {
    let from_middle = below - 0.5;
    if from_middle.abs() <= 0.425 {
        return from_middle * MIDDLE.at(0.180_625 - from_middle * from_middle);
    }
    let depth = (-below.min(above).ln()).sqrt();
    let size = if depth <= 5.0 {
        TAIL.at(depth - 1.6)
    } else {
        FAR_TAIL.at(depth - 5.0)
    };
    if from_middle < 0.0 { -size } else { size }
}

/// J. F. Hart et al., "Computer approximations", 1968, function 5666, without the leading exponential.
const HART: Ratio<7, 8> = Ratio {
    above: [
        0.035_262_496_599_891_1,
        0.700_383_064_443_688,
        6.373_962_203_531_65,
        33.912_866_078_383,
        112.079_291_497_871,
        221.213_596_169_931,
        220.206_867_912_376,
    ],
    below: [
        0.088_388_347_648_318_4,
        1.755_667_163_182_64,
        16.064_177_579_207,
        86.780_732_202_946_1,
        296.564_248_779_674,
        637.333_633_378_831,
        793.826_512_519_948,
        440.413_735_824_752,
    ],
};

/// The probability that a standard normal variable lies below `z`.
pub(super) fn probability_below(z: f64) -> f64 {
    let distance = z.abs();
    let density = (-0.5 * distance * distance).exp();
    let tail = if distance < 5.0 * std::f64::consts::SQRT_2 {
        density * HART.at(distance)
    } else {
        // Continued fraction of Mills' ratio.
        let fraction = (1..=4).rev().fold(distance + 0.65, |rest, step| {
            distance + f64::from(step) / rest
        });
        density / (fraction * std::f64::consts::TAU.sqrt())
    };
    if z > 0.0 { 1.0 - tail } else { tail }
}

#[cfg(test)]
mod tests {
    use super::{probability_below, quantile};

    /// Pairs of z and the probability below it, computed with another implementation of `erfc`.
    const KNOWN: [(f64, f64); 7] = [
        (-8.0, 6.220_960_574_271_819e-16),
        (-6.0, 9.865_876_450_377_012e-10),
        (-4.0, 3.167_124_183_311_996_5e-5),
        (-2.5, 0.006_209_665_325_776_139),
        (-1.0, 0.158_655_253_931_457_07),
        (-0.5, 0.308_537_538_725_986_9),
        (0.0, 0.5),
    ];

    #[test]
    fn probabilities_and_quantiles_match_known_values() {
        for (z, probability) in KNOWN {
            let found = probability_below(z);
            assert!(
                (found / probability - 1.0).abs() < 1e-8,
                "probability below {z}: {found}"
            );
            assert!(
                (found - probability).abs() < 1e-15,
                "probability below {z}: {found}"
            );
            assert!(
                (quantile(probability, 1.0 - probability) - z).abs() < 1e-12,
                "quantile {probability}"
            );
            assert!(
                (quantile(1.0 - probability, probability) + z).abs() < 1e-12,
                "upper quantile {probability}"
            );
        }
    }

    #[test]
    fn quantile_inverts_probability_below() {
        for step in -7000..=7000 {
            let z = f64::from(step) / 1000.0;
            let back = quantile(probability_below(z), probability_below(-z));
            assert!((back - z).abs() < 1e-8, "{z} came back as {back}");
        }
    }
}
