//! The tests of the link: one program, because linking one for each file took minutes.
#![allow(
    missing_docs,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "test figures are small"
)]

mod bottleneck_cost;
mod bottleneck_oracles;
mod bottleneck_rules;
mod cell_background;
mod cell_losses;
mod cell_power;
mod cell_properties;
#[allow(dead_code, reason = "an example uses all of it")]
#[path = "../../examples/cell_run/mod.rs"]
mod cell_run;
mod cell_services;
mod cell_shares;
mod cell_support;
mod codel_rfc;
mod codel_support;
mod conditions;
mod corrupt_stage;
mod counters;
mod delay_stage;
mod delay_statistics;
mod dualpi2_rfc;
mod duplicate_stage;
mod fq_codel_rfc;
mod l4s_radio;
mod l4s_support;
mod light_rate;
mod link_config;
mod link_properties;
mod link_support;
mod loss_by_index;
mod loss_link;
mod loss_statistics;
mod loss_support;
mod packet_log;
mod packet_rate;
mod pattern_format;
mod pattern_light;
mod pattern_playback;
mod playback;
mod radio_aggregation;
mod radio_changes;
mod radio_decode;
mod radio_harq;
mod radio_load;
mod radio_losses;
mod radio_rlc;
mod radio_slots;
mod radio_split;
mod radio_support;
mod radio_uplink;
mod reorder_stage;
mod sim;
mod wifi_air;
mod wifi_stage;
