//! Kubernetes quantities: exact decimal amounts with a suffix, as
//! `k8s.io/apimachinery/pkg/api/resource` reads them.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How a quantity was written, and so how it is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// n, u, m, none, k, M, G, T, P, E.
    #[default]
    DecimalSi,
    /// Ki, Mi, Gi, Ti, Pi, Ei.
    BinarySi,
    /// An exponent of ten, as in 12e6.
    DecimalExponent,
}

/// An exact amount of a resource: cores, bytes or things.
///
/// It is kept in billionths, the smallest step that Kubernetes knows; what is finer is rounded up,
/// as Kubernetes does. Two quantities are equal when their amounts are, however they were written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

/// Why a text is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a quantity; allowed: a number with an optional suffix {SUFFIXES}, below 2^63")]
pub struct ParseQuantityError {
    text: String,
}

const SUFFIXES: &str = "n u m k M G T P E Ki Mi Gi Ti Pi Ei or an exponent such as 1e3";
const NANOS_PER_UNIT: i128 = 1_000_000_000;
/// Kubernetes' own bound; beyond it its arithmetic saturates, so a larger request is certainly a
/// mistake.
const MAX_NANOS: i128 = (i64::MAX as i128) * NANOS_PER_UNIT;
/// Longer digit strings carry nothing that fits the bound, and would only cost time.
const MAX_DIGITS: usize = 64;

const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY: [(&str, u32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self { nanos: 0, format: Format::DecimalSi };

    /// `count` whole units: cores, pods, devices.
    pub const fn units(count: i64) -> Self {
        Self { nanos: count as i128 * NANOS_PER_UNIT, format: Format::DecimalSi }
    }

    /// Thousandths: 250 is `250m`.
    pub const fn millis(millis: i64) -> Self {
        Self { nanos: millis as i128 * (NANOS_PER_UNIT / 1_000), format: Format::DecimalSi }
    }

    /// Bytes, printed with a binary suffix.
    pub const fn bytes(bytes: i64) -> Self {
        Self { nanos: bytes as i128 * NANOS_PER_UNIT, format: Format::BinarySi }
    }

    /// Mebibytes.
    pub const fn mebibytes(mebibytes: i64) -> Self {
        Self::bytes(mebibytes << 20)
    }

    /// Gibibytes.
    pub const fn gibibytes(gibibytes: i64) -> Self {
        Self::bytes(gibibytes << 30)
    }

    /// Whole units, rounded up: what Kubernetes calls `Value`.
    pub fn value(self) -> i64 {
        saturate(self.nanos.div_ceil_euclid(NANOS_PER_UNIT))
    }

    /// Thousandths, rounded up: what Kubernetes calls `MilliValue`.
    pub fn milli_value(self) -> i64 {
        saturate(self.nanos.div_ceil_euclid(NANOS_PER_UNIT / 1_000))
    }

    /// The exact amount in billionths.
    pub const fn nanos(self) -> i128 {
        self.nanos
    }

    /// Whether the amount is nothing.
    pub const fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Whether the amount is below nothing; a request may not be.
    pub const fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// The amount as a floating-point number, for people and ratios only.
    pub fn as_f64(self) -> f64 {
        self.nanos as f64 / NANOS_PER_UNIT as f64
    }

    /// The amount times a whole number.
    #[must_use]
    pub fn times(self, count: i64) -> Self {
        Self { nanos: self.nanos.saturating_mul(i128::from(count)), format: self.format }
    }
}

/// Rounding towards positive infinity, for either sign.
trait DivCeil {
    fn div_ceil_euclid(self, by: Self) -> Self;
}

impl DivCeil for i128 {
    fn div_ceil_euclid(self, by: Self) -> Self {
        -((-self).div_euclid(by))
    }
}

fn saturate(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

impl FromStr for Quantity {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).ok_or_else(|| ParseQuantityError { text: text.chars().take(80).collect() })
    }
}

