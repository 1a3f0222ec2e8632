#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: Raku on MoarVM: promises, channels, supplies that react, grammars, rational numbers, lazy lists
# Needs: rakudo
#SBATCH --job-name=raku --ntasks=1 --output=log
set -eu
export HOME=$(mktemp -d)
cat >swarm.raku <<'RAKU'
grammar Sum {
    token TOP    { <term>+ % ' + ' }
    token term   { <factor>+ % ' * ' }
    token factor { \d+ }
}
class Value {
    method TOP($/)    { make [+] $<term>».made }
    method term($/)   { make [*] $<factor>».made }
    method factor($/) { make +$/ }
}
say "reckoning"; $*OUT.flush;
my $out = open "sums", :w;
my $ask = Channel.new;
my @workers = (^3).map: { start { my $n = 0; react whenever $ask -> ($turn, $p) {
    my $text = (^12).map({ ($turn * 7919 + $_ * 104729) % 97 + 1 }).rotor(3).map(*.join(' * ')).join(' + ');
    $n++;
    $p.keep("$text = " ~ Sum.parse($text, :actions(Value)).made);
} ; $n } };
my @primes = lazy (2..*).grep(*.is-prime);
my $ticker = Supplier.new;
my $heard = 0;
$ticker.Supply.grep(* %% 2).tap: { $heard++ };
for 1..70 -> $turn {
    my @p = (^3).map: { my $p = Promise.new; $ask.send(($turn * 3 + $_, $p.vow)); $p };
    my @r = await @p;
    my $h = [+] (1..$turn).map({ FatRat.new(1, $_) });
    $ticker.emit($turn);
    $out.say("$turn @r[] {$h.nude.head.chars} @primes[$turn]");
    $out.flush;
    if $turn %% 14 { say "turn $turn: heard $heard"; $*OUT.flush }
    sleep 0.07;
}
$ask.close;
say "answered ", [+] await @workers;
$out.close;
RAKU
rakudo swarm.raku
rm -r "$HOME"
sha256sum sums
