//! The server's promises, rule by rule, over random histories on several instances.

mod r11_once;
mod r12_lasting;
mod r12_order;
mod r16_items;
mod r17_floor;
mod r17_lives;
mod r18_groups;
mod r20_numbers;
mod r21_exact;
mod r34_heads;
#[cfg(feature = "postgres")]
mod r39_lost_commits;
mod r41_pushes;
mod r4_clocks;
mod r6_horizon;
mod r8_cluster;
mod r8_epoch;
mod r90_references;
mod r98_values;