fn parse(text: &str) -> Option<Quantity> {
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let number_end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(number_end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.len() + fraction.len() > MAX_DIGITS
        || fraction.contains('.')
        || (whole.is_empty() && fraction.is_empty())
    {
        return None;
    }
    let (scale, format) = parse_suffix(suffix)?;
    let digits = format!("{whole}{fraction}");
    let decimals = i32::try_from(fraction.len()).ok()?;
    let nanos = match scale {
        Scale::Ten(exponent) => scaled(&digits, 1, exponent + 9 - decimals)?,
        Scale::Two(exponent) => scaled(&digits, 1_i128 << exponent, 9 - decimals)?,
    };
    (nanos <= MAX_NANOS).then_some(Quantity { nanos: if negative { -nanos } else { nanos }, format })
}

enum Scale {
    Ten(i32),
    Two(u32),
}

fn parse_suffix(suffix: &str) -> Option<(Scale, Format)> {
    if let Some((_, exponent)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Some((Scale::Ten(*exponent), Format::DecimalSi));
    }
    if let Some((_, exponent)) = BINARY.iter().find(|(name, _)| *name == suffix) {
        return Some((Scale::Two(*exponent), Format::BinarySi));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    let exponent: i32 = exponent.strip_prefix('+').unwrap_or(exponent).parse().ok()?;
    (exponent.abs() <= 64).then_some((Scale::Ten(exponent), Format::DecimalExponent))
}

/// `digits * factor * 10^power`, rounded up to a whole number; `None` when it cannot be held.
fn scaled(digits: &str, factor: i128, power: i32) -> Option<i128> {
    let trimmed = digits.trim_start_matches('0');
    if trimmed.is_empty() {
        return Some(0);
    }
    if power >= 0 {
        let ten = 10_i128.checked_pow(power.unsigned_abs())?;
        return trimmed.parse::<i128>().ok()?.checked_mul(factor)?.checked_mul(ten);
    }
    // Digits far behind the last billionth only decide whether to round up, so they may be cut to
    // one.
    let surplus = usize::try_from(power.unsigned_abs()).ok()?;
    let keep = trimmed.len().min(28);
    let (head, tail) = trimmed.split_at(keep);
    let cut = trimmed.len() - keep;
    let rest = i128::from(tail.bytes().any(|b| b != b'0'));
    let value = head.parse::<i128>().ok()?.checked_mul(factor)?;
    let Some(divisor) = surplus.checked_sub(cut) else {
        return value
            .checked_mul(10_i128.checked_pow(u32::try_from(cut - surplus).ok()?)?)?
            .checked_add(rest);
    };
    let Some(divisor) = u32::try_from(divisor).ok().and_then(|power| 10_i128.checked_pow(power)) else {
        return Some(1);
    };
    let quotient = value / divisor;
    Some(if value % divisor != 0 || rest != 0 { quotient + 1 } else { quotient })
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.nanos < 0 { "-" } else { "" };
        let nanos = self.nanos.unsigned_abs();
        if nanos == 0 {
            return f.write_str("0");
        }
        let unit = NANOS_PER_UNIT.unsigned_abs();
        if self.format == Format::BinarySi && nanos.is_multiple_of(unit) {
            let value = nanos / unit;
            let suffix = BINARY.iter().rev().find(|(_, exponent)| value.is_multiple_of(1_u128 << exponent));
            return match suffix {
                Some((suffix, exponent)) => write!(f, "{sign}{}{suffix}", value >> exponent),
                None => write!(f, "{sign}{value}"),
            };
        }
        let (suffix, exponent) = DECIMAL
            .iter()
            .rev()
            .find(|(_, exponent)| nanos.is_multiple_of(10_u128.pow((exponent + 9).unsigned_abs())))
            .copied()
            .unwrap_or(("n", -9));
        let value = nanos / 10_u128.pow((exponent + 9).unsigned_abs());
        match (self.format, exponent) {
            (Format::DecimalExponent, 0) => write!(f, "{sign}{value}"),
            (Format::DecimalExponent, exponent) => write!(f, "{sign}{value}e{exponent}"),
            _ => write!(f, "{sign}{value}{suffix}"),
        }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl std::hash::Hash for Quantity {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.nanos.hash(state);
    }
}

/// A sum keeps the format of its first part that is not nothing.
fn joined(a: Quantity, b: Quantity) -> Format {
    if a.is_zero() { b.format } else { a.format }
}

impl Add for Quantity {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_add(other.nanos), format: joined(self, other) }
    }
}

impl AddAssign for Quantity {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Quantity {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_sub(other.nanos), format: joined(self, other) }
    }
}

