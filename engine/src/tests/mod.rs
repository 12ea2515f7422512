//! Tests of a part that need a whole store around it, and look inside.

mod config;
mod durability;
