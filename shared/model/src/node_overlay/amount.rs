//! The numbers that an overlay is written with: plain decimals, with a sign and a percent sign
//! where wanted.

use super::PriceOverlay;
use crate::Price;

/// The dearest price and the largest change, in dollars per hour.
const MAX_DOLLARS: i128 = 1_000_000;
/// The largest share of a price that may be added, in percent.
const MAX_PERCENT: i128 = 1_000_000;
/// A change in dollars is kept in billionths, a share of the price in millionths, which are
/// ten-thousandths of a percent.
const NANOS: u32 = 9;
const TEN_THOUSANDTHS: u32 = 4;

/// A price as `0.25`.
pub(super) fn price(text: &str) -> Option<PriceOverlay> {
    let plain = text.starts_with(|c: char| c.is_ascii_digit()) && !text.ends_with('.');
    let nanos = decimal(text, NANOS).filter(|nanos| plain && *nanos <= MAX_DOLLARS * 10_i128.pow(NANOS))?;
    Some(PriceOverlay::Absolute(Price::from_nanos(u64::try_from(nanos).ok()?)))
}

/// A change of a price as `+0.5`, `-0.5`, `+10%` or `-10%`.
pub(super) fn adjustment(text: &str) -> Option<PriceOverlay> {
    let (sign, amount) = match text.split_at_checked(1)? {
        ("+", amount) => (1, amount),
        ("-", amount) => (-1, amount),
        _ => return None,
    };
    let Some(percent) = amount.strip_suffix('%') else {
        let nanos = decimal(amount, NANOS).filter(|nanos| *nanos <= MAX_DOLLARS * 10_i128.pow(NANOS))?;
        return Some(PriceOverlay::Add(i64::try_from(sign * nanos).ok()?));
    };
    let most = if sign < 0 { 100 } else { MAX_PERCENT };
    let share = decimal(percent, TEN_THOUSANDTHS)?;
    let share = Some(share).filter(|share| *share <= most * 10_i128.pow(TEN_THOUSANDTHS))?;
    Some(PriceOverlay::Scale(i64::try_from(sign * share).ok()?))
}

/// Digits with a point where wanted, times ten to the power of `places`; what is finer is cut off.
fn decimal(text: &str, places: u32) -> Option<i128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.is_empty() || whole.len() > 15 {
        return None;
    }
    if whole.is_empty() && !text.contains('.') {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let places = usize::try_from(places).ok()?;
    let fraction: String = fraction.chars().chain(std::iter::repeat('0')).take(places).collect();
    Some(whole * 10_i128.pow(u32::try_from(places).ok()?) + fraction.parse::<i128>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use PriceOverlay::{Absolute, Add, Scale};

    #[test]
    fn prices_and_adjustments() {
        let absolute = |nanos| Some(Absolute(Price::from_nanos(nanos)));
        for (text, expected) in [
            ("0.25", absolute(250_000_000)),
            ("3", absolute(3_000_000_000)),
            ("0", absolute(0)),
            ("0.1234567891", absolute(123_456_789)),
            ("1000001", None),
            ("-1", None),
            ("1e3", None),
            (".5", None),
            ("5.", None),
            ("", None),
            ("99999999999999999999999999999999999999999", None),
        ] {
            assert_eq!(price(text), expected, "{text:?}");
        }
        for (text, expected) in [
            ("+0.5", Some(Add(500_000_000))),
            ("-.5", Some(Add(-500_000_000))),
            ("+10%", Some(Scale(100_000))),
            ("-12.5%", Some(Scale(-125_000))),
            ("-100%", Some(Scale(-1_000_000))),
            ("-100.1%", None),
            ("-101%", None),
            ("+99999999999%", None),
            ("0.5", None),
            ("+", None),
            ("+%", None),
            ("+1.2.3", None),
            ("é10%", None),
            ("", None),
        ] {
            assert_eq!(adjustment(text), expected, "{text:?}");
        }
    }
}
