//! The light rate of the native pattern format: the column and its header keys.

use crate::pattern_format::{assert_refused, parse};

#[test]
fn the_light_rate_is_read_with_its_header_keys() {
    let pattern = parse(
        "# kind = steps\n# light_idle_s = 0.25\n# duration_s = 40\n# light_bytes = 15000\n",
        "time_s,light_rate_bps,rate_bps\n0,5,9\n1,0,8\n2,1000000000000,0\n",
    )
    .expect("it is valid");
    let light = pattern.light().expect("it has a light rate");
    assert_eq!(light.rate_bps(), [5, 0, 1_000_000_000_000]);
    assert_eq!((light.bytes(), light.idle_ns()), (15_000, 250_000_000));
    assert_eq!(pattern.rate_bps(), Some(&[9, 8, 0][..]));
    // In an outage it has no effect.
    let alone = pattern.light_pattern().expect("it has a light rate");
    assert_eq!(alone.rate_bps(), Some(&[5, 0, 0][..]));
    assert_eq!(
        (alone.at(), alone.period()),
        (pattern.at(), pattern.period())
    );
    let plain = parse(
        "# kind = steps\n# duration_s = 40\n",
        "time_s,rate_bps\n0,5\n",
    )
    .expect("it is valid");
    assert_eq!((plain.light(), plain.light_pattern()), (None, None));
    assert_eq!((pattern.primary_leg().light(), alone.light()), (None, None));
}

#[test]
fn each_broken_rule_of_a_light_rate_is_named_with_its_line() {
    assert_refused(&[
        (
            "# kind = steps\n# duration_s = 40\n# light_bytes = 1\n# light_idle_s = 1\n",
            "time_s,light_rate_bps\n0,1\n",
            "line 6",
            "'light_rate_bps' stands without rate_bps",
        ),
        (
            "# kind = steps\n# duration_s = 40\n# light_idle_s = 1\n",
            "time_s,rate_bps,light_rate_bps\n0,1,1\n",
            "line 5",
            "column 'light_rate_bps' stands without the header 'light_bytes': add '# light_bytes = 15000' or remove light_rate_bps",
        ),
        (
            "# kind = steps\n# duration_s = 40\n# light_bytes = 1\n",
            "time_s,rate_bps,light_rate_bps\n0,1,1\n",
            "line 5",
            "stands without the header 'light_idle_s'",
        ),
        (
            "# kind = steps\n# duration_s = 40\n# light_bytes = 1\n# light_idle_s = 1\n",
            "time_s,rate_bps\n0,1\n",
            "line 4",
            "header 'light_bytes' stands without the column light_rate_bps: add light_rate_bps or remove light_bytes",
        ),
        (
            "# kind = opportunities\n# duration_s = 40\n# light_idle_s = 1\n",
            "time_s,bytes\n0,1\n",
            "line 4",
            "header 'light_idle_s' stands without the column",
        ),
        (
            "# kind = steps\n# duration_s = 40\n# light_bytes = 0\n# light_idle_s = 1\n",
            "time_s,rate_bps,light_rate_bps\n0,1,1\n",
            "line 4",
            "header 'light_bytes' is 0 ('0'): write a whole number of bytes from 1 to 1000000000",
        ),
        (
            "# kind = steps\n# duration_s = 40\n# light_bytes = 1000000001\n# light_idle_s = 1\n",
            "time_s,rate_bps,light_rate_bps\n0,1,1\n",
            "line 4",
            "out of range",
        ),
        (
            "# kind = steps\n# duration_s = 40\n# light_bytes = 1\n# light_idle_s = 0.0\n",
            "time_s,rate_bps,light_rate_bps\n0,1,1\n",
            "line 5",
            "header 'light_idle_s' is 0",
        ),
        (
            "# kind = steps\n# duration_s = 40\n# light_bytes = 1\n# light_idle_s = 100ms\n",
            "time_s,rate_bps,light_rate_bps\n0,1,1\n",
            "line 5",
            "plain decimal",
        ),
        (
            "# kind = steps\n# duration_s = 40\n# light_bytes = 1\n# light_idle_s = 1\n",
            "time_s,rate_bps,light_rate_bps\n0,1,1000000000001\n",
            "line 7",
            "light_rate_bps is out of range",
        ),
    ]);
}