impl SubAssign for Quantity {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Sum for Quantity {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::ZERO, Add::add)
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(QuantityVisitor)
    }
}

struct QuantityVisitor;

impl serde::de::Visitor<'_> for QuantityVisitor {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a quantity: a number with an optional suffix {SUFFIXES}")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Quantity, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Quantity, E> {
        Ok(Quantity::units(number))
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Quantity, E> {
        number.to_string().parse().map_err(E::custom)
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Quantity, E> {
        number.to_string().parse().map_err(E::custom)
    }
}

impl schemars::JsonSchema for Quantity {
    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": true,
            "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn reads(text: &str, nanos: i128, printed: &str) {
        let quantity: Quantity = text.parse().unwrap();
        assert_eq!((quantity.nanos(), quantity.to_string().as_str()), (nanos, printed), "{text}");
    }

    #[test]
    fn every_suffix_is_exact() {
        let unit = NANOS_PER_UNIT;
        reads("1n", 1, "1n");
        reads("1u", 1_000, "1u");
        reads("1m", 1_000_000, "1m");
        reads("1", unit, "1");
        reads("1k", 1_000 * unit, "1k");
        reads("1M", 1_000_000 * unit, "1M");
        reads("1G", 10_i128.pow(9) * unit, "1G");
        reads("1T", 10_i128.pow(12) * unit, "1T");
        reads("1P", 10_i128.pow(15) * unit, "1P");
        reads("1E", 10_i128.pow(18) * unit, "1E");
        reads("1Ki", 1_024 * unit, "1Ki");
        reads("1.5Gi", 3 * (1 << 29) * unit, "1536Mi");
        reads("1Mi", (1 << 20) * unit, "1Mi");
        reads("2Ti", (2 << 40) * unit, "2Ti");
        reads("1Pi", (1 << 50) * unit, "1Pi");
        reads("7Ei", (7_i128 << 60) * unit, "7Ei");
        reads("12e6", 12_000_000 * unit, "12e6");
        reads("1E3", 1_000 * unit, "1e3");
        reads("1e-3", unit / 1_000, "1e-3");
        reads("+0.5", unit / 2, "500m");
        reads(".5", unit / 2, "500m");
        reads("5.", 5 * unit, "5");
        reads("-250m", -unit / 4, "-250m");
        reads("0Gi", 0, "0");
    }

    #[test]
    fn what_is_finer_than_a_billionth_rounds_up() {
        reads("0.0000000001", 1, "1n");
        reads("1.5n", 2, "2n");
        reads("1e-30", 1, "1e-9");
        reads("0.10000000000000000000000000000000000000000000000000000000001", 100_000_001, "100000001n");
    }

    #[test]
    fn nonsense_is_refused_with_what_is_allowed() {
        for text in [
            "",
            "-",
            ".",
            "1.2.3",
            "abc",
            "1 Gi",
            "1gi",
            "1KI",
            "1e",
            "1e999",
            "0x10",
            "9223372036854775808",
            "8Ei",
            "1e30",
            "٣",
            "1ee3",
            "--1",
        ] {
            assert!(text.parse::<Quantity>().is_err(), "{text:?} must be refused");
        }
        let message = "1gb".parse::<Quantity>().unwrap_err().to_string();
        assert!(message.contains("\"1gb\"") && message.contains("Ki Mi Gi"), "{message}");
    }

    #[test]
    fn rounding_is_kubernetes_own() {
        assert_eq!(Quantity::millis(1_001).value(), 2);
        assert_eq!("1u".parse::<Quantity>().unwrap().milli_value(), 1);
        assert_eq!(Quantity::millis(-1_500).value(), -1);
    }

    proptest! {
        #[test]
        fn printing_and_reading_returns_the_amount(nanos in -MAX_NANOS..=MAX_NANOS, binary: bool) {
            let format = if binary { Format::BinarySi } else { Format::DecimalSi };
            let quantity = Quantity { nanos, format };
            prop_assert_eq!(quantity.to_string().parse::<Quantity>().unwrap().nanos(), nanos);
        }

        #[test]
        fn reading_never_panics(text in "\\PC{0,40}") {
            let _ = text.parse::<Quantity>();
        }
    }
}
