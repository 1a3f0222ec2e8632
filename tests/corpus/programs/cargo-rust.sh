#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: Rust: cargo builds a workspace of crates into an optimised program, tests it, and runs it: scoped threads, channels, hash maps
# Needs: cargo
#SBATCH --job-name=cargo-rust --ntasks=1 --output=log
set -eu
export HOME=$(mktemp -d) CARGO_NET_OFFLINE=true CARGO_BUILD_JOBS=2 CARGO_TERM_COLOR=never
export CARGO_TARGET_DIR=$HOME/target
echo "building"
mkdir -p work/mix/src work/swarm/src
cd work
printf '[workspace]\nmembers = ["mix", "swarm"]\nresolver = "2"\n' >Cargo.toml
printf '[package]\nname = "mix"\nversion = "0.1.0"\nedition = "2021"\n' >mix/Cargo.toml
printf '[package]\nname = "swarm"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\nmix = { path = "../mix" }\n' >swarm/Cargo.toml
cat >mix/src/lib.rs <<'RS'
pub fn step(mut x: u64) -> u64 {
    x ^= x >> 30;
    x = x.wrapping_mul(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x = x.wrapping_mul(0x94d049bb133111eb);
    x ^ x >> 31
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    #[test]
    fn no_two_are_mixed_into_one() {
        assert_eq!((0..200000).map(super::step).collect::<HashSet<_>>().len(), 200000);
    }

    #[test]
    fn zero_stays() {
        assert_eq!(super::step(0), 0);
    }
}
RS
cat >swarm/src/main.rs <<'RS'
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{mpsc, Arc, Condvar, Mutex, RwLock};
use std::{fs, thread, time};

fn main() -> std::io::Result<()> {
    let mut out = fs::File::create("../numbers")?;
    let table = Arc::new(RwLock::new(BTreeMap::new()));
    for turn in 0..60u64 {
        let (ask, answers) = mpsc::channel();
        let order = (Mutex::new(0u64), Condvar::new());
        thread::scope(|s| {
            for worker in 0..8u64 {
                let (ask, table, order) = (ask.clone(), table.clone(), &order);
                s.spawn(move || {
                    let sum = (0..20000).fold(0u64, |a, i| a.wrapping_add(mix::step(turn * 1000003 + worker * 20011 + i)));
                    let mut next = order.1.wait_while(order.0.lock().unwrap(), |next| *next != worker).unwrap();
                    table.write().unwrap().insert((turn, worker), sum);
                    ask.send(format!("{turn} {worker} {sum}")).unwrap();
                    *next += 1;
                    order.1.notify_all();
                });
            }
        });
        drop(ask);
        for line in answers {
            writeln!(out, "{line}")?;
        }
        if turn % 12 == 11 {
            println!("turn {}: {} sums", turn + 1, table.read().unwrap().len());
        }
        thread::sleep(time::Duration::from_millis(80));
    }
    let all = table.read().unwrap().values().fold(0u64, |a, b| a.rotate_left(5) ^ b);
    println!("all {all:016x}");
    Ok(())
}
RS
cargo build -q --release
echo "built"
cargo test -q --release -p mix 2>&1 | sed -n 's/; finished in .*//; /^test result/p'
"$CARGO_TARGET_DIR/release/swarm"
cd ..
sha256sum numbers
rm -rf "$HOME"
